// Implements the expressions of lowering.h. An expression without tensors is evaluated, for each
// lane where it differs; any other becomes instructions. In `x * (rank + 1)` on ranks 0-1 the right
// operand is the number 1 on rank 0 and 2 on rank 1. It becomes one 0-d value, and `*` one op.
#include "shardproof/engine/lower/bind_arguments.h"
#include "shardproof/engine/lower/lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/torch_names.h"

namespace shardproof {
namespace {

bool is_shape_verb(const std::string& verb) { return verb == "dim" || verb == "start"; }

bool is_axis_verb(const std::string& verb) { return verb == "size" || verb == "index"; }

bool is_reduction(const std::string& name) {
  try {
    parse_reduction(name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool Lowering::is_axis(const std::string& name) {
  try {
    return number_function("size", name, lanes_[0]).has_value();
  } catch (const Error&) {
    return false;
  }
}

std::string Lowering::nearest_name(const std::string& name) {
  if (const NameTable::Parts* gone = names_.find(name))
    return gone->empty() ? " here: it was freed" : " here: it is bound on other ranks";
  if (name == "rank" || name == "world" || name == "next" || name == "prev")
    return ": a global program is the same on all ranks; write the line under \"ranks\"";
  if (name == "world_size" || name == "WORLD_SIZE")
    return "; write world in a rank program, size(tp) for the ranks of an axis";
  if (is_axis(name) && number_name("rank", lanes_[0]))
    return fmt::format(
        "; {0} is an axis: index({0}) is this rank's coordinate on it, size({0}) its number of "
        "ranks",
        name);
  if (is_axis(name)) return fmt::format("; {0} is an axis: size({0}) is its number of ranks", name);
  if (is_reduction(name))
    return fmt::format("; {0} is a reduction: it comes after the tensor, as in all_reduce(x, {0})",
                       name);
  NearestName nearest(name);
  for (const auto& [known, parts] : names_.all()) nearest.offer(known);
  for (const std::string& known : number_names()) nearest.offer(known);
  return nearest.best().empty() ? ": no tensor, let or earlier line has it" : nearest.hint();
}

NumberScope Lowering::scope(int64_t rank) {
  NumberScope scope;
  scope.name = [this, rank](const std::string& name) -> std::optional<Number> {
    if (const NameTable::Parts* found = names_.find(name))
      for (const NameTable::Part& part : *found) {
        if (!part.lanes.contains(rank)) continue;
        if (!std::holds_alternative<PerRankNumber>(part.binding))
          throw_bad_input(
              "expected a number, found the tensor {0}; where({0} > 0, a, b) chooses "
              "by elements",
              name);
        return std::get<PerRankNumber>(part.binding).on(rank);
      }
    std::optional<Number> number = number_name(name, rank);
    if (!number) throw_bad_input("unknown name {}{}", name, nearest_name(name));
    return number;
  };
  scope.function = [this, rank](const std::string& verb,
                                const std::string& argument) -> std::optional<Number> {
    if (is_shape_verb(verb))
      if (std::optional<PerRankNumber> sizes =
              shape_number(parse_expression(fmt::format("{}({})", verb, argument))))
        return sizes->on(rank);
    return number_function(verb, argument, rank);
  };
  return scope;
}

bool Lowering::is_number(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::number: return true;
    case ExprKind::name: {
      const std::string name = name_of(expr.name);
      if (const NameTable::Parts* found = names_.find(name))
        for (const NameTable::Part& part : *found)
          if (!lie_apart(part.lanes, lanes_) && !part.lanes.intersect(lanes_).empty())
            return std::holds_alternative<PerRankNumber>(part.binding);
      return name == "inf" || name == "nan" || number_name(name, lanes_[0]).has_value();
    }
    case ExprKind::list:
    case ExprKind::unary:
    case ExprKind::binary:
      for (const Expr& arg : expr.args)
        if (!is_number(arg)) return false;
      return true;
    case ExprKind::call: {
      if (is_axis_verb(expr.symbol)) return true;
      if (is_shape_verb(expr.symbol) && shape_number(expr)) return true;
      if (!is_number_function(expr.symbol)) return false;
      for (const Expr& arg : expr.args)
        if (!is_number(arg)) return false;
      return true;
    }
    case ExprKind::index:
    case ExprKind::transpose: return is_number(expr.args.at(0));
    default: return false;
  }
}

bool Lowering::differs_by_rank(const Expr& expr) {
  bool differs = false;
  const auto note_name = [&](const std::string& name) {
    if (rank_dependent(name)) differs = true;
    const NameTable::Parts* found = names_.find(name);
    if (found == nullptr) return;
    int parts = 0;
    for (const NameTable::Part& part : *found) {
      if (lie_apart(part.lanes, lanes_) || part.lanes.intersect(lanes_).empty()) continue;
      ++parts;
      const auto* number = std::get_if<PerRankNumber>(&part.binding);
      // A tensor stands only in dim(x, 0) or start(x, 0), which may differ by rank.
      if (number == nullptr || !number->uniform()) differs = true;
    }
    if (parts > 1) differs = true;
  };
  visit_names(expr, [&](const NameTemplate& name) {
    if (differs) return;
    try {
      note_name(name_of(name));
    } catch (const Error&) {
      // No rank can fill the holes of the name. Evaluation reports it, unless it skips the name, as
      // in `i > 0 and n{i - 1}`.
    }
  });
  return differs;
}

// Returns the expression with each part that is equal on all lanes replaced by its number. A part
// without a number stays: a lane that needs it reports it, as in `rank > 0 and 1 / 0`.
Expr Lowering::with_equal_parts_computed(const Expr& expr) {
  Expr result = expr;
  if (expr.kind != ExprKind::unary && expr.kind != ExprKind::binary) return result;
  for (Expr& arg : result.args) {
    if (differs_by_rank(arg)) {
      arg = with_equal_parts_computed(arg);
      continue;
    }
    try {
      Expr constant;
      constant.place = arg.place;
      constant.number = evaluate(arg, scope(lanes_[0]));
      arg = std::move(constant);
    } catch (const Error&) {
    }
  }
  return result;
}

PerRankNumber Lowering::lane_number(const Expr& expr) {
  if (expr.kind == ExprKind::call && is_shape_verb(expr.symbol))
    if (std::optional<PerRankNumber> number = shape_number(expr)) return *number;
  PerRankNumber result{lanes_, {}};
  if (!differs_by_rank(expr)) {
    result.values.push_back(evaluate(expr, scope(lanes_[0])));
    return result;
  }
  result.values.reserve(static_cast<size_t>(lanes_.size()));
  bool same = true;
  const Expr by_rank = with_equal_parts_computed(expr);
  for (int64_t i = 0; i < lanes_.size(); ++i) {
    result.values.push_back(evaluate(by_rank, scope(lanes_[i])));
    same = same && result.values.back() == result.values.front();
  }
  if (same) result.values.resize(1);
  return result;
}

Number Lowering::uniform_number(const Expr& expr) {
  PerRankNumber number = lane_number(expr);
  if (!number.uniform())
    fail(expr.place, "expected a number that is equal on all ranks of the listing");
  return number.values[0];
}

// Returns the value of a name that exactly the current lanes have bound, as most have; null for
// others.
const ValueId* Lowering::value_bound_here(const Expr& expr) const {
  if (expr.kind != ExprKind::name || !expr.name.plain()) return nullptr;
  const NameTable::Parts* found = names_.find(expr.name.texts.front());
  if (found == nullptr || found->size() != 1 || !(found->front().lanes == lanes_)) return nullptr;
  return std::get_if<ValueId>(&found->front().binding);
}

Binding Lowering::lower(const Expr& expr) {
  if (const ValueId* value = value_bound_here(expr)) return *value;
  // Most lines compute with a tensor on the left, which is_number would look up again.
  if (expr.kind == ExprKind::binary && value_bound_here(expr.args.at(0)) != nullptr)
    return lower_binary(expr);
  if (is_number(expr)) return lane_number(expr);
  switch (expr.kind) {
    case ExprKind::name: {
      const std::string name = name_of(expr.name);
      if (std::optional<Binding> found = find(name, expr.place)) return *found;
      fail(expr.place, fmt::format("unknown name {}{}", name, nearest_name(name)));
    }
    case ExprKind::unary: return lower_unary(expr);
    case ExprKind::binary: return lower_binary(expr);
    case ExprKind::call: {
      const std::vector<ValueId> results = lower_call(expr, 1);
      if (results.size() != 1)
        fail(expr.place,
             fmt::format("{} gives {} values, expected one; bind each to a name: a, b = {}(..)",
                         expr.symbol, results.size(), expr.symbol));
      return results[0];
    }
    case ExprKind::index: return lower_index(expr.args.at(0), expr.items, expr.place);
    case ExprKind::transpose: {
      const ValueId value = lower_value(expr.args.at(0));
      return infix(".T", {value}, {}, expr.place);
    }
    case ExprKind::list: fail(expr.place, "expected one value, found a list of tensors");
    case ExprKind::text:
      fail(expr.place, fmt::format("expected a value, found the text {}; write a name without "
                                   "quotes",
                                   to_string(expr)));
    case ExprKind::placements: fail(expr.place, "expected a value, found placements");
    case ExprKind::number: break;
  }
  SP_UNREACHABLE("expression kind {}", static_cast<int>(expr.kind));
}

ValueId Lowering::lower_value(const Expr& expr) {
  Binding binding = lower(expr);
  if (std::holds_alternative<ValueId>(binding)) return std::get<ValueId>(binding);
  const PerRankNumber& number = std::get<PerRankNumber>(binding);
  if (number.values[0].is_list() || number.values[0].is_text())
    fail(expr.place, "expected a tensor or a number, found a list");
  return value_of(number);
}

Binding Lowering::lower_unary(const Expr& expr) {
  const ValueId value = lower_value(expr.args.at(0));
  if (expr.symbol == "+") return value;
  if (expr.symbol == "not") fail(expr.place, "not takes a number; use logical_not on tensors");
  // x * -1 has the bits of -x in every dtype, signed zeros included.
  if (const TensorMeta meta = meta_of(value); meta.dtype == DType::boolean)
    fail(expr.place, "- is not defined for bool; use logical_not, or cast it first");
  const ValueId minus_one = value_of({lanes_, {Number(int64_t{-1})}});
  return infix("*", {value, minus_one}, {}, expr.place);
}

Binding Lowering::lower_binary(const Expr& expr) {
  if (expr.symbol == "and" || expr.symbol == "or")
    fail(expr.place, fmt::format("{0} takes numbers; use logical_{0} on tensors", expr.symbol));
  const ValueId left = lower_value(expr.args.at(0));
  const ValueId right = lower_value(expr.args.at(1));
  return infix(expr.symbol.c_str(), {left, right}, {}, expr.place);
}

ValueId Lowering::infix(const char* symbol, std::vector<ValueId> inputs, Attrs attrs,
                        const SourceLocation& place) {
  auto known = infix_ops_.find(std::string_view(symbol));
  if (known == infix_ops_.end()) {
    const OpRecord* const op = ops_.find_infix(symbol);
    if (!op) fail(place, fmt::format("\"{}\" is not defined for tensors", symbol));
    known = infix_ops_.emplace(symbol, InfixOp{op, {}}).first;
    op->fill_fallbacks(known->second.fallbacks);
  }
  const auto& [op, fallbacks] = known->second;
  const SourceLocation outer = place_;
  place_.column = place.column;
  if (attrs.values().empty())
    attrs = fallbacks;
  else
    op->fill_fallbacks(attrs);
  std::vector<LaneAttrs> of_lanes;
  of_lanes.push_back({lanes_, std::move(attrs)});
  const ValueId result = emit(*op, std::move(of_lanes), std::move(inputs), 1).at(0);
  place_ = outer;
  return result;
}

std::vector<ValueId> Lowering::lower_call(const Expr& call, size_t wanted) {
  if (call.kind != ExprKind::call) fail(call.place, "expected a call");
  const SourceLocation outer = place_;
  place_.column = call.place.column;
  if (call.symbol == "grad") {
    std::vector<ValueId> gradients = lower_grad(call, wanted);
    place_ = outer;
    return gradients;
  }
  if (std::optional<std::vector<ValueId>> results = special(call, wanted > 0)) {
    place_ = outer;
    return *results;
  }
  const bool in_place =
      call.symbol.size() > 1 && call.symbol.back() == '_' && !ops_.find(call.symbol);
  const std::string verb = in_place ? call.symbol.substr(0, call.symbol.size() - 1) : call.symbol;
  const OpRecord* op = ops_.find(verb);
  if (!op) {
    NearestName nearest(verb);
    for (const OpRecord* known : ops_.all()) nearest.offer(known->name);
    for (const std::string& known : special_verbs()) nearest.offer(known);
    std::string hint = text_for_foreign_call(call, wanted == 0);
    if (!hint.empty()) hint = "; write " + hint;
    if (hint.empty()) hint = nearest.hint();
    if (hint.empty()) hint = "; shardproof list ops lists all";
    fail(call.place, fmt::format("unknown op {}{}", call.symbol, hint));
  }
  if (wanted == 0 && !in_place)
    fail(call.place, fmt::format("the result of {} is dropped; bind it to a name", call.symbol));
  std::vector<ValueId> results = apply_op(*op, call, in_place, wanted);
  place_ = outer;
  return results;
}

}  // namespace shardproof
