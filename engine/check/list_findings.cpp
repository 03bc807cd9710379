// Implements list_findings.h: consequences are listed under their cause, and other passes of a line
// under its first.
//
// add_precision() decides which values are imprecise. If the scenario states a limit for a value,
// that limit decides. Otherwise a value is imprecise if its ratio is over kPrecisionLimit, or if
// the ranks lose kLostShare of it and one device does not (is_lost). own_dtype_judge.h measures
// both. Imprecise values with one cause are one finding.
#include "shardproof/engine/check/list_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/engine/compare/precision_text.h"
#include "shardproof/engine/explain/cause_lines.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/number_text.h"

namespace shardproof {
namespace {

// Returns "w_2", or "g (i=2)" if the name does not distinguish the passes. `value` is a Finding or
// a ValueLabel.
template <typename Value>
std::string shown_name(const Value& value) {
  const std::string name = value.name.empty() ? fmt::format("line {}", value.line) : value.name;
  return value.instance.empty() ? name : fmt::format("{} ({})", name, value.instance);
}

// Returns "a, b and 3 more"; lists at most 8 names.
std::string list_text(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  const size_t shown = std::min(kShown, names.size());
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

// Appends "also wrong ..." to a finding.
void list_under(Finding& finding, const char* words, const std::vector<std::string>& others) {
  if (!others.empty()) finding.details.push_back(fmt::format("{} {}", words, list_text(others)));
}

const PrecisionLimit* limit_of(const std::string& name, const Job& job) {
  const PrecisionLimit* all = nullptr;
  for (const PrecisionLimit& limit : job.precision_limits) {
    if (limit.name == name && !name.empty()) return &limit;
    if (limit.name.empty()) all = &limit;
  }
  return all;
}

bool is_over(const MeasuredPrecision& measured, const PrecisionLimit* limit) {
  const ValuePrecision& precision = measured.precision;
  if (limit == nullptr) return precision.ratio > kPrecisionLimit || is_lost(measured);
  return !limit->condition.holds(precision.ratio);
}

// Returns the limit that an imprecise value exceeds.
std::string limit_text(const ValuePrecision& precision, const PrecisionLimit* limit) {
  if (limit != nullptr) return to_string(limit->condition);
  if (precision.ratio <= kPrecisionLimit) return "half of its largest element";
  return grouped_number(static_cast<int64_t>(kPrecisionLimit));
}

Finding imprecise_finding(const MeasuredPrecision& measured, const PrecisionLimit* limit) {
  const ValuePrecision& precision = measured.precision;
  Finding finding;
  finding.verdict = Verdict::imprecise;
  finding.line = precision.line;
  finding.name = precision.name;
  finding.instance = precision.instance;
  finding.ranks = measured.ranks;
  finding.headline = precision_text(precision);
  if (std::isfinite(precision.error) && precision.unequal == 0)
    finding.headline += fmt::format(" (limit {})", limit_text(precision, limit));
  if (!precision.cause.empty()) finding.details.push_back(kCauseLabel + precision.cause);
  return finding;
}

}  // namespace

UndecidedValue undecided_because(const JudgedValue& value, std::string reason) {
  const ValueLabel& label = value.label;
  return {label.name, label.line,       label.instance, std::ssize(value.elements),
          value.of,   std::move(reason)};
}

UndecidedValue undecided_in_f64(const JudgedValue& value) {
  if (!std::isfinite(value.movement))
    return undecided_because(
        value, "rounding alone decides whether it is finite; smaller inputs may decide it");
  return undecided_because(
      value, fmt::format("ranks and one device differ by {:.2g}, and rounding alone changes it by "
                         "{:.2g}; other inputs or fewer steps may decide it",
                         value.distance, value.movement));
}

UndecidedValue undecided_by_steps(const JudgedValue& value) {
  return undecided_because(
      value, fmt::format("ranks and one device differ by {:.2g} in the program's dtypes, where "
                         "rounding decides a sign, an index or a comparison on the way to it, but "
                         "gives no such number on one device; f64 rounds elsewhere; other inputs "
                         "may decide it",
                         value.distance));
}

void add_unmeasured(const std::vector<ValueLabel>& values, int direction, const std::string& reason,
                    std::vector<UnmeasuredMovement>& to) {
  std::vector<std::string> names;
  for (const ValueLabel& value : values) names.push_back(shown_name(value));
  const std::string shown = list_text(names);
  const auto same = std::find_if(to.begin(), to.end(), [&](const UnmeasuredMovement& one) {
    return one.values == shown && one.reason == reason;
  });
  if (same != to.end())
    same->directions.push_back(direction);
  else
    to.push_back({shown, reason, {direction}});
}

std::string unmeasured_note(const UnmeasuredMovement& unmeasured) {
  std::vector<std::string> directions;
  for (const int direction : unmeasured.directions) directions.push_back(rounding_text(direction));
  return fmt::format(
      "the movement of {} is not measured with rounding {}: {}; other "
      "inputs may allow it",
      unmeasured.values, fmt::join(directions, " and "), unmeasured.reason);
}

std::string unresolved_note(const std::vector<ComparedValue>& values) {
  std::vector<std::string> names;
  std::set<std::string> axes;
  for (const ComparedValue& value : values) {
    names.push_back(fmt::format("{} of line {}", shown_name(value.label), value.label.line));
    for (int axis = 0; axis < value.spec.mesh().axis_count(); ++axis)
      if (value.spec.mesh().axis_size(axis) > 1 && value.spec.placement(axis).is_replicate())
        axes.insert(value.spec.mesh().axes()[static_cast<size_t>(axis)].name);
  }
  const bool one = names.size() == 1;
  return fmt::format(
      "{} should be equal on all ranks of {}; in f64 {} by less than {} dtype resolves: check that "
      "the inputs of {} are reduced there",
      list_text(names), fmt::join(axes, " or "),
      one ? "its replicas differ" : "their replicas differ", one ? "its" : "their",
      one ? "it" : "them");
}

std::string rounded_note(const JudgedValue& value, const std::string& backend) {
  return fmt::format(
      "{} of {} elements of {} differ from one device on {}, which roundings of the line's inputs "
      "explain",
      value.elements.size(), value.of, shown_name(value.label), backend);
}

namespace {

// Returns the place of the lines that state a cause or a hint. They are the last ones.
std::vector<std::string>::iterator causes_in(Finding& finding) {
  return std::find_if(finding.details.begin(), finding.details.end(), states_cause_or_hint);
}

bool have_equal_causes(const Finding& a, const Finding& b) {
  std::vector<std::string> of_a, of_b;
  std::copy_if(a.details.begin(), a.details.end(), std::back_inserter(of_a), states_cause_or_hint);
  std::copy_if(b.details.begin(), b.details.end(), std::back_inserter(of_b), states_cause_or_hint);
  return of_a == of_b && a.fix == b.fix;
}

bool are_results_of_one_line(const Finding& a, const Finding& b) {
  return a.line == b.line && a.instance == b.instance && !a.name.empty() && !b.name.empty() &&
         a.name != b.name && a.verdict == b.verdict && have_equal_causes(a, b);
}

// Returns, for each value that is no consequence, the index of the value whose cause explains it.
// If several causes make it right, the one that makes the most values right counts.
std::vector<size_t> explaining_values(const std::vector<ExplainedValue>& values) {
  std::vector<size_t> by(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    by[i] = i;
    for (size_t j = 0; j < values.size(); ++j) {
      const size_t known = values[by[i]].made_right.size(), other = values[j].made_right.size();
      if (values[j].made_right.contains(values[i].key) &&
          (other > known || (other == known && j < by[i])))
        by[i] = j;
    }
    if (by[i] != i || !values[i].made_right.empty()) continue;
    if (values[i].beside >= 0) {
      by[i] = by[static_cast<size_t>(values[i].beside)];
      continue;
    }
    for (size_t j = 0; j < i; ++j)
      if (by[j] == j && values[j].consequence_of < 0 &&
          are_results_of_one_line(values[j].finding, values[i].finding)) {
        by[i] = j;
        break;
      }
  }
  return by;
}

struct ListedFinding {
  size_t by = 0;  // index of the value whose cause it has
  Finding finding = {};
  std::vector<Finding> beside = {};  // other values with the same cause
  std::vector<std::string> consequences = {}, passes = {};
  int unnamed = 0;  // other wrong values without a name inside the same line
};

bool is_another_pass(const Finding& a, const Finding& b) {
  return a.line == b.line && a.name == b.name && a.instance != b.instance;
}

void add_new(std::vector<std::string>& texts, const std::string& text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
}

// Returns "i=1", or "(step=0, i=1)" in nested loops.
std::string pass_text(const std::string& instance) {
  return instance.find(',') == std::string::npos ? instance : fmt::format("({})", instance);
}

bool are_inside_one_line(const Finding& a, const Finding& b) {
  return a.line == b.line && a.name.empty() && b.name.empty() && a.instance == b.instance;
}

bool has_another_pass(const ListedFinding& listed, const Finding& finding) {
  const auto is_other = [&](const Finding& one) { return is_another_pass(one, finding); };
  return is_other(listed.finding) ||
         std::any_of(listed.beside.begin(), listed.beside.end(), is_other);
}

// Adds a value to the finding with its cause. The finding is about the value of the earliest line.
void add_beside(ListedFinding& listed, Finding finding) {
  if (finding.line < listed.finding.line) std::swap(finding, listed.finding);
  listed.beside.push_back(std::move(finding));
}

// Returns "also wrong   line 8   g[0] on all ranks: expected 1, got 4; every element is 4 x what it
// should be". `words`: "also wrong".
std::string beside_text(const char* words, const Finding& finding, const Finding& first) {
  std::string text = fmt::format("{}   ", words);
  if (finding.line != first.line || finding.instance != first.instance)
    text += fmt::format("line {}{}   ", finding.line,
                        finding.instance.empty() ? "" : fmt::format(" ({})", finding.instance));
  text += finding.headline;
  for (const std::string& detail : finding.details)
    if (detail.starts_with("every ")) text += "; " + detail;
  return text;
}

// Lists values with the same cause under the first finding. `words`: "also wrong".
void list_beside(Finding& finding, const char* words, const std::vector<Finding>& beside) {
  constexpr size_t kShown = 6;
  std::vector<std::string> more;
  for (size_t i = 0; i < beside.size(); ++i)
    if (i < kShown)
      finding.details.push_back(beside_text(words, beside[i], finding));
    else
      more.push_back(shown_name(beside[i]));
  list_under(finding, fmt::format("{}  ", words).c_str(), more);
}

// Writes the cause of `by` and the other values into the finding.
Finding finished(ListedFinding listed, const Finding& by) {
  Finding& finding = listed.finding;
  if (!have_equal_causes(finding, by)) {
    finding.details.erase(causes_in(finding), finding.details.end());
    Finding explained = by;
    finding.details.insert(finding.details.end(), causes_in(explained), explained.details.end());
    finding.fix = by.fix;
  }
  std::stable_sort(listed.beside.begin(), listed.beside.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  list_beside(finding, "also wrong", listed.beside);
  list_under(
      finding,
      listed.beside.empty() ? "also wrong, computed from it:" : "also wrong, computed from them:",
      listed.consequences);
  list_under(finding, "also wrong in passes", listed.passes);
  if (listed.unnamed > 0)
    finding.details.push_back(fmt::format("also wrong: {} more value{} inside the line",
                                          listed.unnamed, listed.unnamed == 1 ? "" : "s"));
  return std::move(finding);
}

}  // namespace

std::vector<Finding> list_findings(std::vector<ExplainedValue> values) {
  std::vector<ListedFinding> listed;
  const std::vector<size_t> by = explaining_values(values);
  std::vector<size_t> place(values.size(), 0);  // in `listed`, of each value
  for (size_t i = 0; i < values.size(); ++i) {
    const ExplainedValue& value = values[i];
    if (value.consequence_of >= 0) {
      place[i] = place[static_cast<size_t>(value.consequence_of)];
      add_new(listed[place[i]].consequences, shown_name(value.finding));
      continue;
    }
    const auto same = std::find_if(listed.begin(), listed.end(), [&](const ListedFinding& one) {
      return one.by == by[i] || has_another_pass(one, value.finding) ||
             are_inside_one_line(one.finding, value.finding);
    });
    place[i] = static_cast<size_t>(same - listed.begin());
    if (same == listed.end())
      listed.push_back({by[i], value.finding});
    else if (has_another_pass(*same, value.finding))
      add_new(same->passes, pass_text(value.finding.instance));
    else if (are_inside_one_line(same->finding, value.finding))
      ++same->unnamed;
    else
      add_beside(*same, value.finding);
  }
  std::vector<Finding> findings;
  for (ListedFinding& one : listed) {
    const Finding& explained = values[one.by].finding;
    findings.push_back(finished(std::move(one), explained));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  return findings;
}

void add_precision(const std::vector<MeasuredPrecision>& measured,
                   const std::set<std::string>& settled, const JudgedProgram& program,
                   Outcome& outcome) {
  const bool clean = outcome.findings.empty();
  std::vector<ListedFinding> listed;
  for (MeasuredPrecision one : measured) {
    if (settled.contains(one.key)) continue;
    const PrecisionLimit* limit = limit_of(one.precision.name, program.job());
    if (one.precision.ratio >= kNarrowNote) one.precision.cause = program.cause_of(one);
    if (one.precision.ratio >= kPrecisionNote || is_lost(one) || !one.precision.cause.empty() ||
        limit != nullptr)
      outcome.precision.push_back(one.precision);
    if (!clean || !is_over(one, limit)) continue;
    Finding finding = imprecise_finding(one, limit);
    const auto same = std::find_if(listed.begin(), listed.end(), [&](const ListedFinding& known) {
      return !one.precision.cause.empty() && have_equal_causes(known.finding, finding);
    });
    if (same == listed.end())
      listed.push_back({listed.size(), std::move(finding)});
    else
      same->beside.push_back(std::move(finding));
  }
  for (ListedFinding& one : listed) {
    list_beside(one.finding, "also imprecise", one.beside);
    outcome.findings.push_back(std::move(one.finding));
  }
}

}  // namespace shardproof
