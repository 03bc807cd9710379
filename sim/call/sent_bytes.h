// The bytes that one rank sends in a call with a root. The root of a reduce or gather sends
// nothing; in a scatter only the root sends.
#pragma once

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

// True if the root sends another number of bytes than the others.
inline bool sends_by_role(CollectiveKind kind) {
  return kind == CollectiveKind::reduce || kind == CollectiveKind::gather ||
         kind == CollectiveKind::scatter;
}

// True if a member of the group only receives in the call.
inline bool only_receives(const Collective& call, int64_t rank) {
  if (!sends_by_role(call.kind)) return false;
  const bool is_root = call.group.index_of(rank) == call.root;
  return is_root != (call.kind == CollectiveKind::scatter);
}

}  // namespace shardproof
