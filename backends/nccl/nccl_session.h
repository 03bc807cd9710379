// NcclSession: the communicators of one process, one for each of its GPUs, made without waiting for
// each other and looked after: what NCCL reports late is told, and a hang can be ended from another
// thread. What several GPUs are asked for together is one group of NCCL's: one thread that asked
// them one by one would wait for itself. Internal to the nccl backend.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "shardproof/backends/nccl/nccl_api.h"

namespace shardproof {

// Of NCCL's ranks, those that this process has.
struct NcclRanks {
  int first = 0, here = 1, all = 1;
};

// Of what is waited for before anything is put: so long, and what is wrong then.
inline constexpr std::chrono::seconds kPuttingPatience{15};
inline constexpr const char* kPutHasNoEnd = "what was asked for has not ended in 15 s";
inline constexpr const char* kPeerLost = "a process is lost";

class NcclSession {
 public:
  // Makes the GPU of a rank here the device of this thread.
  using Select = std::function<void(int rank)>;
  // With all others of the id; returns when it has come together. Throws Error(unsupported).
  NcclSession(const NcclApi& api, const NcclId& id, NcclRanks ranks, Select select);
  ~NcclSession();
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  const NcclApi& api() const { return api_; }
  void select(int rank) const { select_(rank); }
  NcclComm world(int rank) const { return worlds_[static_cast<size_t>(rank - ranks_.first)]; }
  // Of a process that has one.
  int rank() const { return ranks_.first; }
  int ranks() const { return ranks_.all; }
  bool is_aborted() const { return aborted_; }
  // Splits the world into teams of ranks; every process of it takes part. When a peer is lost
  // meanwhile, the session is aborted, and nothing is formed.
  void form(const std::vector<std::vector<int>>& teams);
  NcclComm team(const std::vector<int>& ranks, int own) const;
  // One of all ranks, one in each process, for what is one-sided; it may fail without harm to the
  // others. Null when a peer was lost.
  NcclComm to_put();
  // Until that one is ready after a call on it, which gave this code. Its trouble in words; empty:
  // none.
  std::string await_putting(int code);
  void rely_on_putting() { relies_on_putting_ = true; }  // its trouble is that of all from here on
  void give_up_putting() noexcept;
  // Communicators of these ranks, for those of them that are here, on which nothing is ever done:
  // NCCL simulates only where calls wait, and makes what it is to simulate elsewhere. All processes
  // of these ranks ask. None when a peer was lost.
  std::vector<NcclComm> to_simulate(const std::vector<int>& ranks);
  bool simulates(const std::vector<int>& ranks) const { return simulated_.contains(ranks); }

  enum class State { ready, under_way, lost };
  // After a call on these communicators. Lost: a peer is gone, or the way to it, or the device; all
  // communicators are aborted then, for nothing comes to its end any more. Throws Error(io) when
  // NCCL refuses what it was asked for.
  State look_at(const std::vector<NcclComm>& comms, int code);
  // Is told what NCCL says of a loss, before the abort, which may take as long as it likes.
  void when_lost(std::function<void(const std::string&)> tell) { tell_ = std::move(tell); }
  // The same on all of them: what is in a stream already may still go wrong.
  State look_at_all();
  void abort() noexcept;  // by any thread
  const std::string& trouble() const { return trouble_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Team = std::pair<std::vector<int>, int>;  // and whose communicator of it this is
  template <typename Ask>
  int ask_each(const std::vector<int>& ranks, Ask ask);
  std::vector<int> ranks_here() const;
  int color_of(const std::vector<std::vector<int>>& teams, int rank) const;
  std::vector<std::vector<NcclComm>> by_end() const;
  // All of them, or none: one of them does not come to its end.
  bool end(const std::vector<NcclComm>& comms, Clock::time_point limit) const;
  void abort_together(const std::vector<std::vector<NcclComm>>& all) const noexcept;
  std::string error_text(int code) const;
  void await(NcclComm comm, int code);
  bool comes_ready(NcclComm comm, int code);
  bool all_come_ready(const std::vector<NcclComm>& comms, int code);
  int state_of(NcclComm comm) const;

  NcclApi api_;
  NcclRanks ranks_;
  Select select_;
  std::vector<NcclComm> worlds_;  // of each rank here
  std::map<Team, NcclComm> teams_;
  std::map<std::vector<int>, std::vector<NcclComm>> simulated_;
  NcclComm one_sided_ = nullptr;
  bool relies_on_putting_ = false;
  std::string trouble_;
  std::function<void(const std::string&)> tell_;
  std::mutex aborting_;
  std::atomic<bool> aborted_{false};
};

// "NCCL 2.28.9"
std::string nccl_name(const NcclApi& api);

}  // namespace shardproof
