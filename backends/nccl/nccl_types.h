// What NCCL has of our dtypes and reductions. Internal to the nccl backend.
#pragma once

#include "shardproof/backends/nccl/nccl_api.h"
#include "shardproof/localtensor/collective/partial_fold.h"

namespace shardproof {

// As which type NCCL reduces elements, and how many of them each is (complex numbers are two);
// 0 elements: it does not.
struct NcclElements {
  int type = nccl::u8;
  int each = 0;
};
NcclElements nccl_elements(DType dtype);

// Whether NCCL makes this reduction of that dtype.
bool nccl_reduces(const Reduction& reduction, DType dtype);
// Whether the algorithms that NCCL is told to take for an order include one for it, whose bits are
// those of the order.
bool has_algorithm(const ReductionSchedule& order, const Reduction& reduction, DType dtype);
// Its operator; kOps: one that is made for the scalar.
int nccl_op(const Reduction& reduction, FoldPart part);

}  // namespace shardproof
