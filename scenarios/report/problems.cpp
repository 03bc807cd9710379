// Implements problems.h.
#include "shardproof/scenarios/report/problems.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

#include "shardproof/scenarios/report/remarks.h"

namespace shardproof {
namespace {

std::string missed_line(const ExpectationFailure& miss) {
  return fmt::format("{}: expected {}, got {}", miss.what, miss.expected, miss.got);
}

std::string finding_line(const Finding& finding) {
  const std::string verdict(name(finding.verdict));
  if (finding.headline.empty()) return verdict;
  return finding.headline.starts_with(verdict) ? finding.headline
                                               : verdict + ": " + finding.headline;
}

// Collects problems of one case after the other.
class ProblemList {
 public:
  void add_case(const CaseResult& one) {
    if (one.status == CaseStatus::as_expected) return;
    case_ = &one;
    if (one.error) add_error(*one.error);
    for (const Error& error : one.more_errors) add_error(error);
    for (const ExpectationFailure& miss : one.missed_refusal)
      add("expectation", {}, missed_line(miss));
    for (const PhaseResult& phase : one.phases) add_phase(phase);
  }
  std::vector<Problem> take() { return std::move(problems_); }

 private:
  void add_error(const Error& error) {
    if (case_->status != CaseStatus::refused) return;
    const bool bad = case_->status_text() == name(Verdict::bad_input);
    add(bad ? "bad input" : "refused", {"", error.where().file_line, error.where().file_column},
        error.message());
  }
  // Findings of the expected verdict are not problems; another expectation is then not met.
  void add_phase(const PhaseResult& phase) {
    bool told = false;
    for (size_t i = 0; i < phase.outcome.findings.size(); ++i) {
      const Finding& finding = phase.outcome.findings[i];
      if (finding.verdict == case_->expected) continue;
      std::string text = finding_line(finding);
      if (const std::string cause = cause_of(finding); !cause.empty()) text += "\ncause: " + cause;
      if (!finding.fix.empty()) text += "\nfix: " + finding.fix;
      add(std::string(name(finding.verdict)),
          i < phase.places.size() ? phase.places[i] : SourcePlace{}, text);
      told = true;
    }
    for (const ExpectationFailure& miss : phase.missed)
      if (!told || miss.what != "verdict")
        add("expectation", phase.expect_place, missed_line(miss));
  }
  void add(const std::string& rule, const SourcePlace& place, std::string text) {
    if (!known_.insert({case_->file, place.file_line, place.file_column, rule, text}).second)
      return;
    if (!case_->name.empty()) text += fmt::format("\ncase: {}", case_->name);
    problems_.push_back({rule, case_->file, place.file_line, place.file_column, std::move(text)});
  }

  const CaseResult* case_ = nullptr;
  std::vector<Problem> problems_;
  std::set<std::tuple<std::string, int, int, std::string, std::string>> known_;
};

}  // namespace

std::vector<Problem> problems_of(const RunResult& result) {
  ProblemList list;
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases) list.add_case(one);
  return list.take();
}

std::vector<Problem> remarks_of(const RunResult& result) {
  std::vector<Problem> remarks;
  std::set<std::pair<std::string, std::string>> known;
  const auto add = [&](const CaseResult& one, const std::string& rule, const std::string& line) {
    if (!known.emplace(one.file, line).second) return;
    std::string text = line.substr(line.find_first_not_of(' ', rule.size()));
    if (!one.name.empty()) text += fmt::format("\ncase: {}", one.name);
    remarks.push_back({rule, one.file, 0, 0, std::move(text)});
  };
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases)
      for (const PhaseResult& phase : one.phases) {
        for (const std::string& line : undecided_lines(phase.outcome))
          add(one, "not decided", line);
        for (const std::string& line : note_lines(phase.outcome)) add(one, "note", line);
      }
  return remarks;
}

std::string cause_of(const Finding& finding) {
  constexpr std::string_view kLabel = "cause   ";
  std::string causes;
  for (const std::string& detail : finding.details)
    if (detail.starts_with(kLabel))
      causes += (causes.empty() ? "" : "; ") + detail.substr(kLabel.size());
  return causes;
}

std::string headline_text(const CaseResult& one) {
  if (one.error && one.status == CaseStatus::refused) return one.error->message();
  const Finding* const finding = one.leading();
  if (finding != nullptr && finding->verdict != one.expected) return finding_line(*finding);
  for (const PhaseResult& phase : one.phases)
    for (const ExpectationFailure& miss : phase.missed) return missed_line(miss);
  for (const ExpectationFailure& miss : one.missed_refusal) return missed_line(miss);
  return std::string(name(one.verdict()));
}

}  // namespace shardproof
