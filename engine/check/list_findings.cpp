// Implements list_findings.h.
#include "shardproof/engine/check/list_findings.h"

#include <algorithm>
#include <cmath>

#include "shardproof/engine/precision_text.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

std::string shown_name(const Finding& finding) {
  return finding.name.empty() ? fmt::format("line {}", finding.line) : finding.name;
}

// "w_2", or "g (i=2)" where the name alone does not tell passes apart.
std::string also_text(const Finding& finding) {
  const std::string name = shown_name(finding);
  return finding.instance.empty() ? name : fmt::format("{} ({})", name, finding.instance);
}

// Appends "also wrong ..." to a finding; names no more than a few.
void list_under(Finding& finding, const char* words, const std::vector<std::string>& others) {
  constexpr size_t kShown = 8;
  if (others.empty()) return;
  const size_t shown = std::min(kShown, others.size());
  std::string text =
      fmt::format("{} {}", words, fmt::join(others.begin(), others.begin() + shown, ", "));
  if (shown < others.size()) text += fmt::format(" and {} more", others.size() - shown);
  finding.details.push_back(std::move(text));
}

const PrecisionLimit* limit_of(const std::string& name, const Job& job) {
  const PrecisionLimit* all = nullptr;
  for (const PrecisionLimit& limit : job.precision_limits) {
    if (limit.name == name && !name.empty()) return &limit;
    if (limit.name.empty()) all = &limit;
  }
  return all;
}

bool is_over(const ValuePrecision& precision, const PrecisionLimit* limit) {
  if (limit == nullptr) return precision.ratio > kPrecisionLimit;
  return !limit->condition.holds(precision.ratio);
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
    finding.headline +=
        fmt::format(" (limit {})", limit != nullptr ? to_string(limit->condition)
                                                    : fmt::format("{:.0f}", kPrecisionLimit));
  if (!precision.cause.empty()) finding.details.push_back("cause   " + precision.cause);
  return finding;
}

}  // namespace

UndecidedValue undecided_value(const JudgedValue& value) {
  return {value.label.name,
          value.label.line,
          value.label.instance,
          std::ssize(value.elements),
          value.of,
          std::isfinite(value.movement)
              ? fmt::format("ranks and one device are {:.2g} apart, and roundings alone move it by "
                            "{:.2g}",
                            value.distance, value.movement)
              : "roundings alone decide whether it is a number"};
}

std::vector<Finding> group_by_line(std::vector<ExplainedValue> values) {
  std::vector<Finding> findings;
  std::vector<std::vector<std::string>> others;
  for (ExplainedValue& value : values) {
    const auto same = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.line == value.finding.line && finding.name == value.finding.name &&
             !(finding.instance == value.finding.instance);
    });
    if (same == findings.end()) {
      findings.push_back(std::move(value.finding));
      others.emplace_back();
    } else {
      others[static_cast<size_t>(same - findings.begin())].push_back(value.finding.instance);
    }
  }
  for (size_t i = 0; i < findings.size(); ++i)
    list_under(findings[i], "also wrong in the passes", others[i]);
  return findings;
}

std::vector<Finding> group_by_dependence(std::vector<ExplainedValue> values,
                                         const EvaluationPlan& plan) {
  constexpr int kNone = -1;
  std::vector<int> source(plan.program().values.size(), kNone);  // finding it depends on
  std::vector<Finding> findings;
  std::vector<std::vector<std::string>> others;
  size_t next = 0;
  const auto reach = [&](ValueId global) {
    for (; next < values.size() && values[next].global == global; ++next) {
      int& own = source[static_cast<size_t>(global)];
      if (own == kNone) {
        own = static_cast<int>(findings.size());
        findings.push_back(std::move(values[next].finding));
        others.emplace_back();
      } else {
        others[static_cast<size_t>(own)].push_back(also_text(values[next].finding));
      }
    }
  };
  for (const ValueId input : plan.program().inputs) reach(input);
  for (const GlobalInstr& instr : plan.program().instrs) {
    int from = kNone;
    for (const ValueId input : instr.inputs)
      if (input != kNoValue && source[static_cast<size_t>(input)] != kNone)
        from = from == kNone ? source[static_cast<size_t>(input)]
                             : std::min(from, source[static_cast<size_t>(input)]);
    for (const ValueId output : instr.outputs) source[static_cast<size_t>(output)] = from;
    for (const ValueId output : instr.outputs) reach(output);
  }
  // Values that the walk did not meet in order are findings of their own.
  for (; next < values.size(); ++next) {
    findings.push_back(std::move(values[next].finding));
    others.emplace_back();
  }
  for (size_t i = 0; i < findings.size(); ++i)
    list_under(findings[i], "also wrong, computed from it:", others[i]);
  return findings;
}

void add_precision(const std::vector<MeasuredPrecision>& measured,
                   const std::set<std::string>& settled, const Job& job, Outcome& outcome) {
  const bool clean = outcome.findings.empty();
  for (const MeasuredPrecision& one : measured) {
    if (settled.contains(one.key)) continue;
    const PrecisionLimit* limit = limit_of(one.precision.name, job);
    if (one.precision.ratio >= kPrecisionNote || limit != nullptr)
      outcome.precision.push_back(one.precision);
    if (clean && is_over(one.precision, limit))
      outcome.findings.push_back(imprecise_finding(one, limit));
  }
}

}  // namespace shardproof
