// PlannedCalls: how many calls each rank makes in its whole program if nothing blocks it. If ranks
// wait for each other, the counts separate a rank that leaves a call out from one that makes it
// later (deadlock.h). Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

class PlannedCalls {
 public:
  // A rank that makes a call. `peer` is the group's index of the other end of a send, receive, put,
  // signal or wait for signals; of no meaning for a collective.
  struct Caller {
    int32_t rank = 0;
    int64_t peer = 0;
  };

  // Counts one call of each caller. A caller outside the group makes no call.
  void add(const Collective& call, const std::vector<Caller>& callers);
  // Returns those of `ranks` that make fewer calls that can match `waiting` than each of `waiters`
  // makes of its kind. All must be members of its group; a call with two ends has one waiter.
  std::vector<int32_t> lacking(const std::vector<int32_t>& ranks,
                               const std::vector<int32_t>& waiters,
                               const Collective& waiting) const;

 private:
  enum class Role : uint8_t { collective, send, receive, signal, wait };
  using Calls = std::pair<Role, std::string>;          // role and group; "" for signals and waits
  using Ends = std::tuple<int32_t, int32_t, int64_t>;  // rank, other end or -1, slot
  using Tally = std::map<Ends, int64_t>;
  static Role role_of(CollectiveKind kind);
  static Role answer_to(Role role);
  static Calls calls_of(Role role, const Collective& call);
  int64_t count(Role role, const Collective& call, int32_t rank, int32_t other) const;

  std::map<Calls, Tally> tallies_;
};

}  // namespace shardproof
