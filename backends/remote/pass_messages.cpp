#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shardproof/backends/remote/message_pipe.h"

namespace shardproof {
namespace {

constexpr size_t kChunk = 1 << 18;
constexpr size_t kFlushAt = 1 << 16;
constexpr uint64_t kLongest = uint64_t{1} << 40;  // of one message

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorKind::io, fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

MessagePipe::MessagePipe(int socket) : socket_(socket) {
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  fcntl(socket_, F_SETFD, FD_CLOEXEC);
}

MessagePipe::~MessagePipe() { ::close(socket_); }

void MessagePipe::send(const WireWriter& message) {
  const std::lock_guard<std::mutex> lock(sending_);
  const uint64_t size = message.bytes().size();
  unsent_.append(reinterpret_cast<const char*>(&size), sizeof(size));
  unsent_ += message.bytes();
  if (unsent_.size() >= kFlushAt) write_some();
}

void MessagePipe::flush() {
  const std::lock_guard<std::mutex> lock(sending_);
  write_some();
}

bool MessagePipe::has_unsent() {
  const std::lock_guard<std::mutex> lock(sending_);
  return !unsent_.empty();
}

void MessagePipe::write_some() {
  size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t n =
        ::send(socket_, unsent_.data() + sent, unsent_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) {  // nobody reads it any more; receive says so
      unsent_.clear();
      return;
    }
    sent += static_cast<size_t>(n);
  }
  unsent_.erase(0, sent);
}

void MessagePipe::read_more() {
  if (taken_ > kChunk || taken_ == received_.size()) {
    received_.erase(0, taken_);
    taken_ = 0;
  }
  while (!closed_) {
    const size_t old = received_.size();
    received_.resize(old + kChunk);
    const ssize_t n = ::recv(socket_, received_.data() + old, kChunk, MSG_DONTWAIT);
    received_.resize(old + static_cast<size_t>(n > 0 ? n : 0));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) closed_ = true;
    if (n < static_cast<ssize_t>(kChunk)) return;
  }
}

std::optional<std::string> MessagePipe::receive() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const size_t there = received_.size() - taken_;
    uint64_t size = 0;
    if (there >= sizeof(size)) {
      std::memcpy(&size, received_.data() + taken_, sizeof(size));
      if (size > kLongest) throw Error(ErrorKind::io, "a message between processes is broken");
      if (there - sizeof(size) >= size) {
        std::string message = received_.substr(taken_ + sizeof(size), size);
        taken_ += sizeof(size) + size;
        return message;
      }
    }
    if (attempt == 0) read_more();
  }
  return std::nullopt;
}

void MessagePipe::wait(std::chrono::microseconds time) {
  flush();
  pollfd entry{socket_, POLLIN, 0};
  if (has_unsent()) entry.events |= POLLOUT;
  const timespec limit{static_cast<time_t>(time.count() / 1000000),
                       static_cast<long>(time.count() % 1000000 * 1000)};
  ppoll(&entry, 1, &limit, nullptr);
}

// --- meeting
// --------------------------------------------------------------------------------------

namespace {

std::string random_word() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes)))
    fail("no random numbers");
  std::string word;
  for (unsigned char byte : bytes) word += fmt::format("{:02x}", byte);
  return word;
}

// A leading zero byte: a name that is no file.
socklen_t unix_address(const std::string& name, sockaddr_un& address) {
  std::memset(&address, 0, sizeof(address));
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

int open_socket(int family) {
  const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) fail("no socket");
  return socket;
}

}  // namespace

std::unique_ptr<MeetingPlace> MeetingPlace::on_this_machine() {
  std::unique_ptr<MeetingPlace> place(new MeetingPlace);
  const std::string name = "shardproof-" + random_word();
  sockaddr_un address;
  const socklen_t length = unix_address(name, address);
  place->socket_ = open_socket(AF_UNIX);
  if (::bind(place->socket_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(place->socket_, SOMAXCONN) != 0)
    fail("cannot listen");
  place->address_ = "unix:" + name;
  return place;
}

std::unique_ptr<MeetingPlace> MeetingPlace::between_machines() {
  std::unique_ptr<MeetingPlace> place(new MeetingPlace);
  place->socket_ = open_socket(AF_INET);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof(address);
  if (::bind(place->socket_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(place->socket_, SOMAXCONN) != 0 ||
      ::getsockname(place->socket_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("cannot listen");
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  place->secret_ = random_word();
  place->address_ = fmt::format("tcp:{}:{}:{}", host, ntohs(address.sin_port), place->secret_);
  return place;
}

MeetingPlace::~MeetingPlace() {
  if (socket_ >= 0) ::close(socket_);
}

std::unique_ptr<MessagePipe> MeetingPlace::accept() {
  const int guest = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  if (guest < 0) return nullptr;
  if (secret_.empty()) {
    ucred who{};
    socklen_t length = sizeof(who);
    const bool known = ::getsockopt(guest, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0;
    if (known && who.uid == ::getuid()) return std::make_unique<MessagePipe>(guest);
  } else {
    std::string said(secret_.size(), '\0');
    const timeval limit{2, 0};
    ::setsockopt(guest, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    const ssize_t n = ::recv(guest, said.data(), said.size(), MSG_WAITALL);
    if (n == static_cast<ssize_t>(said.size()) && said == secret_)
      return std::make_unique<MessagePipe>(guest);
  }
  ::close(guest);
  return nullptr;
}

namespace {

int connect_unix(const std::string& name) {
  sockaddr_un address;
  const socklen_t length = unix_address(name, address);
  const int socket = open_socket(AF_UNIX);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), length) != 0)
    fail("the coordinating process is not there");
  return socket;
}

int connect_tcp(const std::string& host, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0)
    throw Error(ErrorKind::io, fmt::format("the machine {} is not known here", host));
  const int socket = open_socket(AF_INET);
  const bool connected = ::connect(socket, found->ai_addr, found->ai_addrlen) == 0;
  ::freeaddrinfo(found);
  if (!connected) fail("the coordinating process is not there");
  return socket;
}

}  // namespace

std::unique_ptr<MessagePipe> go_to(const std::string& address) {
  if (address.starts_with("unix:") && address.size() < 100)
    return std::make_unique<MessagePipe>(connect_unix(address.substr(5)));
  const size_t secret = address.rfind(':');
  const size_t port = secret == std::string::npos ? secret : address.rfind(':', secret - 1);
  if (!address.starts_with("tcp:") || port == std::string::npos || port < 4)
    throw Error(ErrorKind::io, fmt::format("no address of a coordinating process: {}", address));
  const int socket =
      connect_tcp(address.substr(4, port - 4), address.substr(port + 1, secret - port - 1));
  const std::string word = address.substr(secret + 1);
  if (::send(socket, word.data(), word.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(word.size()))
    fail("the coordinating process does not listen");
  return std::make_unique<MessagePipe>(socket);
}

}  // namespace shardproof
