// Implements local_for_whole.h: moves lines and calls of the text, and tests each change.
#include "shardproof/engine/causes/local_for_whole.h"

#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "shardproof/engine/causes/text_matcher.h"
#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {
namespace {

constexpr int kMostSwaps = 16;
constexpr int kMostMoves = 8;
constexpr int kMostCallsMoved = 16;
constexpr size_t kMostExchanges = 8;

bool is_assigned(const TextStatement& one) { return one.statement->kind == StatementKind::assign; }

bool are_in_one_block(const TextStatement& a, const TextStatement& b) {
  return a.listing == b.listing && a.loops == b.loops;
}

int line_number(const TextStatement& one) { return one.statement->place.line; }

std::string shown_line(const SuspectedWay& on, const TextStatement& one) {
  return line_text(on.about.ranks.program, {one.listing, line_number(one)});
}

bool reads_name(const Expr& expr, const NameTemplate& name) {
  bool found = false;
  visit_parts(expr, [&](const Expr& part) {
    found = found || (part.kind == ExprKind::name && part.name.texts == name.texts);
  });
  return found;
}

bool reads_name(const TextStatement& one, const NameTemplate& name) {
  return std::any_of(one.whole.begin(), one.whole.end(),
                     [&](const Expr* whole) { return reads_name(*whole, name); });
}

bool binds_name(const TextStatement& one, const NameTemplate& name) {
  const std::vector<NameTemplate>& targets = one.statement->targets;
  return is_assigned(one) && std::any_of(targets.begin(), targets.end(), [&](const auto& target) {
           return target.texts == name.texts;
         });
}

// True for a call that moves or adds up shards: not for a message.
bool is_collective_call(const Expr& expr) {
  const auto kind = expr.kind == ExprKind::call ? parse_collective_kind(expr.symbol)
                                                : std::optional<CollectiveKind>();
  return kind && !is_point_to_point(*kind) && !expr.args.empty();
}

std::optional<Suspicion> swapped(const SuspectedWay& on, const TextStatement& a,
                                 const TextStatement& b) {
  if (!on.confirmation.confirms_job(with_swapped_lines(a.listing, line_number(a), line_number(b))))
    return std::nullopt;
  const std::string first = shown_line(on, a), second = shown_line(on, b);
  return Suspicion{true,
                   fmt::format("{} comes before {}, and {} is right in the other order", first,
                               second, on.value.label.name),
                   fmt::format("{} before {}", second, first), on.confirmation.made_right()};
}

// A send and the next receive of one block, such as a step of a ring.
struct Exchange {
  const TextStatement *sends = nullptr, *receives = nullptr;
};

std::vector<Exchange> exchanges_of(const std::vector<TextStatement>& all) {
  const auto is_call = [](const TextStatement& one, const char* verb) {
    return one.whole[0]->kind == ExprKind::call && one.whole[0]->symbol == verb;
  };
  std::vector<Exchange> found;
  for (auto a = all.begin(); a != all.end(); ++a) {
    if (!is_call(*a, "send")) continue;
    const auto b = std::find_if(a + 1, all.end(), [&](const TextStatement& one) {
      return is_call(one, "recv") && are_in_one_block(*a, one);
    });
    if (b != all.end() && found.size() < kMostExchanges) found.push_back({&*a, &*b});
  }
  return found;
}

// Returns the line of the `group:` around a line; the line itself if it is in none.
int line_of_group(const std::vector<Statement>& statements, int line) {
  for (const Statement& one : statements) {
    const bool is_around = std::any_of(one.body.begin(), one.body.end(),
                                       [&](const auto& part) { return part.place.line == line; });
    if (one.kind == StatementKind::group && is_around) return one.place.line;
    for (const std::vector<Statement>* block : {&one.body, &one.otherwise})
      if (const int found = line_of_group(*block, line); found != line) return found;
  }
  return line;
}

// A change of a send and its receive together. Texts: "send and receive over dp", "over tp",
// "group=tp".
struct ExchangeChange {
  std::function<void(Expr&)> change;
  std::string was, right, fix;
};

std::optional<Suspicion> changed_exchange(const SuspectedWay& on, const Exchange& one,
                                          const ExchangeChange& by) {
  const NumberedText& text = on.confirmation.text();
  const std::set<int> calls{text.number_of(*one.sends->whole[0]),
                            text.number_of(*one.receives->whole[0])};
  if (!on.confirmation.confirms_job(change_of(calls, by.change))) return std::nullopt;
  const std::string where =
      lines_text(on.about.ranks.program, {{one.sends->listing, line_number(*one.sends)},
                                          {one.receives->listing, line_number(*one.receives)}});
  return Suspicion{
      true, fmt::format("{} {}, and {} is right {}", where, by.was, on.value.label.name, by.right),
      fmt::format("{} on {}", by.fix, where), on.confirmation.made_right()};
}

// Tries the other direction of a ring.
std::optional<Suspicion> reversed_exchange(const SuspectedWay& on, const Exchange& one) {
  const auto reversed = [](Expr& call) {
    for (Expr& arg : call.args)
      if (const std::string text = to_string(arg); text == "next" || text == "prev")
        replace_expression(arg, parse_expression(text == "next" ? "prev" : "next"));
  };
  const Expr* const to = argument_of(*one.sends->whole[0], "to");
  const std::string direction = to == nullptr ? "" : to_string(*to);
  if (direction != "next" && direction != "prev") return std::nullopt;
  const std::string other = direction == "next" ? "prev" : "next";
  return changed_exchange(
      on, one,
      {reversed, fmt::format("send to {} and receive from {}", direction, other),
       "in the other direction", fmt::format("to={} and from={}", other, direction)});
}

// Tries a ring over another axis.
std::optional<Suspicion> regrouped_exchange(const SuspectedWay& on, const Exchange& one) {
  const Expr* const group = argument_of(*one.sends->whole[0], "group");
  if (group == nullptr) return std::nullopt;
  for (const MeshAxis& axis : on.value.spec.mesh().axes()) {
    if (axis.size == 1 || axis.name == to_string(*group)) continue;
    const auto regrouped = [&](Expr& call) {
      if (Expr* const own = argument_of(call, "group"))
        replace_expression(*own, parse_expression(axis.name));
    };
    if (auto found =
            changed_exchange(on, one,
                             {regrouped, fmt::format("send and receive over {}", to_string(*group)),
                              "over " + axis.name, "group=" + axis.name}))
      return found;
  }
  return std::nullopt;
}

// True if a line reads a name after a statement and before the name is bound again, or before the
// statement in its loop.
bool is_read_in_loop(const std::vector<TextStatement>& all, const TextStatement& at,
                     const NameTemplate& name) {
  const auto place =
      std::find_if(all.begin(), all.end(), [&](const TextStatement& one) { return &one == &at; });
  for (auto one = place + 1; one != all.end() && one->listing == at.listing; ++one) {
    if (reads_name(*one, name)) return true;
    if (binds_name(*one, name)) break;
  }
  for (auto one = place; one != all.begin(); --one) {
    const TextStatement& before = *(one - 1);
    if (before.listing != at.listing || before.loops.size() < at.loops.size()) break;
    if (reads_name(before, name)) return true;
  }
  return false;
}

// Tries a line after the receive that sends on what it received, which no line reads: "part = got".
std::optional<Suspicion> dropped_message(const SuspectedWay& on, const Exchange& one) {
  const std::vector<TextStatement>& all = on.confirmation.text().statements();
  if (!is_assigned(*one.receives) || one.receives->loops.empty() ||
      one.sends->whole[0]->args.empty() || one.sends->whole[0]->args[0].kind != ExprKind::name)
    return std::nullopt;
  const NameTemplate& got = one.receives->statement->targets[0];
  if (is_read_in_loop(all, *one.receives, got)) return std::nullopt;
  const size_t listing = one.receives->listing;
  const int line =
      line_of_group(on.about.job.ranks[listing].listing.statements, line_number(*one.receives));
  const std::string sent = to_string(one.sends->whole[0]->args[0]);
  const std::string text = fmt::format("{} = {}", sent, to_string(got));
  if (!on.confirmation.confirms_job(with_inserted_line(listing, line, InsertPosition::after,
                                                       parse_listing({text}).statements[0])))
    return std::nullopt;
  const bool is_grouped = line != line_number(*one.receives);
  return Suspicion{true,
                   fmt::format("no line reads {}, which {} receives, and {} is right if the next "
                               "pass sends it",
                               to_string(got), shown_line(on, *one.receives), on.value.label.name),
                   fmt::format("add {} after {}{}", text, is_grouped ? "the group of " : "",
                               line_text(on.about.ranks.program, {listing, line})),
                   on.confirmation.made_right()};
}

}  // namespace

std::optional<Suspicion> find_reversed_ring(const SuspectedWay& on) {
  if (!on.confirmation.can_change_job()) return std::nullopt;
  for (const Exchange& one : exchanges_of(on.confirmation.text().statements()))
    if (auto found = reversed_exchange(on, one)) return found;
  return std::nullopt;
}

std::optional<Suspicion> find_swapped_messages(const SuspectedWay& on) {
  if (!on.confirmation.can_change_job()) return std::nullopt;
  for (const Exchange& one : exchanges_of(on.confirmation.text().statements())) {
    if (auto found = dropped_message(on, one)) return found;
    if (auto found = regrouped_exchange(on, one)) return found;
  }
  const std::vector<TextStatement>& all = on.confirmation.text().statements();
  int tries = 0;
  for (const char* verb : {"recv", "send"}) {
    const auto is_message = [&](const TextStatement& one) {
      return one.whole[0]->kind == ExprKind::call && one.whole[0]->symbol == verb;
    };
    for (auto a = all.begin(); a != all.end(); ++a) {
      if (!is_message(*a)) continue;
      const auto b = std::find_if(a + 1, all.end(), [&](const TextStatement& one) {
        return is_message(one) && are_in_one_block(*a, one);
      });
      if (b == all.end()) continue;
      if (++tries > kMostSwaps) return std::nullopt;
      std::optional<Suspicion> found = swapped(on, *a, *b);
      if (!found) continue;
      found->fix += std::string(verb) == "recv" ? ", or send them in the other order"
                                                : ", or receive them in the other order";
      return found;
    }
  }
  return std::nullopt;
}

std::optional<Suspicion> find_swapped_lines(const SuspectedWay& on) {
  int tries = 0;
  const std::vector<TextStatement>& all = on.confirmation.text().statements();
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    const TextStatement &a = all[i], &b = all[i + 1];
    if (!is_assigned(a) || !is_assigned(b) || !are_in_one_block(a, b)) continue;
    const NameTemplate& name = a.statement->targets[0];
    if (!reads_name(b, name) && !reads_name(a, b.statement->targets[0])) continue;
    if (++tries > kMostSwaps) return std::nullopt;
    // A value of the first line that no line after the second one reads must be an output.
    const std::string bound = to_string(name);
    const std::vector<JobOutput>& outputs = on.about.job.outputs;
    bool is_read = std::any_of(outputs.begin(), outputs.end(),
                               [&](const JobOutput& output) { return output.name == bound; });
    for (size_t k = i + 2; k < all.size(); ++k)
      is_read = is_read || (all[k].listing == a.listing && reads_name(all[k], name));
    if (!is_read) continue;
    if (auto found = swapped(on, a, b)) return found;
  }
  return std::nullopt;
}

namespace {

using TextStatements = std::vector<TextStatement>;

// Returns the last later line of the block that binds a name which line `at` reads. Returns null if
// there is none, or if a line between them reads what line `at` binds.
const TextStatement* needed_line(const TextStatements& all, size_t at) {
  const TextStatement& early = all[at];
  const TextStatement* needed = nullptr;
  bool is_read = false;
  for (size_t i = at + 1; i < all.size(); ++i) {
    if (!are_in_one_block(early, all[i])) continue;
    for (const NameTemplate& target : early.statement->targets)
      is_read = is_read || reads_name(all[i], target);
    if (is_read) break;
    for (const NameTemplate& target : all[i].statement->targets)
      if (is_assigned(all[i]) && reads_name(early, target)) needed = &all[i];
  }
  return needed;
}

// Lines of a listing that reduce names over one group after a line that reads one of the names.
struct LateReductions {
  const TextStatement* reader = nullptr;
  std::vector<const TextStatement*> lines = {};
};

// Returns the first line that reads a name between its last binding and a line that reduces it.
const TextStatement* early_reader(const TextStatements& all, size_t reduction) {
  const NameTemplate& name = all[reduction].statement->targets[0];
  const TextStatement* reader = nullptr;
  for (size_t i = reduction; i-- > 0;) {
    if (!are_in_one_block(all[i], all[reduction])) continue;
    if (binds_name(all[i], name)) return reader;
    if (reads_name(all[i], name)) reader = &all[i];
  }
  return nullptr;
}

// Returns the first line that reads a name too early: before line `change` changes it, although all
// that the change reads is bound. Example: "m = 0.9 * m + g" before "g = c * g". Null if there is
// none.
const TextStatement* reader_of_unchanged(const TextStatements& all, size_t change) {
  const TextStatement& one = all[change];
  if (!is_assigned(one) || one.statement->targets.size() != 1) return nullptr;
  const NameTemplate& name = one.statement->targets[0];
  if (!reads_name(one, name) || !group_of_own_reduction(one).empty()) return nullptr;
  const TextStatement* reader = nullptr;
  for (size_t i = change; i-- > 0;) {
    if (!are_in_one_block(all[i], one)) continue;
    const std::vector<NameTemplate>& bound = all[i].statement->targets;
    if (is_assigned(all[i]) && std::any_of(bound.begin(), bound.end(), [&](const auto& target) {
          return reads_name(one, target);
        }))
      return reader;
    if (reads_name(all[i], name)) reader = &all[i];
  }
  return nullptr;
}

std::vector<LateReductions> late_reductions(const TextStatements& all) {
  std::map<std::pair<size_t, std::string>, LateReductions> found;  // by listing and group
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string group = group_of_own_reduction(all[i]);
    if (group.empty()) continue;
    LateReductions& late = found[{all[i].listing, group}];
    const TextStatement* const reader = early_reader(all, i);
    if (reader != nullptr && (late.reader == nullptr || reader < late.reader)) late.reader = reader;
    late.lines.push_back(&all[i]);
  }
  std::vector<LateReductions> result;
  for (auto& [place, late] : found) {
    const TextStatement* const reader = late.reader;
    if (reader == nullptr) continue;
    std::erase_if(late.lines, [&](const TextStatement* one) { return one < reader; });
    result.push_back(std::move(late));
  }
  return result;
}

// Tries a line that changes a name before the lines that read the unchanged one.
std::optional<Suspicion> find_late_change(const SuspectedWay& on) {
  const TextStatements& all = on.confirmation.text().statements();
  int tries = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const TextStatement* const reader = reader_of_unchanged(all, i);
    if (reader == nullptr) continue;
    if (++tries > kMostMoves) return std::nullopt;
    if (!on.confirmation.confirms_job(with_moved_lines(
            all[i].listing, {line_number(all[i])}, line_number(*reader), InsertPosition::before)))
      continue;
    const std::string late = shown_line(on, all[i]), first = shown_line(on, *reader);
    return Suspicion{
        true,
        fmt::format("{} reads {} before {} changes it, and {} is right in the other "
                    "order",
                    first, to_string(all[i].statement->targets[0]), late, on.value.label.name),
        fmt::format("{} before {}", late, first), on.confirmation.made_right()};
  }
  return std::nullopt;
}

// True if a loop of the truth has the line.
bool is_in_loop(const std::vector<Statement>& truth, const std::string& line,
                bool in_loop = false) {
  return std::any_of(truth.begin(), truth.end(), [&](const Statement& one) {
    if (one.kind == StatementKind::for_range) return is_in_loop(one.body, line, true);
    return in_loop && one.kind == StatementKind::assign &&
           fmt::format("{} = {}", to_string(one.targets[0]), to_string(*one.value)) == line;
  });
}

// Tries a line at the begin of the next loop of its block, which binds the same name again. The
// truth must have the line in a loop, too: each pass begins with the name as the line sets it.
std::optional<Suspicion> find_line_of_each_pass(const SuspectedWay& on) {
  const TextStatements& all = on.confirmation.text().statements();
  int tries = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!is_assigned(all[i]) || all[i].statement->targets.size() != 1) continue;
    const NameTemplate& name = all[i].statement->targets[0];
    if (!on.about.job.truth ||
        !is_in_loop(on.about.job.truth->statements,
                    fmt::format("{} = {}", to_string(name), to_string(*all[i].whole[0]))))
      continue;
    const auto loop = std::find_if(
        all.begin() + static_cast<long>(i) + 1, all.end(), [&](const TextStatement& one) {
          return one.statement->kind == StatementKind::for_range && are_in_one_block(one, all[i]);
        });
    if (loop == all.end()) continue;
    bool is_bound_again = false;
    for (auto one = loop + 1; one != all.end() && one->listing == all[i].listing &&
                              one->loops.size() > loop->loops.size();
         ++one)
      is_bound_again = is_bound_again || binds_name(*one, name);
    if (!is_bound_again) continue;
    if (++tries > kMostMoves) return std::nullopt;
    if (!on.confirmation.confirms_job(
            with_line_in_loop(all[i].listing, line_number(all[i]), line_number(*loop))))
      continue;
    const std::string where = shown_line(on, all[i]), of_loop = shown_line(on, *loop);
    return Suspicion{true,
                     fmt::format("{} sets {} before the loop of {}, and {} is right if each pass "
                                 "sets it",
                                 where, to_string(name), of_loop, on.value.label.name),
                     fmt::format("{} as the first line in the loop of {}", where, of_loop),
                     on.confirmation.made_right()};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Suspicion> find_line_of_truth(const SuspectedWay& on) {
  const RankProgram& ranks = on.about.ranks;
  const TextStatements& all = on.confirmation.text().statements();
  if (on.value.label.line > 0 || !on.confirmation.can_change_job() || !on.about.job.truth ||
      on.about.job.ranks.size() != 1 || all.empty())
    return std::nullopt;
  const std::string& target = on.value.label.name;
  const std::vector<Statement>& own = on.about.job.ranks[0].listing.statements;
  const std::vector<Statement>& truth = on.about.job.truth->statements;
  for (const Statement& line : truth) {
    if (line.kind != StatementKind::assign || line.targets.size() != 1 ||
        to_string(line.targets[0]) != target)
      continue;
    const int last = own.back().place.line;
    if (!on.confirmation.confirms_job(with_inserted_line(0, last, InsertPosition::after, line)))
      continue;
    const std::string text = fmt::format("{} = {}", target, to_string(*line.value));
    const std::string of_last = line_text(ranks.program, {0, last});
    return Suspicion{
        true,
        fmt::format("no line of the ranks binds {0}, and {0} is right with {1}, as on "
                    "line {2} of the truth",
                    target, text, line.place.line),
        own.back().body.empty()
            ? fmt::format("add {} after {}", text, of_last)
            : fmt::format("add {} as the last line, outside of the block of {}", text, of_last),
        on.confirmation.made_right()};
  }
  return std::nullopt;
}

namespace {

// True for a line that computes a name from itself, other than by calls alone.
bool updates_name(const Statement& line, const NameTemplate& name) {
  return line.value && without_calls(*line.value).kind != ExprKind::name &&
         reads_name(*line.value, name);
}

}  // namespace

std::optional<Suspicion> find_second_binding(const SuspectedWay& on) {
  constexpr int kMostTries = 8;
  if (!on.confirmation.can_change_job() || !on.about.job.truth) return std::nullopt;
  const TextStatements& all = on.confirmation.text().statements();
  const std::vector<Statement>& truth = on.about.job.truth->statements;
  int tries = 0;
  for (const Statement& line : truth) {
    if (line.kind != StatementKind::assign || line.targets.size() != 1) continue;
    const std::string name = to_string(line.targets[0]), value = to_string(*line.value);
    const bool has_own = std::any_of(all.begin(), all.end(), [&](const TextStatement& one) {
      return binds_name(one, line.targets[0]) && updates_name(*one.statement, line.targets[0]);
    });
    if (!updates_name(line, line.targets[0]) || has_own) continue;
    for (const TextStatement& one : all) {
      if (!binds_name(one, line.targets[0])) continue;
      if (++tries > kMostTries) return std::nullopt;
      if (!on.confirmation.confirms_job(
              with_inserted_line(one.listing, line_number(one), InsertPosition::after, line)))
        continue;
      const std::string text = fmt::format("{} = {}", name, value);
      return Suspicion{
          true,
          fmt::format("no line of the ranks computes {}, as line {} of the truth does, and {} is "
                      "right with it",
                      text, line.place.line, on.value.label.name),
          fmt::format("add {} after {}", text, shown_line(on, one)), on.confirmation.made_right()};
    }
  }
  return std::nullopt;
}

std::optional<Suspicion> find_moved_lines(const SuspectedWay& on) {
  if (!on.confirmation.can_change_job()) return std::nullopt;
  const TextStatements& all = on.confirmation.text().statements();
  const std::string& target = on.value.label.name;
  int tries = 0;
  for (const LateReductions& late : late_reductions(all)) {
    std::vector<int> numbers;
    std::set<ListedLine> lines;
    for (const TextStatement* one : late.lines) {
      numbers.push_back(line_number(*one));
      lines.insert({one->listing, line_number(*one)});
    }
    if (++tries > kMostMoves) break;
    const TextStatement& reader = *late.reader;
    if (!on.confirmation.confirms_job(
            with_moved_lines(reader.listing, numbers, line_number(reader), InsertPosition::before)))
      continue;
    const std::string where = lines_text(on.about.ranks.program, lines);
    const std::string first = shown_line(on, reader);
    return Suspicion{true,
                     fmt::format("{} reads what {} only after it, and {} is right if it reads the "
                                 "sums",
                                 first, lines_with_verb(where, "reduces"), target),
                     fmt::format("{} before {}", where, first), on.confirmation.made_right()};
  }
  if (auto found = find_late_change(on)) return found;
  for (size_t i = 0; i < all.size(); ++i) {
    const TextStatement* const needed = is_assigned(all[i]) ? needed_line(all, i) : nullptr;
    if (needed == nullptr) continue;
    if (++tries > kMostMoves) break;
    if (!on.confirmation.confirms_job(with_moved_lines(
            all[i].listing, {line_number(all[i])}, line_number(*needed), InsertPosition::after)))
      continue;
    const std::string early = shown_line(on, all[i]), late = shown_line(on, *needed);
    return Suspicion{true,
                     fmt::format("{} reads {} before {} binds it, and {} is right if it comes "
                                 "after",
                                 early, to_string(needed->statement->targets[0]), late, target),
                     fmt::format("{} after {}", early, late), on.confirmation.made_right()};
  }
  return find_line_of_each_pass(on);
}

namespace {

// Returns the last line of the block before a line that binds a name alone; null if there is none.
const TextStatement* binding_line(const TextStatements& all, size_t before,
                                  const std::string& name) {
  for (size_t i = before; i-- > 0;)
    if (are_in_one_block(all[i], all[before]) && is_assigned(all[i]) &&
        all[i].statement->targets.size() == 1 && to_string(all[i].statement->targets[0]) == name)
      return &all[i];
  return nullptr;
}

bool is_plain_op(const Expr& expr) {
  return expr.kind == ExprKind::call && !is_collective_call(expr) && !expr.args.empty() &&
         expr.symbol != "grad" && expr.symbol != "recv";
}

// Puts a call around each part of an expression that has a text.
Expr with_call_around(Expr expr, const std::string& part, const Expr& call) {
  if (to_string(expr) == part) {
    Expr around = call;
    around.args[0] = std::move(expr);
    return around;
  }
  for (Expr* child : children_of(expr)) *child = with_call_around(*child, part, call);
  return expr;
}

// Returns the parts of an op that a call may be meant for: its input, an operand of that, a name.
std::vector<std::string> parts_before(const Expr& op) {
  std::vector<std::string> parts;
  const auto add = [&](const Expr& part) {
    const bool is_number = part.kind == ExprKind::number || part.kind == ExprKind::list;
    if (const std::string text = to_string(part);
        !is_number && std::count(parts.begin(), parts.end(), text) == 0)
      parts.push_back(text);
  };
  const Expr& input = op.args[0];
  if (op.kind == ExprKind::call) add(input);
  const Expr& sum = op.kind == ExprKind::call ? input : op;
  if (sum.kind == ExprKind::binary && sum.symbol != "@")
    for (const Expr& part : sum.args) add(part);
  return parts;
}

// A call on one line whose input, or result, is an op on another line.
struct CallNextToOp {
  const TextStatement *of_call = nullptr, *of_op = nullptr;
  const Expr *call = nullptr, *op = nullptr;
};

Suspicion moved_call(const SuspectedWay& on, const CallNextToOp& pair, const Expr& op,
                     bool is_first) {
  const std::string of_op = shown_line(on, *pair.of_op);
  const std::string of_call = shown_line(on, *pair.of_call), was = to_string(*pair.op);
  const std::string& verb = pair.call->symbol;
  return {true,
          fmt::format("{} computes {} {} the {} of {}, and {} is right with the {} {}", of_op, was,
                      is_first ? "before" : "after", verb, of_call, on.value.label.name, verb,
                      is_first ? "first" : "last"),
          fmt::format("{} in place of {} on {}, and no {} on {}", to_string(op), was, of_op, verb,
                      of_call),
          on.confirmation.made_right()};
}

// Tries the call before the op: relu(all_reduce(p, ..)) for all_reduce(relu(p), ..).
std::optional<Suspicion> call_first(const SuspectedWay& on, const CallNextToOp& pair, int& tries) {
  const NumberedText& text = on.confirmation.text();
  const Expr input = pair.call->args[0];
  for (const std::string& part : parts_before(*pair.op)) {
    if (++tries > kMostCallsMoved) return std::nullopt;
    const Expr op = with_call_around(*pair.op, part, *pair.call);
    NumberedChanges changes;
    changes[text.number_of(*pair.op)] = [&](Expr& expr) { replace_expression(expr, op); };
    changes[text.number_of(*pair.call)] = [&](Expr& expr) { replace_expression(expr, input); };
    if (on.confirmation.confirms_job(change_of_all(changes))) return moved_call(on, pair, op, true);
  }
  return std::nullopt;
}

// Tries the call after the op: all_reduce(square(p), ..) for square(all_reduce(p, ..)).
std::optional<Suspicion> call_last(const SuspectedWay& on, const CallNextToOp& pair, int& tries) {
  if (++tries > kMostCallsMoved) return std::nullopt;
  const NumberedText& text = on.confirmation.text();
  const Expr input = pair.call->args[0];
  const Expr op = with_call_around(*pair.op, to_string(*pair.op), *pair.call);
  NumberedChanges changes;
  changes[text.number_of(*pair.op)] = [&](Expr& expr) { replace_expression(expr, op); };
  changes[text.number_of(*pair.call)] = [&](Expr& expr) { replace_expression(expr, input); };
  if (!on.confirmation.confirms_job(change_of_all(changes))) return std::nullopt;
  return moved_call(on, pair, op, false);
}

}  // namespace

std::optional<Suspicion> find_call_on_other_side(const SuspectedWay& on) {
  if (!on.confirmation.can_change_job()) return std::nullopt;
  const TextStatements& all = on.confirmation.text().statements();
  int first = 0, last = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!is_assigned(all[i])) continue;
    std::vector<const Expr*> calls, ops;
    visit_parts(*all[i].whole[0], [&](const Expr& part) {
      if (part.args.empty() || part.args[0].kind != ExprKind::name) return;
      if (is_collective_call(part)) calls.push_back(&part);
      if (part.kind == ExprKind::call && is_plain_op(part)) ops.push_back(&part);
    });
    for (const Expr* call : calls) {
      const TextStatement* const before = binding_line(all, i, to_string(call->args[0]));
      if (before == nullptr || !is_plain_op(*before->whole[0])) continue;
      if (auto found = call_first(on, {&all[i], before, call, before->whole[0]}, first))
        return found;
    }
    for (const Expr* op : ops) {
      const TextStatement* const before = binding_line(all, i, to_string(op->args[0]));
      if (before == nullptr || !is_collective_call(*before->whole[0])) continue;
      if (auto found = call_last(on, {before, &all[i], before->whole[0], op}, last)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace shardproof
