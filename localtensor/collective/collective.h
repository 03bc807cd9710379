// Collective: one communication call as a value, and `reference`, its one meaning. The planner,
// gate, cost models, recorder, faults, reports and every backend share this noun.
//
// Counts follow NCCL: elements are flat (row-major, contiguous). With n members and `count` = k:
//   all_reduce, reduce, broadcast   k in, k out        (reduce: out only on root; broadcast: root's
//   input) all_gather                      k in, n*k out      reduce_scatter   n*k in, k out
//   all_to_all                      k in, k out, piece i of k/n to member i
//   all_to_all_v                    pieces of send_counts in, of recv_counts out (elements)
//   gather / scatter                k in, n*k out on root / n*k in on root, k out
//   send / recv                     k to / from member `peer`
//   put / signal / wait_signal      one-sided into `slot` of member `peer`
//   barrier                         nothing
// Reduction rules: members fold left in group order with an accumulator as in ReductionSchedule;
// sum/prod of integers wrap; avg divides the sum once by n at the end (integers truncate toward
// zero); premul_sum multiplies each input by its scalar first; min/max return NaN when any input is
// NaN; bool does min/max/ band/bor/bxor as 0 and 1; norm(p) sums |x|^p and takes the root at the
// end.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/base/fraction.h"
#include "shardproof/localtensor/collective/reduction_schedule.h"
#include "shardproof/localtensor/mesh/group.h"
#include "shardproof/localtensor/placement/placement.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

enum class CollectiveKind {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  all_to_all_v,
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
std::string_view name(CollectiveKind kind);
std::optional<CollectiveKind> parse_collective_kind(std::string_view text);
bool reduces(CollectiveKind kind);
bool has_root(CollectiveKind kind);
bool is_point_to_point(CollectiveKind kind);  // send, recv, put, signal, wait_signal

struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  Reduction reduction;
  DType dtype = DType::f32;
  Group group;
  int64_t count = 0;             // k above
  int64_t root = 0;              // index in the group
  int64_t peer = 0;              // index in the group, of send/recv/put/signal/wait_signal
  int64_t slot = 0, repeat = 1;  // put/signal/wait_signal
  // Of all_to_all_v: n entries for each lane of this call, lane after lane (in `reference` over one
  // group: member after member). Empty pieces are legal.
  std::vector<int64_t> send_counts, recv_counts;
  ReductionSchedule schedule;
  bool operator==(const Collective&) const = default;
};
// "all_reduce(sum, group=tp)  bf16 x 16384": the call as reports print it.
std::string to_string(const Collective& collective);

// Bytes a member sends, by the table of the scenario language (section 13): an exact fraction.
// `whole_bytes` is S, the bytes of the whole tensor of the group without padding; of calls that
// send what they really send (send, put, reduce, all_to_all_v): what the fullest member sends. A
// group of one sends nothing.
Fraction bytes_sent(CollectiveKind kind, int64_t members, int64_t whole_bytes);

// The one meaning, on one group: inputs in group order (one-lane tensors, flat order), one output
// each (an empty optional where the member gets nothing). Not for point-to-point calls, whose
// meaning is a copy.
std::vector<std::optional<Tensor>> reference(const Collective& collective,
                                             const std::vector<Tensor>& inputs);

// The same on one group whose members bring their elements as bytes (none where they bring
// nothing). Lane i of the answer is member i.
LocalTensor reference(const Collective& collective,
                      const std::vector<std::span<const std::byte>>& inputs);

// The same on a cohort: all sibling groups that hold a lane of `input` (one whose members are not
// all there is an SP_CHECK). The result has flat shape [out count]; lanes that get nothing are
// absent. Equal outputs share a copy.
LocalTensor reference(const Collective& collective, const LocalTensor& input);

// Folds `inputs` elementwise into a fresh dense tensor (used for partials too).
Tensor reduce_all(const Reduction& reduction, const std::vector<Tensor>& inputs,
                  ReductionSchedule schedule = {});

}  // namespace shardproof
