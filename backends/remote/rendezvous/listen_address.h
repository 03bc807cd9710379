// ListenAddress: the listening socket of the coordinator, at which the other processes of a run
// connect. Not thread-safe; owns the socket and the file that publishes its address.
//
// Form of an address (at most 99 characters after "unix:"):
//
// | form                      | reached from                         | admits                     |
// |---------------------------|--------------------------------------|----------------------------|
// | unix:NAME                 | this machine; an abstract socket     | processes of the same user |
// | tcp:HOST,HOST:PORT:SECRET | other machines; hosts tried in order | processes with the secret  |
//
// Handshake over tcp: the process that connects sends the 32 characters of the secret; the
// coordinator answers with the secret reversed.
//
// Form of the file of publish(), at most 4,096 bytes, readable by its owner only:
//
// | field   | bytes | value                      |
// |---------|-------|----------------------------|
// | head    | 24    | "shardproof rendezvous 1\n" |
// | address | any   | an address as above        |
// | end     | 1     | "\n"                       |
#pragma once

#include <memory>
#include <string>

#include "shardproof/backends/remote/wire/message_pipe.h"

namespace shardproof {

class ListenAddress {
 public:
  // All throw Error(io) if the socket cannot be opened.
  static std::unique_ptr<ListenAddress> on_this_machine();  // under a random name
  static std::unique_ptr<ListenAddress> on_this_machine(const std::string& name);
  static std::unique_ptr<ListenAddress> between_machines();  // at a port that the system chooses
  static std::unique_ptr<ListenAddress> at_port(const std::string& host, int port);
  ~ListenAddress();
  ListenAddress(const ListenAddress&) = delete;
  ListenAddress& operator=(const ListenAddress&) = delete;

  const std::string& address() const { return address_; }
  int socket() const { return socket_; }
  // Writes the address to a file, atomically; close() removes the file. Replaces the file of a run
  // that has ended. Throws Error(io) if it cannot be written or if another run listens there.
  void publish(const std::string& path);
  // Returns the connection of a process that was admitted; null if the first one waiting was not.
  // Blocks if none waits.
  std::unique_ptr<MessagePipe> accept();
  void close();
  // Number of processes that have not connected yet. The caller of accept() sets it, for
  // close_unstarted().
  int awaited() const { return awaited_; }
  void await(int processes) { awaited_ = processes; }

 private:
  ListenAddress() = default;
  int socket_ = -1, awaited_ = 0;
  std::string address_, secret_, file_;
};

// Connects to an address. Throws Error(io) if nothing listens there or the secret is refused.
std::unique_ptr<MessagePipe> connect_to(const std::string& address);
// Returns the address of a place that at_port() opened.
std::string address_of_port(const std::string& host, int port);
// Returns the address that the file at `path` publishes; empty if there is no file. Throws
// Error(io) if it cannot be read, Error(bad_input) if it is another kind of file.
std::string published_at(const std::string& path);

}  // namespace shardproof
