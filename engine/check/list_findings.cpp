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

namespace {

struct ListedFinding {
  Finding finding;
  std::vector<std::string> consequences, passes;
};

// Walks the program in order. `source` of a value: the finding that it is computed from.
class FindingList {
 public:
  FindingList(std::vector<ExplainedValue> values, const EvaluationPlan& plan,
              Consequences consequences)
      : values_(std::move(values)),
        consequences_(consequences),
        source_(plan.program().values.size(), kNone) {
    for (const ValueId input : plan.program().inputs) reach(input);
    for (const GlobalInstr& instr : plan.program().instrs) {
      for (const ValueId output : instr.outputs) inherit(instr, output);
      for (const ValueId output : instr.outputs) reach(output);
    }
    while (next_ < values_.size()) add(values_[next_++]);
  }

  std::vector<Finding> take() {
    std::vector<Finding> findings;
    for (ListedFinding& one : findings_) {
      list_under(one.finding, "also wrong, computed from it:", one.consequences);
      list_under(one.finding, "also wrong in the passes", one.passes);
      findings.push_back(std::move(one.finding));
    }
    return findings;
  }

 private:
  static constexpr int kNone = -1;

  int& source(ValueId id) { return source_[static_cast<size_t>(id)]; }

  void inherit(const GlobalInstr& instr, ValueId output) {
    int from = kNone;
    for (const ValueId input : instr.inputs)
      if (input != kNoValue && source(input) != kNone)
        from = from == kNone ? source(input) : std::min(from, source(input));
    source(output) = from;
  }

  void reach(ValueId id) {
    for (; next_ < values_.size() && values_[next_].global == id; ++next_) {
      ExplainedValue& value = values_[next_];
      const bool spreads = consequences_ == Consequences::of_all_values || value.torn;
      if (source(id) != kNone) {
        findings_[static_cast<size_t>(source(id))].consequences.push_back(also_text(value.finding));
        continue;
      }
      const int own = add(value);
      if (spreads) source(id) = own;
    }
  }

  // Returns the finding that the value is listed as, or under.
  int add(ExplainedValue& value) {
    const auto same = std::find_if(findings_.begin(), findings_.end(), [&](const auto& listed) {
      return listed.finding.line == value.finding.line &&
             listed.finding.name == value.finding.name &&
             listed.finding.instance != value.finding.instance;
    });
    if (same != findings_.end()) {
      same->passes.push_back(value.finding.instance);
      return static_cast<int>(same - findings_.begin());
    }
    findings_.push_back({std::move(value.finding), {}, {}});
    return static_cast<int>(findings_.size()) - 1;
  }

  std::vector<ExplainedValue> values_;
  Consequences consequences_;
  std::vector<int> source_;
  std::vector<ListedFinding> findings_;
  size_t next_ = 0;
};

}  // namespace

std::vector<Finding> list_findings(std::vector<ExplainedValue> values, const EvaluationPlan& plan,
                                   Consequences consequences) {
  std::vector<Finding> findings = FindingList(std::move(values), plan, consequences).take();
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
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
