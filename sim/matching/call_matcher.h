// CallMatcher: matches the calls of different ranks by communicator and checks that they fit before
// anything is computed. It computes results with `reference` and writes each lane's part.
//
// Matching. The k-th collective of each member of a group, in order of issue, matches the k-th of
// the others. The k-th send matches the k-th receive of its peer. A communicator is a group's key
// and name, so equal groups of different meshes are one. Inputs are read and outputs written when
// the last member has joined, never later. Calls that do not fit become a Finding and fail.
//
// Example. Group tp = [0 1]. Rank 0 issues A = all_reduce(tp), B = send to 1; rank 1 issues
// C = recv from 0, D = all_reduce(tp).
//   numbers: A is collective 1 of tp on rank 0, D on rank 1; B is send 1 and C receive 1 of 0 -> 1.
//   rank 0 starts A: it arrives at collective 1 and waits for member 1.
//   rank 1 starts C: it waits in channel 0 -> 1 for send 1. On one stream, B is after A and D
//   after C: nothing can start, and deadlock.h finds the cycle A -> C -> A. If B is on another
//   stream, B matches C, D starts and arrives: collective 1 is complete.
//
// Not thread-safe. Keeps pointers to submissions until they have ended. Matching takes logarithmic
// time in the number of open collectives.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/report/finding.h"
#include "shardproof/sim/call/communicator.h"
#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {

// Observes matched calls, for contents that are moved elsewhere: each collective, message and
// one-sided call as it completes. They may be carried out one after another in this order.
class MatchObserver {
 public:
  virtual ~MatchObserver() = default;
  virtual void on_collective(const CollectiveInstance& instance) = 0;
  virtual void on_send_recv(const Channel::End& sender, const Channel::End& receiver) = 0;
  // A put, a signal, or a wait for signals (`peer` is then -1).
  virtual void on_one_sided(const SubmittedCall& submitted, int64_t lane, int32_t peer) = 0;
};

class CallMatcher {
 public:
  // With an observer every call is matched lane by lane, even one of whole groups.
  explicit CallMatcher(std::shared_ptr<const CostModel> cost, MatchObserver* observer = nullptr)
      : cost_(std::move(cost)), observer_(observer) {}

  // Fast path: runs a collective at once if its lanes cover whole groups without pending calls.
  // Otherwise returns false and changes nothing. `times` has the arrival of each of the cohort's
  // lanes and is set to their ends; null without a clock.
  bool complete_if_whole_group(Call& call, const Lanes& cohort, LaneTimes* times);

  // Removes lanes that are not members of the call's group, and reports them as a finding. Returns
  // true if there are any.
  bool drop_non_members(Call& call);
  // Numbers each lane's call. Call it in order of issue.
  void number(SubmittedCall& submitted);
  // Starts all calls of a submission together, at submission.start. Submissions that have ended are
  // in ended(); one that is found wrong ends as failed, as does one that was failed before.
  void start(Submission& submission);
  std::vector<Submission*>& ended() { return ended_; }
  // Findings in order of discovery, one for each sibling group (merged_findings joins them).
  std::vector<Finding>& findings() { return findings_; }
  // Reports mismatches of collectives that not all members have reached.
  void find_open_mismatches();

  // The needs of a started call.
  struct Awaited {
    std::string group;       // "tp [4 5 6 7]"
    int64_t call = 0;        // number in the group
    std::string_view what;   // "to receive", "to send", "to signal"; empty for collectives
    bool explained = false;  // a mismatch of its collective is or will be reported
    // The collective, which all calls of it have in common; null for messages and signals.
    const CollectiveInstance* instance = nullptr;
    int32_t peer = -1;  // the other end of a message or signal; -1: nothing is awaited
  };
  Awaited awaited(const SubmittedCall& submitted) const;
  // Returns the ranks that have not joined, ascending. Linear in the members of the group.
  std::vector<int32_t> absent_ranks(const SubmittedCall& submitted, const Awaited& need) const;
  // True if `waiting` waits for `submitted`, which `rank` has issued and which has not started.
  bool is_awaited(const SubmittedCall& submitted, int32_t rank, const SubmittedCall& waiting) const;

  // Returns the bytes last put into a slot of a rank's window; null if there are none.
  const Bytes* window(int64_t rank, int64_t slot) const;

 private:
  struct Signals {                 // from one rank to a slot of another
    std::vector<Duration> landed;  // arrival times, ascending, not yet waited for
    std::vector<Channel::End> waiting;
  };
  using SignalKey = std::array<int64_t, 3>;  // target, source, slot

  Communicator& comm(const Group& group) {
    return last_ != nullptr && last_->group().is_copy_of(group) ? *last_ : find_comm(group);
  }
  Communicator& find_comm(const Group& group);
  const Communicator& comm_of(const SubmittedCall& submitted) const;
  int32_t peer_rank(const Communicator& comm, const SubmittedCall& submitted, int64_t lane) const;
  void pass_times(const Communicator& comm, const Collective& collective, const Lanes& lanes,
                  const Lanes& cohort, LaneTimes& times) const;

  void run_whole(const Collective& collective, const Lanes& lanes, const LocalTensor* input,
                 LocalTensor* output);
  bool join_whole(Communicator& comm, SubmittedCall& submitted);
  void begin(SubmittedCall& submitted);
  void join(Communicator& comm, SubmittedCall& submitted);
  void complete(Communicator& comm, CollectiveInstance& open);
  void pair_up(Communicator& comm, SubmittedCall& submitted);
  void transfer(const Communicator& comm, const Channel::End& sender, const Channel::End& receiver);
  void execute_one_sided(Communicator& comm, SubmittedCall& submitted);
  void store(const SubmittedCall& submitted, int64_t self, int64_t target);
  void settle(Signals& signals);
  void end_call(SubmittedCall& submitted);
  void end_part(SubmittedCall& submitted, int64_t lane, Duration end);
  void fail(SubmittedCall& submitted);
  Duration arrival(const SubmittedCall& submitted, int64_t lane) const;
  Duration price(const Collective& collective) const;
  Duration price(const CollectiveInstance& instance) const;
  void add_up_messages(Submission& submission) const;
  Duration end_of_messages(const Channel::End& sender, const Channel::End& receiver) const;
  void report(Finding finding);

  std::shared_ptr<const CostModel> cost_;
  MatchObserver* observer_;
  // By key and name: equal members under two names are two communicators.
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Communicator>> comms_;
  Communicator* last_ = nullptr;
  std::map<SignalKey, Signals> signals_;
  std::map<std::pair<int64_t, int64_t>, Bytes> windows_;  // by rank and slot
  std::vector<Submission*> ended_;
  std::vector<Finding> findings_;
};

}  // namespace shardproof
