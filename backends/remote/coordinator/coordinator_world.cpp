// Implements the messages, progress and end of coordinator_world.h.
//
// progress() repeats: receive messages, repeat them on the local world, send the matched calls.
// Once no host can continue and all commands are done (quiet), it tries four things in order. It
// sends the calls of groups that are not complete. It runs deferred work of the local world. It
// reports failed calls. It lets every idle worker return from its own progress().
#include <algorithm>

#include "shardproof/backends/decorators/flight_recorder.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/backends/remote/coordinator/coordinator_world.h"
#include "shardproof/sim/analysis/record_order.h"

namespace shardproof {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kMessageWait{50};
constexpr milliseconds kAbandonedWorldTimeout{10000};

}  // namespace

std::unique_ptr<World> Coordinator::start(const WorldOptions& options) {
  if (members_.empty()) throw Error(ErrorKind::io, "the processes ended before this case did");
  return std::make_unique<CoordinatorWorld>(*this, options);
}

CoordinatorWorld::CoordinatorWorld(Coordinator& pool, const WorldOptions& options)
    : pool_(pool),
      options_(options),
      blocks_(options.ranks, pool.processes(), pool.endpoints_each()),
      local_world_(recorded(local_world(options, this), options.max_records)),
      hosts_(pool.members().size()) {
  for (size_t i = 0; i < hosts_.size(); ++i) {
    pool_.members()[i].executed = 0;
    pool_.send(static_cast<int>(i), message_of(CoordinatorCommand::start));
  }
}

// If the world ends early, its commands must end too, or they would run into the next world. A
// worker that has left the case on its own completes no more of them.
CoordinatorWorld::~CoordinatorWorld() {
  const auto has_ended_all = [&](size_t i) {
    return hosts_[i].sent == pool_.members()[i].executed;
  };
  const auto is_idle = [&] {
    for (size_t i = 0; i < hosts_.size(); ++i)
      if (!has_ended_all(i) && !pool_.members()[i].case_done) return false;
    return true;
  };
  if (closed_ || loss_) return;
  try {
    send_events();
    send_pending_groups();
    const Clock::time_point limit = Clock::now() + kAbandonedWorldTimeout;
    while (!is_idle() && Clock::now() < limit && !pool_.find_lost_worker() &&
           pool_.transport_errors().empty())
      pool_.listen(kMessageWait, [&](int process, WireReader& in) {
        const WorkerMessage kind = static_cast<WorkerMessage>(in.number());
        if (kind == WorkerMessage::idle || kind == WorkerMessage::at ||
            kind == WorkerMessage::conclude || kind == WorkerMessage::close)
          pool_.members()[static_cast<size_t>(process)].executed = in.number();
      });
    bool all_ended = true;
    for (size_t i = 0; i < hosts_.size(); ++i) all_ended = all_ended && has_ended_all(i);
    if (!all_ended) pool_.terminate_workers();
  } catch (const Error&) {
    pool_.terminate_workers();
  }
}

ExecutionContext& CoordinatorWorld::open(const Lanes&) {
  SP_UNREACHABLE("no host runs in this process");
}

// --- progress ------------------------------------------------------------------------------------

bool CoordinatorWorld::all_are(Phase phase) const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [phase](const Host& host) { return host.phase == phase; });
}

// True if no host can continue and all commands are completed.
bool CoordinatorWorld::quiet() {
  if (!events_.empty()) return false;
  for (size_t i = 0; i < hosts_.size(); ++i)
    if (hosts_[i].phase == Phase::running || pool_.members()[i].executed != hosts_[i].sent)
      return false;
  return true;
}

void CoordinatorWorld::receive_messages(milliseconds time) {
  pool_.listen(time, [this](int process, WireReader& in) { handle_message(process, in); });
  for (size_t i = 0; i < hosts_.size(); ++i) {
    std::deque<std::shared_ptr<const MatchedCall>>& under_way = hosts_[i].under_way;
    const int64_t left = hosts_[i].sent - pool_.members()[i].executed;
    while (static_cast<int64_t>(under_way.size()) > left) under_way.pop_front();
  }
  send_events();
}

void CoordinatorWorld::listen() {
  receive_messages(kMessageWait);
  watch();
}

bool CoordinatorWorld::progress() {
  while (!loss_) {
    if (!quiet()) {
      listen();
      continue;
    }
    if (send_pending_groups()) continue;
    if (local_world_->progress()) {
      send_events();
      continue;
    }
    if (send_failures()) continue;
    if (all_are(Phase::concluding) || all_are(Phase::closing)) return false;
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].phase != Phase::idle) continue;
      hosts_[i].phase = Phase::running;
      pool_.send(static_cast<int>(i), message_of(CoordinatorCommand::stalled));
    }
    listen();
  }
  return false;
}

// Sends each failed ticket to its worker, whose hosts read the state of the ticket.
bool CoordinatorWorld::send_failures() {
  bool sent = false;
  std::erase_if(open_, [&](const std::pair<Ticket, ExecutionContext*>& open) {
    const TicketState state = open.second->poll(open.first);
    if (state != TicketState::failed) return state == TicketState::done;
    const Origin origin = origins_[static_cast<size_t>(open.first)];
    WireWriter message = message_of(CoordinatorCommand::fail);
    message.add(origin.ticket);
    send_command(origin.process, message, nullptr);
    sent = true;
    return true;
  });
  return sent;
}

// --- the end -------------------------------------------------------------------------------------

HostResult CoordinatorWorld::conclude(HostResult) {
  HostResult agreed;
  if (loss_) {
    agreed.finished = false;
    return agreed;
  }
  std::stable_sort(conclusions_.begin(), conclusions_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [process, own] : conclusions_) {
    agreed.finished = agreed.finished && own.finished;
    for (const Error& error : own.errors) agreed.errors.push_back(error);
    for (const std::string& fault : own.unfired_faults) agreed.unfired_faults.push_back(fault);
  }
  std::stable_sort(agreed.errors.begin(), agreed.errors.end(), [](const Error& a, const Error& b) {
    return std::pair(a.where().line, a.where().column) <
           std::pair(b.where().line, b.where().column);
  });
  WireWriter message = message_of(CoordinatorCommand::concluded);
  write_conclusion(message, agreed);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].phase = Phase::running;
    pool_.send(static_cast<int>(i), message);
  }
  return agreed;
}

std::vector<BenchmarkResult> CoordinatorWorld::repeat(const Repetitions&) {
  repeating_ = true;
  while (!loss_ && repeated_.size() < hosts_.size()) listen();
  if (loss_) return {};
  repeating_ = false;
  std::sort(repeated_.begin(), repeated_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<BenchmarkResult> results;
  for (const auto& [process, result] : repeated_) results.push_back(result);
  return results;
}

WorldReport CoordinatorWorld::close() {
  while (!loss_ && !(all_are(Phase::closing) && quiet())) listen();
  closed_ = true;
  if (loss_) {
    run_survivors();
    if (!hosts_.empty())
      for (ExecutionContext* context : hosts_[static_cast<size_t>(loss_->process)].contexts)
        context->stop(CohortState::dead);
  }
  WorldReport report = local_world_->close();
  for (std::vector<Record>& records : measured_)
    report.measured.push_back(in_order(std::move(records)));
  report.broken = loss_.has_value();
  if (loss_) {
    report.findings = findings_of_loss(std::move(report.findings));
    pool_.terminate_workers();
    return report;
  }
  WireWriter message = message_of(CoordinatorCommand::report);
  write_report(message, report);
  for (WorkerHandle& member : pool_.members()) {
    member.pipe->send(message);
    member.pipe->flush();
  }
  return report;
}

}  // namespace shardproof
