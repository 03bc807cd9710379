// logcumsumexp: the logarithm of running sums of exponentials, each relative to the largest so far.
// The dim stays whole on each rank.
#include <algorithm>
#include <cmath>
#include <limits>

#include "shardproof/ops/call_text.h"
#include "shardproof/ops/elementwise_bound.h"
#include "shardproof/ops/families.h"
#include "shardproof/ops/formula.h"
#include "shardproof/ops/params.h"
#include "shardproof/ops/row_kernel.h"
#include "shardproof/ops/row_transforms.h"

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int active_dim(const OpCall& call) {
  return dim_of("logcumsumexp", call, call.attrs->integer("dim"));
}

// A sum moves no further than the greatest of its terms' moves. Each step rounds a product, a sum
// and two exponentials; what exponents are off by adds up to the way of the largest so far.
std::vector<Bound> bound(const BoundCall& call) {
  const Tensor& x = *call.inputs[0];
  const Tensor& out = *call.outputs[0];
  const DType wide = compute_dtype(x.dtype);
  const double u = unit_roundoff(wide), last = wide == out.dtype ? 0 : unit_roundoff(out.dtype);
  const std::vector<double> values = values_as(x, wide), results = values_of(out);
  const int dim = active_dim(*call.call);
  const int64_t stride = contiguous_strides(x.shape)[dim];
  std::vector<double> errors(values.size()), worst(values.size()), size(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / stride % x.shape[dim];
    const size_t before = i - static_cast<size_t>(at > 0 ? stride : 0);
    const double error = error_of(*call.input_bounds[0], static_cast<int64_t>(i));
    const double here = std::isfinite(values[i]) ? std::fabs(values[i]) : 0;
    worst[i] = std::max(error, at > 0 ? worst[before] : 0);
    size[i] = std::max(here, at > 0 ? size[before] : 0);
    if (!std::isfinite(results[i])) {
      errors[i] = worst[i] == 0 ? 0 : kInfinity;
      continue;
    }
    const double reach = std::fabs(results[i]) + size[i] + 2 * worst[i];
    errors[i] = 2 * worst[i] + gamma(10 * (at + 2), u) + 8 * u * reach + last * reach +
                rounding_error(0x1p-1000, out.dtype, 1);
  }
  return {bound_from_errors(out, std::move(errors))};
}

}  // namespace

void add_logcumsumexp(OpRegistry& ops) {
  OpRecord op;
  op.name = "logcumsumexp";
  op.family = "softmax";
  op.summary = "log of the running sum of exp(x) along dim";
  op.params = {params::tensor("x"), params::integer("dim")};
  op.infer = [](const OpCall& call) -> std::vector<TensorMeta> {
    require_floating("logcumsumexp", call, 0);
    active_dim(call);
    return {{call.inputs[0].dtype, call.inputs[0].shape}};
  };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>&) {
    const DType compute = compute_dtype(call.inputs[0].dtype);
    const RowTransform run =
        compute == DType::f64 ? run_row<LogCumsumExpRow, double> : run_row<LogCumsumExpRow, float>;
    return row_kernel(call.inputs[0].shape, active_dim(call), compute, run,
                      typeid(LogCumsumExpRow));
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    std::string names = letters(call.inputs[0].shape.size());
    if (!names.empty()) names[static_cast<size_t>(active_dim(call))] = '1';
    return factor_strategies(notation_of(names, names), {});
  };
  op.bound = bound;
  op.samples = [] {
    const Attrs rows{{"dim", int64_t{0}}}, last{{"dim", int64_t{-1}}};
    return std::vector<Sample>{sample_of({{{5, 3}}, DType::f32, {"uniform(-3, 3)"}}, rows),
                               sample_of({{{2, 7}}, DType::bf16, {"uniform(-30, 30)"}}, last),
                               sample_of({{{6}}, DType::f64, {"uniform(-300, 300)"}}, last)};
  };
  lift_scalars(op);
  ops.add(std::move(op));
}

}  // namespace shardproof
