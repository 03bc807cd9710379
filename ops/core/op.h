// The op record: everything shardproof knows about one op, in one place. An op's file fills in a
// record; the registry lists it; no op name stands anywhere else. Free to omit what the defaults
// give (noted below).
//
// Views of one op meet here:
//   shape inference   infer: metas in, metas out, or an Error that names the sizes
//   kernel            prepare once for (attrs, dtypes, shapes), then run for many lanes
//   rule              which placements are legal and what runs on each rank then
//   physics           cost (flops, bytes), samples for the law tests
#pragma once

#include <cstddef>
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

// How call arguments bind. A number where a tensor is due becomes a weak 0-d tensor.
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
  AttrValue fallback;  // when not required (monostate: stays absent)
  // Of a parameter that takes numbers: the one that a tensor in its place belongs to.
  std::string tensor_goes_to = {};
};

struct OpCost {
  double flops = 0;
  double bytes = 0;  // read and written
};

// Inputs of one law-test case: shapes, dtypes and fills ("ints", "ints(0, 5)", "uniform(0.1, 1)",
// "bools").
struct Sample {
  Attrs attrs;
  std::vector<TensorMeta> inputs;
  std::vector<std::string> fills;  // one per input; empty: "ints" for each
};

struct OpRecord {
  std::string name;     // as written in a program
  std::string family;   // for `list ops`
  std::string summary;  // one line
  std::vector<Param> params;
  std::string infix;  // "+", "@": the operator that means this op, or ""

  std::function<std::vector<TensorMeta>(const OpCall&)> infer;
  // What a program may not write, beyond what infer refuses, which sees shards too: a maximum of no
  // elements, an integer over 0. `numbers`: of each input, the number it is in the program, or
  // null.
  std::function<void(const OpCall&, const std::vector<const Number*>& numbers)> check;
  std::function<Kernel(const OpCall&, const std::vector<TensorMeta>& outputs)> prepare;
  // A view op aliases its first input instead of running a kernel (slice, transpose, ...); nullopt:
  // this case needs a copy and `prepare` runs.
  std::function<std::optional<Tensor>(const OpCall&, const Tensor&)> view;
  Rule rule;
  // Default: flops = output elements, bytes = all inputs and outputs once.
  std::function<OpCost(const OpCall&, const std::vector<TensorMeta>& outputs)> cost;
  std::function<std::vector<Sample>()> samples;

  // An op that is a name for other ops: writes them and gives handles of the results. With it,
  // everything above may be left out; with `expands` it holds only for calls of which that is true.
  std::function<std::vector<int>(const OpCall&, OpBuilder&)> expand;
  std::function<bool(const OpCall&)> expands;
  bool is_composite(const OpCall& call) const { return expand && (!expands || expands(call)); }
  // Parameters that were left out get their fallbacks.
  void fill_fallbacks(Attrs& attrs) const;
};

// An explicit list; order of addition is the order of `list ops`.
class OpRegistry {
 public:
  void add(OpRecord record);  // SP_CHECK: name not taken, infer and prepare given
  const OpRecord* find(std::string_view name) const;
  const OpRecord& at(std::string_view name) const;  // Error(bad_input) with the nearest name
  const OpRecord* find_infix(std::string_view symbol) const;
  std::vector<const OpRecord*> all() const;

 private:
  std::map<std::string, OpRecord, std::less<>> records_;
  std::vector<std::string> order_;  // names: a registry is a value and may be copied
};

OpRegistry builtin_ops();

}  // namespace shardproof
