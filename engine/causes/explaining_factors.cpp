// Implements explaining.h: factors that are the size of an axis or a `let`.
#include <algorithm>
#include <cmath>
#include <set>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/causes/explaining.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

// Returns the sizes of `let`s, then of axes, with their names.
std::vector<std::pair<std::string, int64_t>> Explaining::sizes() const {
  std::vector<std::pair<std::string, int64_t>> result;
  for (const auto& [name, number] : about_.job.numbers)
    if (number.is_integer() && number.integer() > 1) result.emplace_back(name, number.integer());
  for (const MeshAxis& axis : mesh_.axes())
    if (axis.size > 1) result.emplace_back("the size of " + axis.name, axis.size);
  return result;
}

// Returns the `let`s that a factor follows when they change: "m, and with m = 4 it is 4".
std::vector<std::pair<std::string, std::string>> Explaining::lets_followed(Edit edit, int64_t size,
                                                                           bool times) {
  std::vector<std::pair<std::string, std::string>> follows;
  for (const auto& [name, number] : about_.job.numbers) {
    if (!number.is_integer() || number.integer() != size) continue;
    for (const int64_t next : {size + 1, size - 1}) {
      edit.factor = times ? 1 / static_cast<double>(next) : static_cast<double>(next);
      if (next < 2 || !confirmation_.confirms_resized(name, next, edit)) continue;
      follows.emplace_back(name, fmt::format("with {} = {} it is {}{} times", name, next,
                                             times ? "" : "1 / ", next));
      break;
    }
  }
  return follows;
}

// Tests numbers and names in the text.
bool Explaining::wrong_argument() {
  std::optional<SourceCause> cause = right_size_for_number(about_, target(), ratio_, confirmation_);
  if (!cause) cause = right_result_of_call(about_, target(), confirmation_);
  if (!cause) return false;
  settle({cause->text, cause->fix, {}, cause->made_right});
  return true;
}

bool Explaining::missing_enter() {
  if (!is_made_by_grad_on_way()) return false;
  const std::optional<SourceCause> cause =
      right_enter(about_, provenance_, EnteredNames::computed, confirmation_);
  if (!cause) return false;
  // A later call may add the same gradients up, by the wrong reduction.
  std::vector<ConfirmedCause> reductions;
  other_reductions(reductions);
  for (const ConfirmedCause& one : reductions)
    if (one.made_right.size() >= cause->made_right.size()) {
      settle(one);
      return true;
    }
  settle({cause->text, cause->fix, {}, cause->made_right});
  return true;
}

// True if another word of backward= makes the value right, or a change of the same effect. An
// enter(..) where the result is read has that of backward=all_reduce.
bool Explaining::another_word() {
  const bool is_found = counted_too_often();
  const bool sums = is_found && fix.starts_with("backward=all_reduce ");
  if (!sums) return is_found;
  const std::set<std::string> by_word = made_right;
  const std::optional<SourceCause> enter =
      right_enter(about_, provenance_, EnteredNames::computed, confirmation_);
  if (enter && enter->made_right.size() >= by_word.size()) {
    const std::string word = fix;
    lines.clear();
    settle({enter->text, fmt::format("{}, or {}", enter->fix, word), {}, enter->made_right});
  }
  return true;
}

// True if the value is computed from what other lines send: messages, or calls of several listings.
// An edit of this side then shows how wrong the other one is, and not where.
bool Explaining::depends_on_senders() const {
  return std::any_of(way_.steps.begin(), way_.steps.end(), [&](const Step& step) {
    const auto* call = std::get_if<Communicate>(&step.instr->action);
    if (call == nullptr) return false;
    const auto is_message = [](const CallItem& item) {
      return is_point_to_point(item.collective.kind);
    };
    return about_.ranks.program.listings.size() > 1 ||
           std::any_of(call->items.begin(), call->items.end(), is_message);
  });
}

// Tests the axes of a size. Adds to `names` those of which no run shows if the factor follows them.
// True if it follows one: with one rank along the axis the value is right.
bool Explaining::follows_axis(const Edit& edit, const std::string& what, const std::string& fix,
                              std::vector<std::string>& names) {
  const auto size = static_cast<int64_t>(std::lround(std::max(edit.factor, 1 / edit.factor)));
  std::vector<std::string> follows;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    if (mesh_.axis_size(axis) != size) continue;
    const std::optional<bool> right = confirmation_.is_right_without(axis);
    if (right == false || !confirmation_.confirms(edit, {axis})) continue;
    const std::string& name = mesh_.axes()[static_cast<size_t>(axis)].name;
    if (right)
      follows.push_back(name);
    else
      names.push_back("the size of " + name);
  }
  if (follows.size() != 1) {
    for (const std::string& name : follows) names.push_back("the size of " + name);
    return false;
  }
  settle({fmt::format("{}: {} is the size of {}, and with {} = 1 it is right", what, size,
                      follows[0], follows[0]),
          fmt::format("{} by size({}) on {}", fix, follows[0], text_of(edit)),
          {}});
  return true;
}

// True if the value is right with the factor in the statement that binds the name: gradients that
// are taken of it change too. True if no statement of the line binds this name alone.
bool Explaining::is_right_with_statement(const Step& step, int64_t size, bool times) {
  const NumberedText& text = confirmation_.text();
  for (const TextStatement& one : text.statements()) {
    const Statement& line = *one.statement;
    if (one.listing != step.listing || line.place.line != step.site.line ||
        line.kind != StatementKind::assign || line.targets.size() != 1 || !line.targets[0].plain())
      continue;
    const auto put = [&](Expr& expr) {
      expr = scaled_expression(expr, times ? "/" : "*", Number(size));
    };
    return confirmation_.confirms_job(change_of({text.number_of(*one.whole[0])}, put));
  }
  return true;
}

bool Explaining::is_missing(const Step& step, ValueId id, int64_t size, bool times) {
  const double factor = times ? 1 / static_cast<double>(size) : static_cast<double>(size);
  const Edit edit{Edit::Kind::scale_output, step.site, 0, {}, {}, factor};
  const std::string what = fmt::format("{} of {} is {}{} times what it should be", info(id).bound,
                                       line_of(step), times ? "" : "1 / ", size);
  const std::string fix = fmt::format("{} {}", times ? "divide" : "multiply", info(id).bound);
  if (calls_grad(about_.job) && !is_right_with_statement(step, size, times)) return false;
  std::vector<std::string> names;
  if (confirmation_.confirms(edit)) {
    const auto follows = lets_followed(edit, size, times);
    if (follows.size() == 1) {
      const auto& [let, text] = follows.front();
      settle({fmt::format("{}: {} is {}, and {}", what, size, let, text),
              fmt::format("{} by {} on {}", fix, let, line_of(step)),
              {}});
      return true;
    }
    for (const auto& [name, number] : about_.job.numbers)
      if (number.is_integer() && number.integer() == size) names.push_back(name);
  }
  if (follows_axis(edit, what, fix, names)) return true;
  // The only numbers of a program fit many factors.
  if (names.empty() || !confirmation_.is_varied() || depends_on_senders()) return false;
  lines.push_back(
      fmt::format("{}{}; {} is {}", kHintLabel, what, size, joined_words(names, "and")));
  made_right = confirmation_.made_right();
  return true;
}

bool Explaining::has_tested_factors() const {
  return about_.ranks.program.listings.size() == 1 && !confirmation_.is_spent() &&
         std::all_of(way_.ends.begin(), way_.ends.end(),
                     [&](ValueId id) { return is_float(id) && !info(id).bound.empty(); });
}

bool Explaining::missing_factor() {
  std::set<int64_t> tried;
  for (const auto& [name, size] : sizes()) {
    if (!tried.insert(size).second) continue;
    // Lines of the value's own listings first: an edit of what is sent to them has the same effect.
    for (const bool own : {true, false})
      for (const Step& step : way_.steps) {
        const ValueId id = made_by(*step.instr, 0);
        if (id == kNoValue || info(id).bound.empty() || !is_float(id) ||
            way_.listings.contains(step.listing) != own)
          continue;
        if (is_missing(step, id, size, true) || is_missing(step, id, size, false)) return true;
      }
  }
  return false;
}

}  // namespace shardproof
