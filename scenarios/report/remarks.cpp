// Implements remarks.h: the lines of reports other than findings.
#include "shardproof/scenarios/report/remarks.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardproof/engine/compare/precision_text.h"
#include "shardproof/localtensor/base/number_text.h"

namespace shardproof {
namespace {

std::string line_column(int line) { return line > 0 ? fmt::format("line {}   ", line) : ""; }

std::string in_brackets(const std::string& instance) {
  return instance.empty() ? "" : fmt::format(" ({})", instance);
}

bool is_finding(const ValuePrecision& precision, const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.verdict == Verdict::imprecise && finding.name == precision.name &&
           finding.line == precision.line && finding.instance == precision.instance;
  });
}

std::string precision_line(const ValuePrecision& precision) {
  std::string text =
      fmt::format("note   {}{}", line_column(precision.line), precision_text(precision));
  text += in_brackets(precision.instance);
  return precision.cause.empty() ? text : text + "   cause   " + precision.cause;
}

}  // namespace

std::vector<std::string> undecided_lines(const Outcome& outcome) {
  std::vector<std::string> lines;
  for (const UndecidedValue& value : outcome.undecided)
    lines.push_back(fmt::format(
        "not decided   {}{}{}   {} of {} elements   {}", line_column(value.line),
        value.name.empty() ? "a value inside the line" : value.name, in_brackets(value.instance),
        grouped_number(value.elements), grouped_number(value.of), value.reason));
  return lines;
}

std::vector<std::string> note_lines(const Outcome& outcome) {
  std::vector<std::string> lines;
  for (const ValuePrecision& precision : outcome.precision) {
    const bool noted = precision.ratio >= kPrecisionNote || !precision.cause.empty();
    if (noted && !is_finding(precision, outcome.findings))
      lines.push_back(precision_line(precision));
  }
  for (const std::string& report_note : outcome.notes) lines.push_back("note   " + report_note);
  return lines;
}

}  // namespace shardproof
