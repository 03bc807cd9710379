// Gradients of ops that move elements: the same move backwards.
#pragma once

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
FormulaTerm slice_gradient(Gradient& g, const std::vector<SlicedDim>& ranges);

}  // namespace shardproof
