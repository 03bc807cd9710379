// Implements worker.h.
//
// Startup: connect to the coordinator, send hello with the transport's invitation and the terms of
// the run, wait for join, join the transport, send joined. A thread sends a heartbeat every 250 ms
// and watches the socket: when the coordinator's end closes, it aborts the transport and exits.
#include <poll.h>
#include <unistd.h>

#include "shardproof/backends/remote/rendezvous/listen_address.h"
#include "shardproof/backends/remote/worker/worker.h"

namespace shardproof {

namespace {

constexpr int kHeartbeatMilliseconds = 250;

}  // namespace

WorkerLink::WorkerLink(const WorkerPoolOptions& options, std::unique_ptr<Transport> transport)
    : pipe_(connect_to(options.join)),
      transport_(std::move(transport)),
      progress_(options.progress) {
  transport_->when_lost([this](const std::string& words) {
    WireWriter message = message_of(WorkerMessage::transport_error);
    message.add(words);
    pipe_->send(message);
    pipe_->flush();
  });
  heartbeat_ = std::thread([this] { heartbeat(); });
  try {
    connect_processes(options);
  } catch (const Error& error) {
    WireWriter message = message_of(WorkerMessage::unfit);
    message.add(int64_t{options.process});
    message.add(error.message());
    pipe_->send(message);
    pipe_->flush();
    transport_->abort();
    stopping_ = true;
    heartbeat_.join();
    throw;
  }
}

// One process returns the invitation; the coordinator sends it to all, and each joins with it.
void WorkerLink::connect_processes(const WorkerPoolOptions& options) {
  std::string invitation;
  std::optional<Error> unfit;
  try {
    invitation = transport_->invitation();
  } catch (const Error& error) {
    unfit = error;  // sent after hello, which identifies the process
  }
  WireWriter hello = message_of(WorkerMessage::hello);
  hello.add(kWireVersion);
  hello.add(int64_t{transport_->self()});
  hello.add(int64_t{transport_->processes()});
  hello.add(static_cast<int64_t>(::getpid()));
  hello.add(invitation);
  hello.add(static_cast<int64_t>(options.terms.size()));
  for (const auto& [name, value] : options.terms) {
    hello.add(name);
    hello.add(value);
  }
  pipe_->send(hello);
  pipe_->flush();
  if (unfit) throw *unfit;
  const std::string command = await(CoordinatorCommand::join);
  WireReader in(command);
  in.number();
  transport_->join(in.text());
  pipe_->send(message_of(WorkerMessage::joined));
  pipe_->flush();
}

WorkerLink::~WorkerLink() {
  stopping_ = true;
  heartbeat_.join();
}

// Exits at once: exchanges may never complete without the other processes.
void WorkerLink::leave() {
  if (!leaving_.exchange(true)) {
    transport_->abort();
    ::_exit(1);
  }
  for (;;) ::pause();  // the other thread is exiting the process
}

void WorkerLink::heartbeat() {
  while (!stopping_) {
    pollfd entry{pipe_->socket(), POLLRDHUP, 0};
    ::poll(&entry, 1, kHeartbeatMilliseconds);
    if (stopping_) return;
    if ((entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) leave();
    WireWriter message = message_of(WorkerMessage::heartbeat);
    message.add(static_cast<int64_t>(activity_.load()));
    message.add(progress().begun.load(std::memory_order_relaxed));
    message.add(progress().done.load(std::memory_order_relaxed));
    message.add(int64_t{progress().line.load(std::memory_order_relaxed)});
    pipe_->send(message);
    pipe_->flush();
  }
}

std::optional<std::string> WorkerLink::receive(std::chrono::microseconds time) {
  std::optional<std::string> message = pipe_->receive();
  if (!message && !pipe_->closed() && time.count() != 0) {
    pipe_->wait(time);
    message = pipe_->receive();
  }
  if (!message && pipe_->closed()) leave();
  if (message && static_cast<CoordinatorCommand>(WireReader(*message).number()) ==
                     CoordinatorCommand::leave_case) {
    left_ = true;
    throw Error(ErrorKind::io, "the coordinating process has left this case");
  }
  return message;
}

std::string WorkerLink::await(CoordinatorCommand kind) {
  pipe_->flush();
  for (;;) {
    std::optional<std::string> message = receive(std::chrono::seconds(1));
    if (!message) continue;
    const CoordinatorCommand got = static_cast<CoordinatorCommand>(WireReader(*message).number());
    SP_CHECK(got == kind, "command {} where {} must come", static_cast<int>(got),
             static_cast<int>(kind));
    return *std::move(message);
  }
}

void WorkerLink::gather() { SP_UNREACHABLE("a worker does not wait for workers"); }
void WorkerLink::begin(int64_t) { SP_UNREACHABLE("a worker begins no case"); }
void WorkerLink::end() { SP_UNREACHABLE("a worker ends no case"); }

std::optional<int64_t> WorkerLink::next() {
  for (;;) {
    const std::optional<std::string> message = receive(std::chrono::seconds(1));
    if (!message) continue;
    WireReader in(*message);
    const CoordinatorCommand kind = static_cast<CoordinatorCommand>(in.number());
    if (kind == CoordinatorCommand::quit) {
      pipe_->send(message_of(WorkerMessage::leaving));
      pipe_->flush();
      return std::nullopt;
    }
    SP_CHECK(kind == CoordinatorCommand::begin_case, "command {} between cases",
             static_cast<int>(kind));
    left_ = false;
    return in.number();
  }
}

// Reports the end of the case, then waits for leave_case, which ends every case.
void WorkerLink::done(const std::string& error) {
  WireWriter message = message_of(WorkerMessage::case_done);
  message.add(error);
  pipe_->send(message);
  pipe_->flush();
  while (!left_) {
    try {
      receive(std::chrono::seconds(1));
    } catch (const Error&) {
      return;
    }
  }
}

}  // namespace shardproof
