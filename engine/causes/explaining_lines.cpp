// Implements explaining.h: lines in the wrong order, and lines that are missing.
#include <fmt/format.h>

#include "shardproof/engine/causes/explaining.h"
#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

// True if two statements, one after the other in the text, are right in the other order.
bool Explaining::is_right_swapped(const TextStatement& a, const TextStatement& b) {
  const int first = a.statement->place.line, second = b.statement->place.line;
  if (!confirmation_.confirms_job(with_swapped_lines(a.listing, first, second))) return false;
  const auto line = [&](int number) {
    return line_text(about_.ranks.program, {a.listing, number});
  };
  settle({fmt::format("{} comes before {}, and {} is right in the other order", line(first),
                      line(second), target()),
          fmt::format("{} before {}", line(second), line(first)),
          {}});
  return true;
}

namespace {

constexpr int kMostSwaps = 16;

bool are_both_assigned(const TextStatement& a, const TextStatement& b) {
  return a.statement->kind == StatementKind::assign && b.statement->kind == StatementKind::assign &&
         a.listing == b.listing && a.loops == b.loops;
}

bool receives(const TextStatement& one) {
  return one.whole[0]->kind == ExprKind::call && one.whole[0]->symbol == "recv";
}

}  // namespace

// True if two receives, one after the other, are right in the other order. Messages of one sender
// arrive in the order in which it sends them.
bool Explaining::receives_are_swapped() {
  if (!confirmation_.can_change_job()) return false;
  int tries = 0;
  const std::vector<TextStatement>& all = confirmation_.text().statements();
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (!are_both_assigned(all[i], all[i + 1]) || !receives(all[i]) || !receives(all[i + 1]))
      continue;
    if (++tries > kMostSwaps) return false;
    if (!is_right_swapped(all[i], all[i + 1])) continue;
    fix += ", or send them in the other order";
    return true;
  }
  return false;
}

bool Explaining::lines_are_swapped() {
  int tries = 0;
  const NumberedText& text = confirmation_.text();
  const auto reads = [](const Expr& expr, const NameTemplate& name) {
    bool found = false;
    visit_parts(expr, [&](const Expr& part) {
      found = found || (part.kind == ExprKind::name && part.name.texts == name.texts);
    });
    return found;
  };
  for (size_t i = 0; i + 1 < text.statements().size(); ++i) {
    const TextStatement &a = text.statements()[i], &b = text.statements()[i + 1];
    if (!are_both_assigned(a, b)) continue;
    if (!reads(*b.whole[0], a.statement->targets[0]) &&
        !reads(*a.whole[0], b.statement->targets[0]))
      continue;
    if (++tries > kMostSwaps) return false;
    // A value of the first line that no line after the second one reads must be an output.
    const std::string bound = to_string(a.statement->targets[0]);
    const bool is_output =
        std::any_of(about_.job.outputs.begin(), about_.job.outputs.end(),
                    [&](const JobOutput& output) { return output.name == bound; });
    bool is_read = is_output;
    for (size_t k = i + 2; k < text.statements().size(); ++k)
      is_read = is_read || (text.statements()[k].listing == a.listing &&
                            reads(*text.statements()[k].whole[0], a.statement->targets[0]));
    if (is_read && is_right_swapped(a, b)) return true;
  }
  return false;
}

namespace {

// Returns the group over which a line reduces the name that it binds: "dp" for
// "g = all_reduce(g, avg, group=dp)" and "g = all_reduce(g, sum, group=dp) / m"; "" for other
// lines.
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

// True if a line of the listing reduces the name over the group.
bool is_reduced_over(const std::vector<TextStatement>& all, size_t listing, const std::string& name,
                     const std::string& group) {
  return std::any_of(all.begin(), all.end(), [&](const TextStatement& one) {
    return one.listing == listing && group_of_own_reduction(one) == group &&
           to_string(one.statement->targets[0]) == name;
  });
}

void rename(Expr& expr, const std::string& from, const std::string& to) {
  for (Expr* child : children_of(expr)) rename(*child, from, to);
  if (expr.kind == ExprKind::name && to_string(expr) == from)
    replace_expression(expr, parse_expression(to));
}

std::string text_of_line(const Statement& line) {
  return to_string(line.targets[0]) + " = " + to_string(*line.value);
}

// Returns the place of a line in another listing: before or after the line of the kind that follows
// or precedes it in its own listing. 0 if there is none.
std::pair<int, Beside> place_in(size_t listing, const std::vector<TextStatement>& all, size_t own) {
  const auto kind = [](const TextStatement& one) { return text_kind_of(to_string(*one.whole[0])); };
  for (const Beside beside : {Beside::before, Beside::after}) {
    const size_t next = beside == Beside::before ? own + 1 : own - 1;
    if (next >= all.size() || all[next].listing != all[own].listing) continue;
    for (const TextStatement& one : all)
      if (one.listing == listing && one.loops == all[own].loops && kind(one) == kind(all[next]) &&
          one.statement->targets.size() == all[next].statement->targets.size())
        return {one.statement->place.line, beside};
  }
  return {0, Beside::before};
}

// True if a line of the listing is of the same kind.
bool has_line_like(const std::vector<TextStatement>& all, const TextStatement& like,
                   size_t listing) {
  const std::string kind = text_kind_of(to_string(*like.whole[0]));
  return std::any_of(all.begin(), all.end(), [&](const TextStatement& one) {
    return one.listing == listing && text_kind_of(to_string(*one.whole[0])) == kind;
  });
}

}  // namespace

bool Explaining::is_right_with_line(const TextStatement& like, const NameTemplate& name,
                                    ListedLine at, Beside beside) {
  Statement line = *like.statement;
  rename(*line.value, to_string(line.targets[0]), to_string(name));
  line.targets[0].texts = name.texts;
  line.targets[0].holes = name.holes;
  const std::string text = text_of_line(line);
  for (const TextStatement& one : confirmation_.text().statements())
    if (one.listing == at.listing && one.statement->kind == StatementKind::assign &&
        text_of_line(*one.statement) == text)
      return false;
  if (!confirmation_.confirms_job(with_inserted_line(at.listing, at.line, beside, line)))
    return false;
  const SpmdProgram& program = about_.ranks.program;
  settle({fmt::format("no line reduces {} as {} reduces {}", to_string(name),
                      line_text(program, {like.listing, like.statement->place.line}),
                      to_string(like.statement->targets[0])),
          fmt::format("add {} {} {}", text, beside == Beside::before ? "before" : "after",
                      line_text(program, at)),
          {}});
  return true;
}

// True if the value is right with one more line that reduces a name as another line does. The other
// line is in the same listing, or in another one, and this one has no such line. Example: "g3 =
// all_reduce(g3, avg, group=dp)" after "g2 = all_reduce(g2, avg, group=dp)".
bool Explaining::misses_a_line() {
  constexpr int kMostRunsOfLines = 24;
  if (!confirmation_.can_change_job()) return false;
  const std::vector<TextStatement>& all = confirmation_.text().statements();
  confirmation_.allow_more_runs(kMostRunsOfLines);
  for (const bool is_same_kind : {true, false})
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string group = group_of_own_reduction(all[i]);
      if (group.empty()) continue;
      const std::string own = to_string(all[i].statement->targets[0]);
      std::set<std::pair<size_t, std::string>> tried;
      for (const TextStatement& other : all) {
        if (other.statement->kind != StatementKind::assign ||
            !suspects().contains({other.listing, other.statement->place.line}))
          continue;
        const bool is_here = other.listing == all[i].listing;
        if (!is_here && has_line_like(all, all[i], other.listing)) continue;
        const auto [line, beside] = is_here ? std::pair(all[i].statement->place.line, Beside::after)
                                            : place_in(other.listing, all, i);
        for (const NameTemplate& name : other.statement->targets) {
          const std::string text = to_string(name);
          const bool is_kind = text_kind_of(text) == text_kind_of(own);
          const bool is_bound =
              !is_here || std::count(all[i].before.begin(), all[i].before.end(), text) > 0;
          if (line == 0 || !is_bound || is_kind != is_same_kind || (!is_here && !is_kind) ||
              is_reduced_over(all, other.listing, text, group) ||
              !tried.emplace(other.listing, text).second)
            continue;
          if (confirmation_.is_spent()) return false;
          if (is_right_with_line(all[i], name, {other.listing, line}, beside)) return true;
        }
      }
    }
  return false;
}

}  // namespace shardproof
