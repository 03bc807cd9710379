// The sockets between the ranks of one communicator of the stand-in. Nothing here waits: every call
// does what can be done now.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace shardproof::fake_gpu {

class Peers {
 public:
  // Ranks of one name find each other.
  Peers(const std::string& name, int rank, int size);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  bool connect();  // true when all are connected
  void send(int peer, const void* data, size_t bytes);
  void pump();  // moves what can be moved
  // What has come from a peer and was not taken; and takes some of it.
  const std::string& received(int peer) const { return peers_[at(peer)].in; }
  std::string take(int peer, size_t bytes);
  bool all_sent() const;
  bool gone(int peer) const { return peers_[at(peer)].gone; }

 private:
  struct Peer {
    int socket = -1;
    std::string out, in;
    bool gone = false;
  };
  static size_t at(int peer) { return static_cast<size_t>(peer); }
  void call(int peer);
  void answer();
  void move(Peer& peer);

  std::string name_;
  int rank_, listening_ = -1;
  std::vector<Peer> peers_;
  std::vector<int> guests_;  // that have not said who they are
  std::unique_ptr<char[]> chunk_;
};

}  // namespace shardproof::fake_gpu
