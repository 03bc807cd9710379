// Implements the result types of run.h.
#include "shardproof/scenarios/run/run.h"

#include <algorithm>

namespace shardproof {

std::string_view CaseResult::status_text() const {
  switch (status) {
    case CaseStatus::as_expected: return "as expected";
    case CaseStatus::unexpected: return "unexpected";
    case CaseStatus::refused: break;
  }
  const bool beyond =
      error && (error->kind() == ErrorKind::unsupported || error->kind() == ErrorKind::limit);
  return beyond ? "refused" : "bad input";
}

// The line of a finding is taken from the listing of its first rank if its details quote that line.
// Otherwise it is taken from the first listing that they quote, else from that of its first rank.
// The line of a missing rank, for example, is in the listing of the rank that waits for it.
const JobListing* PhaseResult::listing_of(const Finding& finding) const {
  if (finding.line <= 0) return nullptr;
  const auto at = static_cast<size_t>(finding.line) - 1;
  const auto quoted = [&](const std::string& line) {
    const size_t start = line.find_first_not_of(' ');
    return start != std::string::npos &&
           std::any_of(finding.details.begin(), finding.details.end(),
                       [&](const std::string& text) {
                         return text.find(line.substr(start)) != std::string::npos;
                       });
  };
  const JobListing *own = nullptr, *first_quoted = nullptr;
  for (const JobListing& listing : listings) {
    if (at >= listing.listing.lines.size()) continue;
    const bool is_quoted = quoted(listing.listing.lines[at]);
    const bool holds = finding.ranks.empty() || listing.lanes.contains(finding.ranks[0]);
    if (is_quoted && holds) return &listing;
    if (is_quoted && first_quoted == nullptr) first_quoted = &listing;
    if (holds && own == nullptr) own = &listing;
  }
  return first_quoted != nullptr ? first_quoted : own;
}

std::string PhaseResult::line_text(const Finding& finding) const {
  const JobListing* const listing = listing_of(finding);
  return listing == nullptr ? "" : listing->listing.lines[static_cast<size_t>(finding.line) - 1];
}

const Finding* CaseResult::leading() const {
  const Finding* imprecise = nullptr;
  for (const PhaseResult& phase : phases) {
    const Finding* finding = leading_finding(phase.outcome.findings);
    if (finding == nullptr) continue;
    if (finding->verdict != Verdict::imprecise) return finding;
    if (imprecise == nullptr) imprecise = finding;
  }
  return imprecise;
}

Verdict CaseResult::verdict() const {
  if (error) return Verdict::bad_input;
  const Finding* finding = leading();
  return finding == nullptr ? Verdict::clean : finding->verdict;
}

int64_t CaseResult::values_compared() const {
  int64_t sum = 0;
  for (const PhaseResult& phase : phases) sum += phase.outcome.values_compared;
  return sum;
}

bool CaseResult::compares_nothing() const {
  return !error && !phases.empty() &&
         std::all_of(phases.begin(), phases.end(),
                     [](const PhaseResult& phase) { return phase.compares_nothing; });
}

int RunResult::exit_code() const {
  int code = 0;
  for (const ScenarioResult& scenario : scenarios)
    for (const CaseResult& one : scenario.cases)
      code = std::max(code, one.status == CaseStatus::refused      ? 2
                            : one.status == CaseStatus::unexpected ? 1
                                                                   : 0);
  return code;
}

int64_t RunResult::cases() const {
  int64_t sum = 0;
  for (const ScenarioResult& scenario : scenarios)
    sum += static_cast<int64_t>(scenario.cases.size());
  return sum;
}

int64_t RunResult::unexpected_results() const {
  int64_t sum = 0;
  for (const ScenarioResult& scenario : scenarios)
    for (const CaseResult& one : scenario.cases)
      if (one.status != CaseStatus::as_expected) ++sum;
  return sum;
}

int64_t RunResult::values_compared() const {
  int64_t sum = 0;
  for (const ScenarioResult& scenario : scenarios)
    for (const CaseResult& one : scenario.cases) sum += one.values_compared();
  return sum;
}

int64_t RunResult::cases_without_values() const {
  int64_t sum = 0;
  for (const ScenarioResult& scenario : scenarios)
    sum += std::count_if(scenario.cases.begin(), scenario.cases.end(),
                         [](const CaseResult& one) { return one.compares_nothing(); });
  return sum;
}

}  // namespace shardproof
