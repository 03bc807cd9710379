// softmax and log_softmax along a dim. Over a cut dim they lower to a maximum and a sum of
// exponentials, all-reduced.
#include <cmath>
#include <limits>

#include "shardproof/ops/call_text.h"
#include "shardproof/ops/elementwise_bound.h"
#include "shardproof/ops/families.h"
#include "shardproof/ops/formula.h"
#include "shardproof/ops/reduce_bound.h"
#include "shardproof/ops/row_kernel.h"
#include "shardproof/ops/row_transforms.h"

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
  options.form_of[active] = LocalForm::lower;
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

// Where a probability can lie when its logit and the others move by `drift` towards or from each
// other: within 0 and 1, whatever the drift.
std::pair<double, double> softmax_range(double size, double drift, double relative) {
  const double factor = std::exp(std::min(drift, 700.0));
  const double others = std::max(0.0, 1 - size), slack = 2 * relative * size;
  const double rest = std::max(0.0, others - slack);
  const double most = rest == 0 ? 1.0 : size * factor / (size * factor + rest);
  const double least = size == 0 ? 0.0 : size / (size + (others + slack) * factor);
  return {least, std::max(most, size)};
}

// How far a stored probability may lie from what was rounded to it. One that is far below the
// smallest number of its dtype is 0, whatever its logit moves by: exp(x - largest) is more than it.
double rounded_off(double size, DType dtype, double below_largest) {
  const double smallest = rounding_error(0, dtype, 0);
  if (size == 0 && below_largest < std::log(smallest) - 2) return 0;
  return rounding_error(size, dtype, 1);
}

std::vector<double> largest_of_rows(const std::vector<double>& values,
                                    const std::vector<int64_t>& places, size_t rows) {
  std::vector<double> largest(rows, -std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < values.size(); ++i) {
    double& most = largest[static_cast<size_t>(places[i])];
    most = std::max(most, values[i]);
  }
  return largest;
}

bool is_masked(const BoundCall& call, const std::vector<double>& logits, size_t i) {
  const double error = error_of(*call.input_bounds[0], static_cast<int64_t>(i));
  return std::isinf(logits[i]) && logits[i] < 0 && error == 0;
}

std::vector<Bound> bound_softmax(const Row& row, const BoundCall& call) {
  const Tensor& x = *call.inputs[0];
  const Tensor& out = *call.outputs[0];
  const DType wide = compute_dtype(x.dtype);
  DimMask mask(static_cast<size_t>(x.shape.size()), false);
  mask[static_cast<size_t>(dim_of_call(row, *call.call))] = true;
  const std::vector<Folded> folded = fold_errors(call, mask, wide);
  const std::vector<int64_t> places = reduced_places(x.shape, mask);
  const std::vector<double> results = values_of(out), logits = values_of(x);
  const std::vector<double> largest = largest_of_rows(logits, places, folded.size());
  const double u = unit_roundoff(wide), last = wide == out.dtype ? 0 : unit_roundoff(out.dtype);
  std::vector<double> errors(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const Folded& f = folded[static_cast<size_t>(places[i])];
    const bool finite = std::isfinite(results[i]) && std::isfinite(f.absolute);
    const double relative = gamma(f.count + 40, u) + 4 * u * f.largest;
    const double size = std::fabs(results[i]);
    if (!finite) {
      errors[i] =
          f.error == 0 && !std::isfinite(results[i]) ? 0 : std::numeric_limits<double>::infinity();
      // Masked by -inf: such an element is 0 whatever the others are.
      if (results[i] == 0 && f.worst == 0) errors[i] = 0;
      if (row.logarithm && is_masked(call, logits, i) && std::isfinite(f.absolute) &&
          std::isfinite(largest[static_cast<size_t>(places[i])]))
        errors[i] = 0;
    } else if (row.logarithm) {
      errors[i] = 2 * f.worst + relative + 8 * u * (size + f.largest) + last * (size + 4 * f.worst);
    } else {
      const double drift = 4 * f.worst;
      const double off =
          rounded_off(size, out.dtype, logits[i] - largest[static_cast<size_t>(places[i])] + drift);
      const double least = softmax_range(std::max(0.0, size - off), drift, relative).first;
      const double most = softmax_range(std::min(1.0, size + off), drift, relative).second;
      errors[i] = std::max(most - size, size - least) + most * (relative + last);
    }
    if (errors[i] != 0) errors[i] += rounding_error(0x1p-1000, out.dtype, 1);
  }
  return {bound_from_errors(out, std::move(errors))};
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
  op.bound = [&row](const BoundCall& call) { return bound_softmax(row, call); };
  op.cost = [](const OpCall& call, const std::vector<TensorMeta>&) {
    const auto n = static_cast<double>(element_count(call.inputs[0].shape));
    return OpCost{5 * n, 2 * n * static_cast<double>(size_of(call.inputs[0].dtype))};
  };
  op.samples = softmax_samples;
  lift_scalars(op);
  take_dtype(op);
  return op;
}

}  // namespace

void add_softmax_ops(OpRegistry& ops) {
  for (const Row& row : kRows) ops.add(softmax_record(row));
}

}  // namespace shardproof
