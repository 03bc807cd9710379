// Kernels that only move elements: a strided view made dense, and lists of boxes copied from inputs
// to outputs. Used by transpose, slice, cat, pad, flip and similar ops.
#pragma once

#include <array>
#include <functional>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// A view of a tensor, given by its strides.
struct ViewLayout {
  int64_t offset = 0;  // in elements
  Dims shape, strides;
};
// Returns the layout of a view from the input's strides; the call holds the input's shape.
using ViewFunction = std::function<ViewLayout(const OpCall&, const Dims& strides)>;

// Plan of a kernel that makes a view dense: gives the layout from the input's strides.
struct ViewCopyPlan {
  std::function<ViewLayout(const Dims& strides)> layout;
};

// Plan of a kernel that fills its output with one element.
struct FillPlan {
  std::array<std::byte, 16> element{};
};

// Sets `prepare` and `view` of a record whose result is a view of its first input.
void make_view(OpRecord& record, ViewFunction layout);

// Corners and steps of boxes.
inline Dims ones(int dims) { return Dims::filled(dims, 1); }
inline Dims zeros(int dims) { return Dims::filled(dims, 0); }

// Copies a box. All Dims have the rank of the target's shape, including dims of size 1 that the
// result lacks.
struct BoxCopy {
  int input = 0, output = 0;
  Dims from, step;   // first element read, and the step to the next (negative: backwards)
  Dims to, extent;   // first element written, and the number of elements
  Dims spread = {};  // step to the next element written; empty: 1 in each dim
};
struct BoxCopyPlan {
  std::vector<BoxCopy> moves;
  std::vector<Dims> input_shapes,
      output_shapes;   // in the dims of the moves; element counts as in the metas
  bool fills = false;  // true: outputs are filled with `fill` before moving
  double fill = 0;
};
// Returns a kernel that copies the boxes of a plan. Requires dense inputs and outputs of `dtype`.
Kernel move_kernel(BoxCopyPlan plan, DType dtype);

// Returns all reductions for `inputs`, which carry them together: moving elements changes none of
// them, so every partial passes.
std::vector<PartialPropagation> mover_partial_rules(const std::vector<int>& inputs);

// Returns a list attribute that a program may also write as one integer. SP_CHECK: it is present.
std::vector<int64_t> integer_list(const Attrs& attrs, std::string_view name);
// Limit of pieces that an op gives or decomposes into; beyond it the op throws Error(bad_input).
inline constexpr int64_t kMostPieces = 1 << 14;
inline constexpr int64_t kMostEntries = 1 << 28;  // limit of an index list, a window, a step

}  // namespace shardproof
