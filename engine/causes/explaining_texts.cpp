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

constexpr double kClose = 0.5;  // TextChange::distance of changes that are tried first

// Returns the lines of the listings up to the last one on the way to the value. Other listings may
// receive a value that is not on the way. Returns all lines if none makes the value.
std::set<ListedLine> lines_before(const SpmdProgram& program, const WayToValue& way) {
  std::map<size_t, int> last;
  for (const Step& step : way.steps)
    last[step.listing] = std::max(last[step.listing], step.site.line);
  for (size_t listing = 0; way.steps.empty() && listing < program.listings.size(); ++listing)
    last[listing] = static_cast<int>(program.listings[listing].lines.size());
  std::set<ListedLine> lines;
  for (const auto& [listing, end] : last) {
    const bool sends = program.listings.size() > 1;
    const int lines_there = static_cast<int>(program.listings[listing].lines.size());
    for (int line = 1; line <= (sends ? lines_there : end); ++line) lines.insert({listing, line});
  }
  return lines;
}

int64_t calls_in(const Expr& expr) {
  int64_t calls = 0;
  visit_parts(expr, [&](const Expr& part) {
    const bool is_call = part.symbol == "enter" || parse_collective_kind(part.symbol).has_value();
    calls += part.kind == ExprKind::call && is_call ? 1 : 0;
  });
  return calls;
}

bool removes_call(const TextChange& change) { return calls_in(change.to) < calls_in(change.was); }
// A sum that is too small by the size of an axis is also right if it is added up twice.
bool adds_call(const TextChange& change) { return calls_in(change.to) > calls_in(change.was); }

bool is_reduction_word(const TextChange& change) {
  const std::string was = to_string(change.was);
  return was == "sum" || was == "avg";
}

int64_t conditions_in(const Expr& expr) {
  int64_t conditions = 0;
  visit_parts(expr, [&](const Expr& part) {
    conditions += part.kind == ExprKind::call && part.symbol == "where" ? 1 : 0;
  });
  return conditions;
}

// True if a change takes a condition from a line, as 0.9 * m + g for where(ok, 0.9 * m + g, m). The
// ranks may skip a step that the truth always takes, so it is tried last.
bool drops_condition(const TextChange& change) {
  return conditions_in(change.to) < conditions_in(change.was);
}

bool is_size(const Expr& expr) { return expr.kind == ExprKind::call && expr.symbol == "size"; }

bool is_leaf(const Expr& expr) {
  return expr.kind == ExprKind::name || expr.kind == ExprKind::number || is_size(expr);
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

// Returns the axes that the groups of calls in an expression name.
std::set<std::string> axes_of_calls(const Expr& expr) {
  std::set<std::string> axes;
  visit_parts(expr, [&](const Expr& part) {
    const Expr* const group = part.kind == ExprKind::call ? argument_of(part, "group") : nullptr;
    if (group == nullptr) return;
    visit_parts(*group, [&](const Expr& axis) {
      if (axis.kind == ExprKind::name) axes.insert(to_string(axis));
    });
  });
  return axes;
}

// Returns the axes of a call whose word sum or avg changes; none for other changes.
std::vector<int> axes_of_reduction(const TextChange& change, const NumberedText& text,
                                   const Mesh& mesh) {
  const Expr* const call = is_reduction_word(change) ? text.parent_of(change.number) : nullptr;
  std::vector<int> axes;
  if (call == nullptr) return axes;
  for (const std::string& name : axes_of_calls(*call))
    if (const std::optional<int> axis = mesh.find_axis(name)) axes.push_back(*axis);
  return axes;
}

// True if the same change fits other lines: it has no number or name in its holes that is new.
bool adds_no_name(const TextChange& change) {
  std::set<std::string> was;
  visit_parts(change.was, [&](const Expr& part) { was.insert(to_string(part)); });
  bool adds = false;
  visit_parts(change.to, [&](const Expr& part) {
    const std::string name = to_string(part);
    adds = adds || (part.kind == ExprKind::name && !was.contains(name) &&
                    name.find_first_of("0123456789{") != std::string::npos);
  });
  return !adds;
}

// True if a change divides the text that was there.
bool adds_a_division(const TextChange& change) {
  return change.to.symbol == "/" && to_string(change.to.args[0]) == to_string(change.was);
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
std::optional<double> scale_of_change(const TextChange& change, const Job& job, const Mesh& mesh) {
  const auto number = [&](const Expr& expr) -> std::optional<double> {
    for (const auto& [name, let] : job.numbers)
      if (let.is_integer() && to_string(expr) == name) return let.real();
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

// True if the size of an axis, or of the mesh, is a number, or its inverse.
bool Explaining::may_be_size_of_axis(double factor) const {
  const auto is_size = [&](int64_t ranks) {
    const auto size = static_cast<double>(ranks);
    return ranks > 1 && (std::fabs(factor - size) < 1e-9 || std::fabs(factor * size - 1) < 1e-9);
  };
  return is_size(mesh_.size()) ||
         std::any_of(mesh_.axes().begin(), mesh_.axes().end(),
                     [&](const MeshAxis& axis) { return is_size(axis.size); });
}

// Returns the cause for a change that makes the value right on these lines.
ConfirmedCause Explaining::cause_of(const TextChange& change, const RightChange& right) const {
  constexpr size_t kMostShown = 60;
  const NumberedText& text = confirmation_.text();
  // A name or a number is shown in the expression around it, if this is the same on all lines.
  std::set<std::string> around_it;
  for (const int number : right.numbers)
    if (const Expr* parent = text.parent_of(number)) around_it.insert(to_string(*parent));
  if (change.was.kind == ExprKind::number)
    if (const auto bounds = text.change_of_range(change)) return cause_of_shown(*bounds, right);
  if (const Expr* parent = is_size(change.was) ? text.parent_of(change.number) : nullptr;
      parent != nullptr && (parent->symbol == "*" || parent->symbol == "/"))
    return cause_of_factor(change, *parent, right);
  const bool is_index = change.was.symbol == "index" && change.to.kind == ExprKind::binary;
  if (const Expr* parent =
          is_leaf(change.was) || is_index ? text.parent_of(change.number) : nullptr;
      parent != nullptr && around_it.size() == 1 && to_string(*parent).size() <= kMostShown) {
    TextChange around = change;
    around.was = around.to = *parent;
    const std::vector<const Expr*> parts = children_of(*parent);
    for (size_t i = 0; i < parts.size(); ++i)
      if (right.numbers.contains(text.number_of(*parts[i]))) *children_of(around.to)[i] = change.to;
    around.number = text.number_of(*parent);
    return cause_of_shown(around, right);
  }
  return cause_of_shown(change, right);
}

// Returns the cause that a factor which is the size of an axis should be another one.
ConfirmedCause Explaining::cause_of_factor(const TextChange& change, const Expr& product,
                                           const RightChange& right) const {
  const std::string where = lines_text(about_.ranks.program, right.lines);
  const bool divides =
      product.symbol == "/" && confirmation_.text().number_of(product.args[1]) == change.number;
  const std::string from = to_string(change.was), to = to_string(change.to);
  ConfirmedCause cause;
  cause.made_right = right.made_right;
  cause.text =
      fmt::format("{} by {}, and {} is right with {}",
                  lines_with_verb(where, divides ? "divides" : "multiplies"), from, target(), to);
  const bool is_sum = change.to.kind == ExprKind::binary;
  cause.fix = fmt::format("{0}{2}{1} in place of {3} on {4}", is_sum ? "(" : "", is_sum ? ")" : "",
                          to, from, where);
  return cause;
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

namespace {

// True if an expression stands in parentheses after a change, and the old one did not: y + z in
// place of f(y) in "x * f(y)". Arguments of calls need none.
bool needs_parentheses(const TextChange& change, const NumberedText& text) {
  const Expr* const parent = text.parent_of(change.number);
  if (parent == nullptr || parent->kind == ExprKind::call) return false;
  Expr changed = *parent;
  const auto before = children_of(*parent);
  const auto after = children_of(changed);
  for (size_t i = 0; i < before.size(); ++i)
    if (text.number_of(*before[i]) == change.number) *after[i] = change.to;
  const auto is_in_parentheses = [](const Expr& part, const Expr& whole) {
    return to_string(whole).find("(" + to_string(part) + ")") != std::string::npos;
  };
  return is_in_parentheses(change.to, changed) && !is_in_parentheses(change.was, *parent);
}

}  // namespace

ConfirmedCause Explaining::cause_of_shown(const TextChange& change,
                                          const RightChange& right) const {
  const std::string where = lines_text(about_.ranks.program, right.lines);
  const std::string from = to_string(change.was);
  const bool is_part = (is_leaf(change.was) && change.to.kind == ExprKind::binary) ||
                       needs_parentheses(change, confirmation_.text());
  const std::string now = to_string(change.to), to = is_part ? "(" + now + ")" : now;
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
      lines_with_verb(where, is_leaf(change.was) ? "reads" : "computes"), from, target(), to,
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
  std::set<std::pair<std::set<int>, std::string>> tried;  // changes of several lines
  const auto is_known = [&](const RightChange& right) {
    return std::any_of(found.begin(), found.end(),
                       [&](const auto& one) { return one.first.lines == right.lines; });
  };
  size_t tries = 0;
  for (const TextChange& change : changes) {
    if (confirmation_.is_spent() || (!found.empty() && ++tries > kMoreTries)) break;
    const auto put = [&](Expr& expr) { replace_expression(expr, change.to); };
    const std::vector<int> axes = axes_of_reduction(change, text, mesh_);
    RightChange right = right_change(about_, change.number, put, axes, confirmation_);
    if (const std::set<int> alike = text.alike(change.number);
        right.lines.empty() && alike.size() > 1 && adds_no_name(change) &&
        tried.emplace(alike, to_string(change.to)).second)
      right = right_changes(alike, put, axes, confirmation_);
    if (right.lines.empty()) continue;
    // Without a call, the next one of its group matches the other members' call. That may make its
    // result right by chance, so the change must make all wrong values right.
    if (removes_call(change) && right.made_right != wrong_values()) continue;
    // A number may be off by as much as a sum that should be an average.
    const bool may_be_reduction =
        change.truth_line > 0 || dropped_factor(change) != nullptr || adds_a_division(change);
    if (const std::optional<double> scale = scale_of_change(change, about_.job, mesh_);
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
      for (ConfirmedCause& one : reductions)
        if (RightChange other{{}, lines_of(one.edit), one.made_right}; !is_known(other))
          found.emplace_back(std::move(other), std::move(one));
    }
    if (!is_known(right)) found.emplace_back(right, cause_of(change, right));
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

// Returns the lines from which outputs that are right are computed.
std::set<ListedLine> Explaining::lines_to_right() const {
  const std::set<std::string> wrong = wrong_values();
  std::set<std::string> right;
  for (const JobOutput& output : about_.job.outputs)
    if (!wrong.contains(output.name)) right.insert(output.name);
  return lines_to(about_.ranks, right, wrong);
}

// Returns the lines from which the value is computed, and no output that is right; also those
// without instructions, such as conditions.
const std::set<ListedLine>& Explaining::suspects() {
  if (suspects_) return *suspects_;
  std::set<ListedLine> lines = lines_before(about_.ranks.program, way_);
  const auto& listings = about_.ranks.program.listings;
  for (size_t l = 0; l < listings.size(); ++l)
    for (const Instr& instr : listings[l].instrs) lines.erase({l, instr.origin.line});
  lines.merge(lines_to(about_.ranks, {target()}));
  for (const ListedLine& line : lines_to_right()) lines.erase(line);
  return suspects_.emplace(std::move(lines));
}

void Explaining::put_suspects_first(std::vector<TextChange>& changes) {
  std::stable_partition(changes.begin(), changes.end(), [&](const TextChange& one) {
    return suspects().contains(confirmation_.text().lines()[static_cast<size_t>(one.number)]);
  });
}

std::vector<TextChange> Explaining::towards_truth() {
  if (!shared_.towards_truth)
    shared_.towards_truth = changes_towards_truth(confirmation_.text(), about_.job, shared_.budget);
  return *shared_.towards_truth;
}

bool Explaining::differs_from_truth(Similarity similarity) {
  constexpr size_t kMostTries = 48;
  constexpr int kMostRunsOfTruth = 24;
  if (!confirmation_.can_change_job()) return false;
  std::vector<TextChange> changes = towards_truth();
  std::erase_if(changes, [&](const TextChange& one) {
    return drops_condition(one) || (one.distance <= kClose) != (similarity == Similarity::close);
  });
  put_suspects_first(changes);
  if (changes.size() > kMostTries) changes.resize(kMostTries);
  add_reduced(confirmation_.text(), changes);
  confirmation_.allow_more_runs(kMostRunsOfTruth);
  return one_of(changes);
}

// True if the cause that was found explains all wrong values. Else forgets it.
bool Explaining::explains_all(bool found) {
  if (found && !fix.empty() && made_right == wrong_values()) return true;
  lines.clear();
  fix.clear();
  made_right.clear();
  return false;
}

// True if a number of a line is another one on the like line of the truth, and that one makes all
// wrong values right. Other changes that scale a value are right by chance then: a factor of 2 is
// also the size of an axis.
bool Explaining::differs_by_a_number() {
  constexpr size_t kMostTries = 8;
  if (!confirmation_.can_change_job()) return false;
  std::vector<TextChange> changes = towards_truth();
  std::erase_if(changes, [](const TextChange& one) {
    return one.distance > kClose || one.was.kind != ExprKind::number ||
           one.to.kind != ExprKind::number;
  });
  for (TextChange& one : changes_to_counts_of_truth(confirmation_.text(), about_.truth))
    changes.push_back(std::move(one));
  if (changes.size() > kMostTries) changes.resize(kMostTries);
  return explains_all(one_of(changes)) || explains_all(one_of(changes_of_sizes())) ||
         explains_all(divides_several_by_a_size()) ||
         explains_all(one_of(changes_to_means_of_passes()));
}

namespace {

// Returns the slot of a factor of a product or a quotient that is a size or one of these names; -1
// if it has none.
int slot_of_size(const Expr& expr, const std::set<std::string>& names) {
  if (expr.kind != ExprKind::binary || (expr.symbol != "*" && expr.symbol != "/")) return -1;
  const auto fits = [&](const Expr& part) {
    return is_size(part) || (part.kind == ExprKind::name && names.contains(to_string(part)));
  };
  if (fits(expr.args[1])) return 1;
  return expr.symbol == "*" && fits(expr.args[0]) ? 0 : -1;
}

// True if a line of the listing before this one takes the sum over the axis alone.
bool takes_sum_before(const NumberedText& text, const TextStatement& line,
                      const std::string& axis) {
  bool found = false;
  for (const TextStatement& one : text.statements()) {
    if (one.listing != line.listing || one.statement->place.line >= line.statement->place.line)
      continue;
    for (const Expr* whole : one.whole)
      visit_parts(*whole, [&](const Expr& part) {
        const Expr* const group =
            part.kind == ExprKind::call ? argument_of(part, "group") : nullptr;
        found = found || (group != nullptr && to_string(*group) == axis &&
                          std::any_of(part.args.begin(), part.args.end(),
                                      [](const Expr& arg) { return to_string(arg) == "sum"; }));
      });
  }
  return found;
}

}  // namespace

// Returns the `let`s that bound loops of the ranks, such as the number of micro-batches.
std::set<std::string> Explaining::lets_of_loops() const {
  std::set<std::string> bounds;
  for (const TextStatement& one : confirmation_.text().statements())
    if (one.statement->kind == StatementKind::for_range)
      for (const auto& [name, number] : about_.job.numbers)
        if (number.is_integer() && number.integer() > 1 && to_string(*one.whole.back()) == name)
          bounds.insert(name);
  return bounds;
}

// Returns changes of factors of the ranks' lines that are the size of an axis, or the number of
// passes of a loop. In place of the factor: none, the size of an axis over which the product is
// summed, the number of passes, the sizes of other axes, and products with those.
std::vector<TextChange> Explaining::changes_of_sizes() const {
  constexpr size_t kMostFactors = 12;
  const std::set<std::string> lets = lets_of_loops();
  std::vector<TextChange> changes, others;
  size_t factors = 0;
  for (const TextStatement& one : confirmation_.text().statements())
    for (const Expr* whole : one.whole)
      visit_parts(*whole, [&](const Expr& part) {
        const int slot = slot_of_size(part, lets);
        if (slot < 0 || ++factors > kMostFactors) return;
        const Expr &other = part.args[static_cast<size_t>(1 - slot)],
                   &factor = part.args[static_cast<size_t>(slot)];
        changes.push_back({confirmation_.text().number_of(part), part, other});
        const std::string own = to_string(factor), line = to_string(*whole);
        const auto put = [&](const std::string& text, std::vector<TextChange>& to) {
          to.push_back({confirmation_.text().number_of(factor), factor, parse_expression(text)});
        };
        const std::set<std::string> summed = axes_of_calls(other);
        for (const MeshAxis& axis : mesh_.axes()) {
          const std::string size = fmt::format("size({})", axis.name);
          if (axis.size == 1 || size == own) continue;
          put(size, summed.contains(axis.name) ? changes : others);
          // If a line before takes the sum over the axis, an average there is the better change.
          if (is_size(factor) && line.find(size) == std::string::npos &&
              !takes_sum_before(confirmation_.text(), one, axis.name))
            put(fmt::format("({} * {})", own, size), others);
        }
        for (const std::string& let : lets)
          if (let != own) put(let, changes);
      });
  changes.insert(changes.end(), others.begin(), others.end());
  return changes;
}

// Returns the losses of the passes of a loop divided by the number of passes.
std::vector<TextChange> Explaining::changes_to_means_of_passes() const {
  std::vector<TextChange> changes;
  std::map<std::string, std::string> bounds;  // by the variable of the loop
  std::set<std::pair<size_t, std::string>> losses;
  const std::vector<TextStatement>& all = confirmation_.text().statements();
  for (const TextStatement& one : all) {
    if (one.statement->kind == StatementKind::for_range && one.whole.size() == 1)
      bounds[to_string(one.statement->targets[0])] = to_string(*one.whole[0]);
    for (const Expr* whole : one.whole)
      visit_parts(*whole, [&](const Expr& part) {
        if (part.kind == ExprKind::call && part.symbol == "grad")
          losses.emplace(one.listing, to_string(part.args[0]));
      });
  }
  for (const TextStatement& one : all) {
    const Statement& line = *one.statement;
    if (line.kind != StatementKind::assign ||
        !losses.contains({one.listing, to_string(line.targets[0])}))
      continue;
    for (const std::string& loop : one.loops) {
      if (!bounds.contains(loop)) continue;
      Expr mean = parse_expression(fmt::format("x / {}", bounds[loop]));
      mean.args[0] = *one.whole[0];
      changes.push_back({confirmation_.text().number_of(*one.whole[0]), *one.whole[0], mean});
    }
  }
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
        if (part.symbol != "/" || !is_size(part.args[1])) return;
        Divisions& same = found[{one.listing, to_string(part.args[1])}];
        same.drops.emplace(confirmation_.text().number_of(part),
                           [](Expr& expr) { replace_expression(expr, Expr(expr.args[0])); });
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

bool Explaining::has_small_mistake(const SuspectedWay& on) {
  if (!confirmation_.can_change_job()) return false;
  confirmation_.allow_more_runs(kMostOwnLines);
  // In a program with many calls, their search may have left no run for the loss.
  if (scaled_loss() && !fix.empty()) return true;
  lines.clear();
  return reduces_no_gradient() || averages_uneven_parts() || averages_local_sums() ||
         adopt(find_swapped_lines(on)) || has_another_text() || adopt(find_reversed_ring(on));
}

// True if one changed expression makes the value right.
bool Explaining::has_another_text() {
  constexpr int kMostRunsOfTexts = 224;
  if (differs_from_truth(Similarity::distant)) return true;
  confirmation_.allow_more_runs(kMostRunsOfTexts);
  const NumberedText& text = confirmation_.text();
  if (!shared_.towards_own_lines)
    shared_.towards_own_lines = changes_towards_own_lines(text, about_.job, shared_.budget);
  std::vector<TextChange> changes = loss_changes(text, about_);
  std::vector<TextChange> own_lines = *shared_.towards_own_lines;
  put_suspects_first(own_lines);
  if (own_lines.size() > kMostOwnLines) own_lines.resize(kMostOwnLines);
  changes.insert(changes.end(), own_lines.begin(), own_lines.end());
  std::set<ListedLine> lines = lines_before(about_.ranks.program, way_);
  lines.insert(suspects().begin(), suspects().end());
  for (TextChange& change : small_changes(text, about_, lines, suspects(), value_.label.line))
    if (!fits_one_size_alone_ || !(adds_call(change) || is_reduction_word(change)))
      changes.push_back(std::move(change));
  for (TextChange& change : towards_truth())
    if (drops_condition(change)) changes.push_back(std::move(change));
  return one_of(changes);
}

// Searches for a change of the text that makes as many values right as the cause that was found.
// If there is one, both become hints, because no run shows which one is right. Returns true.
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

}  // namespace shardproof
