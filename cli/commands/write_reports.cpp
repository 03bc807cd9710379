// Implements write_reports.h.
#include "shardproof/cli/commands/write_reports.h"

#include <filesystem>
#include <map>

#include "shardproof/cli/base/console.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/record/write_file.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

constexpr const char* kReports[] = {"json", "junit", "sarif", "html"};
constexpr std::string_view kStandardOutput = "-";

bool is_given(const po::variables_map& given, const char* option) { return given.count(option); }

bool goes_to_stdout(const po::variables_map& given, const char* option) {
  return is_given(given, option) && given[option].as<std::string>() == kStandardOutput;
}

}  // namespace

void check_reports(const po::variables_map& given) {
  namespace fs = std::filesystem;
  std::map<std::string, const char*> taken;  // by path
  for (const char* option : kReports) {
    if (!is_given(given, option)) continue;
    const std::string path = given[option].as<std::string>();
    const bool to_stdout = goes_to_stdout(given, option);
    if (!to_stdout) check_writable(path);
    std::error_code error;
    const fs::path same =
        to_stdout ? fs::path(path) : fs::weakly_canonical(fs::absolute(path, error), error);
    const auto [first, added] = taken.emplace(same.string(), option);
    if (added || fs::is_character_file(same, error)) continue;
    if (to_stdout)
      throw_bad_input("--{} - and --{} -: standard output holds one report", first->second, option);
    throw_bad_input("--{} and --{} name one file, {}; write two files", first->second, option,
                    path);
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
