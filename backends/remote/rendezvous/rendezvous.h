// Rendezvous: how processes find each other that mpirun, srun or a shell has started. One of them
// opens it and becomes the coordinator; the others connect. Forms of its text:
//
// | text          | meaning                                                                       |
// |---------------|-------------------------------------------------------------------------------|
// | file:PATH     | a file that all processes can read; the coordinator writes its address there  |
// | tcp:HOST:PORT | a port of the coordinator's machine, on a trusted network                     |
// | unix:NAME     | an abstract socket on one machine, by a name that all processes know          |
//
// A file of an earlier run is replaced; the file of a run that still listens is not.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "shardproof/backends/remote/rendezvous/listen_address.h"

namespace shardproof {

// Throws Error(bad_input) if `text` is not a rendezvous.
void check_rendezvous(const std::string& text);

// Opens it, as the coordinator. Throws Error(io), which quotes the text, if it cannot be opened.
std::shared_ptr<ListenAddress> open_rendezvous(const std::string& text);
// Time in which close_unstarted() waits for processes that have not connected.
inline constexpr std::chrono::seconds kDismissal{3};
// Closes the place of a run that was not started. Processes that still connect within kDismissal
// are accepted first: they find their connection closed, and end.
void close_unstarted(ListenAddress& place);

struct RendezvousConnection {
  std::string address;                // for further connections to the coordinator
  std::unique_ptr<MessagePipe> pipe;  // the first connection
};
// Waits until the coordinator has opened it and connects. Throws Error(io) after `timeout`.
RendezvousConnection connect_at_rendezvous(const std::string& text, std::chrono::seconds timeout);

// Returns a number below 4,096 that no other process of this machine and rendezvous has: 0 for the
// first one, 1 for the next. The number is taken until this process ends.
int number_on_this_machine(const std::string& text);

}  // namespace shardproof
