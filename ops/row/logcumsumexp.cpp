// Registers logcumsumexp: the logarithm of running sums of exponentials, each relative to the
// largest element so far. The dim is never sharded.

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/row/row_gradients.h"
#include "shardproof/ops/row/row_kernel.h"
#include "shardproof/ops/row/row_transforms.h"

namespace shardproof {
namespace {

int logcumsumexp_dim(const OpCall& call) {
  return dim_of("logcumsumexp", call, call.attrs->integer("dim"));
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
    logcumsumexp_dim(call);
    return {{call.inputs[0].dtype, call.inputs[0].shape}};
  };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>&) {
    const DType compute = compute_dtype(call.inputs[0].dtype);
    const RowTransform run =
        compute == DType::f64 ? run_row<LogCumsumExpRow, double> : run_row<LogCumsumExpRow, float>;
    return row_kernel(call.inputs[0].shape, logcumsumexp_dim(call), compute, run,
                      typeid(LogCumsumExpRow));
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    std::string names = letters(call.inputs[0].shape.size());
    if (!names.empty()) names[static_cast<size_t>(logcumsumexp_dim(call))] = '1';
    return factor_strategies(notation_of(names, names), {});
  };
  op.samples = [] {
    const Attrs rows{{"dim", int64_t{0}}}, last{{"dim", int64_t{-1}}};
    return std::vector<Sample>{sample_of({{{5, 3}}, DType::f32, {"uniform(-3, 3)"}}, rows),
                               sample_of({{{2, 7}}, DType::bf16, {"uniform(-30, 30)"}}, last),
                               sample_of({{{6}}, DType::f64, {"uniform(-300, 300)"}}, last)};
  };
  op.gradient = gradients({logcumsumexp_gradient});
  accept_scalar_input(op);
  ops.add(std::move(op));
}

}  // namespace shardproof
