// Kernels that only move elements: a strided view made dense, and lists of boxes copied from inputs
// to outputs. Behind transpose, slice, cat, pad, flip and their like.
#pragma once

#include <array>
#include <functional>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// A view of a tensor given by its strides.
struct ViewLayout {
  int64_t offset = 0;  // elements
  Dims shape, strides;
};
// From the strides of the input; its shape is in the call.
using ViewFunction = std::function<ViewLayout(const OpCall&, const Dims& strides)>;

// What a kernel that makes a view dense does: a layout from the strides of its input.
struct ViewCopyPlan {
  std::function<ViewLayout(const Dims& strides)> layout;
};

// What a kernel that fills its output with one element does.
struct FillPlan {
  std::array<std::byte, 16> element{};
};

// Fills `infer`'s counterpart parts of a record whose result is a view of its first input.
void make_view(OpRecord& record, ViewFunction layout);

// Copies a box; all Dims have the length of the target's shape (dims of size 1 that the result
// lacks included).
struct BoxCopy {
  int input = 0, output = 0;
  Dims from, step;  // first element read, and the way to the next (negative: backwards)
  Dims to, extent;  // first element written, and how many
};
struct BoxCopyPlan {
  std::vector<BoxCopy> moves;
  std::vector<Dims> input_shapes, output_shapes;  // in the moves' dims; same elements as the metas
  bool fills = false;                             // before moving, outputs are filled with
  double fill = 0;
};
Kernel move_kernel(BoxCopyPlan plan, DType dtype);

// Every reduction passes a mover unchanged: elements are moved, none is changed. `inputs` carry it
// together.
std::vector<Linearity> movers_linearity(const std::vector<int>& inputs);

// A list attribute that may be written as one integer.
std::vector<int64_t> integer_list(const Attrs& attrs, std::string_view name);
// An op that would give more pieces than this, or be written as more, is refused.
inline constexpr int64_t kMostPieces = 1 << 14;
inline constexpr int64_t kMostEntries = 1 << 28;  // of a list of indices, a window, a step

}  // namespace shardproof
