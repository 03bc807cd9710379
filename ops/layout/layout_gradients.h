// Gradients of ops that move elements: the same move backwards.
#pragma once

#include <vector>

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

FormulaTerm permute_gradient(Gradient& g);
FormulaTerm squeeze_gradient(Gradient& g);
FormulaTerm unsqueeze_gradient(Gradient& g);
FormulaTerm expand_gradient(Gradient& g);
FormulaTerm reshape_gradient(Gradient& g);  // reshape, view, flatten, unflatten
FormulaTerm select_gradient(Gradient& g);
// split, chunk: joins the gradients of `count` pieces.
FormulaTerm pieces_gradient(Gradient& g, int count);
FormulaTerm pad_gradient(Gradient& g);  // pad without a mode
FormulaTerm roll_gradient(Gradient& g);
FormulaTerm repeat_gradient(Gradient& g);
FormulaTerms cat_gradient(Gradient& g);
FormulaTerms stack_gradient(Gradient& g);

// One dim of a slice: elements start, start + step, ..
struct SlicedDim {
  int64_t start = 0, step = 1, count = 0;
};
// Returns the dims of a slice of a tensor. The attributes start, stop and step list the leading
// dims; a stop beyond the end means the end. So a range over all of a dim is the same for a shard
// as for the whole. Throws Error(bad_input) for too many ranges and a step below 1.
std::vector<SlicedDim> slice_ranges(const Attrs& attrs, const Dims& shape);
FormulaTerm slice_gradient(Gradient& g);

// The dims of repeat(x, repeats), each repeated dim split in two: the repeats, then the dim of x.
struct SplitRepeats {
  struct Part {
    bool is_count;  // true: repeats[at]; false: the size of dim `at` of x
    int at;
  };
  std::vector<Part> parts;
  IntegerList summed;  // positions of the repeats among the parts
};
// Requires at least `dims` repeats, `dims` being those of x.
SplitRepeats split_of_repeats(const IntegerList& repeats, int dims);

}  // namespace shardproof
