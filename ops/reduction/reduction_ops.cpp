// Registers sum, prod, amax, amin, max, min, any, all: reductions that are one fold. Over a sharded
// dim each gives the partial of its fold. max and min with two results or two tensors decompose.
#include <limits>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/reduction/reducers.h"
#include "shardproof/ops/reduction/reduction_gradients.h"

namespace shardproof {
namespace {

enum class FoldKind { sum, product, max, min, any, all };

struct FoldRow {
  const char* name;
  const char* summary;
  FoldKind kind;
  ReduceOp partial;
  const char* values = nullptr;   // set for max and min: the op of the values, for two results
  const char* indices = nullptr;  // and the op of their indices
};

const FoldRow kFoldRows[] = {
    {"sum", "sum over dims; integers give i64", FoldKind::sum, ReduceOp::sum},
    {"prod", "product over dims; integers give i64", FoldKind::product, ReduceOp::prod},
    {"amax", "largest over dims, NaN if one is", FoldKind::max, ReduceOp::max},
    {"amin", "smallest over dims, NaN if one is", FoldKind::min, ReduceOp::min},
    {"max", "largest over dims, NaN if one is", FoldKind::max, ReduceOp::max, "amax", "argmax"},
    {"min", "smallest over dims, NaN if one is", FoldKind::min, ReduceOp::min, "amin", "argmin"},
    {"any", "one element is not 0", FoldKind::any, ReduceOp::max},
    {"all", "no element is 0", FoldKind::all, ReduceOp::min},
};

bool accumulates(FoldKind kind) { return kind == FoldKind::sum || kind == FoldKind::product; }
bool is_truth(FoldKind kind) { return kind == FoldKind::any || kind == FoldKind::all; }

DType fold_result_dtype(const FoldRow& row, const OpCall& call) {
  const DType in = call.inputs[0].dtype;
  if (is_truth(row.kind)) return in == DType::u8 ? in : DType::boolean;  // as in torch
  const bool whole = is_integral(in) || in == DType::boolean;
  return accumulates(row.kind) && whole ? DType::i64 : in;
}

std::vector<TensorMeta> infer_fold(const FoldRow& row, const OpCall& call) {
  const DimMask mask = reduced_dims(row.name, call);
  if (is_complex(call.inputs[0].dtype) && (row.kind == FoldKind::max || row.kind == FoldKind::min))
    refuse(row.name, call, "not defined for {}", name(call.inputs[0].dtype));
  return {
      {fold_result_dtype(row, call), reduced_shape(call.inputs[0].shape, mask, has_keepdim(call))}};
}

Reducer fold_reducer_of(FoldKind kind, DType compute) {
  switch (kind) {
    case FoldKind::sum: return fold_reducer<SumFold>(compute);
    case FoldKind::product: return fold_reducer<ProductFold>(compute);
    case FoldKind::max: return fold_reducer<MaxFold>(compute);
    case FoldKind::min: return fold_reducer<MinFold>(compute);
    case FoldKind::any: return ReducerOf<FoldState<AnyFold, uint8_t>>::make();
    case FoldKind::all: return ReducerOf<FoldState<AllFold, uint8_t>>::make();
  }
  SP_UNREACHABLE("fold {}", static_cast<int>(kind));
}

// Returns the value of an empty maximum (minimum): the least (largest) value of the dtype.
ReduceNumbers identity_of(FoldKind kind, DType dtype) {
  ReduceNumbers numbers;
  const bool most = kind == FoldKind::max;
  const bool infinite = dtype != DType::f8e4m3;
  const double size = infinite ? params::kInfinity : max_finite(dtype);
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

Kernel prepare_fold(const FoldRow& row, const OpCall& call, const std::vector<TensorMeta>&) {
  const DType result = fold_result_dtype(row, call);
  const Reducer reducer = fold_reducer_of(row.kind, compute_dtype(result));
  return reduce_kernel(reducer, identity_of(row.kind, result), call.inputs[0].shape,
                       reduced_dims(row.name, call));
}

std::vector<PartialPropagation> linear_in(const FoldRow& row, const OpCall& call, DType result) {
  const DType in = call.inputs[0].dtype;
  std::vector<ReduceOp> ops;
  switch (row.kind) {
    case FoldKind::sum: ops = {ReduceOp::sum, ReduceOp::avg}; break;
    case FoldKind::product: ops = {ReduceOp::prod}; break;
    case FoldKind::max: ops = {ReduceOp::max}; break;
    case FoldKind::min: ops = {ReduceOp::min}; break;
    // Holds for bools only: for other dtypes a negative maximum is not 0, and counts as true too.
    case FoldKind::any: ops = {ReduceOp::max, ReduceOp::bor}; break;
    case FoldKind::all: ops = {ReduceOp::min, ReduceOp::band}; break;
  }
  if (is_truth(row.kind) && in != DType::boolean) return {};
  std::erase_if(ops, [&](ReduceOp op) { return !can_convert_partial(op, in, result); });
  return joint_partial_rules(ops, {0});
}

std::vector<Strategy> fold_strategies(const FoldRow& row, const OpCall& call,
                                      const std::vector<TensorMeta>& outputs) {
  FactorOptions options;
  options.reduction = {row.partial, 0};
  options.partials = linear_in(row, call, outputs.front().dtype);
  std::string notation = reduction_notation(call, reduced_dims(row.name, call));
  if (call.inputs.size() > 1)
    notation.insert(notation.find("->"), ",");  // the second input is absent
  return factor_strategies(notation, options);
}

std::vector<Sample> fold_samples(const FoldRow& row) {
  std::vector<Sample> samples;
  const bool truth = is_truth(row.kind);
  const std::string ints = row.kind == FoldKind::product ? "ints(1, 3)" : "ints";
  const std::string reals = row.kind == FoldKind::product ? "uniform(0.5, 1.5)" : "uniform(-1, 1)";
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
  if (row.kind == FoldKind::product) {  // with zeros
    add(DType::f64, {3, 4}, "ints(0, 3)", {{"dim", int64_t{0}}});
    add(DType::f64, {2, 3}, "ints(0, 3)", {});
  }
  if (row.values)
    for (Sample& sample : samples) sample.inputs.push_back(absent_input());
  return samples;
}

// Adds torch's other forms: max(x, y) is maximum(x, y), and values, indices = max(x, dim=1).
void give_indices(const FoldRow& row, OpRecord& op) {
  op.params[1] = params::or_tensor(op.params[1], "y");
  op.params.push_back(params::optional_tensor("y"));
  decompose_when(
      op, [](const OpCall& call) { return call.wanted == 2; },
      [values = row.values, indices = row.indices](Formula& f) {
        if (!f.given("dim"))
          f.refuse(
              "two results are the values and indices along a dim; add dim=.., or bind one name");
        const bool truths = f[0].dtype() == DType::boolean;
        const FormulaTerm ordered = truths ? f.to(DType::u8, f[0]) : f[0];
        return std::vector<FormulaTerm>{f.op(values, {f[0]}, f.over()),
                                        f.op(indices, {ordered}, f.over())};
      });
  op.decompositions.front().gradient =
      gradients({[indices = row.indices](Gradient& g) { return extreme_gradient(g, indices); }});
  decompose_when(
      op, [](const OpCall& call) { return present(call, 1); },
      [larger = row.kind == FoldKind::max](Formula& f) {
        if (f.given("dim")) f.refuse("expects a dim or a second tensor, found both");
        return std::vector<FormulaTerm>{larger ? max_of(f[0], f[1]) : min_of(f[0], f[1])};
      });
}

// Adds torch's all(x, dim=[]): it reduces no dim, and tests each element.
void keep_without_dims(OpRecord& op) {
  decompose_when(
      op,
      [](const OpCall& call) {
        const auto dim = call.attrs->values().find("dim");
        if (dim == call.attrs->values().end()) return false;
        const auto* list = std::get_if<std::vector<int64_t>>(&dim->second);
        return list && list->empty();
      },
      [](Formula& f) {
        if (f[0].dtype() == DType::boolean) return FormulaTerms{f[0]};
        const FormulaTerm truths = f.op("ne", {f[0], 0});
        return FormulaTerms{f[0].dtype() == DType::u8 ? f.to(DType::u8, truths) : truths};
      });
}

OpCost fold_cost(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const auto in = static_cast<double>(element_count(call.inputs[0].shape));
  const auto out = static_cast<double>(element_count(outputs[0].shape));
  return {in, in * static_cast<double>(size_of(call.inputs[0].dtype)) +
                  out * static_cast<double>(size_of(outputs[0].dtype))};
}

void set_fold_gradient(const FoldRow& row, OpRecord& op) {
  if (is_truth(row.kind)) {
    op.differentiable = Differentiable::no;
  } else if (row.values) {
    op.gradient = gradients({[&row](Gradient& g) { return extreme_gradient(g, row.indices); }});
    op = with_kinks(std::move(op), "equal elements");
  } else {
    const bool product = row.kind == FoldKind::product;
    op.gradient = gradients({row.kind == FoldKind::sum ? sum_gradient
                             : product                 ? prod_gradient
                                                       : split_among_equal});
    if (!accumulates(row.kind)) op = with_kinks(std::move(op), "equal elements");
  }
}

void complete_fold(const FoldRow& row, OpRecord& op) {
  set_fold_gradient(row, op);
  if (row.kind == FoldKind::max || row.kind == FoldKind::min)
    op.check = [&row](const OpCall& call, const std::vector<const Number*>&) {
      if (!present(call, 1)) require_elements(row.name, call);
    };
  op.cost = fold_cost;
  if (row.values) give_indices(row, op);
  if (is_truth(row.kind)) keep_without_dims(op);
  if (accumulates(row.kind)) add_dtype_parameter(op);
}

const OpTable<FoldRow> kFoldTable = {
    "reduction",     [](const FoldRow&) { return reduction_params(); },
    infer_fold,      prepare_fold,
    fold_strategies, fold_samples,
    complete_fold};

}  // namespace

void add_reduction_ops(OpRegistry& ops) { add_rows(ops, kFoldTable, kFoldRows); }

}  // namespace shardproof
