// Implements explaining.h: changes of the text that no table of causes names, towards the truth
// (truth_changes.h) or the reverse of common mistakes (small_changes.h).
#include <fmt/format.h>
#include <cmath>

#include "shardproof/engine/causes/explaining.h"
#include "shardproof/engine/causes/small_changes.h"
#include "shardproof/engine/causes/truth_changes.h"
#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {
namespace {

constexpr double kAlike = 0.5;  // TextChange::unlike of changes that are tried first

// Returns the lines of the listings up to the last one on the way to the value. Other listings may
// receive a value that is not on the way.
std::set<ListedLine> lines_before(const SpmdProgram& program, const WayToValue& way) {
  std::map<size_t, int> last;
  for (const Step& step : way.steps)
    last[step.listing] = std::max(last[step.listing], step.site.line);
  std::set<ListedLine> lines;
  for (const auto& [listing, end] : last) {
    const bool sends = program.listings.size() > 1;
    const int lines_there = static_cast<int>(program.listings[listing].lines.size());
    for (int line = 1; line <= (sends ? lines_there : end); ++line) lines.insert({listing, line});
  }
  return lines;
}

using NumberedChanges = std::map<int, std::function<void(Expr&)>>;  // by number of the expression

ChangeOfJob change_of_all(NumberedChanges changes) {
  return [changes = std::move(changes)](const Job& job) {
    Job result = job;
    visit_expressions(result, [&](const TextPlace& place, Expr& expr) {
      if (const auto found = changes.find(place.number); found != changes.end())
        found->second(expr);
    });
    return result;
  };
}

void replace(Expr& expr, Expr by) {
  by.place = expr.place;
  expr = std::move(by);
}

int64_t calls_in(const Expr& expr) {
  int64_t calls = 0;
  visit_parts(expr, [&](const Expr& part) {
    calls += part.kind == ExprKind::call && parse_collective_kind(part.symbol) ? 1 : 0;
  });
  return calls;
}

bool removes_call(const TextChange& change) { return calls_in(change.to) < calls_in(change.was); }
// A sum that is too small by the size of an axis is also right if it is added up twice.
bool adds_call(const TextChange& change) { return calls_in(change.to) > calls_in(change.was); }

bool is_leaf(const Expr& expr) {
  return expr.kind == ExprKind::name || expr.kind == ExprKind::number;
}

bool is_number_text(const Expr& expr) {
  bool all = true;
  visit_parts(expr, [&](const Expr& part) {
    const bool is_size = part.kind == ExprKind::call && part.symbol == "size";
    const bool is_name = part.kind == ExprKind::name;
    all = all &&
          (part.kind == ExprKind::number || part.kind == ExprKind::binary || is_size || is_name);
  });
  return all && (expr.kind == ExprKind::number || expr.kind == ExprKind::call);
}

// Returns the factor that a change takes from a product or a quotient; null if it does not.
const Expr* dropped_factor(const TextChange& change) {
  const Expr& was = change.was;
  if (was.kind != ExprKind::binary || (was.symbol != "*" && was.symbol != "/")) return nullptr;
  for (size_t slot = was.symbol == "*" ? 0 : 1; slot < 2; ++slot)
    if (is_number_text(was.args[slot]) && to_string(was.args[1 - slot]) == to_string(change.to))
      return &was.args[slot];
  return nullptr;
}

// Returns by how many times a change scales what it changes; nullopt if it does something else.
std::optional<double> scale_of_change(const TextChange& change, const Mesh& mesh) {
  const auto number = [&](const Expr& expr) -> std::optional<double> {
    if (expr.kind == ExprKind::number && (expr.number.is_integer() || expr.number.is_double()))
      return expr.number.real();
    for (const MeshAxis& axis : mesh.axes())
      if (to_string(expr) == fmt::format("size({})", axis.name))
        return static_cast<double>(axis.size);
    return std::nullopt;
  };
  const auto old = number(change.was), now = number(change.to);
  if (old && now && *old != 0) return *now / *old;
  const auto factor_of = [&](const Expr& product, const Expr& other) -> std::optional<double> {
    if (product.kind != ExprKind::binary || (product.symbol != "*" && product.symbol != "/"))
      return std::nullopt;
    for (size_t slot = product.symbol == "*" ? 0 : 1; slot < 2; ++slot)
      if (to_string(product.args[1 - slot]) == to_string(other)) return number(product.args[slot]);
    return std::nullopt;
  };
  const auto more = factor_of(change.to, change.was), less = factor_of(change.was, change.to);
  return more ? more : less;
}

}  // namespace

// True if the size of an axis is a number, or its inverse.
bool Explaining::may_be_size_of_axis(double factor) const {
  return std::any_of(mesh_.axes().begin(), mesh_.axes().end(), [&](const MeshAxis& axis) {
    const auto size = static_cast<double>(axis.size);
    return axis.size > 1 &&
           (std::fabs(factor - size) < 1e-9 || std::fabs(factor * size - 1) < 1e-9);
  });
}

// Returns the cause that a change makes the value right on these lines.
ConfirmedCause Explaining::cause_of(const TextChange& change, const RightChange& right) const {
  constexpr size_t kMostShown = 60;
  const NumberedText& text = confirmation_.text();
  // A name or a number is shown in the expression around it.
  if (const Expr* parent = is_leaf(change.was) ? text.parent_of(change.number) : nullptr;
      parent != nullptr && to_string(*parent).size() <= kMostShown) {
    TextChange around = change;
    around.was = around.to = *parent;
    const std::vector<const Expr*> parts = children_of(*parent);
    for (size_t i = 0; i < parts.size(); ++i)
      if (text.number_of(*parts[i]) == change.number) *children_of(around.to)[i] = change.to;
    around.number = text.number_of(*parent);
    return cause_of_shown(around, right);
  }
  return cause_of_shown(change, right);
}

// True if a condition may differ between ranks. It is the same on all ranks if it only reads
// variables of the loops around it, and numbers.
bool Explaining::varies_by_rank(const TextChange& condition) const {
  const NumberedText& text = confirmation_.text();
  for (const TextStatement& one : text.statements()) {
    if (text.number_of(*one.whole[0]) != condition.number) continue;
    bool reads_others = one.loops.empty();
    visit_parts(condition.was, [&](const Expr& part) {
      const bool is_loop = std::count(one.loops.begin(), one.loops.end(), to_string(part)) > 0;
      reads_others =
          reads_others || part.kind == ExprKind::call || (part.kind == ExprKind::name && !is_loop);
    });
    return reads_others;
  }
  return true;
}

ConfirmedCause Explaining::cause_of_shown(const TextChange& change,
                                          const RightChange& right) const {
  const std::string where = lines_text(about_.ranks.program, right.lines);
  const std::string from = to_string(change.was), to = to_string(change.to);
  ConfirmedCause cause;
  cause.made_right = right.made_right;
  if (change.to.kind == ExprKind::number && change.to.number.is_bool()) {
    const bool holds = change.to.number.truth();
    cause.text = fmt::format("{} holds only {} on {}, and {} is right if it {} holds", from,
                             varies_by_rank(change) ? "on some ranks" : "in some passes", where,
                             target(), holds ? "always" : "never");
    cause.fix = holds ? fmt::format("remove the condition {} on {}", from, where)
                      : fmt::format("remove the branch of {} on {}", from, where);
    return cause;
  }
  if (const Expr* factor = dropped_factor(change)) {
    const bool divides = change.was.symbol == "/";
    cause.text = fmt::format("{} by {}, and {} is right without this factor",
                             lines_with_verb(where, divides ? "divides" : "multiplies"),
                             to_string(*factor), target());
    cause.fix = fmt::format("remove the factor {}{} on {}", divides ? "1 / " : "",
                            to_string(*factor), where);
    return cause;
  }
  cause.text = fmt::format(
      "{} {}, and {} is right with {}{}",
      lines_with_verb(where, is_leaf(change.to) ? "reads" : "computes"), from, target(), to,
      change.truth_line > 0 ? fmt::format(", as on line {} of the truth", change.truth_line) : "");
  cause.fix = fmt::format("{} in place of {} on {}", to, from, where);
  return cause;
}

// Tries changes in their order. Further ones on other lines that make as many values right leave
// open which line is wrong.
bool Explaining::one_of(const std::vector<TextChange>& changes) {
  constexpr size_t kMoreTries = 12;
  const NumberedText& text = confirmation_.text();
  std::vector<std::pair<RightChange, ConfirmedCause>> found;
  size_t tries = 0;
  for (const TextChange& change : changes) {
    if (confirmation_.is_spent() || (!found.empty() && ++tries > kMoreTries)) break;
    const auto put = [&](Expr& expr) {
      const SourceLocation place = expr.place;
      expr = change.to;
      expr.place = place;
    };
    RightChange right = right_change(about_, change.number, put, {}, confirmation_);
    if (right.lines.empty()) continue;
    // Without a call, the next one of its group matches the other members' call. That may make its
    // result right by chance, so the change must make all wrong values right.
    if (removes_call(change) && right.made_right != wrong_values()) continue;
    // A number may be off by as much as a sum that should be an average.
    const bool may_be_reduction = change.truth_line > 0 || dropped_factor(change) != nullptr;
    if (const std::optional<double> scale = scale_of_change(change, mesh_);
        scale && may_be_size_of_axis(*scale) && may_be_reduction) {
      std::vector<ConfirmedCause> reductions;
      copies_added_up(reductions);
      if (reductions.empty()) other_reductions(reductions);
      std::erase_if(reductions, [&](const ConfirmedCause& one) {
        return one.made_right.size() < right.made_right.size();
      });
      const Expr* const parent = text.parent_of(change.number);
      const bool divides = parent != nullptr && parent->symbol == "/" &&
                           text.number_of(parent->args[1]) == change.number;
      // A rank may divide by the count of its own part, and the table has dropped factors.
      if (!reductions.empty() && (divides || dropped_factor(change) != nullptr)) return false;
      for (ConfirmedCause& one : reductions) {
        RightChange other{{}, lines_of(one.edit), one.made_right};
        found.emplace_back(std::move(other), std::move(one));
      }
    }
    const bool is_known = std::any_of(found.begin(), found.end(), [&](const auto& one) {
      return one.first.lines == right.lines;
    });
    if (!is_known) found.emplace_back(right, cause_of(change, right));
    if (change.truth_line == 0 && right.made_right == wrong_values()) break;
  }
  size_t most = 0;
  for (const auto& [right, cause] : found) most = std::max(most, right.made_right.size());
  std::erase_if(found, [&](const auto& one) { return one.first.made_right.size() < most; });
  if (found.empty()) return false;
  if (found.size() == 1) {
    settle(found[0].second);
    return true;
  }
  lines.push_back(
      fmt::format("{}any one of these changes alone makes {} right:", kHintLabel, target()));
  for (const auto& [right, cause] : found) {
    if (lines.size() < 4) lines.push_back("        " + cause.fix);
    made_right.insert(right.made_right.begin(), right.made_right.end());
  }
  return true;
}

std::vector<TextChange> Explaining::towards_truth() {
  if (!shared_.towards_truth)
    shared_.towards_truth = changes_towards_truth(confirmation_.text(), about_.job, shared_.budget);
  return *shared_.towards_truth;
}

bool Explaining::differs_from_truth(Likeness likeness) {
  constexpr size_t kMostTries = 48;
  constexpr int kMostRunsOfTruth = 24;
  if (!confirmation_.can_change_job()) return false;
  std::vector<TextChange> changes = towards_truth();
  std::erase_if(changes, [&](const TextChange& one) {
    return (one.unlike <= kAlike) != (likeness == Likeness::alike);
  });
  if (changes.size() > kMostTries) changes.resize(kMostTries);
  add_reduced(confirmation_.text(), changes);
  confirmation_.allow_more_runs(kMostRunsOfTruth);
  return one_of(changes);
}

// True if a number of a line is another one on the like line of the truth, and that one makes all
// wrong values right. Other changes that scale a value are right by chance then: a factor of 2 is
// also the size of an axis.
bool Explaining::differs_by_a_number() {
  constexpr size_t kMostTries = 8;
  if (!confirmation_.can_change_job()) return false;
  std::vector<TextChange> changes = towards_truth();
  std::erase_if(changes, [](const TextChange& one) {
    return one.unlike > kAlike || one.was.kind != ExprKind::number ||
           one.to.kind != ExprKind::number;
  });
  for (TextChange& one : changes_to_counts_of_truth(confirmation_.text(), about_.truth))
    changes.push_back(std::move(one));
  if (changes.size() > kMostTries) changes.resize(kMostTries);
  const auto explains_all = [&](bool found) {
    if (found && !fix.empty() && made_right == wrong_values()) return true;
    lines.clear();
    fix.clear();
    made_right.clear();
    return false;
  };
  return explains_all(one_of(changes)) || explains_all(one_of(changes_of_sizes())) ||
         explains_all(divides_several_by_a_size()) || explains_all(lines_are_swapped());
}

namespace {

// Returns x for x * size(axis), size(axis) * x and x / size(axis); null for other expressions.
const Expr* without_size(const Expr& expr) {
  const auto is_size = [](const Expr& part) {
    return part.kind == ExprKind::call && part.symbol == "size";
  };
  if (expr.kind != ExprKind::binary || (expr.symbol != "*" && expr.symbol != "/")) return nullptr;
  if (is_size(expr.args[1])) return &expr.args[0];
  return expr.symbol == "*" && is_size(expr.args[0]) ? &expr.args[1] : nullptr;
}

}  // namespace

// Returns changes that drop a factor size(axis) of the ranks' lines, or its inverse, or put a `let`
// in its place.
std::vector<TextChange> Explaining::changes_of_sizes() const {
  constexpr size_t kMostFactors = 8;
  std::vector<TextChange> changes;
  for (const TextStatement& one : confirmation_.text().statements())
    for (const Expr* whole : one.whole)
      visit_parts(*whole, [&](const Expr& part) {
        const Expr* const other = without_size(part);
        if (other == nullptr || changes.size() >= kMostFactors) return;
        changes.push_back({confirmation_.text().number_of(part), part, *other});
        for (const auto& [name, number] : about_.job.numbers) {
          if (!number.is_integer() || number.integer() < 2) continue;
          TextChange change = changes.back();
          change.to = part;
          change.to.args[other == &part.args[0] ? 1 : 0] = parse_expression(name);
          changes.push_back(std::move(change));
        }
      });
  return changes;
}

// True if the value is right without a division by size(axis) that several lines of a listing make.
// Example: each of a stage's sends divides the gradient that it passes on.
bool Explaining::divides_several_by_a_size() {
  constexpr size_t kMostTries = 4;
  struct Divisions {
    NumberedChanges drops = {};
    std::set<ListedLine> lines = {};
  };
  std::map<std::pair<size_t, std::string>, Divisions> found;
  for (const TextStatement& one : confirmation_.text().statements())
    for (const Expr* whole : one.whole)
      visit_parts(*whole, [&](const Expr& part) {
        if (part.symbol != "/" || without_size(part) == nullptr) return;
        Divisions& same = found[{one.listing, to_string(part.args[1])}];
        same.drops.emplace(confirmation_.text().number_of(part),
                           [](Expr& expr) { replace(expr, Expr(expr.args[0])); });
        same.lines.insert({one.listing, one.statement->place.line});
      });
  size_t tries = 0;
  for (const auto& [place, same] : found) {
    if (same.lines.size() < 2 || ++tries > kMostTries) continue;
    if (!confirmation_.confirms_job(change_of_all(same.drops))) continue;
    const std::string where = lines_text(about_.ranks.program, same.lines);
    settle({fmt::format("{} by {}, and {} is right without this factor",
                        lines_with_verb(where, "divides"), place.second, target()),
            fmt::format("remove the factor 1 / {} on {}", place.second, where),
            {}});
    return true;
  }
  return false;
}

// Adds the same with an all_reduce around a sum or mean that the ranks do not compute.
void Explaining::add_reduced(const NumberedText& text, std::vector<TextChange>& changes) const {
  const auto is_line = [&](const TextChange& change) {
    return std::any_of(
        text.statements().begin(), text.statements().end(),
        [&](const TextStatement& one) { return text.number_of(*one.whole[0]) == change.number; });
  };
  constexpr size_t kMostReduced = 16;
  std::vector<TextChange> reduced;
  for (size_t i = 0; i < std::min(kMostReduced, changes.size()); ++i) {
    const TextChange& change = changes[i];
    const bool sums = change.to.kind == ExprKind::call &&
                      (change.to.symbol == "sum" || change.to.symbol == "mean");
    if (!sums || !is_line(change) ||
        to_string(change.was).find(change.to.symbol + "(") != std::string::npos)
      continue;
    std::vector<int> all;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis)
      if (mesh_.axis_size(axis) > 1) all.push_back(axis);
    std::vector<std::vector<int>> groups{all};
    for (const int axis : all)
      if (all.size() > 1) groups.push_back({axis});
    for (const std::vector<int>& axes : groups) {
      TextChange whole = change;
      whole.to = reduced_expression(
          change.to,
          fmt::format("{}, group={}", change.to.symbol == "sum" ? "sum" : "avg", group_text(axes)));
      reduced.push_back(std::move(whole));
    }
  }
  changes.insert(changes.begin(), reduced.begin(), reduced.end());
}

namespace {
constexpr size_t kMostOwnLines = 24;  // changes towards other lines of the ranks
}

bool Explaining::has_small_mistake() {
  if (!confirmation_.can_change_job()) return false;
  confirmation_.allow_more_runs(kMostOwnLines);
  // In a program with many calls, their search may have left no run for the loss.
  if (scaled_loss() && !fix.empty()) return true;
  lines.clear();
  return averages_local_sums() || lines_are_swapped() || has_another_text();
}

// True if one changed expression makes the value right.
bool Explaining::has_another_text() {
  constexpr int kMostRunsOfTexts = 224;
  if (differs_from_truth(Likeness::similar)) return true;
  confirmation_.allow_more_runs(kMostRunsOfTexts);
  const NumberedText& text = confirmation_.text();
  if (!shared_.towards_own_lines)
    shared_.towards_own_lines = changes_towards_own_lines(text, about_.job, shared_.budget);
  std::vector<TextChange> changes = *shared_.towards_own_lines;
  if (changes.size() > kMostOwnLines) changes.resize(kMostOwnLines);
  for (TextChange& change :
       small_changes(text, about_, lines_before(about_.ranks.program, way_), value_.label.line))
    if (!fits_one_size_alone_ || !adds_call(change)) changes.push_back(std::move(change));
  return one_of(changes);
}

// Searches for a change of the text that makes as many values right as the cause that was found.
// If there is one, both become hints, because no run tells which one is meant. Returns true.
bool Explaining::add_small_mistake() {
  if (!confirmation_.can_change_job()) return true;
  const std::vector<std::string> cause = std::exchange(lines, {});
  const std::string first = std::exchange(fix, "");
  const std::set<std::string> keys = std::exchange(made_right, {});
  const bool is_another = has_another_text() && made_right == keys && fix != first;
  if (!is_another) {
    lines = cause;
    fix = first;
    made_right = keys;
    return true;
  }
  if (!fix.empty())
    lines = {fmt::format("{}any one of these changes alone makes {} right:", kHintLabel, target()),
             "        " + std::exchange(fix, "")};
  lines.insert(lines.begin() + 1, "        " + first);
  return true;
}

namespace {

// The averages over one group: the words avg of its calls, and the divisions by size(axis) before
// sums.
struct Averages {
  NumberedChanges to_sums = {};
  std::set<ListedLine> lines = {}, divisions = {};
};

// Returns them by the text of group=, and those over all axes together.
std::map<std::string, Averages> averages_in(const NumberedText& text, const Mesh& mesh) {
  std::map<std::string, Averages> found;
  for (const TextStatement& one : text.statements())
    visit_parts(*one.whole[0], [&](const Expr& part) {
      const ListedLine line{one.listing, one.statement->place.line};
      for (const MeshAxis& axis : mesh.axes()) {
        if (part.symbol != "/" || to_string(part.args[1]) != fmt::format("size({})", axis.name))
          continue;
        Averages& averages = found[axis.name];
        averages.divisions.insert(line);
        averages.to_sums.emplace(text.number_of(part),
                                 [](Expr& expr) { replace(expr, Expr(expr.args[0])); });
      }
      if (part.kind != ExprKind::call || !parse_collective_kind(part.symbol)) return;
      const Expr *word = nullptr, *group = nullptr;
      for (size_t i = 0; i < part.args.size(); ++i) {
        if (to_string(part.args[i]) == "avg") word = &part.args[i];
        if (part.keys[i] == "group") group = &part.args[i];
      }
      if (word == nullptr || group == nullptr) return;
      Averages& averages = found[to_string(*group)];
      averages.lines.insert(line);
      averages.to_sums.emplace(text.number_of(*word),
                               [](Expr& expr) { replace(expr, parse_expression("sum")); });
    });
  if (found.size() < 2) return found;
  Averages all;
  for (const auto& [group, one] : found) {
    all.to_sums.insert(one.to_sums.begin(), one.to_sums.end());
    all.lines.insert(one.lines.begin(), one.lines.end());
    all.divisions.insert(one.divisions.begin(), one.divisions.end());
  }
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes())
    if (found.contains(axis.name)) axes.push_back(axis.name);
  if (axes.size() == found.size())
    found.emplace(fmt::format("[{}]", fmt::join(axes, ", ")), std::move(all));
  return found;
}

}  // namespace

// Tries sums of each rank's own part that each rank divides by, before an average over ranks. The
// sums must be reduced, and the averages become sums. Example: the mean of the tokens of a rank
// that count, where ranks have different numbers of them.
bool Explaining::averages_local_sums() {
  constexpr int kMostTries = 24;
  int tries = 0;
  const NumberedText& text = confirmation_.text();
  for (const TextStatement& one : text.statements()) {
    std::vector<const Expr*> means;
    visit_parts(*one.whole[0], [&](const Expr& part) {
      if (is_mean(part)) means.push_back(&part);
    });
    for (const Expr* mean : means)
      if (++tries <= kMostTries / 2 && averages_local_means(text, one, *mean)) return true;
  }
  for (const auto& [group, averages] : averages_in(text, mesh_))
    for (const TextStatement& one : text.statements()) {
      if (one.statement->kind != StatementKind::assign) continue;
      std::vector<const Expr*> parts;
      visit_parts(*one.whole[0], [&](const Expr& part) {
        if ((part.kind == ExprKind::call && part.symbol == "sum") || is_mean(part))
          parts.push_back(&part);
      });
      for (const Expr* part : parts)
        for (const std::string& reduced : whole_of_part(*part, group)) {
          if (++tries > kMostTries || confirmation_.is_spent()) return false;
          NumberedChanges changes = averages.to_sums;
          changes[text.number_of(*part)] = [&](Expr& expr) {
            replace(expr, parse_expression(reduced));
          };
          if (!confirmation_.confirms_job(change_of_all(changes))) continue;
          std::set<ListedLine> all = averages.lines;
          all.insert(averages.divisions.begin(), averages.divisions.end());
          const SpmdProgram& program = about_.ranks.program;
          const std::string own = lines_text(program, {{one.listing, one.statement->place.line}});
          std::vector<std::string> fixes{
              fmt::format("{} in place of {} on {}", reduced, to_string(*part), own)};
          if (!averages.lines.empty())
            fixes.push_back("sum in place of avg on " + lines_text(program, averages.lines));
          if (!averages.divisions.empty())
            fixes.push_back("no division by the size of the group on " +
                            lines_text(program, averages.divisions));
          settle(
              {fmt::format("{} of {} is each rank's own, and {} over {}, as if all ranks had the "
                           "same",
                           to_string(*part), own,
                           lines_with_verb(lines_text(program, all), "averages"), group),
               fmt::format("{}", fmt::join(fixes, ", and ")),
               {}});
          return true;
        }
    }
  return false;
}

// True for a call of mean, or of a loss that is one: mse_loss(y, t).
bool Explaining::is_mean(const Expr& call) const {
  if (call.kind != ExprKind::call) return false;
  if (call.symbol == "mean") return true;
  const OpRecord* const op = about_.registries.ops.find(call.symbol);
  if (op == nullptr) return false;
  for (size_t i = 0; i < call.keys.size(); ++i)
    if (call.keys[i] == "reduction") return to_string(call.args[i]) == "'mean'";
  return std::any_of(op->params.begin(), op->params.end(), [](const Param& param) {
    return param.name == "reduction" && param.fallback == AttrValue(std::string("mean"));
  });
}

// True if an input has shards of several sizes over an axis.
bool Explaining::has_uneven_shards(int axis) const {
  return std::any_of(
      about_.job.inputs.begin(), about_.job.inputs.end(), [&](const JobInput& input) {
        if (!(input.spec.mesh() == mesh_) || !input.spec.placement(axis).is_shard()) return false;
        const Shard& shard = input.spec.placement(axis).shard();
        return !shard.sizes.empty() || input.spec.shape()[shard.dim] % mesh_.axis_size(axis) != 0;
      });
}

// True if the mean of all ranks, whose parts have different sizes, is right in place of that of
// each rank's own part.
bool Explaining::averages_local_means(const NumberedText& text, const TextStatement& one,
                                      const Expr& part) {
  for (int number = 0; number < mesh_.axis_count(); ++number) {
    const MeshAxis& axis = mesh_.axes()[static_cast<size_t>(number)];
    for (const std::string& weighted : whole_of_part(part, axis.name)) {
      const std::string line =
          lines_text(about_.ranks.program, {{one.listing, one.statement->place.line}});
      const std::string reduced = fmt::format("all_reduce({}, sum, group={})", weighted, axis.name);
      for (const std::string& whole : {reduced, weighted}) {
        // With equal shares the weight is a factor like any other.
        if (whole == weighted && !has_uneven_shards(number)) continue;
        const auto put = [&](Expr& expr) { replace(expr, parse_expression(whole)); };
        if (!confirmation_.confirms_job(change_of({text.number_of(part)}, put))) continue;
        const std::string why =
            whole == reduced
                ? fmt::format("no call takes it over {}", axis.name)
                : fmt::format("the sum over {} needs it weighted by each rank's share", axis.name);
        settle({fmt::format("{} of {} is each rank's own; {}", to_string(part), line, why),
                fmt::format("{} in place of {} on {}", whole, to_string(part), line),
                {}});
        return true;
      }
    }
  }
  return false;
}

// Returns the texts by which a sum or mean of each rank's own part becomes that of all ranks.
std::vector<std::string> Explaining::whole_of_part(const Expr& part,
                                                   const std::string& group) const {
  const std::string text = to_string(part);
  if (part.symbol == "sum") return {fmt::format("all_reduce({}, sum, group={})", text, group)};
  std::vector<std::string> texts;
  for (const JobInput& input : about_.job.inputs)
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      if (!(input.spec.mesh() == mesh_) || mesh_.axes()[static_cast<size_t>(axis)].name != group ||
          !input.spec.placement(axis).is_shard())
        continue;
      const int dim = input.spec.placement(axis).shard().dim;
      const std::string weight =
          fmt::format("{} * (dim({}, {}) / {})", text, input.name, dim, input.spec.shape()[dim]);
      if (std::count(texts.begin(), texts.end(), weight) == 0) texts.push_back(weight);
    }
  return texts;
}

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

}  // namespace shardproof
