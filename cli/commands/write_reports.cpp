// Implements write_reports.h.
#include "shardproof/cli/commands/write_reports.h"

#include <utility>

#include "shardproof/cli/base/console.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/record/write_file.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

constexpr const char* kReports[] = {"json", "junit"};
constexpr std::string_view kStandardOutput = "-";

bool is_given(const po::variables_map& given, const char* option) { return given.count(option); }

bool goes_to_stdout(const po::variables_map& given, const char* option) {
  return is_given(given, option) && given[option].as<std::string>() == kStandardOutput;
}

}  // namespace

void check_reports(const po::variables_map& given) {
  bool taken = false;
  for (const char* option : kReports) {
    if (!is_given(given, option)) continue;
    if (!goes_to_stdout(given, option)) {
      check_writable(given[option].as<std::string>());
    } else if (std::exchange(taken, true)) {
      throw_bad_input("--json - and --junit -: standard output holds one report");
    }
  }
}

bool prints_for_terminal(const po::variables_map& given) {
  for (const char* option : kReports)
    if (goes_to_stdout(given, option)) return false;
  return true;
}

void write_report(const po::variables_map& given, const char* option,
                  const std::function<std::string()>& text) {
  if (!is_given(given, option)) return;
  if (goes_to_stdout(given, option)) return print_out(text());
  write_whole_file(given[option].as<std::string>(), text());
}

}  // namespace shardproof
