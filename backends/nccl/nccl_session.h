// NcclSession: the communicators of one process, at least one for each of its GPUs. They are
// non-blocking; errors that NCCL reports later are found by polling, and another thread can abort
// all of them. Calls on several GPUs of one process are one NCCL group: issued one by one from one
// thread, the first would wait for the last. Internal to the nccl backend.
//
// Threading: one thread, except abort(). Owns all communicators that it returns.
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

// The NCCL ranks of this process: `here` ranks from `first` on, of `all`.
struct NcclRanks {
  int first = 0, here = 1, all = 1;
};

// Limits of the waits while puts are prepared, and the texts of their failures.
inline constexpr std::chrono::seconds kPuttingPatience{15};
inline constexpr const char* kPutHasNoEnd = "the NCCL call has not ended in 15 s";
inline constexpr const char* kPeerLost = "a process is lost";

class NcclSession {
 public:
  // Makes the GPU of a rank of this process the device of the calling thread.
  using Select = std::function<void(int rank)>;
  // Connects to all other processes with the same id and waits for them. Throws Error(unsupported)
  // if NCCL fails.
  NcclSession(const NcclApi& api, const NcclId& id, NcclRanks ranks, Select select);
  ~NcclSession();
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  const NcclApi& api() const { return api_; }
  void select(int rank) const { select_(rank); }
  NcclComm world(int rank) const { return worlds_[static_cast<size_t>(rank - ranks_.first)]; }
  // The rank of a process that has one GPU.
  int rank() const { return ranks_.first; }
  int ranks() const { return ranks_.all; }
  bool is_aborted() const { return aborted_; }
  // Splits the communicator of all ranks into teams. Every process calls it. If a peer is lost
  // meanwhile, all communicators are aborted and no team is made.
  void form(const std::vector<std::vector<int>>& teams);
  NcclComm team(const std::vector<int>& ranks, int own) const;
  // Makes a communicator of all ranks for puts; requires one GPU in each process. If it fails, the
  // others stay usable. Returns null if a peer was lost.
  NcclComm make_put_communicator();
  // Waits until that communicator is ready after a call that returned `code`. Returns an error
  // text; empty: none.
  std::string await_put_communicator(int code);
  void require_put_communicator() {
    relies_on_putting_ = true;
  }  // from now on its errors end the session
  void abort_put_communicator() noexcept;
  // Returns blocking communicators of these ranks, one for each rank in this process. NCCL
  // simulates calls only on blocking communicators. It launches a call on a non-blocking one from a
  // thread of its own. All processes of these ranks call it. Empty if a peer was lost.
  std::vector<NcclComm> make_blocking_communicators(const std::vector<int>& ranks);
  bool has_blocking_communicators(const std::vector<int>& ranks) const {
    return blocking_.contains(ranks);
  }

  enum class State { ready, under_way, lost };
  // Polls these communicators after a call that returned `code`. Lost: a peer, the network or the
  // device failed, and all communicators are aborted. Throws Error(io) if NCCL rejects the call.
  State poll_communicators(const std::vector<NcclComm>& comms, int code);
  // Sets a function that receives NCCL's error text before the abort, which may take long.
  void when_lost(std::function<void(const std::string&)> report_loss) {
    report_loss_ = std::move(report_loss);
  }
  // Polls all communicators: exchanges that are already in a stream may still fail.
  State poll_all_communicators();
  void abort() noexcept;  // by any thread
  const std::string& error() const { return error_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Team =
      std::pair<std::vector<int>, int>;  // ranks of the team, and the rank that owns this one
  template <typename Call>
  int call_each(const std::vector<int>& ranks, Call call);
  std::vector<int> local_ranks() const;
  int color_of(const std::vector<std::vector<int>>& teams, int rank) const;
  std::vector<std::vector<NcclComm>> in_end_order() const;
  // Finalizes and destroys all of them; false, and none destroyed, if one does not finish in time.
  bool end(const std::vector<NcclComm>& comms, Clock::time_point limit) const;
  void abort_together(const std::vector<std::vector<NcclComm>>& all) const noexcept;
  std::string error_text(int code) const;
  void await(NcclComm comm, int code);
  bool handle_init_result(NcclComm comm, int code);
  bool await_all_ready(const std::vector<NcclComm>& comms, int code);
  int state_of(NcclComm comm) const;

  NcclApi api_;
  NcclRanks ranks_;
  Select select_;
  std::vector<NcclComm> worlds_;  // one for each rank here; each is of all ranks
  std::map<Team, NcclComm> teams_;
  std::map<std::vector<int>, std::vector<NcclComm>> blocking_;
  NcclComm one_sided_ = nullptr;
  bool relies_on_putting_ = false;
  std::string error_;
  std::function<void(const std::string&)> report_loss_;
  std::mutex aborting_;
  std::atomic<bool> aborted_{false};
};

// Returns "NCCL 2.28.9".
std::string nccl_name(const NcclApi& api);

}  // namespace shardproof
