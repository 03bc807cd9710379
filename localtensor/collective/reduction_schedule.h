// ReductionSchedule: the order and precision in which a reduction folds, as `--order` names it, and
// the environment in which NCCL does the same. The orders are defined in reduction_order.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardproof {

enum class FoldOrder : uint8_t {
  rank,       // members in group order
  f32,        // members in group order, with f32 sums for narrower floats
  exact,      // sums of floats are rounded once, at the end
  ring,       // NCCL's ring
  tree,       // NCCL's double binary tree, a chain inside each node
  pat,        // NCCL's parallel aggregated trees
  symmetric,  // NCCL's kernels on symmetric memory that load from the members
  nvls,       // the NVLink switch adds, in an order that is not documented
};
enum class NcclProtocol : uint8_t { simple, ll, ll128 };

struct ReductionSchedule {
  FoldOrder order = FoldOrder::rank;
  NcclProtocol protocol = NcclProtocol::simple;
  int channels = 1;  // channels of the communicator; symmetric: thread blocks
  int nodes = 1;     // tree: nodes that the members are spread over, in equal parts
  int nccl = 0;      // N: channels are assigned as in NCCL 2.N; 0: as in 2.29 and newer
  bool operator==(const ReductionSchedule&) const = default;
};

// Returns the text without default settings: "rank", "f32", "exact", "ring(channels=4, nccl=2.28)",
// "tree(channels=2, protocol=ll, nodes=2)", "pat(channels=4)", "symmetric(channels=16,
// protocol=ll)", "nvls".
std::string to_string(const ReductionSchedule& schedule);
// Returns the inverse of to_string. Throws Error(bad_input) for other text, and for a setting that
// the order does not have.
ReductionSchedule parse_reduction_schedule(std::string_view text);

// Returns the environment in which NCCL uses this order: "NCCL_ALGO=Ring NCCL_PROTO=Simple ...";
// empty for an order that is not NCCL's.
std::string nccl_environment(const ReductionSchedule& schedule);

// Returns this order for NCCL of another version (22809 is 2.28.9).
ReductionSchedule with_nccl(ReductionSchedule schedule, int version);
// True if NCCL of that version is known to use this order in the environment of nccl_environment.
// Not known: versions before 2.23, PAT since 2.31, and trees over more than two nodes with several
// channels.
bool is_order_of_nccl(const ReductionSchedule& schedule, int version);

}  // namespace shardproof
