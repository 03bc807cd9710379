// Implements text_matcher.h by dynamic programming over pairs of nodes.
//
// Example: "s + g / m" compared with "(s + g) / m". The cheapest way takes "/ m" from around s + g
// (2 nodes) and puts it around g (2 nodes).
#include "shardproof/engine/causes/text_matcher.h"

#include <algorithm>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {
namespace {

constexpr double kOtherNameCost = 0.25;
constexpr double kInlined = 0.5;  // a name in place of an expression

bool is_one(const Expr& expr) {
  return expr.kind == ExprKind::number && expr.number.is_integer() && expr.number.integer() == 1;
}

bool have_equal_items(const Expr& a, const Expr& b) {
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    [](const IndexItem& one, const IndexItem& other) {
                      return one.kind == other.kind && one.at.size() == other.at.size() &&
                             one.low.size() == other.low.size() &&
                             one.high.size() == other.high.size() &&
                             one.step.size() == other.step.size();
                    });
}

bool have_equal_ops(const Expr& a, const Expr& b) {
  return a.symbol == b.symbol && a.keys == b.keys;
}

bool is_named_argument(const Expr& expr, size_t child) {
  return expr.kind == ExprKind::call && child < expr.keys.size() && !expr.keys[child].empty();
}

// True if the arguments of two calls are both named or both positional: an option such as dim=-1
// stands in place of no tensor.
bool have_comparable_arguments(const Expr& a, const Expr& b) {
  for (size_t i = 0; i < a.args.size() && i < b.args.size(); ++i)
    if (is_named_argument(a, i) != is_named_argument(b, i)) return false;
  return true;
}

size_t positional_count(const Expr& call) {
  size_t count = 0;
  while (count < call.args.size() && !is_named_argument(call, count)) ++count;
  return count;
}

// True for calls of one op with other named arguments: sdpa(q, k, v) and sdpa(a, b, c,
// causal=true).
bool differ_in_options(const Expr& a, const Expr& b) {
  if (a.kind != ExprKind::call || b.kind != ExprKind::call || a.symbol != b.symbol) return false;
  const size_t count = positional_count(a);
  if (count == 0 || positional_count(b) != count) return false;
  if (a.args.size() != b.args.size()) return true;
  for (size_t i = count; i < a.args.size(); ++i)
    if (a.keys[i] != b.keys[i] || to_string(a.args[i]) != to_string(b.args[i])) return true;
  return false;
}

// Returns a call with the named arguments of another one.
Expr with_options(const Expr& call, const Expr& other) {
  Expr changed = other;
  std::copy_n(call.args.begin(), positional_count(call), changed.args.begin());
  return changed;
}

// True if the arguments of two expressions can be compared one by one.
bool have_comparable_children(const Expr& a, const Expr& b) {
  return a.kind == b.kind && a.kind != ExprKind::name &&
         children_of(a).size() == children_of(b).size() && have_equal_items(a, b) &&
         have_comparable_arguments(a, b);
}

// Puts a changed expression into the calls around the old one.
Expr within_calls(const Expr& ranks, const Expr& inner, const Expr& changed) {
  if (&ranks == &inner) return changed;
  Expr outer = ranks;
  outer.args[0] = within_calls(ranks.args[0], inner, changed);
  return outer;
}

}  // namespace

const Expr& without_calls(const Expr& expr) {
  if (expr.kind == ExprKind::call && !expr.args.empty() &&
      (expr.symbol == "enter" || parse_collective_kind(expr.symbol)))
    return without_calls(expr.args[0]);
  if (expr.kind == ExprKind::binary && expr.symbol == "*" && is_one(expr.args[1]))
    return without_calls(expr.args[0]);
  return expr;
}

const TextMatcher::Match& TextMatcher::match(const Expr& ranks, const Expr& other) {
  const Expr &r = without_calls(ranks), &o = without_calls(other);
  const auto known = matches_.find({&r, &o});
  if (known != matches_.end()) return known->second;
  const Match found = compute(r, o, false);
  return matches_.emplace(std::pair(&r, &o), found).first->second;
}

TextMatcher::Match TextMatcher::match_whole(const Expr& ranks, const Expr& other) {
  return compute(without_calls(ranks), without_calls(other), true);
}

int TextMatcher::size(const Expr& expr) {
  const auto known = sizes_.find(&expr);
  if (known != sizes_.end()) return known->second;
  int size = 1;
  for (const Expr* child : children_of(expr)) size += this->size(without_calls(*child));
  return sizes_[&expr] = size;
}

double TextMatcher::cost_of_children(const Expr& r, const Expr& o) {
  const auto a = children_of(r), b = children_of(o);
  double cost = 0;
  for (size_t i = 0; i < a.size(); ++i) cost += match(*a[i], *b[i]).cost;
  return cost;
}

TextMatcher::Match TextMatcher::compute(const Expr& r, const Expr& o, bool is_whole) {
  Match best{static_cast<double>(std::max(size(r), size(o))), Step::replaced};
  const auto offer = [&](double cost, Step step, size_t child = 0) {
    if (cost < best.cost) best = {cost, step, child};
  };
  const auto a = children_of(r), b = children_of(o);
  const bool is_name = r.kind == ExprKind::name, to_name = o.kind == ExprKind::name;
  if (is_name && to_name) offer(to_string(r) == to_string(o) ? 0 : kOtherNameCost, Step::name);
  const bool stands_for = (is_name && size(o) > 1 && !shared_.contains(to_string(r))) ||
                          (to_name && size(r) > 1 && !shared_.contains(to_string(o)));
  if (stands_for && !is_whole) offer(kInlined, Step::inlined);
  if (have_comparable_children(r, o)) {
    if (a.empty())
      offer(to_string(r) == to_string(o) ? 0 : 1, Step::replaced);
    else
      offer(cost_of_children(r, o) + (have_equal_ops(r, o) ? 0 : 1),
            have_equal_ops(r, o) ? Step::children : Step::symbol);
  }
  if (best.cost == 0) return {};
  if (differ_in_options(r, o)) {
    double cost = 1;
    for (size_t i = 0; i < positional_count(r); ++i) cost += match(r.args[i], o.args[i]).cost;
    offer(cost, Step::options);
  }
  for (size_t i = 0; i < b.size(); ++i) {
    if (is_named_argument(o, i)) continue;
    offer(size(o) - size(without_calls(*b[i])) + match(r, *b[i]).cost, Step::wrapped, i);
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (is_named_argument(r, i)) continue;
    offer(size(r) - size(without_calls(*a[i])) + match(*a[i], o).cost, Step::unwrapped, i);
  }
  return best;
}

void TextMatcher::learn_names(const Expr& ranks, const Expr& other, const Match& found) {
  const Expr &r = without_calls(ranks), &o = without_calls(other);
  const auto a = children_of(r), b = children_of(o);
  const auto learn = [&](const Expr& own, const Expr& theirs) {
    learn_names(own, theirs, match(own, theirs));
  };
  if (r.kind == ExprKind::name && o.kind == ExprKind::name)
    names_.emplace(to_string(o), to_string(r));
  if (found.step == Step::children || found.step == Step::symbol)
    for (size_t i = 0; i < a.size(); ++i) learn(*a[i], *b[i]);
  if (found.step == Step::options)
    for (size_t i = 0; i < positional_count(r); ++i) learn(r.args[i], o.args[i]);
  if (found.step == Step::wrapped) learn(r, *b[found.child]);
  if (found.step == Step::unwrapped) learn(*a[found.child], o);
}

Expr TextMatcher::in_own_names(Expr expr) const {
  for (Expr* child : children_of(expr)) *child = in_own_names(*child);
  if (expr.kind != ExprKind::name) return expr;
  const auto own = names_.find(to_string(expr));
  return own == names_.end() ? expr : parse_expression(own->second);
}

Expr TextMatcher::around(const Expr& other, size_t child, const Expr& inner) const {
  Expr outer = other;
  const std::vector<Expr*> parts = children_of(outer);
  for (size_t i = 0; i < parts.size(); ++i)
    *parts[i] = i == child ? inner : in_own_names(*parts[i]);
  return outer;
}

void TextMatcher::add(const Expr& ranks, const Expr& other, const Match& found,
                      std::vector<Replacement>& to) {
  const Expr &r = without_calls(ranks), &o = without_calls(other);
  const auto a = children_of(r), b = children_of(o);
  const auto go_on = [&](const Expr& own, const Expr& theirs) {
    add(own, theirs, match(own, theirs), to);
  };
  switch (found.step) {
    case Step::equal:
    case Step::inlined: return;
    case Step::name: to.push_back({&r, o}); return;
    case Step::replaced: to.push_back({&r, in_own_names(o)}); return;
    case Step::symbol: {
      Expr changed = r;
      changed.symbol = o.symbol;
      changed.keys = o.keys;
      to.push_back({&r, std::move(changed)});
      for (size_t i = 0; i < a.size(); ++i) go_on(*a[i], *b[i]);
      return;
    }
    case Step::children:
      for (size_t i = 0; i < a.size(); ++i) go_on(*a[i], *b[i]);
      return;
    case Step::options:
      to.push_back({&r, with_options(r, in_own_names(o))});
      for (size_t i = 0; i < positional_count(r); ++i) go_on(r.args[i], o.args[i]);
      return;
    case Step::wrapped:
      to.push_back({&r, around(o, found.child, r)});
      if (&r != &ranks) to.push_back({&ranks, around(o, found.child, ranks)});
      go_on(r, *b[found.child]);
      return;
    case Step::unwrapped:
      to.push_back({&r, *a[found.child]});
      go_on(*a[found.child], o);
      return;
  }
}

Expr TextMatcher::made_like(const Expr& ranks, const Expr& other, const Match& found,
                            bool takes_names) {
  const Expr &r = without_calls(ranks), &o = without_calls(other);
  const auto a = children_of(r), b = children_of(o);
  const auto like = [&](const Expr& own, const Expr& theirs) {
    return made_like(own, theirs, match(own, theirs), takes_names);
  };
  Expr changed = r;
  switch (found.step) {
    case Step::equal:
    case Step::inlined: return ranks;
    case Step::name:
      if (!takes_names) return ranks;
      changed = o;
      break;
    case Step::replaced: changed = in_own_names(o); break;
    case Step::symbol:
      changed.symbol = o.symbol;
      changed.keys = o.keys;
      [[fallthrough]];
    case Step::children: {
      const std::vector<Expr*> parts = children_of(changed);
      for (size_t i = 0; i < a.size(); ++i) *parts[i] = like(*a[i], *b[i]);
      break;
    }
    case Step::options:
      changed = with_options(r, in_own_names(o));
      for (size_t i = 0; i < positional_count(r); ++i) changed.args[i] = like(r.args[i], o.args[i]);
      break;
    case Step::wrapped: changed = around(o, found.child, like(r, *b[found.child])); break;
    case Step::unwrapped: changed = like(*a[found.child], o); break;
  }
  return within_calls(ranks, r, changed);
}

std::vector<TextMatcher::Replacement> TextMatcher::replacements(const Expr& ranks,
                                                                const Expr& other) {
  const Match found = match_whole(ranks, other);
  names_.clear();
  learn_names(ranks, other, found);
  std::vector<Replacement> all;
  add(ranks, other, found, all);
  // A name may stand for a whole line: cnt in place of all of "sum(a) / cnt". If the ops are the
  // same, the arguments are compared, too.
  const Expr &r = without_calls(ranks), &o = without_calls(other);
  if ((found.step == Step::unwrapped || found.step == Step::wrapped) && have_equal_ops(r, o) &&
      have_comparable_children(r, o))
    add(ranks, other, {cost_of_children(r, o), Step::children}, all);
  if (all.size() > 1)
    for (const bool takes_names : {false, true})
      all.push_back({&ranks, made_like(ranks, other, found, takes_names)});
  return all;
}

}  // namespace shardproof
