// Options --json, --junit, --sarif, --html and --machine: each names a file, or with "-" standard
// output, which then holds that report and no other text.
#pragma once

#include <boost/program_options.hpp>
#include <functional>
#include <string>

namespace shardproof {

// Checks before a run that its reports can be written. Throws Error(io) for a file that cannot be
// written, and Error(bad_input) if two options name one file.
void check_reports(const boost::program_options::variables_map& given);

// False if standard output is reserved for a report.
bool prints_for_terminal(const boost::program_options::variables_map& given);

// Writes `text()` to the path that `option` ("json", "junit", ...) gives; does nothing if it is not
// given. Throws Error(io).
void write_report(const boost::program_options::variables_map& given, const char* option,
                  const std::function<std::string()>& text);

}  // namespace shardproof
