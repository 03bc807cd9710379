// Binding: the arguments of a call, as written, to the parameters of an op record.
#pragma once

#include <functional>

#include "shardproof/engine/lower/lowering.h"

namespace shardproof {

// Cuts lanes into classes on which some numbers are equal; classes in order of their first rank.
class LaneClasses {
 public:
  explicit LaneClasses(Lanes lanes);
  void refine(const PerRankNumber& number);
  void refine(const std::vector<LocalShape>& shapes);
  const std::vector<Lanes>& lanes() const { return classes_; }

 private:
  std::vector<Lanes> classes_;
};

// One parameter with the expressions that were written for it (several for `tensors` and
// `integers`).
struct BoundArgument {
  const Param* param = nullptr;
  std::vector<const Expr*> given;
  bool as_list = false;  // written as one list
};
// Positional arguments fill parameters in order; keys by name, ours or torch's. Throws
// Error(bad_input): too many arguments, unknown key (with the nearest), given twice, missing.
std::vector<BoundArgument> bind_arguments(const OpRecord& op, const Expr& call,
                                          const std::function<bool(const Expr&)>& is_number);

// The attribute a parameter gets from a number. Error(bad_input) when the kinds do not fit.
AttrValue attribute_of(const Param& param, const Number& number);

// Verbs of the language that are no ops, for "did you mean".
const std::vector<std::string>& special_verbs();

}  // namespace shardproof
