// ReductionSchedule: in which order and precision a reduction folds, as `--order` names it, and
// under which environment NCCL does the same. What each order means: reduction_order.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardproof {

enum class FoldOrder : uint8_t {
  rank,       // members in group order
  f32,        // the same, with f32 sums for narrower floats
  exact,      // sums of floats without any rounding before the last
  ring,       // NCCL's ring
  tree,       // NCCL's double binary tree, a chain inside each node
  pat,        // NCCL's parallel aggregated trees
  symmetric,  // NCCL's kernels on symmetric memory that load from the members
  nvls,       // the switch adds: in an order that nobody promises
};
enum class NcclProtocol : uint8_t { simple, ll, ll128 };

struct ReductionSchedule {
  FoldOrder order = FoldOrder::rank;
  NcclProtocol protocol = NcclProtocol::simple;
  int channels = 1;  // that the communicator has (symmetric: thread blocks)
  int nodes = 1;     // that the members of a tree lie on, in equal parts
  int nccl = 0;      // the N of the NCCL 2.N that deals calls out to channels; 0: 29 or more
  bool operator==(const ReductionSchedule&) const = default;
};

// "rank", "f32", "exact", "ring(channels=4, nccl=2.28)", "tree(channels=2, protocol=ll, nodes=2)",
// "pat(channels=4)", "symmetric(channels=16, protocol=ll)", "nvls": what is default is left out.
// Error(bad_input) for anything else.
std::string to_string(const ReductionSchedule& schedule);
ReductionSchedule parse_reduction_schedule(std::string_view text);

// The environment under which NCCL adds so: "NCCL_ALGO=Ring NCCL_PROTO=Simple ..."; empty for the
// orders that are none of NCCL's.
std::string nccl_pins(const ReductionSchedule& schedule);

// What this order is with NCCL of another version (22809: 2.28.9).
ReductionSchedule with_nccl(ReductionSchedule schedule, int version);
// Whether NCCL of that version adds so, in that environment. It is not known of those before 2.23,
// of PAT since 2.31, nor of several channels with trees over more than two nodes.
bool is_order_of_nccl(const ReductionSchedule& schedule, int version);

}  // namespace shardproof
