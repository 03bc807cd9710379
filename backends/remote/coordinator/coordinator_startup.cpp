// Implements the startup of coordinator.h, and the forced end of all workers.
//
// 1. Start the processes.
// 2. Accept two connections from each: one of its monitor, and one of its worker. The worker sends
//    hello with its number and the terms of the run.
// 3. Check that the terms are those of process 0.
// 4. Send every worker the transport's invitation.
// 5. Wait until each has joined. Any failure ends all processes and throws.
#include <poll.h>

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "shardproof/backends/remote/coordinator/coordinator.h"
#include "shardproof/backends/remote/process/child_process.h"
#include "shardproof/backends/remote/rendezvous/rendezvous.h"

namespace shardproof {
namespace {

using Clock = WorkerHandle::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kStartTimeout{60000};
constexpr milliseconds kManualStartTimeout{120000};  // if people start the processes by hand

[[noreturn]] void throw_unfit(WireReader& in) {
  const int64_t process = in.number();
  throw Error(ErrorKind::unsupported, fmt::format("process {}: {}", process, in.text()));
}

// Throws Error(bad_input) if a process runs with other terms than this one.
void check_terms(int64_t process, const std::map<std::string, std::string>& own, WireReader& in) {
  std::map<std::string, std::string> other;
  for (int64_t count = in.number(); count > 0; --count) {
    std::string name(in.text());
    other[std::move(name)] = in.text();
  }
  if (other == own) return;
  for (const auto& [name, value] : own) {
    const auto found = other.find(name);
    if (found != other.end() && found->second == value) continue;
    if (!name.starts_with("--"))
      throw_bad_input("process {} reads a different {} than process 0", process, name);
    throw_bad_input("process {} runs with {} {}, process 0 with {} {}", process, name,
                    found == other.end() ? "not given" : found->second, name, value);
  }
  for (const auto& [name, value] : other)
    if (!own.contains(name))
      throw_bad_input("process {} was started with {}, process 0 was not", process,
                      name.starts_with("--") ? name + " " + value : name);
}

}  // namespace

Coordinator::Coordinator(WorkerPoolOptions options, std::unique_ptr<Starter> starter)
    : options_(std::move(options)), starter_(std::move(starter)) {}

// --- connecting ----------------------------------------------------------------------------------

void Coordinator::gather() {
  if (members_.empty()) start_workers();
}

void Coordinator::start_workers() {
  if (options_.place && options_.place->socket() < 0)
    throw Error(ErrorKind::io,
                fmt::format("not run: {} in an earlier case; this program did not start the "
                            "processes of this run and cannot restart them",
                            over_.empty() ? "processes did not end" : over_));
  std::shared_ptr<ListenAddress> place = options_.place;
  if (!place && options_.host_file) place = ListenAddress::between_machines();
  if (!place) place = ListenAddress::on_this_machine();
  invitation_.clear();
  teams_.clear();
  try {
    starter_->start(place->address(), options_.processes);
    members_ = std::vector<WorkerHandle>(static_cast<size_t>(options_.processes));
    for (WorkerHandle& member : members_) member.last_message = now();
    handshake(*place);
    connect_workers();
  } catch (const Error&) {
    abandon(*place);
    throw;
  }
  place->close();
}

void Coordinator::abandon(ListenAddress& place) {
  place.await(static_cast<int>(
      std::count_if(members_.begin(), members_.end(),
                    [](const WorkerHandle& member) { return member.monitor == nullptr; })));
  terminate_workers();
}

bool Coordinator::all_present() const {
  return std::all_of(members_.begin(), members_.end(), [](const WorkerHandle& member) {
    return member.pipe != nullptr && member.monitor != nullptr;
  });
}

void Coordinator::handshake(ListenAddress& place) {
  std::vector<std::unique_ptr<MessagePipe>> connections;
  const auto accept_waiting = [&](int milliseconds) {
    // Accepts at most two for each worker in one turn: foreign connections must not block startup.
    for (size_t due = 2 * members_.size(); due > 0; --due, milliseconds = 0) {
      pollfd context{place.socket(), POLLIN, 0};
      if (::poll(&context, 1, milliseconds) <= 0) break;
      std::unique_ptr<MessagePipe> connection = place.accept();
      if (!connection) break;
      connections.push_back(std::move(connection));
    }
    for (std::unique_ptr<MessagePipe>& connection : connections)
      if (const std::optional<std::string> message =
              connection ? connection->receive() : std::nullopt)
        accept_worker(std::move(connection), *message);
  };
  const Clock::time_point since = now();
  while (!all_present()) {
    accept_waiting(connections.empty() ? 50 : 2);
    const std::optional<WorkerLoss> loss = first_loss(since);
    if (!loss) continue;
    accept_waiting(0);  // a process that cannot take part sends the reason before it ends
    throw_not_started(first_loss(since).value_or(*loss));
  }
  for (WorkerHandle& member : members_) member.last_message = now();
}

// A longer timeout set by the user also applies to startup.
milliseconds Coordinator::start_time() const {
  const std::chrono::duration<double> timeout(options_.timeout_seconds);
  const bool by_hand = options_.place && !options_.place->address().starts_with("unix:");
  return std::max(by_hand ? kManualStartTimeout : kStartTimeout,
                  std::chrono::duration_cast<milliseconds>(timeout));
}

// Finds a process lost during startup, or the first absent one when the time is over.
std::optional<WorkerLoss> Coordinator::first_loss(Clock::time_point since) {
  for (size_t i = 0; i < members_.size(); ++i) {
    WorkerHandle& member = members_[i];
    if (member.monitor) continue;
    member.state = starter_->state_of(static_cast<int>(i));
    if (member.state.empty()) member.last_message = now();
  }
  std::optional<WorkerLoss> loss = find_lost_worker();
  if (loss) return loss;
  if (const std::optional<std::string> words = starter_->ended())
    throw Error(ErrorKind::io, "the processes could not be started: " + *words);
  if (now() - since > start_time()) return first_absent();
  return std::nullopt;
}

// Throws for a process that ended during startup. No scenario has run, so this is no finding.
void Coordinator::throw_not_started(const WorkerLoss& loss) {
  const std::string output = starter_->output();
  const bool adds_output = loss.words.find(" printed: ") == std::string::npos &&
                           (!output.empty() || loss.words.starts_with("has ended with"));
  throw Error(ErrorKind::io, fmt::format("process {} could not be started: it {}{}{}", loss.process,
                                         loss.words, adds_output ? " and printed: " : "",
                                         adds_output ? first_words(output) : ""));
}

// Sends the invitation to all workers and waits until each has joined.
void Coordinator::connect_workers() {
  WireWriter message = message_of(CoordinatorCommand::join);
  message.add(invitation_);
  for (WorkerHandle& member : members_) {
    member.pipe->send(message);
    member.pipe->flush();
  }
  const auto all = [&] {
    return std::all_of(members_.begin(), members_.end(),
                       [](const WorkerHandle& member) { return member.joined; });
  };
  const Clock::time_point since = now();
  while (!all()) {
    listen(kListenTime, [this](int process, WireReader& in) { handle_handshake(process, in); });
    const std::optional<WorkerLoss> loss = all() ? std::nullopt : first_loss(since);
    if (loss) throw_not_started(*loss);
  }
}

void Coordinator::handle_handshake(int process, WireReader& in) {
  const WorkerMessage kind = static_cast<WorkerMessage>(in.number());
  if (kind == WorkerMessage::unfit) throw_unfit(in);
  if (kind != WorkerMessage::joined)
    throw Error(ErrorKind::io,
                fmt::format("process {} sent a message before it had joined", process));
  members_[static_cast<size_t>(process)].joined = true;
}

// Returns the process that others may be waiting for; preferably one that never connected.
WorkerLoss Coordinator::first_absent() const {
  const auto first = [this](const auto& is_absent) {
    return std::find_if(members_.begin(), members_.end(), is_absent);
  };
  auto member = first([](const WorkerHandle& one) { return !one.monitor && !one.pipe; });
  if (member == members_.end())
    member = first([](const WorkerHandle& one) { return !one.state.empty(); });
  if (member == members_.end())
    member = first([](const WorkerHandle& one) { return !one.monitor || !one.pipe; });
  if (member == members_.end()) member = first([](const WorkerHandle& one) { return !one.joined; });
  SP_CHECK(member != members_.end(), "all processes have connected");
  return {static_cast<int>(member - members_.begin()), member->pid,
          fmt::format("did not connect within {} s{}{}", start_time().count() / 1000,
                      member->state.empty() ? "" : ": it ", member->state)};
}

// Handles the first message of a connection, from a worker or a monitor.
void Coordinator::accept_worker(std::unique_ptr<MessagePipe> connection, std::string_view message) {
  WireReader in(message);
  const WorkerMessage kind = static_cast<WorkerMessage>(in.number());
  if (kind == WorkerMessage::unfit) throw_unfit(in);
  if (kind == WorkerMessage::hello && in.number() != kWireVersion)
    throw Error(ErrorKind::io,
                "a process of another version of shardproof connected; start all processes from "
                "one build");
  const int64_t process = in.number();
  if (process < 0 || process >= options_.processes)
    throw Error(ErrorKind::io,
                fmt::format("process {} connected, and the run has processes 0 to {}", process,
                            options_.processes - 1));
  WorkerHandle& member = members_[static_cast<size_t>(process)];
  std::unique_ptr<MessagePipe>& own_pipe =
      kind == WorkerMessage::state ? member.monitor : member.pipe;
  if (own_pipe)
    throw_bad_input("two processes connected as number {}; give each process its own", process);
  own_pipe = std::move(connection);
  if (kind == WorkerMessage::state) {
    member.state.clear();  // an earlier state may be stored from before it connected
    return;
  }
  if (const int64_t processes = in.number(); processes != options_.processes)
    throw Error(ErrorKind::io,
                fmt::format("process {} was started as one of {} processes, and the run has {}",
                            process, processes, options_.processes));
  member.pid = static_cast<pid_t>(in.number());
  if (const std::string_view invitation = in.text(); !invitation.empty()) invitation_ = invitation;
  check_terms(process, options_.terms, in);
}

// Closing the pipes makes workers end themselves. Monitors that mpirun or a shell has started keep
// their connections until this process ends. They must not end before the report is written.
void Coordinator::terminate_workers() {
  for (WorkerHandle& member : members_) {
    if (!options_.place || !member.monitor) continue;
    member.monitor->send(message_of(CoordinatorCommand::quit));
    member.monitor->flush();
    released_.push_back(std::move(member.monitor));
  }
  members_.clear();
  starter_->stop();
}

}  // namespace shardproof
