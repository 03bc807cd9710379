// Implements nccl_types.h.
#include "shardproof/backends/nccl/nccl_types.h"

namespace shardproof {
namespace {

// True if the dtype holds the value exactly: NCCL takes the factor in the dtype.
bool is_exact_in(double value, DType dtype) {
  const DType part = component_dtype(dtype);
  alignas(16) std::byte element[16];
  store_f64(element, part, value);
  return load_f64(element, part) == value;
}

bool scales(const Reduction& reduction) {
  return reduction.op == ReduceOp::avg || reduction.op == ReduceOp::premul_sum;
}

}  // namespace

// Excludes 8-bit floats, which NCCL adds on some GPUs only, and 16-bit integers, which it lacks.
NcclElements nccl_elements(DType dtype) {
  switch (dtype) {
    case DType::f64: return {nccl::f64, 1};
    case DType::f32: return {nccl::f32, 1};
    case DType::f16: return {nccl::f16, 1};
    case DType::bf16: return {nccl::bf16, 1};
    case DType::i64: return {nccl::i64, 1};
    case DType::i32: return {nccl::i32, 1};
    case DType::i8: return {nccl::i8, 1};
    case DType::u8:
    case DType::boolean: return {nccl::u8, 1};
    case DType::c64: return {nccl::f32, 2};
    case DType::c128: return {nccl::f64, 2};
    default: return {};
  }
}

bool nccl_reduces(const Reduction& reduction, DType dtype) {
  if (nccl_elements(dtype).each == 0) return false;
  switch (reduction.op) {
    case ReduceOp::sum:
    case ReduceOp::avg: return true;
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::max: return !is_complex(dtype);
    case ReduceOp::band:
    case ReduceOp::bor: return dtype == DType::boolean;  // min and max of 0 and 1
    case ReduceOp::premul_sum: return is_exact_in(reduction.scalar, dtype);
    default: return false;
  }
}

bool writes_single_rank(const Reduction& reduction, int version) {
  constexpr int kMended = 22907;
  return version >= kMended || !scales(reduction);
}

bool has_algorithm(const ReductionSchedule& order, const Reduction& reduction, DType dtype) {
  const bool rounds_products = scales(reduction) && !is_integral(dtype);
  switch (order.order) {
    case FoldOrder::pat: return !scales(reduction);
    // The compiler decides which products are rounded before they are added.
    case FoldOrder::ring: return !rounds_products || order.protocol != NcclProtocol::ll128;
    case FoldOrder::tree:
      // With several channels the two trees have their roots on two nodes.
      return !rounds_products ||
             (order.protocol != NcclProtocol::ll128 && (order.channels == 1 || order.nodes == 1));
    case FoldOrder::nvls: break;
    default: return true;
  }
  const NcclElements elements = nccl_elements(dtype);
  switch (elements.type) {
    case nccl::f32:
    case nccl::f64: return reduction.op == ReduceOp::sum;
    case nccl::i8:
    case nccl::u8: return false;
    default: return !scales(reduction) && reduction.op != ReduceOp::prod;
  }
}

int nccl_op(const Reduction& reduction, FoldPart part) {
  const bool whole = part == FoldPart::whole;
  switch (reduction.op) {
    case ReduceOp::prod: return nccl::prod;
    case ReduceOp::min: return nccl::min;
    case ReduceOp::max: return nccl::max;
    case ReduceOp::band: return nccl::min;
    case ReduceOp::bor: return nccl::max;
    case ReduceOp::avg: return whole ? nccl::avg : nccl::sum;
    case ReduceOp::premul_sum: return whole ? nccl::kOps : nccl::sum;
    default: return nccl::sum;
  }
}

}  // namespace shardproof
