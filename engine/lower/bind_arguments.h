// Binds the written arguments of a call to the parameters of an op.
#pragma once

#include <functional>

#include "shardproof/engine/lower/lowering.h"

namespace shardproof {

// Splits lanes into classes on which some numbers or shapes are equal.
class LaneClasses {
 public:
  explicit LaneClasses(Lanes lanes);
  // Splits each class where the number differs, in order of the first rank.
  void refine(const PerRankNumber& number);
  // Splits each class where the shape differs. Lanes without a shape are dropped.
  void refine(const LocalShapes& shapes);
  const std::vector<Lanes>& lanes() const { return classes_; }

 private:
  std::vector<Lanes> classes_;
};

// A parameter with the expressions that were written for it; `tensors` and `integers` may have
// several.
struct BoundArgument {
  const Param* param = nullptr;
  std::vector<const Expr*> given;
  bool as_list = false;  // written as one list
};

// Returns one entry for each parameter of the op. Positional arguments fill parameters in order,
// keys by their name here or in torch. Throws Error(bad_input) for too many arguments, an unknown
// key (with the nearest name), an argument given twice, and a missing argument.
std::vector<BoundArgument> bind_arguments(const OpRecord& op, const Expr& call,
                                          const std::function<bool(const Expr&)>& is_number);

// Returns the attribute that a parameter gets from a number. Throws Error(bad_input) if the kinds
// do not match.
AttrValue attribute_of(const Param& param, const Number& number);

// Returns "; write dp:S(0)" for an argument such as Shard(0) or [Replicate()], else "".
std::string torch_placement_hint(const Expr& argument);

// Returns the verbs of the language that are not ops, for "did you mean".
const std::vector<std::string>& special_verbs();

}  // namespace shardproof
