// Collective: one communication call as a value, and `reference`, its only definition in values.
// Used by the planner, the call matcher, cost models, the recorder, faults, reports and backends.
//
// Counts are those of NCCL, in flat (row-major, contiguous) elements; n members, `count` = k:
//
//   call                     input of a member           output of a member
//   all_reduce               k                           k
//   reduce                   k                           k on the root, nothing elsewhere
//   broadcast                k on the root               k
//   all_gather               k                           n*k
//   reduce_scatter           n*k                         k
//   all_to_all               k, piece i of k/n           k, piece i from member i
//                            goes to member i
//   all_to_all_v             pieces of send_counts       pieces of recv_counts
//   exchange                 the same; a step of a plan (plan.h), which no program writes
//   gather                   k                           n*k on the root
//   scatter                  n*k on the root             k
//   send, recv               k to member `peer`          k from member `peer`
//   put, signal, wait_signal one-sided into `slot` of member `peer`
//   barrier                  nothing                     nothing
//
// Reductions: members are folded left in group order, with the accumulator of ReductionSchedule.
// sum and prod of integers wrap. avg divides the sum by n once at the end (integers truncate toward
// zero, as in NCCL). premul_sum multiplies each input by its scalar first. min and max return NaN
// if any input is NaN. bool has min, max, band, bor and bxor on 0 and 1. norm(p) sums |x|^p and
// takes the root at the end.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/base/fraction.h"
#include "shardproof/localtensor/collective/reduction_schedule.h"
#include "shardproof/localtensor/mesh/process_group.h"
#include "shardproof/localtensor/placement/placement.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

enum class CollectiveKind {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  all_to_all_v,
  exchange,
  broadcast,
  reduce,
  gather,
  scatter,
  barrier,
  send,
  recv,
  put,
  signal,
  wait_signal
};
std::string_view name(CollectiveKind kind);                                  // "all_reduce"
std::optional<CollectiveKind> parse_collective_kind(std::string_view text);  // inverse of name
bool reduces(CollectiveKind kind);            // all_reduce, reduce_scatter, reduce
bool has_shard_dim(CollectiveKind kind);      // all_gather, reduce_scatter, gather, scatter
bool has_equal_outputs(CollectiveKind kind);  // all_reduce, all_gather, broadcast
bool has_root(CollectiveKind kind);           // broadcast, reduce, gather, scatter
bool has_counts(CollectiveKind kind);         // all_to_all_v, exchange
bool is_point_to_point(CollectiveKind kind);  // send, recv, put, signal, wait_signal

struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  Reduction reduction;
  DType dtype = DType::f32;
  Group group;
  int64_t count = 0;             // k above
  int64_t root = 0;              // index in the group
  int64_t peer = 0;              // index in the group, for send, recv, put, signal, wait_signal
  int64_t slot = 0, repeat = 1;  // for put, signal, wait_signal; repeat: signals to wait for
  // If has_counts(kind): for each lane of this call, n entries in elements. `reference` has one
  // group and n entries for each member. A piece may be empty.
  std::vector<int64_t> send_counts, recv_counts;
  ReductionSchedule schedule;
  bool operator==(const Collective&) const = default;
};
// Returns the call as reports print it: "all_reduce(sum, group=tp)  bf16 x 16384".
std::string to_string(const Collective& collective);

// Returns S computed from the counts of the call, which include padding: the bytes of the group's
// whole tensor. For send, put, reduce, broadcast and calls with counts, those of `count`.
int64_t whole_bytes_of(const Collective& collective);
// Returns the bytes that a member sends, as an exact fraction, by the table in section 13 of
// docs/language.md. `whole_bytes` is S. For send, put, reduce, broadcast, all_to_all_v and exchange
// it is the bytes that the busiest member sends. A group of one member sends 0.
Fraction bytes_sent(CollectiveKind kind, int64_t members, int64_t whole_bytes);
// Returns the same, with S from the counts of the call. Requires a call without send_counts.
Fraction bytes_sent(const Collective& collective);

// Runs the call on one group. Inputs are one-lane tensors in group order; outputs are flat, one for
// each member, nullopt for a member that gets nothing. Requires a call that is not point-to-point
// (those are a copy). Throws Error(bad_input) for a reduction that is not legal on the dtype.
std::vector<std::optional<Tensor>> reference(const Collective& collective,
                                             const std::vector<Tensor>& inputs);

// Runs the call on one group whose inputs are packed bytes, empty for a member without input. Lane
// i of the result is member i.
LocalTensor reference(const Collective& collective,
                      const std::vector<std::span<const std::byte>>& inputs);

// Runs the call on a cohort: on all sibling groups that hold a lane of `input`. Requires all
// members of each (SP_CHECK). The result has the flat shape [output count]; lanes that get nothing
// are absent. Equal outputs share one stored copy.
LocalTensor reference(const Collective& collective, const LocalTensor& input);

// Returns the elementwise fold of `inputs`, a new dense tensor; also used for partials. Requires at
// least one input, and one shape and dtype.
Tensor reduce_all(const Reduction& reduction, const std::vector<Tensor>& inputs,
                  ReductionSchedule schedule = {});

}  // namespace shardproof
