// Reports of a run as text, JSON, JUnit XML and SARIF, and annotations of GitHub. Two equal runs
// write equal bytes: the files contain no time of day and no absolute path. Without --junit-times
// they contain no duration of the run either. docs/report.md and schemas/report.json describe the
// JSON report.
#pragma once

#include <string>

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

struct TextStyle {
  bool color = false;
  bool table = true;    // true: begin with the table of groups, as for a folder
  double seconds = -1;  // duration of the run; below 0: not shown
  bool quiet = false;   // true: only files and cases that are not as expected
  bool here = false;    // true: the command that repeats names the path that was opened
};
// Returns the whole report.
std::string text_report(const RunResult& result, const TextStyle& style);
// Returns the text of one case: "FAIL mlp.json [mesh=tp=4]   wrong values" and its findings.
std::string case_text(const CaseResult& result, const TextStyle& style);

inline constexpr int kReportVersion = 1;

// Facts about the run in its reports.
struct ReportHead {
  std::string version;  // of shardproof
  RunOptions options;
  bool junit_times = false;  // true: JUnit has the duration of each case
};
std::string json_report(const RunResult& result, const ReportHead& head);
std::string junit_report(const RunResult& result, const ReportHead& head);
// Returns SARIF 2.1.0 with one result for each problem (problems.h).
std::string sarif_report(const RunResult& result, const ReportHead& head);
// Returns one workflow command of GitHub for each problem: "::error file=a.json,line=9,...".
std::string github_annotations(const RunResult& result);

}  // namespace shardproof
