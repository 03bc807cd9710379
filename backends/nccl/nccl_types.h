// Maps dtypes and reductions to NCCL's. Internal to the nccl backend.
#pragma once

#include "shardproof/backends/nccl/nccl_api.h"
#include "shardproof/localtensor/collective/partial_fold.h"

namespace shardproof {

// The NCCL type that reduces a dtype, and how many of its elements make one (complex: 2). 0: NCCL
// cannot reduce it.
struct NcclElements {
  int type = nccl::u8;
  int each = 0;
};
NcclElements nccl_elements(DType dtype);

// True if NCCL can make this reduction of that dtype.
bool nccl_reduces(const Reduction& reduction, DType dtype);
// True if one of the algorithms to which NCCL is set for `order` can make the reduction with
// exactly the bits of that order.
bool has_algorithm(const ReductionSchedule& order, const Reduction& reduction, DType dtype);
// False if this version of NCCL leaves elements unwritten where a communicator has one rank. Before
// 2.29.7, oneRankReduce (onerank.cu) omits the last elements of scaled sums.
bool writes_single_rank(const Reduction& reduction, int version);
// Returns NCCL's operator; kOps: one that must be created for the scalar.
int nccl_op(const Reduction& reduction, FoldPart part);

}  // namespace shardproof
