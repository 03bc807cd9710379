// Reduction orders: which member's element is added when, and what is rounded in between.
//
// `f32`, `exact`, `symmetric` and `nvls` round once, at the end; all others round to the wire type
// after every addition. `rank` and `f32` add the members in group order. The others add as NCCL's
// kernels of that name do (NCCL 2.23 to 2.30: src/device/all_reduce.h, reduce_scatter.h, reduce.h
// for the order inside a channel; scheduleCollTasksToPlan and calcCollChunking of src/enqueue.cc
// for the channels and chunks; PatRSAlgorithm of src/include/collectives.h, 2.26 and newer;
// src/device/symmetric), so that the result has the bits of a run with the environment that
// nccl_pins (reduction_schedule.h) says. Over several channels NCCL before 2.29 deals a call out in
// smaller parts, and before 2.26 in others for the protocol LL. They assume rings and chains in
// group order, one call a group, consecutive members on each node, and buffers aligned to 16 bytes.
//
// What is scaled, `avg` of floats by 1/n among it, is multiplied where it is added, with one
// rounding for both (the first member of all: a rounded product), as the code that nvcc makes of
// NCCL does on sm_90 and newer; before, and for protocol LL128, bf16 and others are rounded in
// between.
//
// What an algorithm has not, goes round the ring: NCCL has a tree for all_reduce only, PAT for
// reduce_scatter without scaling, and symmetric kernels for sum and avg of all_reduce and
// reduce_scatter on floats up to f32. The bits of `nvls` are not
// specified: it stands for a sum in the switch's precision in some order, and two runs with it are
// compared by their measured rounding.
#pragma once

#include <vector>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

// A fold of some consecutive elements, for a machine with a stack of partial results.
struct FoldStep {
  enum class Kind : uint8_t {
    push,   // what the member brings
    own,    // the member's own is added to the top
    merge,  // the top is added to what lies below it
  } kind = Kind::push;
  int64_t member = 0;
  bool operator==(const FoldStep&) const = default;
};
struct FoldRange {
  int64_t first = 0, count = 0;  // of the elements that are reduced, without gaps
  std::vector<FoldStep> steps;
};
// The order that this call is folded in: its schedule's, or the ring where that has none for it.
FoldOrder order_of(const Collective& collective);
// Whether every run gives the same bits.
bool is_fixed(FoldOrder order);

// How one group folds a call: ranges in ascending order that cover all its elements (all_reduce and
// reduce: count; reduce_scatter: members * count).
std::vector<FoldRange> fold_ranges(const Collective& collective);

// Elements of each channel of a call that is alone in its NCCL group, in order.
std::vector<int64_t> channel_counts(const Collective& collective);

// NCCL's tree over nodes (ncclGetDtree): parent and children of each, -1 where there is none. The
// root has a second child and no first.
struct TreeNode {
  int64_t up = -1;
  std::array<int64_t, 2> down{-1, -1};
};
std::vector<TreeNode> double_binary_tree(int64_t nodes, int64_t which);

}  // namespace shardproof
