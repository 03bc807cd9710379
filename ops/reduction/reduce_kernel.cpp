// Implements ops/reduction/reduce_kernel.h. make_plan() merges neighbouring dims that are both kept
// or both reduced. If the innermost dim is reduced, fold_rows() folds runs into single states.
// Otherwise fold_columns() folds each row into a tile of 256 states.
#include "shardproof/ops/reduction/reduce_kernel.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {
namespace {

constexpr int64_t kStateTile = kReduceTile;
constexpr int64_t kMaxStateBytes = 32;
constexpr int64_t kMaxElementBytes = 16;

ReducePlan make_plan(const Reducer& reducer, const ReduceNumbers& numbers, const Dims& shape,
                     const DimMask& mask) {
  ReducePlan plan{reducer, numbers, {}, {}, {}, false, false};
  const Dims strides = contiguous_strides(shape);
  bool first = true;
  ReduceAxis* last = nullptr;
  bool last_reduced = false;
  for (int d = shape.size() - 1; d >= 0; --d) {
    const bool reduced = mask[static_cast<size_t>(d)];
    if (shape[d] == 0 && reduced) plan.empty_fold = true;
    if (shape[d] == 1) continue;
    if (last && reduced == last_reduced) {
      last->size *= shape[d];
      continue;
    }
    std::vector<ReduceAxis>& axes = reduced ? plan.reduced : plan.kept;
    if (first) {
      plan.inner = {shape[d], 1};
      plan.rows = reduced;
      last = &plan.inner;
    } else {
      axes.push_back({shape[d], strides[d]});
      last = &axes.back();
    }
    last_reduced = reduced;
    first = false;
  }
  std::reverse(plan.kept.begin(), plan.kept.end());
  std::reverse(plan.reduced.begin(), plan.reduced.end());
  return plan;
}

int64_t axes_count(const std::vector<ReduceAxis>& axes) {
  int64_t count = 1;
  for (const ReduceAxis& axis : axes) count *= axis.size;
  return count;
}

int64_t axes_offset(const std::vector<ReduceAxis>& axes, int64_t index) {
  int64_t offset = 0;
  for (size_t i = axes.size(); i-- > 0;) {
    offset += index % axes[i].size * axes[i].stride;
    index /= axes[i].size;
  }
  return offset;
}

struct Lane {
  const ReducePlan& plan;
  const std::byte* in;
  std::byte* out;
  DType in_dtype, out_dtype;
  int64_t in_bytes, out_bytes;
  std::byte* staging;

  bool converts() const { return in_dtype != plan.reducer.tile; }
  const std::byte* load(int64_t offset, int64_t count) const {
    const std::byte* from = in + offset * in_bytes;
    if (!converts()) return from;
    convert(from, in_dtype, staging, plan.reducer.tile, count);
    return staging;
  }
  void store(const std::byte* states, int64_t at, int64_t count) const {
    alignas(64) std::byte results[kStateTile * kMaxElementBytes];
    const bool direct = out_dtype == plan.reducer.result;
    std::byte* to = out + at * out_bytes;
    plan.reducer.finish(states, direct ? to : results, count, plan.numbers);
    if (!direct) convert(results, plan.reducer.result, to, out_dtype, count);
  }
};

void fold_rows(const Lane& lane, std::byte* states) {
  const ReducePlan& plan = lane.plan;
  const int64_t outputs = axes_count(plan.kept), outer = axes_count(plan.reduced);
  const int64_t step = lane.converts() ? kStateTile : plan.inner.size;
  for (int64_t o = 0; o < outputs; o += kStateTile) {
    const int64_t tile = std::min(kStateTile, outputs - o);
    plan.reducer.begin(states, tile, plan.numbers);
    for (int pass = 0; pass < plan.reducer.passes; ++pass) {
      for (int64_t i = 0; i < tile && !plan.empty_fold; ++i) {
        const int64_t base = axes_offset(plan.kept, o + i);
        std::byte* state = states + i * plan.reducer.state_bytes;
        for (int64_t r = 0; r < outer; ++r) {
          const int64_t start = base + axes_offset(plan.reduced, r);
          for (int64_t k = 0; k < plan.inner.size; k += step) {
            const int64_t count = std::min(step, plan.inner.size - k);
            plan.reducer.row(state, lane.load(start + k, count), count, r * plan.inner.size + k,
                             pass);
          }
        }
      }
      if (plan.reducer.between) plan.reducer.between(states, tile, pass, plan.numbers);
    }
    lane.store(states, o, tile);
  }
}

void fold_columns(const Lane& lane, std::byte* states) {
  const ReducePlan& plan = lane.plan;
  const int64_t blocks = axes_count(plan.kept);
  const int64_t folds = plan.empty_fold ? 0 : axes_count(plan.reduced);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t base = axes_offset(plan.kept, b);
    for (int64_t k = 0; k < plan.inner.size; k += kStateTile) {
      const int64_t tile = std::min(kStateTile, plan.inner.size - k);
      plan.reducer.begin(states, tile, plan.numbers);
      for (int pass = 0; pass < plan.reducer.passes; ++pass) {
        for (int64_t r = 0; r < folds; ++r) {
          const std::byte* x = lane.load(base + axes_offset(plan.reduced, r) + k, tile);
          plan.reducer.column(states, x, tile, r, pass);
        }
        if (plan.reducer.between) plan.reducer.between(states, tile, pass, plan.numbers);
      }
      lane.store(states, b * plan.inner.size + k, tile);
    }
  }
}

void run_reduce(const ReducePlan& plan, const KernelCall& call) {
  alignas(64) std::byte states[kStateTile * kMaxStateBytes];
  alignas(64) std::byte staging[kStateTile * kMaxElementBytes];
  const LaneView& in = call.inputs->front();
  const LaneView& out = call.outputs->front();
  for (const int64_t size : out.shape)
    if (size == 0) return;
  for (int64_t i = 0; i < call.lanes; ++i) {
    const Lane lane{plan,      in.at(i),          out.at(i),          in.dtype,
                    out.dtype, size_of(in.dtype), size_of(out.dtype), staging};
    plan.rows ? fold_rows(lane, states) : fold_columns(lane, states);
  }
}

}  // namespace

DimMask reduced_dims(std::string_view name, const OpCall& call) {
  const Dims& shape = call.inputs[0].shape;
  DimMask mask(static_cast<size_t>(shape.size()), true);
  if (!call.attrs || !call.attrs->has("dim")) return mask;
  const AttrValue& value = call.attrs->values().find("dim")->second;
  std::vector<int64_t> dims;
  if (const auto* one = std::get_if<int64_t>(&value)) {
    dims.push_back(*one);
  } else {
    dims = std::get<std::vector<int64_t>>(value);
  }
  if (dims.empty()) return mask;
  std::fill(mask.begin(), mask.end(), false);
  for (const int64_t dim : dims) {
    // torch accepts dim 0 and -1 for a 0-d tensor.
    if (shape.empty() && (dim == 0 || dim == -1)) continue;
    const int d = dim_of(name, call, dim);
    if (mask[static_cast<size_t>(d)]) refuse(name, call, "dim {} occurs twice in the list", d);
    mask[static_cast<size_t>(d)] = true;
  }
  return mask;
}

void require_elements(std::string_view name, const OpCall& call) {
  const DimMask mask = reduced_dims(name, call);
  const Dims& shape = input_shape(call, 0);
  const bool all = !call.attrs->has("dim") && element_count(shape) == 0;
  for (int d = 0; d < shape.size(); ++d)
    if (mask[static_cast<size_t>(d)] && (all || shape[d] == 0))
      refuse(name, call, "dim {} has no elements, so there is no largest or smallest one", d);
}

bool has_keepdim(const OpCall& call) {
  return call.attrs && call.attrs->has("keepdim") && call.attrs->flag("keepdim");
}

Attrs reduction_attrs(const DimMask& mask, bool keepdim) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < mask.size(); ++d)
    if (mask[d]) dims.push_back(static_cast<int64_t>(d));
  return {{"dim", dims}, {"keepdim", keepdim}};
}

Dims reduced_shape(const Dims& shape, const DimMask& mask, bool keepdim) {
  Dims result;
  for (int d = 0; d < shape.size(); ++d) {
    if (!mask[static_cast<size_t>(d)]) {
      result.push_back(shape[d]);
    } else if (keepdim) {
      result.push_back(1);
    }
  }
  return result;
}

int64_t reduced_count(const Dims& shape, const DimMask& mask) {
  int64_t count = 1;
  for (int d = 0; d < shape.size(); ++d)
    if (mask[static_cast<size_t>(d)]) count *= shape[d];
  return count;
}

std::string reduction_notation(const OpCall& call, const DimMask& mask) {
  std::string in = " ", out;
  for (size_t d = 0; d < mask.size(); ++d) {
    const char letter = static_cast<char>('a' + d);
    in.push_back(letter);
    if (!mask[d])
      out.push_back(letter);
    else if (has_keepdim(call))
      out.push_back('1');
  }
  return in + "->" + out;
}

Kernel reduce_kernel(const Reducer& reducer, const ReduceNumbers& numbers, const Dims& shape,
                     const DimMask& mask) {
  SP_CHECK(reducer.row && reducer.state_bytes <= kMaxStateBytes, "a reducer of {} state bytes",
           reducer.state_bytes);
  Kernel kernel;
  const ReducePlan plan = make_plan(reducer, numbers, shape, mask);
  kernel.plan = share_plan(plan);
  kernel.run = [plan](const KernelCall& call) { run_reduce(plan, call); };
  return kernel;
}

std::vector<Param> reduction_params() {
  return {{"x", ParamKind::tensor, true, {}},
          {"dim", ParamKind::integers, false, {}},
          {"keepdim", ParamKind::boolean, false, false}};
}

}  // namespace shardproof
