// Implements list_findings.h: consequences are listed under their cause, and other passes of a line
// under its first. add_precision() decides which values are imprecise: those with a ratio over
// kPrecisionLimit or kLostShare, or outside the condition of the scenario.
#include "shardproof/engine/check/list_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/engine/compare/precision_text.h"
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
  if (std::isfinite(precision.error))
    finding.headline += fmt::format(" (limit {})", limit_text(precision, limit));
  if (!precision.cause.empty()) finding.details.push_back("cause   " + precision.cause);
  return finding;
}

}  // namespace

UndecidedValue undecided_value(const JudgedValue& value) {
  return {
      value.label.name,
      value.label.line,
      value.label.instance,
      std::ssize(value.elements),
      value.of,
      std::isfinite(value.movement)
          ? fmt::format(
                "ranks and one device differ by {:.2g}, and rounding alone changes it by {:.2g}; "
                "other inputs or fewer steps may decide it",
                value.distance, value.movement)
          : "rounding alone decides whether it is finite; smaller inputs may decide it"};
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
      "inputs may reach it",
      unmeasured.values, fmt::join(directions, " and "), unmeasured.reason);
}

std::string rounded_note(const JudgedValue& value, const std::string& backend) {
  return fmt::format(
      "{} of {} elements of {} differ from one device on {}, which roundings of the line's inputs "
      "explain",
      value.elements.size(), value.of, shown_name(value.label), backend);
}

namespace {

struct ListedFinding {
  Finding finding;
  std::vector<std::string> consequences, passes;
  int beside = 0;  // other wrong values without a name inside the same line
};

bool is_another_pass(const Finding& a, const Finding& b) {
  return a.line == b.line && a.name == b.name && a.instance != b.instance;
}

void add_new(std::vector<std::string>& passes, const std::string& instance) {
  if (std::find(passes.begin(), passes.end(), instance) == passes.end()) passes.push_back(instance);
}

bool are_inside_one_line(const Finding& a, const Finding& b) {
  return a.line == b.line && a.name.empty() && b.name.empty() && a.instance == b.instance;
}

// Returns the finding under which a reader expects this one; listed.end() if it stands alone.
std::vector<ListedFinding>::iterator find_like(std::vector<ListedFinding>& listed,
                                               const Finding& finding) {
  return std::find_if(listed.begin(), listed.end(), [&](const ListedFinding& one) {
    return is_another_pass(one.finding, finding) || are_inside_one_line(one.finding, finding);
  });
}

}  // namespace

std::vector<Finding> list_findings(std::vector<ExplainedValue> values) {
  std::vector<ListedFinding> listed;
  std::vector<size_t> place(values.size(), 0);  // in `listed`, of each value
  for (size_t i = 0; i < values.size(); ++i) {
    ExplainedValue& value = values[i];
    if (value.consequence_of >= 0) {
      place[i] = place[static_cast<size_t>(value.consequence_of)];
      listed[place[i]].consequences.push_back(shown_name(value.finding));
      continue;
    }
    const auto same = find_like(listed, value.finding);
    place[i] = static_cast<size_t>(same - listed.begin());
    if (same == listed.end())
      listed.push_back({std::move(value.finding), {}, {}});
    else if (is_another_pass(same->finding, value.finding))
      add_new(same->passes, value.finding.instance);
    else
      ++same->beside;
  }
  std::vector<Finding> findings;
  for (ListedFinding& one : listed) {
    list_under(one.finding, "also wrong, computed from it:", one.consequences);
    list_under(one.finding, "also wrong in passes", one.passes);
    if (one.beside > 0)
      one.finding.details.push_back(fmt::format("also wrong: {} more value{} inside the line",
                                                one.beside, one.beside == 1 ? "" : "s"));
    findings.push_back(std::move(one.finding));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  return findings;
}

void add_precision(const std::vector<MeasuredPrecision>& measured,
                   const std::set<std::string>& settled, const JudgedProgram& program,
                   Outcome& outcome) {
  const bool clean = outcome.findings.empty();
  for (MeasuredPrecision one : measured) {
    if (settled.contains(one.key)) continue;
    const PrecisionLimit* limit = limit_of(one.precision.name, program.job());
    if (one.precision.ratio >= kNarrowNote) one.precision.cause = program.cause_of(one);
    if (one.precision.ratio >= kPrecisionNote || is_lost(one) || !one.precision.cause.empty() ||
        limit != nullptr)
      outcome.precision.push_back(one.precision);
    if (clean && is_over(one, limit)) outcome.findings.push_back(imprecise_finding(one, limit));
  }
}

}  // namespace shardproof
