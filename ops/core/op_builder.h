// Builders: the interface through which an op emits other ops. Decomposition
// (OpRecord::decompositions) runs before anything else happens to the program. Lowering
// (Rule::lower) runs where a rank cannot run the op on the shards of its inputs without
// communication. ops/core/op.h states the sequence. A gradient (OpRecord::gradient) is emitted
// where a program differentiates the results of a call.
//
// Values are handles; their shapes and dtypes are global. A handle below 0 is an absent optional
// input.
#pragma once

#include <string>
#include <vector>

#include "shardproof/ops/core/sharding_rule.h"
#include "shardproof/program/value/number.h"

namespace shardproof {

inline constexpr int kAbsent = -1;

class OpBuilder {
 public:
  virtual ~OpBuilder() = default;
  // Returns the handle of input i, or kAbsent if the call leaves it out.
  virtual int input(int i) = 0;
  // Emits an op and returns all its results. Attributes that are left out have their fallbacks.
  // Throws what the op's `infer` throws.
  virtual std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) = 0;
  virtual int number(Number value) = 0;  // returns a weak 0-d tensor
  virtual const TensorMeta& meta(int value) = 0;
  // States that the emitted ops depend on the sizes of a value, not only on its dtype and number of
  // dims. The engine may otherwise reuse a decomposition for other sizes.
  virtual void depend_on_sizes() {}
  int op(const std::string& name, Attrs attrs, std::vector<int> inputs) {
    return ops(name, std::move(attrs), std::move(inputs)).front();
  }
};

// The builder of Rule::lower. Each value has a placement, chosen by the rule of its op; inputs keep
// their placements where that is legal.
class LowerBuilder : public OpBuilder {
 public:
  virtual int redistribute(int value, const std::vector<Placement>& placements) = 0;
  virtual int replicate_partials(int value) = 0;  // axes with P become R; others stay
  virtual const Spec& spec(int value) = 0;
};

// The builder of OpRecord::gradient. Cotangents are gradients of a scalar (the loss) by the results
// of the forward call.
class GradientBuilder : public OpBuilder {
 public:
  virtual int output(int o) = 0;  // returns the handle of result o of the forward call
  // Returns the gradient by result o, of the shape and dtype of that result; kAbsent: it is 0.
  virtual int cotangent(int o) = 0;
  virtual bool wanted(int i) = 0;  // false: nothing reads the gradient by input i
  // False inside `as`, where sizes of shards differ by rank: formulas may use dims, but no sizes.
  virtual bool has_known_sizes() const { return true; }
};

}  // namespace shardproof
