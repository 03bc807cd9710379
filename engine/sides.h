// What ranks and truth have at one value, element by element.
#pragma once

#include <optional>
#include <vector>

#include "shardproof/engine/compare.h"

namespace shardproof {

struct Sides {
  DType dtype = DType::f32;
  std::vector<double> expected, got;  // of several copies the one that is farther off
};

Sides sides_of(const Difference& difference, const Tensor& truth);
// As if nothing but equal values were right.
Sides sides_of(const LocalTensor& value, const Spec& spec, const Tensor& truth);
// Another copy of the same value.
void keep_farther(Sides& kept, Sides other);

// Whether narrow floats, as a job is written, deny what f64 shows: where they are fine enough to
// show such a difference, there is none. Then wider floats changed what the program means (a number
// that is the largest of its dtype, an overflow, a sum that rounds on purpose). Where ranks and
// truth alike are farther off their own values in f64 than that difference, as in a running sum
// that stands still, narrow floats say nothing.
bool denies(const Sides& narrow, const Sides& wide);

}  // namespace shardproof
