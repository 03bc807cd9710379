// Rendezvous: how processes come together that somebody else started: by mpirun, srun or in shells.
// One of them opens it and coordinates. It is written
//
//   file:PATH       a file that all of them see; its owner writes there where it is
//   tcp:HOST:PORT   a port of the machine of the process that coordinates, on a network to trust
//   unix:NAME       on one machine, by a name that all of them know
//
// A file that an earlier run left is replaced, one at which others meet is not.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "shardproof/backends/remote/rendezvous/listen_address.h"

namespace shardproof {

// Throws Error(bad_input) when it is none.
void check_rendezvous(const std::string& text);

// Throws Error(io), with the text, when it cannot be opened.
std::shared_ptr<ListenAddress> open_rendezvous(const std::string& text);
// For a run that does not come about: within this time, who is awaited comes, sees that it is over,
// and ends.
inline constexpr std::chrono::seconds kDismissal{3};
void dismiss(ListenAddress& place);

struct RendezvousConnection {
  std::string address;  // at which the next one goes there
  std::unique_ptr<MessagePipe> pipe;
};
// Waits until somebody is there. Throws Error(io) when nobody was in that time.
RendezvousConnection come_to(const std::string& text, std::chrono::seconds patience);

// How many have come before this process, of those on its machine that meet there; each gets
// another number.
int number_on_this_machine(const std::string& text);

}  // namespace shardproof
