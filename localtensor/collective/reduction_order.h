// Reduction orders: the order in which the elements of the members are added, and what is rounded
// in between.
//
//   order            adds                            rounds
//   rank             members in group order          to the wire type, after each addition
//   f32              members in group order          once, at the end
//   exact            in any order, without error     once, at the end
//   ring, tree, pat  as NCCL's kernels of that name  to the wire type, after each addition
//   symmetric        as NCCL's symmetric kernels     once, at the end
//   nvls             not specified                   once, at the end
//
// NCCL's orders have the bits of a run in the environment of nccl_environment
// (reduction_schedule.h). Sources: NCCL 2.23 to 2.30. Inside a channel: src/device/all_reduce.h,
// reduce_scatter.h, reduce.h. Channels and chunks: scheduleCollTasksToPlan and calcCollChunking of
// src/enqueue.cc. pat: PatRSAlgorithm of src/include/collectives.h, from 2.26. symmetric:
// src/device/symmetric. Over several channels, NCCL before 2.29 splits a call into smaller parts.
// Before 2.26 it splits calls with the protocol LL differently. Assumed: rings and chains in group
// order, one call a group, consecutive members on each node, and buffers aligned to 16 bytes.
//
// A scaled input (premul_sum; avg of floats, scaled by 1/n) is multiplied when it is added, with
// one rounding for both. The very first input is a rounded product. Code that nvcc generates for
// sm_90 and newer rounds in this way. On older GPUs, and for the protocol LL128, bf16 and other
// types are also rounded in between.
//
// A call for which NCCL does not have the algorithm uses the ring. tree is for all_reduce only; pat
// is for reduce_scatter without scaling. symmetric is for sum and avg of all_reduce and
// reduce_scatter on floats up to f32. Two runs with nvls are compared by their measured rounding.
#pragma once

#include <vector>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

// One step of a fold on a stack of partial results. See fold_with_schedule.cpp for an example.
struct FoldStep {
  enum class Kind : uint8_t {
    push,   // pushes the member's elements
    own,    // adds the member's elements to the top
    merge,  // pops the top and adds it to the new top
  } kind = Kind::push;
  int64_t member = 0;
  bool operator==(const FoldStep&) const = default;
};
// Consecutive elements that are folded by the same steps.
struct FoldRange {
  int64_t first = 0, count = 0;
  std::vector<FoldStep> steps;
};
// Returns the order in which this call is folded: its schedule's, or the ring if NCCL does not have
// that algorithm for the call.
FoldOrder order_of(const Collective& collective);

// Returns how one group folds a call: ranges in ascending order that cover all its elements
// (all_reduce and reduce: count; reduce_scatter: members * count). Throws Error(bad_input) if the
// members of a tree do not lie evenly on its nodes.
std::vector<FoldRange> fold_ranges(const Collective& collective);

// Returns the elements of each channel, in order, of a call that is the only one in its NCCL group.
std::vector<int64_t> channel_counts(const Collective& collective);

// NCCL's double binary tree over nodes (ncclGetDtree): parent and children of each node, -1 for
// none. The root has a second child and no first. `which`: 0 or 1, the first or the second tree.
struct TreeNode {
  int64_t up = -1;
  std::array<int64_t, 2> down{-1, -1};
};
std::vector<TreeNode> double_binary_tree(int64_t nodes, int64_t which);

}  // namespace shardproof
