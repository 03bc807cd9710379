// cumprod, cummax, cummin: running products and extremes along a dim, extremes with the index where
// they stand (the last of equal ones, as in torch). The dim stays whole on each rank.
#include <algorithm>
#include <cmath>
#include <limits>

#include "shardproof/ops/call_text.h"
#include "shardproof/ops/elementwise_bound.h"
#include "shardproof/ops/families.h"
#include "shardproof/ops/formula.h"
#include "shardproof/ops/lane_kernel.h"
#include "shardproof/ops/order_bound.h"
#include "shardproof/ops/params.h"
#include "shardproof/ops/running_item.h"

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Row {
  const char* name;
  const char* summary;
  Running kind;
};
const Row kRows[] = {
    {"cumprod", "running product along dim; integers give i64", Running::product},
    {"cummax", "running largest along dim, and its index", Running::largest},
    {"cummin", "running smallest along dim, and its index", Running::smallest},
};

// A dim in the midst of [outer, size, inner].
struct Line {
  int64_t outer = 1, size = 0, inner = 1;
};
Line line_of(const Dims& shape, int dim) {
  Line line{1, shape.empty() ? 1 : shape[dim], 1};
  for (int d = 0; d < dim; ++d) line.outer *= shape[d];
  for (int d = dim + 1; d < shape.size(); ++d) line.inner *= shape[d];
  return line;
}
int dim_of_call(const Row& row, const OpCall& call) {
  return dim_of(row.name, call, call.attrs->integer("dim"));
}

std::vector<TensorMeta> infer(const Row& row, const OpCall& call) {
  const TensorMeta& x = input_meta(call, 0);
  dim_of_call(row, call);
  if (is_complex(x.dtype)) refuse(row.name, call, "not defined for {}", name(x.dtype));
  const bool whole = is_integral(x.dtype) || x.dtype == DType::boolean;
  if (row.kind == Running::product) return {{whole ? DType::i64 : x.dtype, x.shape}};
  return {{x.dtype, x.shape}, {DType::i64, x.shape}};
}

Kernel prepare(const Row& row, const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const DType compute = compute_dtype(outputs[0].dtype);
  const Line line = line_of(input_shape(call, 0), dim_of_call(row, call));
  const Running kind = row.kind;
  LanePlan plan{{compute}, {compute}, 0, {}};
  if (kind != Running::product) plan.outputs.push_back(DType::i64);
  const auto set = [&](auto zero) {
    set_items(plan, RunningItem<decltype(zero)>{kind, line.size, line.inner},
              line.size == 0 ? 0 : line.outer * line.inner);
  };
  if (compute == DType::i64)
    set(int64_t{0});
  else
    with_float(compute, set);
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> strategies(const Row& row, const OpCall& call) {
  std::string names = letters(input_shape(call, 0).size());
  if (!names.empty()) names[static_cast<size_t>(dim_of_call(row, call))] = '1';
  std::string notation = notation_of(names, names);
  if (row.kind != Running::product) notation += "," + names;
  return factor_strategies(notation, {});
}

// Any order of multiplying: every sub-product is within the product of max(|x|, 1).
std::vector<double> product_errors(const BoundCall& call, const Line& line, DType dtype) {
  const std::vector<double> values = values_as(*call.inputs[0], compute_dtype(dtype));
  const bool known = call.input_bounds[0]->exact;
  const int grid = std::min(0, known ? Bound::exact_of(*call.inputs[0]).grid : -5000);
  std::vector<double> errors(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const int64_t at = place / line.inner % line.size;
    double low = 1, high = 1, reach = 1;
    for (int64_t k = 0; k <= at; ++k) {
      const int64_t from = place - k * line.inner;
      const double size = std::fabs(values[static_cast<size_t>(from)]);
      const double widened = size + 2 * error_of(*call.input_bounds[0], from);
      low *= size;
      high *= widened;
      reach *= std::max(1.0, widened);
    }
    const auto product_grid = std::max<int64_t>(-5000, (at + 1) * grid);
    if (known && representable(reach, static_cast<int>(product_grid), dtype)) continue;
    const double lost = gamma(at + 1, unit_roundoff(compute_dtype(dtype)));
    errors[i] = (high - low) + high * lost + rounding_error(high, dtype, 1);
  }
  return errors;
}

// Whether the places of one line's running extremes are so in every honest run: where nothing
// before comes near the extreme. NaN beats all.
std::vector<bool> sure_extremes(const BoundCall& call, const Line& line, Running kind,
                                int64_t first, const std::vector<double>& values) {
  const std::vector<double> best = values_of(*call.outputs[1]);
  std::vector<bool> sure;
  Reached beaten;
  Uncertain extreme;
  for (int64_t at = 0; at < line.size; ++at) {
    const int64_t place = first + at * line.inner;
    const double value = values[static_cast<size_t>(place)];
    const double turned = kind == Running::largest ? value : -value;
    const Uncertain now{std::isnan(value) ? kInfinity : turned,
                        error_of(*call.input_bounds[0], place)};
    const bool is_best = static_cast<int64_t>(best[static_cast<size_t>(place)]) == at;
    if (!is_best || at > 0) beaten.take(is_best ? extreme : now);
    if (is_best) extreme = now;
    sure.push_back(beaten.stays_under(extreme));
  }
  return sure;
}

// An extreme moves by no more than the largest error before it.
std::vector<Bound> extreme_bound(const BoundCall& call, const Line& line, Running kind) {
  const std::vector<double> values = values_of(*call.inputs[0]);
  std::vector<double> errors(values.size()), index_errors(values.size());
  for (int64_t o = 0; o < line.outer; ++o) {
    for (int64_t i = 0; i < line.inner; ++i) {
      const int64_t first = o * line.size * line.inner + i;
      const std::vector<bool> sure = sure_extremes(call, line, kind, first, values);
      double largest = 0;
      for (int64_t at = 0; at < line.size; ++at) {
        const auto place = static_cast<size_t>(first + at * line.inner);
        largest = std::max(largest, error_of(*call.input_bounds[0], first + at * line.inner));
        errors[place] = largest;
        index_errors[place] = sure[static_cast<size_t>(at)] ? 0 : largest;
      }
    }
  }
  return {bound_from_errors(*call.outputs[0], errors),
          bound_from_errors(*call.outputs[1], index_errors)};
}

std::vector<Bound> bound(const Row& row, const BoundCall& call) {
  const Tensor& out = *call.outputs[0];
  const Line line = line_of(out.shape, dim_of_call(row, *call.call));
  if (row.kind != Running::product) return extreme_bound(call, line, row.kind);
  std::vector<double> errors = product_errors(call, line, out.dtype);
  const std::vector<double> results = values_of(out);
  for (size_t i = 0; i < errors.size(); ++i)
    if (!std::isfinite(results[i])) errors[i] = all_exact(call) ? 0 : kInfinity;
  return {bound_from_errors(out, std::move(errors))};
}

}  // namespace

void add_running_ops(OpRegistry& ops) {
  for (const Row& row : kRows) {
    OpRecord op;
    op.name = row.name;
    op.family = "reduction";
    op.summary = row.summary;
    op.params = {params::tensor("x"), params::integer("dim")};
    op.infer = [&row](const OpCall& call) { return infer(row, call); };
    op.prepare = [&row](const OpCall& call, const std::vector<TensorMeta>& outputs) {
      return prepare(row, call, outputs);
    };
    op.rule.strategies = [&row](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
      return strategies(row, call);
    };
    op.bound = [&row](const BoundCall& call) { return bound(row, call); };
    op.samples = [] {
      const Attrs rows{{"dim", int64_t{0}}}, last{{"dim", int64_t{-1}}};
      return std::vector<Sample>{sample_of({{{5, 3}}, DType::f32, {"uniform(-2, 2)"}}, rows),
                                 sample_of({{{2, 6}}, DType::i32, {"ints(1, 4)"}}, last),
                                 sample_of({{{4, 2}}, DType::bf16, {"uniform(0.5, 2)"}}, rows)};
    };
    lift_scalars(op);
    if (row.kind == Running::product) take_dtype(op);
    ops.add(std::move(op));
  }
}

}  // namespace shardproof
