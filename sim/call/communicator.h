// Communicator: the state of one group, with all its siblings, in the call matcher. It holds the
// place of each member, how many collectives it has issued, and the unmatched collectives and
// messages.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/pair_table.h"
#include "shardproof/sim/call/submission.h"

namespace shardproof {

// One lane of a call that has reached its collective.
struct Arrival {
  SubmittedCall* submitted = nullptr;
  int32_t lane = 0;    // index among the lanes of the call
  int32_t member = 0;  // index in the group
  int32_t rank() const { return submitted->lanes[lane]; }
};

using Arrivals = PooledVector<Arrival>;

// The k-th collective of one sibling group, until all members have joined it.
struct CollectiveInstance {
  int64_t number = 0;
  int64_t sibling = 0;
  Arrivals arrivals;
  Duration latest;       // arrival of the last member; zero without a clock
  bool differs = false;  // a call does not fit the first one (mismatch.h)
};

// Sends and receives from one rank to another. The k-th send matches the k-th receive.
struct Channel {
  struct End {
    int64_t number = 0;
    SubmittedCall* submitted = nullptr;
    int32_t lane = 0;
    int32_t rank() const { return submitted->lanes[lane]; }
  };
  int32_t sends = 0, receives = 0;  // issued
  int32_t unpaired = -1;            // the first of its ends in the communicator's list
};

class Communicator {
 public:
  // The place of a rank: its sibling group and its index there; -1, -1 if it is not a member.
  struct MemberPlace {
    int32_t sibling = -1, index = -1;
  };

  explicit Communicator(const Group& group);
  const Group& group() const { return group_; }
  const Lanes& lanes() const { return lanes_; }  // all members of all siblings
  MemberPlace member_place(int64_t rank) const;
  // True if `lanes` are all members of some siblings. Caches the last lanes for which this was
  // true.
  bool covers_whole_groups(const Lanes& lanes);

  // True if the next collective has the same number on all these lanes.
  bool next_numbers_agree(const Lanes& lanes) const;
  // Returns the number of each lane's next collective and counts it.
  PerLane<int64_t> next_numbers(const Lanes& lanes);
  CollectiveInstance& instance(int64_t sibling, int64_t number);
  const CollectiveInstance* find_instance(int64_t sibling, int64_t number) const;
  void close(int64_t number, int64_t sibling);
  bool has_open_instances() const { return !instances_.empty(); }
  const auto& open_instances() const { return instances_; }

  int32_t rank_of(int64_t sibling, int64_t index) const { return group_.member(sibling, index); }
  // Returns the number of the next send or receive from one rank to another, and counts it.
  int64_t next_number(CollectiveKind kind, int32_t from, int32_t to);
  // Removes and returns the end that this one pairs with. Returns nullopt, and stores `end`, if it
  // has not started.
  std::optional<Channel::End> pair(CollectiveKind kind, int32_t from, int32_t to,
                                   const Channel::End& end);
  // Returns the lane of a started send or receive that has not been paired; -1: none.
  int32_t unpaired_lane(int32_t from, int32_t to, const SubmittedCall& submitted) const;

  // Returns the group's text: "tp [4 5 6 7]".
  std::string text(int64_t sibling) const;

 private:
  void fill_places() const;

  Group group_;
  Lanes lanes_, whole_;
  PerLane<int64_t> issued_;
  mutable std::vector<MemberPlace> member_places_;  // by lane; filled on first use
  struct Unpaired {
    Channel::End end;
    bool sends = false;
    int32_t next = -1;  // next of the same channel, or of the free list
  };
  using InstanceKey = std::pair<int64_t, int64_t>;  // number, sibling
  std::map<InstanceKey, CollectiveInstance, std::less<>,
           PoolAllocator<std::pair<const InstanceKey, CollectiveInstance>>>
      instances_;
  PairTable<Channel> channels_;  // by sender and receiver
  std::vector<Unpaired> unpaired_;
  int32_t free_unpaired_ = -1;
};

// Returns the text of one sibling, "tp [4 5 6 7]"; beyond 16 members the middle is left out.
std::string sibling_text(const Group& group, int64_t sibling);

}  // namespace shardproof
