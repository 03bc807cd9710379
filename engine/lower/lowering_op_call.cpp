// Implements Lowering::apply_op of lowering.h: a call of an op as written.
//
// 1. Bind the written arguments to the op's parameters (bind_arguments.h).
// 2. Lower tensors to inputs; evaluate numbers, lists and words to attributes.
// 3. Split the lanes into classes with equal attributes, and emit the op with one set of attributes
//    for each class: `roll(x, rank % 2, 0)` on ranks 0-3 has the class 0, 2 with shift 0 and the
//    class 1, 3 with shift 1.
// 4. For a call in place (`add_`), write the result into the first input.
#include <algorithm>

#include "shardproof/engine/lower/bind_arguments.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/torch_names.h"

namespace shardproof {
namespace {

bool is_value_param(ParamKind kind) {
  return kind == ParamKind::tensor || kind == ParamKind::optional_tensor ||
         kind == ParamKind::tensors;
}

// Returns the attribute of a dtype or a plain word (`approximate='tanh'`), which cannot differ by
// rank.
std::optional<AttrValue> word_attribute(const Param& param, const Expr& expr) {
  if (param.kind == ParamKind::dtype) {
    if (expr.kind == ExprKind::name && expr.name.plain())
      return AttrValue(parse_dtype_name(expr.name.texts[0]));
    const bool is_quoted = expr.kind == ExprKind::text;
    throw_bad_input("argument {}: expected a dtype such as f32, found {}{}", param.name,
                    to_string(expr), is_quoted ? "; write it without quotes" : "");
  }
  const bool either =
      param.kind == ParamKind::integers_or_text || param.kind == ParamKind::number_or_text;
  if (either && expr.kind == ExprKind::text && expr.name.plain())
    return AttrValue(expr.name.texts[0]);
  if (param.kind == ParamKind::text) {
    if (expr.kind == ExprKind::text && expr.name.plain()) return AttrValue(expr.name.texts[0]);
    if (expr.kind == ExprKind::name && expr.name.plain()) return AttrValue(expr.name.texts[0]);
    throw_bad_input("argument {}: expected a text in single quotes", param.name);
  }
  return std::nullopt;
}

// Returns the hint for zeros(2, 2). An op that begins with a tensor has no sizes there.
std::string hint_of_sizes(const OpRecord& op) {
  return is_value_param(op.params.front().kind)
             ? ""
             : fmt::format("; write all sizes in one list, as in {}([2, 2])", op.name);
}

// True if the expression reads a size of a tensor: dim(x, 0) * 8.
bool calls_shape(const Expr& expr) {
  return (expr.kind == ExprKind::call && (expr.symbol == "dim" || expr.symbol == "start")) ||
         std::any_of(expr.args.begin(), expr.args.end(), calls_shape);
}

}  // namespace

std::vector<ValueId> Lowering::apply_op(const OpRecord& op, const Expr& call, bool in_place,
                                        size_t wanted) {
  std::vector<ValueId> inputs;
  Attrs fixed;
  std::vector<std::pair<const Param*, PerRankNumber>> numbers;
  const auto is_a_number = [&](const Expr& expr) { return is_number(expr); };
  for (const BoundArgument& argument : bind_arguments(op, call, is_a_number)) {
    const Param& param = *argument.param;
    if (is_value_param(param.kind)) {
      for (const Expr* expr : argument.given) inputs.push_back(lower_value(*expr));
      if (argument.given.empty() && param.kind != ParamKind::tensors) inputs.push_back(kNoValue);
      continue;
    }
    if (argument.given.empty()) {
      fixed.set(param.name, param.fallback);
      continue;
    }
    const Expr& expr = *argument.given[0];
    if (param.kind == ParamKind::dtype && is_number(expr))
      fail(expr.place, fmt::format("argument {}: expected a dtype such as f32, found {}{}",
                                   param.name, to_string(expr), hint_of_sizes(op)));
    if (std::optional<AttrValue> word = word_attribute(param, expr)) {
      fixed.set(param.name, *word);
      continue;
    }
    for (const Expr* given : argument.given)
      if (!is_number(*given))
        fail(given->place,
             fmt::format("argument {} of {}: expected a number, found {}{}", param.name, op.name,
                         to_string(*given),
                         calls_shape(*given)
                             ? "; dim and start are numbers in rank programs only: write a name "
                               "of \"let\""
                             : ""));
    if (argument.given.size() == 1) {
      numbers.emplace_back(&param, lane_number(expr));
      continue;
    }
    Expr list;
    list.kind = ExprKind::list;
    list.place = expr.place;
    for (const Expr* given : argument.given) list.args.push_back(*given);
    numbers.emplace_back(&param, lane_number(list));
  }
  LaneClasses classes(lanes_);
  for (const auto& [param, number] : numbers) classes.refine(number);
  std::vector<LaneAttrs> attrs;
  for (const Lanes& lanes : classes.lanes()) {
    Attrs values = fixed;
    for (const auto& [param, number] : numbers)
      values.set(param->name, attribute_of(*param, number.on(lanes[0])));
    attrs.push_back({lanes, std::move(values)});
  }
  std::vector<ValueId> outputs = emit(op, std::move(attrs), inputs, wanted);
  if (!in_place) return outputs;
  write_result_in_place(inputs.at(0), outputs.at(0));
  return {inputs.at(0)};
}

}  // namespace shardproof
