// Implements junit_report of report.h.
#include "shardproof/scenarios/report/report.h"

#include "shardproof/scenarios/report/problems.h"
#include "shardproof/scenarios/report/remarks.h"
#include "shardproof/scenarios/report/svg.h"

namespace shardproof {
namespace {

struct Counts {
  int64_t tests = 0, failures = 0, errors = 0;
  void add(const CaseResult& one) {
    ++tests;
    if (one.status == CaseStatus::unexpected) ++failures;
    if (one.status == CaseStatus::refused) ++errors;
  }
  std::string attributes() const {
    return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\"", tests, failures, errors);
  }
};

std::string type_of(const CaseResult& one) {
  if (one.status == CaseStatus::refused) return std::string(one.status_text());
  return one.verdict() == Verdict::clean ? "expectation" : std::string(name(one.verdict()));
}

std::string failure_xml(const CaseResult& one) {
  if (one.status == CaseStatus::as_expected) return "";
  const char* element = one.status == CaseStatus::refused ? "error" : "failure";
  return fmt::format("      <{} message=\"{}\" type=\"{}\">{}</{}>\n", element,
                     escaped_xml(headline_text(one)), escaped_xml(type_of(one)),
                     escaped_xml(case_text(one, {})), element);
}

// Returns values not decided and notes as the standard output of the case.
std::string remarks_xml(const CaseResult& one) {
  std::string text;
  for (const PhaseResult& phase : one.phases)
    for (const auto lines_of : {undecided_lines, note_lines})
      for (const std::string& line : lines_of(phase.outcome)) text += line + "\n";
  return text.empty() ? "" : fmt::format("      <system-out>{}</system-out>\n", escaped_xml(text));
}

std::string time_attribute(double seconds, const ReportHead& head) {
  return head.junit_times ? fmt::format(" time=\"{:.3f}\"", seconds) : "";
}

std::string case_xml(const ScenarioResult& scenario, const CaseResult& one,
                     const ReportHead& head) {
  std::string name = one.name.empty() ? scenario.file : one.name;
  if (!one.backend.empty()) name += " on " + one.backend;
  const std::string open =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\"{}", escaped_xml(scenario.file),
                  escaped_xml(name), time_attribute(one.seconds, head));
  const std::string inside = failure_xml(one) + remarks_xml(one);
  return inside.empty() ? open + "/>\n" : fmt::format("{}>\n{}    </testcase>\n", open, inside);
}

}  // namespace

std::string junit_report(const RunResult& result, const ReportHead& head) {
  Counts all;
  double all_seconds = 0;
  std::string suites;
  for (const ScenarioResult& scenario : result.scenarios) {
    Counts counts;
    double seconds = 0;
    std::string cases;
    for (const CaseResult& one : scenario.cases) {
      counts.add(one);
      all.add(one);
      seconds += one.seconds;
      cases += case_xml(scenario, one, head);
    }
    all_seconds += seconds;
    suites += fmt::format("  <testsuite name=\"{}\" {}{}>\n{}  </testsuite>\n",
                          escaped_xml(scenario.file), counts.attributes(),
                          time_attribute(seconds, head), cases);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"shardproof\" {}{}>\n{}"
      "</testsuites>\n",
      all.attributes(), time_attribute(all_seconds, head), suites);
}

}  // namespace shardproof
