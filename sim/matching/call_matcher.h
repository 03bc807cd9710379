// The gate: where calls of different ranks meet. It matches them by communicator, checks that they
// fit before anything is computed, computes with `reference`, and writes each lane's part of the
// answer.
//
// The k-th collective of each member of a group meets the others' k-th (in issue order); a send
// meets the receive of its peer in the same way. A communicator is a group's key, so equal groups
// of different meshes are one. Inputs are read when the last member has come, outputs are written
// then, and never later. What does not fit becomes a Finding; the calls of that meeting fail.
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

// Is told what the gate lets through, where contents are moved by somebody else: each meeting, pair
// and one-sided part as it completes, in an order in which they may be made one after another.
class MatchObserver {
 public:
  virtual ~MatchObserver() = default;
  virtual void on_collective(const CollectiveInstance& instance) = 0;
  virtual void on_send_recv(const Channel::End& sender, const Channel::End& receiver) = 0;
  // A put, a signal or the wait for one.
  virtual void on_one_sided(const SubmittedCall& submitted, int64_t lane, int32_t peer) = 0;
};

class CallMatcher {
 public:
  // With a witness every call comes to a meeting, also one of whole groups.
  explicit CallMatcher(std::shared_ptr<const CostModel> cost, MatchObserver* observer = nullptr)
      : cost_(std::move(cost)), observer_(observer) {}

  // Runs a collective whose lanes cover whole groups that nobody else has business with, at once.
  // False, and nothing done, for any other call. `times` (of the cohort's lanes; null without a
  // clock) holds when each lane comes and becomes when each is through.
  bool complete_if_whole_group(Call& call, const Lanes& cohort, LaneTimes* times);

  // Takes the lanes out of a call that are no members of its group, and tells.
  void drop_non_members(Call& call);
  // Gives each lane's call its number; in issue order.
  void number(SubmittedCall& submitted);
  // All calls of the flight start together, at flight.start. Flights that ended are in ended(); one
  // that is found wrong ends as failed, and so does one that comes as failed.
  void start(Submission& submission);
  std::vector<Submission*>& ended() { return ended_; }
  // In the order in which they were made; siblings each have their own (merge_finding).
  std::vector<Finding>& findings() { return findings_; }
  // Tells mismatches of meetings that never became complete.
  void find_open_mismatches();

  // Who a started party still waits for.
  struct Awaited {
    std::string group;           // "tp [4 5 6 7]"
    int64_t call = 0;            // number in the group
    std::vector<int32_t> ranks;  // ascending
    std::string_view what;       // "to receive", "to send", "to signal" or nothing
    bool explained = false;      // a mismatch of its meeting is told
  };
  Awaited awaited(const SubmittedCall& submitted) const;
  // Whether `party`, issued by `rank` but not started, is what `waiting` waits for.
  bool answers(const SubmittedCall& submitted, int32_t rank, const SubmittedCall& waiting) const;

  // What was last put into a slot of a rank's window; null when nothing was.
  const Bytes* window(int64_t rank, int64_t slot) const;

 private:
  struct Signals {                 // from one rank into a slot of another
    std::vector<Duration> landed;  // ascending; not yet waited for
    std::vector<Channel::End> waiting;
  };
  using SignalKey = std::array<int64_t, 3>;  // target, source, slot

  Communicator& comm(const Group& group);
  const Communicator& comm_of(const SubmittedCall& submitted) const;
  int32_t peer_rank(const Communicator& comm, const SubmittedCall& submitted, int64_t lane) const;
  void pass_times(const Communicator& comm, const Call& call, const Lanes& cohort,
                  LaneTimes& times) const;

  void run_whole(const Call& call);
  bool join_whole(Communicator& comm, SubmittedCall& submitted);
  void begin(SubmittedCall& submitted);
  void join(Communicator& comm, SubmittedCall& submitted);
  void complete(Communicator& comm, CollectiveInstance& open);
  void pair_up(Communicator& comm, SubmittedCall& submitted);
  void transfer(const Communicator& comm, const Channel::End& sender, const Channel::End& receiver);
  void act_one_sided(Communicator& comm, SubmittedCall& submitted);
  void store(const SubmittedCall& submitted, int64_t self, int64_t target);
  void settle(Signals& signals);
  void end_party(SubmittedCall& submitted);
  void end_part(SubmittedCall& submitted, int64_t lane, Duration end);
  void fail(SubmittedCall& submitted);
  Duration arrival(const SubmittedCall& submitted, int64_t lane) const;
  Duration price(const Call& call) const;
  Duration price(const CollectiveInstance& instance) const;
  void report(Finding finding);

  std::shared_ptr<const CostModel> cost_;
  MatchObserver* observer_;
  // By key and name: groups of equal members under two names are two communicators.
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Communicator>> comms_;
  Communicator* last_ = nullptr;
  std::map<SignalKey, Signals> signals_;
  std::map<std::pair<int64_t, int64_t>, Bytes> windows_;  // by rank and slot
  std::vector<Submission*> ended_;
  std::vector<Finding> findings_;
};

}  // namespace shardproof
