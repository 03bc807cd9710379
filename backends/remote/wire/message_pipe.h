// MessagePipe: messages between two processes over a socket. Small messages are kept until flush,
// so that many of them travel together. Sending never waits for the other end to read: what does
// not fit into the socket is kept too.
//
// `send` and `flush` may be called by several threads; all else by one.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/backends/remote/wire/wire.h"

namespace shardproof {

class MessagePipe {
 public:
  explicit MessagePipe(int socket);
  ~MessagePipe();
  MessagePipe(const MessagePipe&) = delete;
  MessagePipe& operator=(const MessagePipe&) = delete;

  void send(const WireWriter& message);
  void flush();
  // The next message, if one has come; nothing otherwise, also when the other end is gone.
  std::optional<std::string> receive();
  bool closed() const { return closed_; }
  bool has_unsent();
  // Sleeps until at most so many bytes wait to be sent, or the other end is gone.
  void wait_until_sent(size_t but);
  int socket() const { return socket_; }
  // Sleeps until something may be received, or until that much time has passed.
  void wait(std::chrono::microseconds time);

 private:
  void read_more();
  void write_some();

  int socket_;
  bool closed_ = false;
  std::mutex sending_;
  std::string unsent_;
  size_t sent_ = 0;                // of unsent_
  std::unique_ptr<char[]> chunk_;  // of what comes
  std::string received_;
  size_t taken_ = 0;  // of received_
};

}  // namespace shardproof
