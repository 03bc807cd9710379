// Reports of a run: text for people, JSON and JUnit XML for machines. The last two hold no time of
// day, no duration of the run and no absolute path, so that two equal runs write equal bytes.
#pragma once

#include <string>

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

struct TextStyle {
  bool color = false;
  bool table = true;    // rows of groups before the failures, as for a folder
  double seconds = -1;  // of the run; below 0: not shown
  bool here = false;    // the command that repeats names the path that was opened
};
std::string text_report(const RunResult& result, const TextStyle& style);
// What one case has to say: "FAIL mlp.json [mesh=tp=4]   wrong values" and the lines below it.
std::string case_text(const CaseResult& result, const TextStyle& style);

// What the machines' reports say of the run besides its results.
struct ReportHead {
  std::string version;  // of the tool
  RunOptions options;
};
std::string json_report(const RunResult& result, const ReportHead& head);
std::string junit_report(const RunResult& result, const ReportHead& head);

// Whole or not at all: written beside `path`, or where it leads as a link, and renamed. A device
// such as /dev/stdout and a file that is mounted are written to as they are. Throws Error(io) with
// the path.
void write_whole_file(const std::string& path, const std::string& text);
// Before there is anything to write; leaves nothing. Throws as write_whole_file would, but for a
// disk that is full by then.
void check_writable(const std::string& path);

}  // namespace shardproof
