// Registers softmax and log_softmax along a dim. Over a sharded dim they lower to a maximum and a
// sum of exponentials, both all-reduced.

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/row/row_gradients.h"
#include "shardproof/ops/row/row_kernel.h"
#include "shardproof/ops/row/row_transforms.h"

namespace shardproof {
namespace {

struct SoftmaxOpRow {
  const char* name;
  const char* summary;
  RowTransform narrow, wide;
  const std::type_info& type;
  bool logarithm;
};
const SoftmaxOpRow kSoftmaxRows[] = {
    {"softmax", "exp(x) / sum(exp(x)) along dim", run_row<SoftmaxRow, float>,
     run_row<SoftmaxRow, double>, typeid(SoftmaxRow), false},
    {"log_softmax", "x - log(sum(exp(x))) along dim", run_row<LogSoftmaxRow, float>,
     run_row<LogSoftmaxRow, double>, typeid(LogSoftmaxRow), true},
};

int softmax_dim(const SoftmaxOpRow& row, const OpCall& call) {
  return dim_of(row.name, call, call.attrs->integer("dim"));
}

std::vector<Strategy> softmax_strategies(const SoftmaxOpRow& row, const OpCall& call,
                                         const std::vector<TensorMeta>&) {
  const char active = static_cast<char>('a' + softmax_dim(row, call));
  const std::string all = letters(call.inputs[0].shape.size());
  FactorOptions options;
  options.form_of[active] = LocalExecution::lower_to_ops;
  return factor_strategies(all + "->" + all, options);
}

int lower_softmax(const SoftmaxOpRow& row, const OpCall& call, LowerBuilder& b) {
  const Attrs over{{"dim", std::vector<int64_t>{softmax_dim(row, call)}}, {"keepdim", true}};
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

std::vector<Sample> softmax_samples(const SoftmaxOpRow&) {
  const Attrs last{{"dim", int64_t{-1}}}, first{{"dim", int64_t{0}}}, middle{{"dim", int64_t{1}}};
  return {{last, {{DType::f32, {4, 6}}}, {"ints"}},
          {first, {{DType::f32, {5, 3}}}, {"uniform(-4, 4)"}},
          {middle, {{DType::bf16, {2, 5, 3}}}, {"uniform(-4, 4)"}},
          {last, {{DType::f64, {7}}}, {"uniform(-30, 30)"}},
          {last, {{DType::f32, {}}}, {"ints"}}};
}

std::vector<TensorMeta> infer_softmax(const SoftmaxOpRow& row, const OpCall& call) {
  require_floating(row.name, call, 0);
  softmax_dim(row, call);
  return {{call.inputs[0].dtype, call.inputs[0].shape}};
}

Kernel prepare_softmax(const SoftmaxOpRow& row, const OpCall& call,
                       const std::vector<TensorMeta>&) {
  const DType compute = compute_dtype(call.inputs[0].dtype);
  return row_kernel(call.inputs[0].shape, softmax_dim(row, call), compute,
                    compute == DType::f64 ? row.wide : row.narrow, row.type);
}

void complete_softmax(const SoftmaxOpRow& row, OpRecord& op) {
  op.rule.lower = [&row](const OpCall& call, const std::vector<Spec>&, LowerBuilder& b) {
    return std::vector<int>{lower_softmax(row, call, b)};
  };
  op.cost = [](const OpCall& call, const std::vector<TensorMeta>&) {
    const auto n = static_cast<double>(element_count(call.inputs[0].shape));
    return OpCost{5 * n, 2 * n * static_cast<double>(size_of(call.inputs[0].dtype))};
  };
  op.gradient = gradients({row.logarithm ? log_softmax_gradient : softmax_gradient});
  accept_scalar_input(op);
  add_dtype_parameter(op);
}

const OpTable<SoftmaxOpRow> kSoftmaxTable = {"softmax",
                                             [](const SoftmaxOpRow&) -> std::vector<Param> {
                                               return {params::tensor("x"), params::integer("dim")};
                                             },
                                             infer_softmax,
                                             prepare_softmax,
                                             softmax_strategies,
                                             softmax_samples,
                                             complete_softmax};

}  // namespace

void add_softmax_ops(OpRegistry& ops) { add_rows(ops, kSoftmaxTable, kSoftmaxRows); }

}  // namespace shardproof
