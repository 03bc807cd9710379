// Implements junit_report of report.h.
#include "shardproof/scenarios/report/report.h"

#include "shardproof/scenarios/report/remarks.h"

namespace shardproof {
namespace {

// Escapes a text for XML. XML 1.0 cannot represent most control characters, which become "?".
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&apos;"; break;
      case '\n': out += "&#10;"; break;
      case '\t': out += "&#9;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  return out;
}

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

std::string message_of(const CaseResult& one) {
  if (one.error) return one.error->message();
  for (const PhaseResult& phase : one.phases)
    for (const ExpectationFailure& miss : phase.missed)
      return fmt::format("{}: expected {}, got {}", miss.what, miss.expected, miss.got);
  return std::string(name(one.verdict()));
}

std::string_view type_of(const CaseResult& one) {
  return one.verdict() == Verdict::clean ? "expectation" : name(one.verdict());
}

std::string failure_xml(const CaseResult& one) {
  if (one.status == CaseStatus::as_expected) return "";
  const char* element = one.status == CaseStatus::refused ? "error" : "failure";
  return fmt::format("      <{} message=\"{}\" type=\"{}\">{}</{}>\n", element,
                     escaped(message_of(one)), escaped(type_of(one)), escaped(case_text(one, {})),
                     element);
}

// Returns values not decided and notes as the standard output of the case.
std::string remarks_xml(const CaseResult& one) {
  std::string text;
  for (const PhaseResult& phase : one.phases)
    for (const auto lines_of : {undecided_lines, note_lines})
      for (const std::string& line : lines_of(phase.outcome)) text += line + "\n";
  return text.empty() ? "" : fmt::format("      <system-out>{}</system-out>\n", escaped(text));
}

std::string case_xml(const ScenarioResult& scenario, const CaseResult& one) {
  std::string name = one.name.empty() ? scenario.file : one.name;
  if (!one.backend.empty()) name += " on " + one.backend;
  const std::string open = fmt::format("    <testcase classname=\"{}\" name=\"{}\"",
                                       escaped(scenario.file), escaped(name));
  const std::string inside = failure_xml(one) + remarks_xml(one);
  return inside.empty() ? open + "/>\n" : fmt::format("{}>\n{}    </testcase>\n", open, inside);
}

}  // namespace

std::string junit_report(const RunResult& result, const ReportHead&) {
  Counts all;
  std::string suites;
  for (const ScenarioResult& scenario : result.scenarios) {
    Counts counts;
    std::string cases;
    for (const CaseResult& one : scenario.cases) {
      counts.add(one);
      all.add(one);
      cases += case_xml(scenario, one);
    }
    suites += fmt::format("  <testsuite name=\"{}\" {}>\n{}  </testsuite>\n",
                          escaped(scenario.file), counts.attributes(), cases);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"shardproof\" {}>\n{}"
      "</testsuites>\n",
      all.attributes(), suites);
}

}  // namespace shardproof
