// Implements the conditions of lowering.h: the lanes on which a condition holds.
//
// Some numbers depend on the rank alone: `rank`, `index(pp)`, `rank % 4`. A table, made once for a
// listing, holds the lanes of each of their values. If such a number is compared with an integer
// that is equal on all lanes, the table gives the lanes on which the condition holds. `not`, `and`
// and `or` of such comparisons are set operations. Any other condition is evaluated for each lane.
//
// Example: `for r in range(world): if rank == r:` on 4,096 ranks. The lanes by value of `rank` are
// {0: lane 0, 1: lane 1, ..}, so each pass looks up one lane.
#include <algorithm>

#include "shardproof/engine/lower/lowering.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns the comparison with its sides exchanged, "" if the symbol is no comparison.
std::string_view mirrored_comparison(std::string_view symbol) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"==", "=="}, {"!=", "!="}, {"<", ">"}, {">", "<"}, {"<=", ">="}, {">=", "<="}};
  for (const auto& [own, mirrored] : kPairs)
    if (symbol == own) return mirrored;
  return {};
}

// Returns the lanes whose number compares with `value` as `symbol` states.
Lanes lanes_comparing(const std::map<int64_t, Lanes>& by_number, std::string_view symbol,
                      int64_t value) {
  const auto low = by_number.lower_bound(value), high = by_number.upper_bound(value);
  if (symbol == "==") return low == high ? Lanes() : low->second;
  std::vector<int32_t> ranks;
  const auto add = [&](auto first, auto end) {
    for (; first != end; ++first)
      for (int64_t i = 0; i < first->second.size(); ++i) ranks.push_back(first->second[i]);
  };
  if (symbol != ">" && symbol != ">=") add(by_number.begin(), symbol == "<=" ? high : low);
  if (symbol != "<" && symbol != "<=") add(symbol == ">=" ? low : high, by_number.end());
  return Lanes::of(std::move(ranks));
}

}  // namespace

bool Lowering::depends_on_rank_alone(const Expr& expr) {
  bool alone = true;
  visit_names(expr, [&](const NameTemplate& name) {
    alone = alone && name.plain() && names_.find(name.texts.at(0)) == nullptr;
  });
  return alone;
}

// Returns nothing if the number is no integer on some lane of the listing, or has no value there.
const std::map<int64_t, Lanes>* Lowering::lanes_by_number(const Expr& expr) {
  if (!depends_on_rank_alone(expr)) return nullptr;
  const auto [entry, fresh] = lanes_by_number_.try_emplace(to_string(expr));
  std::map<int64_t, Lanes>& known = entry->second;
  if (fresh) {
    std::map<int64_t, std::vector<int32_t>> ranks;
    try {
      for (int64_t i = 0; i < listing_lanes_.size(); ++i) {
        const Number number = evaluate(expr, scope(listing_lanes_[i]));
        if (!number.is_integer()) return nullptr;
        ranks[number.integer()].push_back(listing_lanes_[i]);
      }
    } catch (const Error&) {
      return nullptr;
    }
    for (auto& [number, listed] : ranks) known.emplace(number, Lanes::of(std::move(listed)));
  }
  return known.empty() ? nullptr : &known;
}

std::optional<Lanes> Lowering::lanes_of_comparison(const Expr& condition) {
  std::string_view symbol = condition.symbol;
  const std::string_view mirrored = mirrored_comparison(symbol);
  if (mirrored.empty()) return std::nullopt;
  const Expr *by_rank = &condition.args[0], *equal = &condition.args[1];
  if (differs_by_rank(*equal)) {
    std::swap(by_rank, equal);
    symbol = mirrored;
    if (differs_by_rank(*equal)) return std::nullopt;
  }
  const Number value = evaluate(*equal, scope(lanes_[0]));
  const std::map<int64_t, Lanes>* const by_number = lanes_by_number(*by_rank);
  if (by_number == nullptr || !value.is_integer()) return std::nullopt;
  return lanes_comparing(*by_number, symbol, value.integer()).intersect(lanes_);
}

// Throws Error if a part that is equal on all lanes has no value.
std::optional<Lanes> Lowering::lanes_at_once(const Expr& condition) {
  if (!differs_by_rank(condition))
    return evaluate(condition, scope(lanes_[0])).truth() ? lanes_ : Lanes();
  if (condition.kind == ExprKind::unary && condition.symbol == "not") {
    const std::optional<Lanes> holds = lanes_at_once(condition.args[0]);
    return holds ? std::optional(lanes_.minus(*holds)) : std::nullopt;
  }
  if (condition.kind != ExprKind::binary) return std::nullopt;
  if (condition.symbol != "and" && condition.symbol != "or") return lanes_of_comparison(condition);
  const std::optional<Lanes> left = lanes_at_once(condition.args[0]);
  const std::optional<Lanes> right = left ? lanes_at_once(condition.args[1]) : std::nullopt;
  if (!right) return std::nullopt;
  return condition.symbol == "and" ? left->intersect(*right) : left->unite(*right);
}

Lanes Lowering::lanes_where(const Expr& condition) {
  try {
    if (std::optional<Lanes> lanes = lanes_at_once(condition)) return *std::move(lanes);
  } catch (const Error&) {
    // A lane that needs the part without a value reports it, as in `rank > 0 and 1 / 0`.
  }
  const PerRankNumber holds = lane_number(condition);
  if (holds.uniform()) return holds.values[0].truth() ? lanes_ : Lanes();
  std::vector<int32_t> ranks;
  for (int64_t i = 0; i < lanes_.size(); ++i)
    if (holds.values[static_cast<size_t>(i)].truth()) ranks.push_back(lanes_[i]);
  return Lanes::of(std::move(ranks));
}

}  // namespace shardproof
