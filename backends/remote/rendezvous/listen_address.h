// ListenAddress: where the processes of a run find the one that coordinates them.
#pragma once

#include <memory>
#include <string>

#include "shardproof/backends/remote/wire/message_pipe.h"

namespace shardproof {

// Its address is "unix:NAME" on one machine (a name without a file, and only for processes of the
// same user), or "tcp:HOST,HOST:PORT:SECRET" between machines, where the first of the hosts at
// which somebody knows the secret is the one.
class ListenAddress {
 public:
  static std::unique_ptr<ListenAddress> on_this_machine();  // nobody guesses its name
  static std::unique_ptr<ListenAddress> on_this_machine(const std::string& name);
  static std::unique_ptr<ListenAddress> between_machines();
  static std::unique_ptr<ListenAddress> at_port(const std::string& host, int port);
  ~ListenAddress();
  ListenAddress(const ListenAddress&) = delete;
  ListenAddress& operator=(const ListenAddress&) = delete;

  const std::string& address() const { return address_; }
  int socket() const { return socket_; }
  // The address stands in a file from here on, whole or not at all, for as long as somebody may
  // come. Throws Error(io) when it cannot be written, or when others meet there.
  void publish(const std::string& path);
  // Somebody who came and may come in, or null.
  std::unique_ptr<MessagePipe> accept();
  void close();
  // Processes that are still on their way, as who accepts them has counted.
  int awaited() const { return awaited_; }
  void await(int processes) { awaited_ = processes; }

 private:
  ListenAddress() = default;
  int socket_ = -1, awaited_ = 0;
  std::string address_, secret_, file_;
};

// Throws Error(io).
std::unique_ptr<MessagePipe> go_to(const std::string& address);
// The address of the place at a port that was agreed on.
std::string address_of_port(const std::string& host, int port);
// What is published there; empty: nothing. Throws Error(bad_input) when that is another file.
std::string published_at(const std::string& path);

}  // namespace shardproof
