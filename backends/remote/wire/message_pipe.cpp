// Implements message_pipe.h on a non-blocking socket.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shardproof/backends/remote/wire/message_pipe.h"

namespace shardproof {
namespace {

constexpr size_t kReadBytes = 1 << 18;
constexpr size_t kFlushBytes = 1 << 16;
constexpr size_t kMaxIdleCapacity = 1 << 22;              // capacity that an empty buffer may keep
constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 40;  // bytes of a message

}  // namespace

// The read buffer is allocated uninitialized: zeroing it on every poll would cost time.
MessagePipe::MessagePipe(int socket) : socket_(socket), chunk_(new char[kReadBytes]) {
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  fcntl(socket_, F_SETFD, FD_CLOEXEC);
}

MessagePipe::~MessagePipe() { ::close(socket_); }

void MessagePipe::send(const WireWriter& message) {
  const std::lock_guard<std::mutex> lock(sending_);
  const uint64_t size = message.bytes().size();
  unsent_.append(reinterpret_cast<const char*>(&size), sizeof(size));
  unsent_ += message.bytes();
  if (unsent_.size() >= kFlushBytes) write_some();
}

void MessagePipe::flush() {
  const std::lock_guard<std::mutex> lock(sending_);
  write_some();
}

void MessagePipe::wait_until_sent(size_t but) {
  const auto waits = [&] {
    const std::lock_guard<std::mutex> lock(sending_);
    write_some();
    return unsent_.size() - sent_ > but;
  };
  while (waits()) {
    pollfd entry{socket_, POLLOUT, 0};
    ::poll(&entry, 1, -1);
  }
}

bool MessagePipe::has_unsent() {
  const std::lock_guard<std::mutex> lock(sending_);
  return !unsent_.empty();
}

void MessagePipe::write_some() {
  while (sent_ < unsent_.size()) {
    const ssize_t n = ::send(socket_, unsent_.data() + sent_, unsent_.size() - sent_,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    // On an error nothing more can be sent: receive() finds the socket closed.
    sent_ = n < 0 ? unsent_.size() : sent_ + static_cast<size_t>(n);
  }
  // Moves the rest to the front only when it is shorter than the part sent: linear time in total.
  if (sent_ < unsent_.size() - sent_) return;
  unsent_.erase(0, sent_);
  sent_ = 0;
  if (unsent_.empty() && unsent_.capacity() > kMaxIdleCapacity) unsent_.shrink_to_fit();
}

void MessagePipe::read_more() {
  if (taken_ > kReadBytes || taken_ == received_.size()) {
    received_.erase(0, taken_);
    taken_ = 0;
    if (received_.empty() && received_.capacity() > kMaxIdleCapacity) received_.shrink_to_fit();
  }
  while (!closed_) {
    const ssize_t n = ::recv(socket_, chunk_.get(), kReadBytes, MSG_DONTWAIT);
    if (n > 0) received_.append(chunk_.get(), static_cast<size_t>(n));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) closed_ = true;
    if (n < static_cast<ssize_t>(kReadBytes)) return;
  }
}

std::optional<std::string> MessagePipe::receive() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const size_t there = received_.size() - taken_;
    uint64_t size = 0;
    if (there >= sizeof(size)) {
      std::memcpy(&size, received_.data() + taken_, sizeof(size));
      if (size > kMaxMessageBytes)
        throw Error(ErrorKind::io, "a message between processes is broken");
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

}  // namespace shardproof
