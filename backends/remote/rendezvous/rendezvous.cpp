// Implements rendezvous.h.
//
// Connecting (connect_at_rendezvous): every 20 ms read the address (from the file, the port or the
// name) and try to connect, until the time is over. A name on this machine is an abstract socket
// that stays bound until the process ends; number_on_this_machine() takes the first free one of
// 4,096.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "shardproof/backends/remote/rendezvous/rendezvous.h"
#include "shardproof/backends/remote/wire/messages.h"

namespace shardproof {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kConnectInterval{20}, kForeignFileTimeout{5000};
constexpr int kMaxPort = 65535, kMaxProcessesHere = 4096;

struct RendezvousText {
  std::string kind, place;  // "file", PATH; "unix", NAME; "tcp", HOST
  int port = 0;
};

[[noreturn]] void throw_bad_rendezvous(const std::string& text) {
  throw_bad_input("--rendezvous: expected file:PATH or tcp:HOST:PORT, found \"{}\"", text);
}

RendezvousText parse_rendezvous(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon + 1 == text.size()) throw_bad_rendezvous(text);
  RendezvousText out{text.substr(0, colon), text.substr(colon + 1), 0};
  if (out.kind == "file" || out.kind == "unix") return out;
  const size_t last = out.place.rfind(':');
  if (out.kind != "tcp" || last == std::string::npos || last == 0) throw_bad_rendezvous(text);
  const char* const end = out.place.data() + out.place.size();
  const auto read = std::from_chars(out.place.data() + last + 1, end, out.port);
  if (read.ec != std::errc() || read.ptr != end || out.port < 1 || out.port > kMaxPort)
    throw_bad_rendezvous(text);
  out.place.resize(last);
  return out;
}

// Returns the coordinator's address; empty if its file does not exist yet.
std::string address_at(const RendezvousText& where) {
  if (where.kind == "file") return published_at(where.place);
  if (where.kind == "tcp") return address_of_port(where.place, where.port);
  return "unix:" + where.place;
}

std::shared_ptr<ListenAddress> open(const RendezvousText& where) {
  if (where.kind == "tcp") return ListenAddress::at_port(where.place, where.port);
  if (where.kind == "unix") return ListenAddress::on_this_machine(where.place);
  std::shared_ptr<ListenAddress> place = ListenAddress::between_machines();
  place->publish(where.place);
  return place;
}

// Returns the number of the process that sent `message`, its first one.
int64_t sender_of(std::string_view message) {
  WireReader in(message);
  const WorkerMessage kind = static_cast<WorkerMessage>(in.number());
  if (kind == WorkerMessage::hello) in.number();
  return in.number();
}

}  // namespace

void check_rendezvous(const std::string& text) { parse_rendezvous(text); }

std::shared_ptr<ListenAddress> open_rendezvous(const std::string& text) {
  try {
    return open(parse_rendezvous(text));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::io || !error.where().file.empty()) throw;
    throw Error(error.kind(), fmt::format("--rendezvous {}: {}", text, error.message()));
  }
}

void close_unstarted(ListenAddress& place) {
  std::vector<std::unique_ptr<MessagePipe>> connections;
  std::set<int64_t> seen;
  const Clock::time_point limit = Clock::now() + kDismissal;
  while (static_cast<int>(seen.size()) < place.awaited() && Clock::now() < limit) {
    pollfd context{place.socket(), POLLIN, 0};
    if (::poll(&context, 1, 10) > 0)
      if (std::unique_ptr<MessagePipe> connection = place.accept())
        connections.push_back(std::move(connection));
    for (const std::unique_ptr<MessagePipe>& connection : connections)
      if (const std::optional<std::string> message = connection->receive())
        seen.insert(sender_of(*message));
  }
  place.close();
}

RendezvousConnection connect_at_rendezvous(const std::string& text, std::chrono::seconds timeout) {
  const RendezvousText where = parse_rendezvous(text);
  const Clock::time_point began = Clock::now(), limit = began + timeout;
  std::string why = "the file does not exist";
  do {
    try {
      const std::string address = address_at(where);
      if (!address.empty()) return {address, connect_to(address)};
    } catch (const Error& error) {
      // The coordinator refuses and reports a foreign file too. This process throws only if the
      // file persists: it may be that of another machine, on which the coordinator does not run.
      if (error.kind() == ErrorKind::bad_input && Clock::now() > began + kForeignFileTimeout) throw;
      why = error.message();
    }
    std::this_thread::sleep_for(kConnectInterval);
  } while (Clock::now() < limit);
  throw Error(ErrorKind::io,
              fmt::format("--rendezvous {}: no coordinator was found within {} s: {}", text,
                          timeout.count(), why));
}

int number_on_this_machine(const std::string& text) {
  RendezvousText where = parse_rendezvous(text);
  if (where.kind == "file") where.place = std::filesystem::absolute(where.place).lexically_normal();
  const size_t word =
      std::hash<std::string>()(fmt::format("{}:{}:{}", where.kind, where.place, where.port));
  for (int number = 0; number < kMaxProcessesHere; ++number) {
    const std::string name = fmt::format("shardproof-{}-{:x}-{}", ::getuid(), word, number);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const socklen_t length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) break;
    if (::bind(socket, reinterpret_cast<sockaddr*>(&address), length) == 0) return number;
    ::close(socket);
  }
  return 0;
}

}  // namespace shardproof
