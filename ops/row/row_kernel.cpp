// Implements ops/row/row_kernel.h.
#include "shardproof/ops/row/row_kernel.h"

#include "shardproof/localtensor/tensor/copy_strided.h"

namespace shardproof {
namespace {

// Transforms one row: convert to the compute type, transform, convert back. `raw` holds the
// elements of a row that is not contiguous.
void transform_row(const RowPlan& plan, const std::byte* in, DType in_dtype, std::byte* out,
                   DType out_dtype, std::byte* row, std::byte* raw) {
  // Dims are made for rows with gaps only: they take longer than a short row.
  if (plan.inner > 1) {
    copy_strided(in, {plan.inner}, raw, {1}, {plan.count}, size_of(in_dtype));
    in = raw;
  }
  std::byte* work = plan.inner == 1 && out_dtype == plan.compute ? out : row;
  convert(in, in_dtype, work, plan.compute, plan.count);
  plan.transform(work, plan.count);
  if (work == out) return;
  std::byte* to = plan.inner > 1 ? raw : out;
  convert(work, plan.compute, to, out_dtype, plan.count);
  if (plan.inner > 1) copy_strided(raw, {1}, out, {plan.inner}, {plan.count}, size_of(out_dtype));
}

}  // namespace

Kernel row_kernel(const Dims& shape, int dim, DType compute, RowTransform transform,
                  const std::type_info& type) {
  RowPlan plan;
  plan.compute = compute;
  plan.transform = transform;
  plan.type = &type;
  for (int d = 0; d < shape.size(); ++d)
    (d < dim ? plan.outer : d == dim ? plan.count : plan.inner) *= shape[d];
  Kernel kernel;
  kernel.workspace_bytes = 2 * plan.count * size_of(DType::c128);
  kernel.plan = share_plan(plan);
  kernel.run = [plan](const KernelCall& call) {
    const LaneView& in = call.inputs->front();
    const LaneView& out = call.outputs->front();
    const int64_t in_bytes = size_of(in.dtype), out_bytes = size_of(out.dtype);
    std::byte* raw = call.workspace + plan.count * size_of(DType::c128);
    if (plan.count == 0) return;
    for (int64_t lane = 0; lane < call.lanes; ++lane)
      for (int64_t i = 0; i < plan.outer * plan.inner; ++i) {
        const int64_t start = i / plan.inner * plan.count * plan.inner + i % plan.inner;
        transform_row(plan, in.at(lane) + start * in_bytes, in.dtype,
                      out.at(lane) + start * out_bytes, out.dtype, call.workspace, raw);
      }
  };
  return kernel;
}

}  // namespace shardproof
