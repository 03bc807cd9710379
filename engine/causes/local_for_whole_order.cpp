// Implements local_for_whole.h: moves lines and calls of the text, and tests each change.
#include "shardproof/engine/causes/local_for_whole.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {
namespace {

constexpr int kMostSwaps = 16;
constexpr int kMostMoves = 8;
constexpr int kMostCallsMoved = 16;

bool is_assigned(const TextStatement& one) { return one.statement->kind == StatementKind::assign; }

bool are_in_one_block(const TextStatement& a, const TextStatement& b) {
  return a.listing == b.listing && a.loops == b.loops;
}

int line_number(const TextStatement& one) { return one.statement->place.line; }

std::string shown_line(const SuspectedWay& on, const TextStatement& one) {
  return line_text(on.about.ranks.program, {one.listing, line_number(one)});
}

bool reads_name(const TextStatement& one, const NameTemplate& name) {
  bool found = false;
  for (const Expr* whole : one.whole)
    visit_parts(*whole, [&](const Expr& part) {
      found = found || (part.kind == ExprKind::name && part.name.texts == name.texts);
    });
  return found;
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

}  // namespace

std::optional<Suspicion> find_swapped_messages(const SuspectedWay& on) {
  if (!on.confirmation.can_change_job()) return std::nullopt;
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

// Returns the last line of the same block after a line that binds a name which it reads; null if
// there is none, or if a line between them reads what the line binds.
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

}  // namespace

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
    if (++tries > kMostMoves) return std::nullopt;
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
  for (size_t i = 0; i < all.size(); ++i) {
    const TextStatement* const needed = is_assigned(all[i]) ? needed_line(all, i) : nullptr;
    if (needed == nullptr) continue;
    if (++tries > kMostMoves) return std::nullopt;
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
  return std::nullopt;
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
