// Implements the detection of lost workers of coordinator.h.
//
// A worker is lost if its pipe closes, if its monitor reports its end, or if no message has arrived
// for the timeout. Workers send a heartbeat every 250 ms (worker_link.cpp), so a worker that only
// computes is not silent.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "shardproof/backends/remote/coordinator/coordinator.h"
#include "shardproof/backends/remote/process/child_process.h"

namespace shardproof {
namespace {

using Clock = WorkerHandle::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kMonitorReportTimeout{1000};  // from a closed pipe to the monitor's report
constexpr milliseconds kStarterEndTimeout{100};
// A transport may report a lost process before the monitor of that process does.
constexpr milliseconds kLossDetectionDelay{2000};

}  // namespace

bool Coordinator::timed_out(Clock::time_point since) {
  return std::chrono::duration<double>(now() - since).count() > options_.timeout_seconds;
}

std::vector<std::string> Coordinator::transport_errors() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < members_.size(); ++i)
    if (!members_[i].transport_error.empty())
      lines.push_back(fmt::format("process {}: {}", i, members_[i].transport_error));
  return lines;
}

std::optional<std::string> Coordinator::unattributed_transport_error() {
  for (const WorkerHandle& member : members_)
    if (!member.transport_error.empty() && now() > member.error_since + kLossDetectionDelay)
      return fmt::format("{}", fmt::join(transport_errors(), "; "));
  return std::nullopt;
}

void Coordinator::receive_from_monitors() {
  for (WorkerHandle& member : members_)
    while (const std::optional<std::string> message =
               member.monitor ? member.monitor->receive() : std::nullopt) {
      WireReader in(*message);
      in.number();
      in.number();
      member.state = in.text();
      member.progress.begun = in.number();
      member.progress.done = in.number();
      member.progress.line = static_cast<int32_t>(in.number());
    }
}

// The monitor reports shortly after the worker's pipe closes. If the monitor's pipe closes too, the
// program that started both may be ending: then its state is the reason.
std::string Coordinator::exit_description(int process) {
  const WorkerHandle& member = members_[static_cast<size_t>(process)];
  Clock::time_point limit = Clock::now() + kMonitorReportTimeout;
  while (member.state.empty() && Clock::now() < limit) {
    if (member.monitor->closed() && starter_->ended()) break;
    if (member.monitor->closed()) limit = std::min(limit, Clock::now() + kStarterEndTimeout);
    std::this_thread::sleep_for(milliseconds(5));
    receive_from_monitors();
  }
  if (!member.state.empty()) return member.state;
  const std::optional<std::string> starter = starter_->ended();
  return starter ? "has ended: " + *starter : "has ended";
}

WorkerLoss Coordinator::lost(int process, std::string words) {
  over_ = fmt::format("process {} {}", process, words);
  return {process, members_[static_cast<size_t>(process)].pid, std::move(words)};
}

std::optional<WorkerLoss> Coordinator::find_lost_worker() {
  starter_->drain();
  receive_from_monitors();
  for (size_t i = 0; i < members_.size(); ++i) {
    const WorkerHandle& member = members_[i];
    const bool gone = member.pipe ? member.pipe->closed() : is_exit_description(member.state);
    if (gone || (member.monitor != nullptr && member.monitor->closed()))
      return lost(static_cast<int>(i), exit_description(static_cast<int>(i)));
  }
  const bool sends_heartbeats = all_present();
  for (size_t i = 0; i < members_.size(); ++i) {
    const WorkerHandle& member = members_[i];
    const bool may_be_silent = !sends_heartbeats && member.state.empty();
    if (may_be_silent || !timed_out(member.last_message)) continue;
    return lost(static_cast<int>(i),
                fmt::format("{} (silent for {:g} s)",
                            member.state.empty() ? "does not answer" : member.state,
                            options_.timeout_seconds));
  }
  return std::nullopt;
}

}  // namespace shardproof
