#include "shardproof/ops/error_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/placement.h"
#include "shardproof/ops/promotion.h"
#include "shardproof/ops/run_once.h"

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kNoGrid = -100000;  // of values that another run need not have to the bit

Tensor read(const LaneView& view, int64_t lane) {
  Tensor tensor = Tensor::empty(view.dtype, view.shape);
  const int64_t bytes = tensor.elements() * size_of(view.dtype);
  if (bytes > 0) std::memcpy(tensor.mutate(), view.at(lane), static_cast<size_t>(bytes));
  return tensor;
}

std::span<double> doubles(const LaneView& view, int64_t lane) {
  return {reinterpret_cast<double*>(view.at(lane)), static_cast<size_t>(element_count(view.shape))};
}

// --- of an op
// ------------------------------------------------------------------------------------

struct FollowedOp {
  OpRecord record;
  size_t inputs, outputs;
  MatmulPrecision matmul;

  OpCall inner(const Attrs& attrs, const std::vector<TensorMeta>& metas) const {
    return {&attrs, {metas.begin(), metas.begin() + static_cast<int>(inputs)}};
  }

  void run(const OpCall& call, const KernelCall& kernel, int64_t lane) const {
    std::vector<Tensor> tensors;
    tensors.reserve(inputs + outputs);
    std::vector<Bound> bounds(inputs);
    BoundCall bounding;
    bounding.call = &call;
    bounding.matmul = matmul;
    for (size_t i = 0; i < inputs; ++i) {
      const bool absent = call.inputs[i].absent;
      if (!absent) {
        const Tensor& input = tensors.emplace_back(read((*kernel.inputs)[i], lane));
        const std::span<double> errors = doubles((*kernel.inputs)[inputs + i], lane);
        bounds[i] = bound_from_errors(input, {errors.begin(), errors.end()});
      }
      bounding.inputs.push_back(absent ? nullptr : &tensors.back());
      bounding.input_bounds.push_back(absent ? nullptr : &bounds[i]);
    }
    for (size_t o = 0; o < outputs; ++o)
      bounding.outputs.push_back(
          &tensors.emplace_back(read((*kernel.inputs)[2 * inputs + o], lane)));
    const std::vector<Bound> results =
        record.bound ? record.bound(bounding) : moved_bound(record, bounding);
    for (size_t o = 0; o < outputs; ++o) {
      const std::span<double> errors = doubles((*kernel.outputs)[o], lane);
      for (size_t i = 0; i < errors.size(); ++i)
        errors[i] = error_of(results[o], static_cast<int64_t>(i));
    }
  }
};

// --- of a reduction over ranks
// -------------------------------------------------------------------

struct Term {
  double size = 0, error = 0;
  int grid = 0;
};

// Of a part of a complex element, or of a real one.
Term term_of(double x, double error, const Reduction& reduction, DType dtype) {
  const ReduceOp op = reduction.op;
  const double scaled = op == ReduceOp::premul_sum ? x * reduction.scalar : x;
  if (op == ReduceOp::premul_sum) {
    error *= std::fabs(reduction.scalar);
    const bool exact =
        std::isfinite(scaled) && representable(std::fabs(scaled), last_bit_exponent(scaled), dtype);
    if (!exact) error += rounding_error(std::fabs(scaled) + error, dtype, 1);
  }
  const int grid = std::isfinite(scaled) ? last_bit_exponent(scaled) : kNoGrid;
  return {std::fabs(scaled) + error, op == ReduceOp::prod ? std::fabs(x) : error, grid};
}

Term plus(const Term& a, const Term& b) {
  return {a.size + b.size, std::max(a.error, b.error), std::min(a.grid, b.grid)};
}

void take_terms(const Attrs& attrs, const KernelCall& kernel, int64_t lane) {
  const Tensor x = read((*kernel.inputs)[0], lane);
  const std::span<double> errors = doubles((*kernel.inputs)[1], lane);
  const Reduction reduction = parse_reduction(attrs.text("op"));
  const bool complex = is_complex(x.dtype);
  const DType part = real_part(x.dtype);
  const std::byte* data = x.data();
  for (size_t i = 0; i < errors.size(); ++i) {
    const auto of_part = [&](size_t at) {
      const std::byte* element = data + static_cast<int64_t>(at) * size_of(part);
      const double value = is_floating(part) ? load_f64(element, part)
                                             : static_cast<double>(load_i64(element, part));
      return term_of(value, errors[i], reduction, part);
    };
    const Term term = complex ? plus(of_part(2 * i), of_part(2 * i + 1)) : of_part(i);
    doubles((*kernel.outputs)[0], lane)[i] = term.size;
    doubles((*kernel.outputs)[1], lane)[i] = term.error;
    doubles((*kernel.outputs)[2], lane)[i] = term.grid;
  }
}

double product_error(double with, double without, double bits, int64_t ranks, DType dtype) {
  const int grid = static_cast<int>(std::clamp(bits, -1e6, 1e6));
  if (with == without && representable(without, grid, dtype)) return 0;
  if (!std::isfinite(with)) return kInfinity;
  const double lost = gamma(2 * ranks, unit_roundoff(dtype));
  return with * (1 + lost) - without + rounding_error(with, dtype, 1);
}

double added_error(double size, double error, double bits, int64_t ranks, DType dtype) {
  // In one order or another it may overflow on the way.
  if (is_floating(dtype) && size + error > max_finite(dtype)) return kInfinity;
  return error +
         sum_error(size, ranks, ranks, dtype, error == 0 ? static_cast<int>(bits) : kNoGrid);
}

// A backend may divide the sum, or each term.
double average_error(double size, double error, double bits, int64_t ranks, DType dtype) {
  const double over = static_cast<double>(ranks);
  const double added = added_error(size, error, bits, ranks, dtype);
  if (is_integral(dtype) || std::isinf(added)) return added;
  const bool halves = std::has_single_bit(static_cast<uint64_t>(ranks));
  const int grid = static_cast<int>(bits) - std::countr_zero(static_cast<uint64_t>(ranks));
  if (halves && added == 0 && representable(size / over, grid, dtype)) return 0;
  const double each = added_error(size, error + size * unit_roundoff(dtype), bits, ranks, dtype);
  return each / over + rounding_error(size / over, dtype, 2);
}

void finish(const Attrs& attrs, const KernelCall& kernel, int64_t lane) {
  const std::span<double> sizes = doubles((*kernel.inputs)[0], lane);
  const std::span<double> errors = doubles((*kernel.inputs)[1], lane);
  const std::span<double> bits = doubles((*kernel.inputs)[2], lane);
  const std::span<double> results = doubles((*kernel.outputs)[0], lane);
  const ReduceOp op = parse_reduction(attrs.text("op")).op;
  const DType dtype = attrs.dtype("dtype");
  const int64_t ranks = attrs.integer("ranks");
  const auto error = op == ReduceOp::prod  ? product_error
                     : op == ReduceOp::avg ? average_error
                                           : added_error;
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = error(sizes[i], errors[i], bits[i], ranks, dtype);
}

// --- records
// ------------------------------------------------------------------------------------

using LaneFunction = std::function<void(const Attrs&, const KernelCall&, int64_t lane)>;

OpRecord record_of(std::string name, size_t outputs, LaneFunction run) {
  OpRecord record;
  record.name = std::move(name);
  record.infer = [outputs](const OpCall& call) {
    return std::vector<TensorMeta>(outputs, {DType::f64, call.inputs.front().shape});
  };
  record.prepare = [run = std::move(run)](const OpCall& call, const std::vector<TensorMeta>&) {
    Kernel kernel;
    kernel.run = [run, attrs = *call.attrs](const KernelCall& lanes) {
      for (int64_t lane = 0; lane < lanes.lanes; ++lane) run(attrs, lanes, lane);
    };
    return kernel;
  };
  return record;
}

void fill(const KernelCall& kernel, int64_t lane, double value) {
  const std::span<double> errors = doubles((*kernel.outputs)[0], lane);
  std::fill(errors.begin(), errors.end(), value);
}

}  // namespace

OpRecord error_of_op(const OpRecord& op, size_t inputs, size_t outputs, MatmulPrecision matmul) {
  const auto followed = std::make_shared<const FollowedOp>(FollowedOp{op, inputs, outputs, matmul});
  OpRecord record;
  record.name = fmt::format("error_of_{}/{}/{}", op.name, inputs, outputs);
  record.infer = [followed](const OpCall& call) {
    std::vector<TensorMeta> errors =
        followed->record.infer(followed->inner(*call.attrs, call.inputs));
    for (TensorMeta& meta : errors) meta = {DType::f64, meta.shape};
    return errors;
  };
  record.prepare = [followed](const OpCall& call, const std::vector<TensorMeta>&) {
    Kernel kernel;
    kernel.run = [followed, attrs = *call.attrs, metas = call.inputs](const KernelCall& lanes) {
      const OpCall inner = followed->inner(attrs, metas);
      for (int64_t lane = 0; lane < lanes.lanes; ++lane) followed->run(inner, lanes, lane);
    };
    return kernel;
  };
  return record;
}

void add_error_ops(OpRegistry& ops) {
  ops.add(record_of(
      "error_of_nothing", 1,
      [](const Attrs&, const KernelCall& kernel, int64_t lane) { fill(kernel, lane, 0); }));
  ops.add(record_of("unknown_error", 1, [](const Attrs&, const KernelCall& kernel, int64_t lane) {
    fill(kernel, lane, kInfinity);
  }));
  ops.add(record_of("error_of_terms", 3, take_terms));
  ops.add(record_of("error_of_reduction", 1, finish));
}

}  // namespace shardproof
