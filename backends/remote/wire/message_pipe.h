// MessagePipe: sends messages between two processes over a stream socket. It collects small
// messages until flush(), so that one write sends them. Sending never waits for the receiver: bytes
// that do not fit into the socket are buffered.
//
// Frame on the socket:
//
// | field   | bytes  | value                                        |
// |---------|--------|----------------------------------------------|
// | size    | 8      | bytes of the message, little-endian, <= 2^40 |
// | message | `size` | as a WireWriter has written it               |
//
// Threading: several threads may call `send` and `flush`; one thread calls all else. Owns the
// socket.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "shardproof/backends/remote/wire/wire.h"

namespace shardproof {

class MessagePipe {
 public:
  explicit MessagePipe(int socket);
  ~MessagePipe();
  MessagePipe(const MessagePipe&) = delete;
  MessagePipe& operator=(const MessagePipe&) = delete;

  void send(const WireWriter& message);  // copies it; writes to the socket from 64 KiB on
  void flush();                          // writes as much as the socket accepts
  // Returns the next message if one has arrived; nullopt otherwise, also if the other end is
  // closed. Throws Error(io) if the size of a frame is too large.
  std::optional<std::string> receive();
  bool closed() const { return closed_; }  // receive() has found the other end closed
  bool has_unsent();
  // Blocks until at most `but` bytes are left to send, or the other end is closed.
  void wait_until_sent(size_t but);
  int socket() const { return socket_; }
  // Blocks until something may be received or sent, or `time` has passed. Flushes first.
  void wait(std::chrono::microseconds time);

 private:
  void read_more();
  void write_some();

  int socket_;
  bool closed_ = false;
  std::mutex sending_;
  std::string unsent_;
  size_t sent_ = 0;                // bytes of unsent_ that the socket has taken
  std::unique_ptr<char[]> chunk_;  // buffer of one read
  std::string received_;
  size_t taken_ = 0;  // bytes of received_ that receive() has returned
};

}  // namespace shardproof
