// Reports of a run as text, JSON and JUnit XML. JSON and JUnit contain no time of day, no duration
// of the run and no absolute path, so that two equal runs write equal bytes.
//
//   key of the JSON report    value
//   tool, version             "shardproof" and its version
//   backend, device, matmul_precision, schedule, order, seed   options of the run
//   notes                     notes of backends; omitted if there are none
//   exit_code                 0, 1 or 2
//   summary                   scenarios, cases, values_compared, unexpected_results
//   scenarios[]               file, about, cases[]
//   cases[]                   name, backend (if several), status ("as expected", "unexpected",
//                             "refused"), expected, verdict, error, missed, phases[], repeat
//   error                     message, path, line, column
//   phases[]                  findings[], missed[], values_compared, calls[], time, peak_bytes,
//                             on_host, unfired_faults, undecided[], precision[], notes
//   findings[]                verdict, line, source, ranks, name, ratio, group, call, instance,
//                             headline, details, fix
//   missed[]                  what, expected, got: an expectation that is not met
//   calls[]                   kind, group, ranks, count, bytes (exact fraction as text)
#pragma once

#include <string>

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

struct TextStyle {
  bool color = false;
  bool table = true;    // true: begin with the table of groups, as for a folder
  double seconds = -1;  // duration of the run; below 0: not shown
  bool here = false;    // true: the command that repeats names the path that was opened
};
// Returns the whole report.
std::string text_report(const RunResult& result, const TextStyle& style);
// Returns the text of one case: "FAIL mlp.json [mesh=tp=4]   wrong values" and its findings.
std::string case_text(const CaseResult& result, const TextStyle& style);

// Facts about the run in JSON and JUnit reports.
struct ReportHead {
  std::string version;  // of shardproof
  RunOptions options;
};
std::string json_report(const RunResult& result, const ReportHead& head);
std::string junit_report(const RunResult& result, const ReportHead& head);

}  // namespace shardproof
