// softmax and log_softmax along a dim. Over a cut dim they lower to a maximum and a sum of
// exponentials, all-reduced.

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/formula.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/row/row_kernel.h"
#include "shardproof/ops/row/row_transforms.h"

namespace shardproof {
namespace {

struct Row {
  const char* name;
  const char* summary;
  RowTransform narrow, wide;
  const std::type_info& type;
  bool logarithm;
};
const Row kRows[] = {
    {"softmax", "exp(x) / sum(exp(x)) along dim", run_row<SoftmaxRow, float>,
     run_row<SoftmaxRow, double>, typeid(SoftmaxRow), false},
    {"log_softmax", "x - log(sum(exp(x))) along dim", run_row<LogSoftmaxRow, float>,
     run_row<LogSoftmaxRow, double>, typeid(LogSoftmaxRow), true},
};

int dim_of_call(const Row& row, const OpCall& call) {
  return dim_of(row.name, call, call.attrs->integer("dim"));
}

std::vector<Strategy> softmax_strategies(const Row& row, const OpCall& call) {
  const char active = static_cast<char>('a' + dim_of_call(row, call));
  const std::string all = letters(call.inputs[0].shape.size());
  FactorOptions options;
  options.form_of[active] = LocalExecution::lower_to_ops;
  return factor_strategies(all + "->" + all, options);
}

int lower_softmax(const Row& row, const OpCall& call, LowerBuilder& b) {
  const Attrs over{{"dim", std::vector<int64_t>{dim_of_call(row, call)}}, {"keepdim", true}};
  const DType dtype = call.inputs[0].dtype, wide = compute_dtype(dtype);
  const int x = dtype == wide ? b.input(0) : b.op("cast", {{"dtype", wide}}, {b.input(0)});
  const int most = b.replicate_partials(b.op("amax", over, {x}));
  const int moved = b.op("sub", {}, {x, most});
  const int powers = b.op("exp", {}, {moved});
  const int sum = b.replicate_partials(b.op("sum", over, {powers}));
  const int result = row.logarithm ? b.op("sub", {}, {moved, b.op("log", {}, {sum})})
                                   : b.op("div", {}, {powers, sum});
  return dtype == wide ? result : b.op("cast", {{"dtype", dtype}}, {result});
}

std::vector<Sample> softmax_samples() {
  const Attrs last{{"dim", int64_t{-1}}}, first{{"dim", int64_t{0}}}, middle{{"dim", int64_t{1}}};
  return {{last, {{DType::f32, {4, 6}}}, {"ints"}},
          {first, {{DType::f32, {5, 3}}}, {"uniform(-4, 4)"}},
          {middle, {{DType::bf16, {2, 5, 3}}}, {"uniform(-4, 4)"}},
          {last, {{DType::f64, {7}}}, {"uniform(-30, 30)"}},
          {last, {{DType::f32, {}}}, {"ints"}}};
}

OpRecord softmax_record(const Row& row) {
  OpRecord op;
  op.name = row.name;
  op.family = "softmax";
  op.summary = row.summary;
  op.params = {{"x", ParamKind::tensor, true, {}}, {"dim", ParamKind::integer, true, {}}};
  op.infer = [&row](const OpCall& call) -> std::vector<TensorMeta> {
    require_floating(row.name, call, 0);
    dim_of_call(row, call);
    return {{call.inputs[0].dtype, call.inputs[0].shape}};
  };
  op.prepare = [&row](const OpCall& call, const std::vector<TensorMeta>&) {
    const DType compute = compute_dtype(call.inputs[0].dtype);
    return row_kernel(call.inputs[0].shape, dim_of_call(row, call), compute,
                      compute == DType::f64 ? row.wide : row.narrow, row.type);
  };
  op.rule.strategies = [&row](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return softmax_strategies(row, call);
  };
  op.rule.lower = [&row](const OpCall& call, const std::vector<Spec>&, LowerBuilder& b) {
    return std::vector<int>{lower_softmax(row, call, b)};
  };
  op.cost = [](const OpCall& call, const std::vector<TensorMeta>&) {
    const auto n = static_cast<double>(element_count(call.inputs[0].shape));
    return OpCost{5 * n, 2 * n * static_cast<double>(size_of(call.inputs[0].dtype))};
  };
  op.samples = softmax_samples;
  accept_scalar_input(op);
  add_dtype_parameter(op);
  return op;
}

}  // namespace

void add_softmax_ops(OpRegistry& ops) {
  for (const Row& row : kRows) ops.add(softmax_record(row));
}

}  // namespace shardproof
