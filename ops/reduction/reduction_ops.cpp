// sum, prod, amax, amin, max, min, any, all: reductions that are one fold, and are partials of that
// fold when the reduced dim is cut.
#include <limits>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/formula.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/reduction/reducers.h"

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Kind { sum, product, max, min, any, all };

struct Row {
  const char* name;
  const char* summary;
  Kind kind;
  ReduceOp partial;
};

const Row kRows[] = {
    {"sum", "sum over dims; integers give i64", Kind::sum, ReduceOp::sum},
    {"prod", "product over dims; integers give i64", Kind::product, ReduceOp::prod},
    {"amax", "largest over dims, NaN if one is", Kind::max, ReduceOp::max},
    {"amin", "smallest over dims, NaN if one is", Kind::min, ReduceOp::min},
    {"max", "largest over dims, NaN if one is", Kind::max, ReduceOp::max},
    {"min", "smallest over dims, NaN if one is", Kind::min, ReduceOp::min},
    {"any", "one element is not 0", Kind::any, ReduceOp::max},
    {"all", "no element is 0", Kind::all, ReduceOp::min},
};

bool accumulates(Kind kind) { return kind == Kind::sum || kind == Kind::product; }
bool is_truth(Kind kind) { return kind == Kind::any || kind == Kind::all; }

DType result_of(const Row& row, const OpCall& call) {
  const DType in = call.inputs[0].dtype;
  if (is_truth(row.kind)) return in == DType::u8 ? in : DType::boolean;  // as in torch
  const bool whole = is_integral(in) || in == DType::boolean;
  return accumulates(row.kind) && whole ? DType::i64 : in;
}

std::vector<TensorMeta> infer_fold(const Row& row, const OpCall& call) {
  const DimMask mask = reduced_dims(row.name, call);
  if (is_complex(call.inputs[0].dtype) && (row.kind == Kind::max || row.kind == Kind::min))
    refuse(row.name, call, "not defined for {}", name(call.inputs[0].dtype));
  return {{result_of(row, call), reduced_shape(call.inputs[0].shape, mask, keeps_dims(call))}};
}

Reducer reducer_of(Kind kind, DType compute) {
  switch (kind) {
    case Kind::sum: return fold_reducer<SumFold>(compute);
    case Kind::product: return fold_reducer<ProductFold>(compute);
    case Kind::max: return fold_reducer<MaxFold>(compute);
    case Kind::min: return fold_reducer<MinFold>(compute);
    case Kind::any: return ReducerOf<FoldState<AnyFold, uint8_t>>::make();
    case Kind::all: return ReducerOf<FoldState<AllFold, uint8_t>>::make();
  }
  SP_UNREACHABLE("fold {}", static_cast<int>(kind));
}

// What an empty maximum is: the least value of the dtype.
ReduceNumbers identity_of(Kind kind, DType dtype) {
  ReduceNumbers numbers;
  const bool most = kind == Kind::max;
  const bool infinite = dtype != DType::f8e4m3;
  const double size = infinite ? kInfinity : max_finite(dtype);
  numbers.real = most ? -size : size;
  if (is_integral(dtype)) {
    const int64_t largest = dtype == DType::i64 ? std::numeric_limits<int64_t>::max()
                                                : static_cast<int64_t>(max_finite(dtype));
    numbers.whole = !most ? largest : is_signed(dtype) ? -largest - 1 : 0;
  } else {
    numbers.whole = most ? 0 : 1;
  }
  return numbers;
}

Kernel prepare_fold(const Row& row, const OpCall& call) {
  const DType result = result_of(row, call);
  const Reducer reducer = reducer_of(row.kind, compute_dtype(result));
  return reduce_kernel(reducer, identity_of(row.kind, result), call.inputs[0].shape,
                       reduced_dims(row.name, call));
}

std::vector<Linearity> linear_in(const Row& row, const OpCall& call, DType result) {
  const DType in = call.inputs[0].dtype;
  std::vector<ReduceOp> ops;
  switch (row.kind) {
    case Kind::sum: ops = {ReduceOp::sum, ReduceOp::avg}; break;
    case Kind::product: ops = {ReduceOp::prod}; break;
    case Kind::max: ops = {ReduceOp::max}; break;
    case Kind::min: ops = {ReduceOp::min}; break;
    // `any` of a maximum of bools; of other dtypes a negative maximum is not 0 either.
    case Kind::any: ops = {ReduceOp::max, ReduceOp::bor}; break;
    case Kind::all: ops = {ReduceOp::min, ReduceOp::band}; break;
  }
  if (is_truth(row.kind) && in != DType::boolean) return {};
  std::erase_if(ops, [&](ReduceOp op) { return !conversion_keeps(op, in, result); });
  return {{ops, {0}}};
}

std::vector<Strategy> fold_strategies(const Row& row, const OpCall& call, DType result) {
  FactorOptions options;
  options.reduction = {row.partial, 0};
  options.linear = linear_in(row, call, result);
  std::string notation = reduction_notation(call, reduced_dims(row.name, call));
  if (call.inputs.size() > 1) notation.insert(notation.find("->"), ",");  // the second is absent
  return factor_strategies(notation, options);
}

std::vector<Sample> fold_samples(const Row& row) {
  std::vector<Sample> samples;
  const bool truth = is_truth(row.kind);
  const std::string ints = row.kind == Kind::product ? "ints(1, 3)" : "ints";
  const std::string reals = row.kind == Kind::product ? "uniform(0.5, 1.5)" : "uniform(-1, 1)";
  auto add = [&](DType dtype, const Dims& shape, const std::string& fill, Attrs attrs) {
    samples.push_back({std::move(attrs), {{dtype, shape}}, {fill}});
  };
  add(DType::f32, {4, 6}, ints, {});
  add(DType::f32, {5, 3}, reals, {{"dim", std::vector<int64_t>{0}}});
  add(DType::bf16, {3, 2, 4}, reals, {{"dim", std::vector<int64_t>{0, 2}}, {"keepdim", true}});
  add(DType::f64, {7}, reals, {{"dim", std::vector<int64_t>{}}, {"keepdim", true}});
  add(DType::i32, {5, 2}, ints, {{"dim", std::vector<int64_t>{-1}}});
  add(DType::i64, {3, 5}, ints, {{"dim", int64_t{1}}});
  add(DType::boolean, {4, 2}, "bools", {{"dim", std::vector<int64_t>{0}}});
  if (truth) add(DType::f32, {6}, "ints", {});
  if (std::string_view(row.name) == "max" || std::string_view(row.name) == "min")
    for (Sample& sample : samples) sample.inputs.push_back(absent_input());
  return samples;
}

OpRecord fold_record(const Row& row) {
  OpRecord op;
  op.name = row.name;
  op.family = "reduction";
  op.summary = row.summary;
  op.params = reduction_params();
  op.infer = [&row](const OpCall& call) { return infer_fold(row, call); };
  if (row.kind == Kind::max || row.kind == Kind::min)
    op.check = [&row](const OpCall& call, const std::vector<const Number*>&) {
      if (!present(call, 1)) refuse_no_elements(row.name, call);
    };
  op.prepare = [&row](const OpCall& call, const std::vector<TensorMeta>&) {
    return prepare_fold(row, call);
  };
  op.rule.strategies = [&row](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return fold_strategies(row, call, outputs.front().dtype);
  };
  op.cost = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    const auto in = static_cast<double>(element_count(call.inputs[0].shape));
    const auto out = static_cast<double>(element_count(outputs[0].shape));
    return OpCost{in, in * static_cast<double>(size_of(call.inputs[0].dtype)) +
                          out * static_cast<double>(size_of(outputs[0].dtype))};
  };
  op.samples = [&row] { return fold_samples(row); };
  return op;
}

// maximum(x, y) under the name of max, and values, indices = max(x, dim=1): as in torch.
void give_indices(OpRecord& op, const char* values, const char* indices) {
  op.params[1] = params::or_tensor(op.params[1], "y");
  op.params.push_back(params::optional_tensor("y"));
  decompose_when(
      op, [](const OpCall& call) { return call.wanted == 2; },
      [values, indices](Formula& f) {
        if (!f.given("dim")) f.refuse("without dim there are no indices");
        const bool truths = f[0].dtype() == DType::boolean;
        const FormulaTerm ordered = truths ? f.to(DType::u8, f[0]) : f[0];
        return std::vector<FormulaTerm>{f.op(values, {f[0]}, f.over()),
                                        f.op(indices, {ordered}, f.over())};
      });
  decompose_when(
      op, [](const OpCall& call) { return present(call, 1); },
      [larger = op.name == "max"](Formula& f) {
        if (f.given("dim")) f.refuse("takes a dim or a second tensor, not both");
        return std::vector<FormulaTerm>{larger ? max_of(f[0], f[1]) : min_of(f[0], f[1])};
      });
}

}  // namespace

void add_reduction_ops(OpRegistry& ops) {
  for (const Row& row : kRows) {
    OpRecord op = fold_record(row);
    const std::string_view name = row.name;
    if (name == "max") give_indices(op, "amax", "argmax");
    if (name == "min") give_indices(op, "amin", "argmin");
    if (accumulates(row.kind)) add_dtype_parameter(op);
    ops.add(std::move(op));
  }
}

}  // namespace shardproof
