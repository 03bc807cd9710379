// The sockets between the ranks of one communicator of the fake NCCL. No function waits: each does
// what can be done now.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace shardproof::fake_gpu {

class Peers {
 public:
  // Ranks of the same name connect to each other.
  Peers(const std::string& name, int rank, int size);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  bool connect();  // true if all are connected
  void send(int peer, const void* data, size_t bytes);
  void transfer();  // sends and receives what is possible now
  // Return what was received from a peer and not read yet, and read some of it.
  const std::string& received(int peer) const { return peers_[at(peer)].in; }
  std::string read(int peer, size_t bytes);
  bool all_sent() const;
  bool has_exited(int peer) const { return peers_[at(peer)].has_exited; }

 private:
  struct Peer {
    int socket = -1;
    std::string out, in;
    bool has_exited = false;
  };
  static size_t at(int peer) { return static_cast<size_t>(peer); }
  void connect_to(int peer);
  void accept_connections();
  void transfer(Peer& peer);

  std::string name_;
  int rank_, listening_ = -1;
  std::vector<Peer> peers_;
  std::vector<int> connections_;  // connections whose rank is not known yet
  std::unique_ptr<char[]> chunk_;
};

}  // namespace shardproof::fake_gpu
