// The op record states everything about one op. The source of a family of ops fills in records;
// builtin_ops() lists the families. Fields with a default (noted below) may stay empty.
//
//   shape inference   infer: metas in, metas out, or an Error that names the sizes
//   kernel            prepare runs once for (attrs, dtypes, shapes); the kernel runs for many lanes
//   rule              legal placements, and what each rank runs under them
//   cost and samples  cost (flops, bytes), samples for the law tests
//   gradient          a formula of other ops, with their kernels and rules
//
// An op becomes other ops at two times; both write through an OpBuilder:
//
//   1. Decomposition, before anything else happens to the program. After `check`, the engine tests
//   the op's `decompositions` in their order. The first whose condition holds emits the
//   replacement; each op emitted starts at 1 again. Infer, kernel and rule of a decomposed call are
//   not used.
//   2. Lowering, if the partitioner has chosen a strategy of form `lower_to_ops`: Rule::lower emits
//   ops and redistributions for inputs placed as the strategy states. Each op emitted starts at 1
//   again.
//
// A formula has one decomposition without a condition, so it needs no infer, kernel or rule. Other
// ops decompose some calls and run all others. Example: softmax(x, dim, dtype) first casts x (the
// condition added last) and emits a softmax, which unsqueezes a 0-d x. The next softmax has a
// kernel.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/tensor.h"
#include "shardproof/ops/core/kernel.h"
#include "shardproof/ops/core/op_builder.h"
#include "shardproof/ops/core/sharding_rule.h"
#include "shardproof/program/value/attrs.h"

namespace shardproof {

// Kinds of op parameters; they decide how the arguments of a call bind. A number in the place of a
// tensor becomes a weak 0-d tensor.
enum class ParamKind {
  tensor,
  optional_tensor,
  tensors,
  integer,
  number,  // a bool is 0 or 1
  scalar,  // a number, or a bool that stays one
  boolean,
  integers,
  dtype,
  text,
  numbers,
  integers_or_text,
  number_or_text
};
struct Param {
  std::string name;
  ParamKind kind = ParamKind::tensor;
  bool required = true;
  AttrValue
      fallback;  // for a parameter that is not required; monostate: the attribute stays absent
  // Set for parameters that take numbers: the tensor parameter that receives a tensor given here.
  std::string tensor_goes_to = {};
};

struct OpCost {
  double flops = 0;
  double bytes = 0;  // sum of bytes read and bytes written
};

// Inputs of one law-test case: shapes, dtypes and fills ("ints", "ints(0, 5)", "uniform(0.1, 1)",
// "bools").
struct Sample {
  Attrs attrs;
  std::vector<TensorMeta> inputs;
  std::vector<std::string> fills;  // one per input; empty: "ints" for each
  // States at which of these inputs the op has no derivative ("x == 0"); the law test then leaves
  // finite differences out. Empty: it has one everywhere.
  std::string kinks = {};
};

// Emits the gradient of one call and returns one handle for each input, of its shape and dtype.
// kAbsent: the gradient is 0, or not wanted.
using GradientRule = std::function<std::vector<int>(const OpCall&, GradientBuilder&)>;

// yes: the record or its decompositions have a gradient. zero: the results are piecewise constant
// (floor). no: the results are integers or bools, or do not depend on the inputs (argmax, eq,
// randint).
enum class Differentiable { yes, zero, no };

// The rewrite of a call as other ops (PyTorch: a decomposition).
struct Decomposition {
  std::function<bool(const OpCall&)> when;  // null: applies to every call
  std::function<std::vector<int>(const OpCall&, OpBuilder&)> emit;
  // Null: the gradient of these calls is that of the ops emitted. Set where that would be NaN
  // although the function has a derivative (norm at 0), or would cost more.
  GradientRule gradient = nullptr;
  bool applies(const OpCall& call) const { return !when || when(call); }
};

struct OpRecord {
  std::string name;     // the name in programs
  std::string family;   // the heading in `shardproof list ops`
  std::string summary;  // one line for `shardproof list ops`
  std::vector<Param> params;
  std::string infix;  // the operator that means this op ("+", "@"), or ""

  // Returns the metas of all outputs. Throws Error(bad_input) that names op, shapes and dtypes. The
  // engine also calls it for shards.
  std::function<std::vector<TensorMeta>(const OpCall&)> infer;
  // Throws Error(bad_input) for calls that a program may not contain, although `infer` accepts them
  // for shards. Examples: a maximum of no elements, an integer divided by 0. `numbers[i]` is the
  // number that input i is in the program, or null. Default: accepts all.
  std::function<void(const OpCall&, const std::vector<const Number*>& numbers)> check;
  // True if a whole number of the program wraps to the dtype of the call's integer tensors, as in
  // torch: -1 with u8 is 255.
  bool wraps_numbers = false;
  // Returns the kernel for this call; `outputs` is what `infer` returned.
  std::function<Kernel(const OpCall&, const std::vector<TensorMeta>& outputs)> prepare;
  // Set for view ops (slice, transpose, ...): returns an alias of the first input. Returns nullopt
  // if this case needs a copy; then `prepare` runs.
  std::function<std::optional<Tensor>(const OpCall&, const Tensor&)> view;
  Rule rule;
  // Default: flops is the number of output elements; bytes counts all inputs and outputs once.
  std::function<OpCost(const OpCall&, const std::vector<TensorMeta>& outputs)> cost;
  std::function<std::vector<Sample>()> samples;

  // Decompositions of some or all calls, tested in this order; the first that applies decides.
  std::vector<Decomposition> decompositions;
  bool is_composite(const OpCall& call) const { return decomposition_of(call) != nullptr; }

  Differentiable differentiable = Differentiable::yes;
  // The gradient of calls that are not composite; ops/core/gradient.h builds it from formulas.
  GradientRule gradient;
  // Returns the gradient of this call as a whole. Null if the gradient is that of the ops of its
  // decomposition, or if there is none.
  const GradientRule* gradient_of(const OpCall& call) const;
  // Emits the decomposition that applies and returns the handles of its results. SP_CHECK: a
  // decomposition applies.
  std::vector<int> expand(const OpCall& call, OpBuilder& builder) const;
  // Sets the attribute of each parameter that was left out to its fallback.
  void fill_fallbacks(Attrs& attrs) const;

 private:
  const Decomposition* decomposition_of(const OpCall& call) const;
};

// The ops of a program, an explicit list. The order of addition is the order of `list ops`. A
// registry is a value and may be copied.
class OpRegistry {
 public:
  // Adds an op. Requires (SP_CHECK) a name that is not taken, and a decomposition or both `infer`
  // and `prepare`. Removes strategies that its dtypes do not allow, and sets the defaults of cost
  // and samples.
  void add(OpRecord record);
  // Returns null if no op has the name.
  const OpRecord* find(std::string_view name) const;
  // Throws Error(bad_input) that names the nearest op if no op has the name.
  const OpRecord& at(std::string_view name) const;
  // Returns null for "" and for a symbol that no op has, and of several ops the one added first.
  const OpRecord* find_infix(std::string_view symbol) const;
  std::vector<const OpRecord*> all() const;

 private:
  std::map<std::string, OpRecord, std::less<>> records_;
  // Names, because a copy would invalidate pointers.
  std::vector<std::string> order_;
  std::map<std::string, std::string, std::less<>> name_by_infix_;
};

OpRegistry builtin_ops();

}  // namespace shardproof
