// Draws: the tensors on which a rule is judged, several for each call. A rule must hold on every
// draw that applies to its placements.
//
//   kind      inputs                              applies to
//   words     i64, random 64-bit words            rules without min, max, prod: the ring modulo
//                                                 2^64 is exact, no wrong rule holds by chance
//   ordered   i64, distinct, 21 bits, both signs  all rules: sums and products keep order
//   ties      i64 of -1..2                        all rules
//   real      f64 or c128, by the sample's fills  all rules
//   whole     f64, whole numbers with ties        all rules
//   special   f64 with NaN, infinities and -0     rules whose inputs are not partial
//   own       the dtypes of the call              all rules: some depend on the dtype
//
// Reasons: in words an addition wraps, so `add: P(max), R -> P(max)` would fail although it is
// right. Positive numbers alone would pass the wrong `mul: P(max), R -> P(max)`. Integers alone
// would pass `floor: P(sum) -> P(sum)`, and reals alone `norm(x, p=0): P(sum) -> R`.
//
// Integer kinds exist if the op gives integers for integers, equal to its results for the same
// floats. pow does not, for negative exponents. Indices ("ints(0, 5)") and masks keep their fill in
// all kinds. If a rule states the domain of floats ("uniform(0, 1)"), there are no integer, whole
// or special draws. Inputs of u8 are drawn in u8 alone: i64 has other laws (abs).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shardproof/engine/check_ops/computation.h"
#include "shardproof/engine/check_ops/exact_parts.h"
#include "shardproof/engine/check_ops/judge.h"
#include "shardproof/engine/check_ops/op_instance.h"

namespace shardproof {

enum class DrawKind : uint8_t { words, ordered, ties, real, whole, special, own };
bool is_integer_kind(DrawKind kind);  // words, ordered, ties

struct RuleDraw {
  DrawKind kind = DrawKind::real;
  uint64_t seed = 0;
  std::shared_ptr<const Computation> computation;  // draws of the same dtypes share one
  OpInstance instance;                             // with the dtypes and tensors of the draw
  std::vector<Tensor> outputs;                     // on one device
  std::vector<double> movement;         // by output: how far it moves when inputs move by 2^-44
  std::vector<double> loss;             // by output, of floats narrower than f64: distance from f64
  std::vector<double> largest_outputs;  // absolute, finite
  double largest_input = 0;             // absolute, finite
  double unit_inside = 0;               // unit roundoff of the least dtype that values are cast to

  PartRange part_range() const;
};

// Numbers of draws. A wrong rule of one number often holds by chance, so draws of small tensors are
// repeated until a kind has `elements` elements together. The registry's ops are judged on many
// samples, where one draw of a kind is enough.
struct DrawCounts {
  int reals = 3;
  int ties = 1;       // ten have all patterns of zeros
  int most_ties = 1;  // of small tensors; more than one also adds reals of -64..64
  int64_t elements = 1;
};

// Returns the draws of each kind that the call has, one of them special. A draw on which one device
// fails is left out. `computation_for` returns what is computed for an instance.
using ComputationFor = std::function<Computation(const OpInstance&)>;
std::vector<RuleDraw> draws_of(const OpInstance& instance, const ComputationFor& computation_for,
                               const DrawCounts& counts, uint64_t seed);

// True if the placements are legal for the dtypes of the draw, and its kind applies to them.
bool applies(const RuleDraw& draw, const std::vector<Spec>& inputs,
             const std::vector<Spec>& outputs);

// Returns the limits for one output. `parts` is the largest absolute value of all parts,
// `result_parts` that of the parts of the output, if known. In f64: 2^-40 of the size of the terms,
// and 1024 times that or the movement. Narrower floats: 16 and 64 roundings, or 4 and 16 times what
// one device loses, where it loses more (the gradient of rms_norm over one element).
Limits limits_of(const RuleDraw& draw, size_t output, double parts, double result_parts = 0);
// Returns the largest finite absolute value of a tensor; 0 for integers.
double largest_of(const Tensor& tensor);

}  // namespace shardproof
