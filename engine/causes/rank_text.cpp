// Implements rank_text.h.
#include "shardproof/engine/causes/rank_text.h"

#include <fmt/format.h>
#include <cctype>

namespace shardproof {

namespace {

template <typename Node>
std::vector<Node*> parts_of(Node& expr) {
  std::vector<Node*> parts;
  for (auto& argument : expr.args) parts.push_back(&argument);
  for (auto& item : expr.items)
    for (auto* part : {&item.at, &item.low, &item.high, &item.step})
      for (auto& one : *part) parts.push_back(&one);
  return parts;
}

}  // namespace

std::vector<Expr*> children_of(Expr& expr) { return parts_of(expr); }
std::vector<const Expr*> children_of(const Expr& expr) { return parts_of(expr); }

std::string text_kind_of(const std::string& text) {
  std::string kind;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    const bool in_name =
        !kind.empty() && (std::isalpha(static_cast<unsigned char>(kind.back())) != 0 ||
                          kind.back() == '_' || kind.back() == '#');
    if (!is_digit || !in_name)
      kind += c;
    else if (kind.back() != '#')
      kind += '#';
  }
  return kind;
}

NumberedText::NumberedText(const Job& job) : copy_(job) {
  visit_expressions(copy_, [&](const TextPlace& place, Expr& expr) {
    numbers_.emplace(&expr, place.number);
    lines_.push_back({place.listing, expr.place.line});
  });
  for (size_t listing = 0; listing < copy_.ranks.size(); ++listing) {
    std::vector<std::string> loops, bound;
    add(copy_.ranks[listing].listing.statements, listing, loops, bound);
  }
  std::map<std::string, std::set<ListedLine>> lines;  // by the kind of their text
  for (const TextStatement& one : statements_)
    lines[text_kind_of(to_string(*one.whole[0]))].insert({one.listing, one.statement->place.line});
  for (const auto& [kind, alike] : lines)
    if (alike.size() <= kRareLines) rare_.insert(alike.begin(), alike.end());
}

std::set<int> NumberedText::alike(int number) const {
  using Place = std::pair<std::string, std::string>;  // the kind of the line, and the text
  std::map<Place, std::set<int>> numbers;
  Place own;
  for (const TextStatement& one : statements_)
    for (const Expr* whole : one.whole) {
      const std::string kind = text_kind_of(to_string(*whole));
      visit_parts(*whole, [&](const Expr& part) {
        const Place place{kind, to_string(part)};
        numbers[place].insert(number_of(part));
        if (number_of(part) == number) own = place;
      });
    }
  return numbers[own];
}

std::optional<TextChange> NumberedText::change_of_range(const TextChange& change) const {
  for (const TextStatement& one : statements_) {
    if (one.statement->kind != StatementKind::for_range) continue;
    std::vector<std::string> was, to;
    bool has_bound = false;
    for (const Expr* bound : one.whole) {
      const bool is_it = number_of(*bound) == change.number;
      has_bound = has_bound || is_it;
      was.push_back(to_string(*bound));
      to.push_back(is_it ? to_string(change.to) : was.back());
    }
    if (!has_bound) continue;
    TextChange whole = change;
    whole.was = parse_expression(fmt::format("range({})", fmt::join(was, ", ")));
    whole.to = parse_expression(fmt::format("range({})", fmt::join(to, ", ")));
    return whole;
  }
  return std::nullopt;
}

const Expr* NumberedText::parent_of(int number) const {
  const Expr* parent = nullptr;
  for (const TextStatement& one : statements_)
    for (const Expr* whole : one.whole)
      visit_parts(*whole, [&](const Expr& part) {
        for (const Expr* child : children_of(part))
          if (number_of(*child) == number) parent = &part;
      });
  return parent;
}

void NumberedText::add(const std::vector<Statement>& statements, size_t listing,
                       std::vector<std::string>& loops, std::vector<std::string>& bound) {
  for (const Statement& one : statements) {
    TextStatement text{&one, listing, {}, loops, bound};
    if (one.value) text.whole.push_back(&*one.value);
    for (const Expr& limit : one.range) text.whole.push_back(&limit);
    if (!text.whole.empty()) statements_.push_back(std::move(text));
    const bool is_loop = one.kind == StatementKind::for_range;
    if (is_loop) loops.push_back(to_string(one.targets.at(0)));
    if (one.kind == StatementKind::assign)
      for (const NameTemplate& name : one.targets) bound.push_back(to_string(name));
    add(one.body, listing, loops, bound);
    add(one.otherwise, listing, loops, bound);
    if (is_loop) loops.pop_back();
  }
}

std::string group_of_own_reduction(const TextStatement& one) {
  const Statement& line = *one.statement;
  std::string group;
  if (line.kind != StatementKind::assign || line.targets.size() != 1) return group;
  const std::string name = to_string(line.targets[0]);
  visit_parts(*one.whole[0], [&](const Expr& part) {
    const auto kind =
        part.kind == ExprKind::call ? parse_collective_kind(part.symbol) : std::nullopt;
    if (!kind || !reduces(*kind) || part.args.empty() || to_string(part.args[0]) != name) return;
    if (const Expr* const own = argument_of(part, "group")) group = to_string(*own);
  });
  return group;
}

}  // namespace shardproof
