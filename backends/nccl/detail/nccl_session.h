// NcclSession: the communicators of one process, made without waiting for each other and looked
// after: what NCCL reports late is told, and a hang can be ended from another thread. Internal to
// the nccl backend.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "shardproof/backends/nccl/nccl_api.h"

namespace shardproof {

class NcclSession {
 public:
  // With all others of the id; returns when it has come together. Throws Error(unsupported).
  NcclSession(const NcclApi& api, const NcclId& id, int rank, int ranks);
  ~NcclSession();
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  const NcclApi& api() const { return api_; }
  NcclComm world() const { return world_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool is_aborted() const { return aborted_; }
  // Splits the world; every process of it takes part.
  void form(const std::vector<std::vector<int>>& teams);
  NcclComm team(const std::vector<int>& processes) const;
  // One of all processes, for what is one-sided; it may fail without harm to the others.
  NcclComm to_put();
  void give_up_putting() noexcept;
  // A communicator of these processes on which nothing is ever done: NCCL simulates only where
  // calls wait, and makes what it is to simulate elsewhere. All of them ask.
  NcclComm to_simulate(const std::vector<int>& processes);

  enum class State { ready, under_way, lost };
  // After a call on these communicators. Lost: a peer is gone, or the network; all communicators
  // are aborted then. Throws Error(io) when it says anything else.
  State look_at(const std::vector<NcclComm>& comms, int code);
  // The same on all of them: what is in a stream already may still go wrong.
  State look_at_all();
  void abort() noexcept;  // by any thread
  const std::string& trouble() const { return trouble_; }

 private:
  std::string words_for(int code) const;
  void await(NcclComm comm, int code);
  int state_of(NcclComm comm) const;

  NcclApi api_;
  int rank_, ranks_;
  NcclComm world_ = nullptr;
  std::map<std::vector<int>, NcclComm> teams_, simulated_;
  NcclComm one_sided_ = nullptr;
  std::string trouble_;
  std::mutex aborting_;
  std::atomic<bool> aborted_{false};
};

// "NCCL 2.28.9"
std::string nccl_name(const NcclApi& api);

}  // namespace shardproof
