// Registers conv_windows and conv_windows_grad: the windows that a convolution reads, and the sum
// of windows where they overlap. The gradients of convolutions use them where sizes are not known
// before the ranks run (inside `as`). Only the shape is read of the weight, and of x in the second
// op. If sizes are known, conv_gradients.h emits index_select and index_sum.
//
// Windows have the shape [N, groups, C / groups, L', K, ..]: for each spatial dim the places of the
// window, then its entries.
#include <algorithm>
#include <array>
#include <complex>

#include "shardproof/ops/contraction/contraction.h"
#include "shardproof/ops/convolution/conv_window.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/elementwise/binary_functors.h"

namespace shardproof {
namespace {

constexpr const char* kWindows = "conv_windows";
constexpr const char* kWindowsGrad = "conv_windows_grad";

// Returns the call with x as its first input.
OpCall windows_call(const OpCall& call, int x) {
  return {call.attrs, {call.inputs.begin() + x, call.inputs.end()}};
}

struct WindowShape {
  ConvWindow window;
  Dims x, windows;
};
WindowShape window_shape(const char* op, const OpCall& call) {
  const Dims& x = input_shape(call, 0);
  if (x.size() != 3 && x.size() != 4) refuse(op, call, "x must be [N, C, L] or [N, C, H, W]");
  WindowShape shape{conv_window({op, x.size() - 2}, call), x, {}};
  const Dims& weight = input_shape(call, 1);
  shape.windows = {x[0], shape.window.groups, weight[1]};
  for (int d = 2; d < x.size(); ++d) {
    shape.windows.push_back(shape.window.out[d]);
    shape.windows.push_back(weight[d]);
  }
  return shape;
}

// Cells of the windows of one channel, whose entries lie in a plane.
struct Plane {
  struct Dim {
    int64_t size = 1, places = 1, entries = 1, stride = 1, padding = 0, dilation = 1;
    // Returns the entry of x that a cell reads; -1: padding.
    int64_t at(int64_t place, int64_t entry) const {
      const int64_t i = place * stride + entry * dilation - padding;
      return i >= 0 && i < size ? i : -1;
    }
  };
  std::array<Dim, 2> dims;  // one spatial dim: the second
  int64_t count = 0;        // planes

  explicit Plane(const WindowShape& shape) : count(shape.x[0] * shape.x[1]) {
    const int spatial = shape.x.size() - 2;
    for (int i = 0; i < spatial; ++i) {
      const auto at = static_cast<size_t>(i);
      dims[static_cast<size_t>(2 - spatial + i)] = {
          shape.x[i + 2],          shape.windows[3 + 2 * i], shape.windows[4 + 2 * i],
          shape.window.stride[at], shape.window.padding[at], shape.window.dilation[at]};
    }
  }
  // Calls use(cell, entry) for all cells in order; entry -1: padding.
  template <typename Use>
  void for_each_cell(const Use& use) const {
    int64_t cell = 0;
    const auto& [rows, columns] = dims;
    for (int64_t plane = 0; plane < count; ++plane)
      for (int64_t l = 0; l < rows.places; ++l)
        for (int64_t p = 0; p < rows.entries; ++p) {
          const int64_t row = rows.at(l, p);
          for (int64_t m = 0; m < columns.places; ++m)
            for (int64_t q = 0; q < columns.entries; ++q) {
              const int64_t column = columns.at(m, q);
              use(cell++,
                  row < 0 || column < 0 ? -1 : (plane * rows.size + row) * columns.size + column);
            }
        }
  }
};

template <typename Use>
void with_number(DType compute, const Use& use) {
  switch (compute) {
    case DType::f64: return use(double{});
    case DType::c64: return use(std::complex<float>{});
    case DType::c128: return use(std::complex<double>{});
    case DType::i64: return use(int64_t{});
    default: return use(float{});
  }
}

Kernel prepare_windows(const OpCall& call, const std::vector<TensorMeta>& outputs, bool sums) {
  const DType compute = contraction_dtype(outputs[0].dtype);
  const Plane plane(window_shape(kWindows, windows_call(call, sums ? 1 : 0)));
  LanePlan plan{{}, {compute}, 0, {}};
  for (const TensorMeta& input : call.inputs) plan.inputs.push_back(input.dtype);
  plan.inputs[0] = compute;
  plan.body = [plane, compute, sums,
               elements = element_count(outputs[0].shape)](const LaneCall& lane) {
    with_number(compute, [&](auto zero) {
      using T = decltype(zero);
      const T* from = lane.in<T>(0);
      T* to = lane.out<T>(0);
      if (sums) std::fill_n(to, elements, T{});
      plane.for_each_cell([&](int64_t cell, int64_t entry) {
        if (!sums)
          to[cell] = entry < 0 ? T{} : from[entry];
        else if (entry >= 0)
          to[entry] = functor::Add::apply(to[entry], from[cell]);
      });
    });
  };
  return lane_kernel(plan, call, outputs);
}

// The batch may be sharded, and the result is linear in the first input.
std::vector<Strategy> windows_strategies(const OpCall& call, bool sums) {
  const auto beside = [&](const Placement& first, const Placement& x) {
    std::vector<Placement> inputs{first};
    if (sums) inputs.push_back(x);
    inputs.push_back(R());
    return inputs;
  };
  std::vector<Strategy> found{{beside(S(0), S(0)), {S(0)}}};
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
    if (op == ReduceOp::sum || !is_integral(input_meta(call, 0).dtype))
      found.push_back({beside(P(op), R()), {P(op)}});
  return found;
}

Sample windows_sample(const Dims& x, const Dims& weight, Attrs attrs, DType dtype) {
  for (const char* name : {"stride", "padding", "dilation"})
    if (!attrs.has(name)) attrs.set(name, std::vector<int64_t>{name[0] == 'p' ? 0 : 1});
  if (!attrs.has("groups")) attrs.set("groups", int64_t{1});
  return sample_of({{x, weight}, dtype}, std::move(attrs));
}

std::vector<Sample> windows_samples(bool sums) {
  using L = std::vector<int64_t>;
  std::vector<Sample> samples = {
      windows_sample({3, 2, 7}, {4, 2, 3}, {{"padding", L{1}}, {"stride", L{2}}}, DType::f32),
      windows_sample({2, 4, 6}, {6, 2, 2}, {{"groups", int64_t{2}}}, DType::bf16),
      windows_sample({2, 2, 5, 4}, {3, 2, 2, 3}, {{"padding", L{1, 0}}, {"dilation", L{2, 1}}},
                     DType::f64)};
  if (!sums) return samples;
  for (Sample& sample : samples) {
    const WindowShape shape = window_shape(kWindows, {&sample.attrs, sample.inputs});
    sample.inputs.insert(sample.inputs.begin(), {sample.inputs[0].dtype, shape.windows});
  }
  return samples;
}

OpRecord windows_record(bool sums) {
  OpRecord record;
  record.name = sums ? kWindowsGrad : kWindows;
  record.family = "conv";
  record.summary = sums ? "the gradient of conv_windows by x, from dy"
                        : "the windows of x that a convolution reads";
  if (sums) record.params = {params::tensor("dy")};
  const auto list = [](const char* name, int64_t fallback) {
    return params::with_default(name, ParamKind::integers, std::vector<int64_t>{fallback});
  };
  for (const Param& param : {params::tensor("x"), params::tensor("weight"), list("stride", 1),
                             list("padding", 0), list("dilation", 1), params::integer("groups", 1)})
    record.params.push_back(param);
  record.infer = [sums](const OpCall& call) {
    const char* op = sums ? kWindowsGrad : kWindows;
    const WindowShape shape = window_shape(op, windows_call(call, sums ? 1 : 0));
    if (sums && !(input_shape(call, 0) == shape.windows))
      refuse(op, call, "dy must have the shape of the windows, {}", to_string(shape.windows));
    const DType dtype = input_meta(call, 0).dtype;
    if (dtype == DType::boolean) refuse(op, call, "not defined for bool");
    return std::vector<TensorMeta>{{dtype, sums ? shape.x : shape.windows}};
  };
  record.prepare = [sums](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_windows(call, outputs, sums);
  };
  record.rule.strategies = [sums](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return windows_strategies(call, sums);
  };
  record.gradient = sums ? gradients({[](Gradient& g) {
    return g.op(kWindows, {g.dy(), g[2]}, *g.call.attrs);
  }})
                         : gradients({[](Gradient& g) {
                             return g.op(kWindowsGrad, {g.dy(), g[0], g[1]}, *g.call.attrs);
                           }});
  record.samples = [sums] { return windows_samples(sums); };
  return record;
}

}  // namespace

std::vector<OpRecord> conv_window_records() {
  return {windows_record(false), windows_record(true)};
}

}  // namespace shardproof
