// The commands of the tool, and what they share: words of the command line in, an exit code out.
#pragma once

#include <boost/program_options.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/scenarios/load/load.h"

namespace shardproof {

using CommandArguments = std::vector<std::string>;

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const CommandArguments& words, const Registries& registries);
  std::string (*help)();
};
const std::vector<Command>& commands();

int run_command(const CommandArguments& words, const Registries& registries);
int compare_command(const CommandArguments& words, const Registries& registries);
int show_command(const CommandArguments& words, const Registries& registries);
int plan_command(const CommandArguments& words, const Registries& registries);
int bench_command(const CommandArguments& words, const Registries& registries);
int check_judging_command(const CommandArguments& words, const Registries& registries);
int list_command(const CommandArguments& words, const Registries& registries);
int help_command(const CommandArguments& words, const Registries& registries);
int new_command(const CommandArguments& words, const Registries& registries);

std::string run_help();
std::string compare_help();
std::string show_help();
std::string plan_help();
std::string bench_help();
std::string check_judging_help();
std::string list_help();
std::string help_help();
std::string new_help();
std::string general_help();
std::string_view language_text();  // docs/language.md

struct Example {
  std::string_view name, summary, text;
};
const std::vector<Example>& examples();

// Parses words; `positional` may be repeated. Throws Error(bad_input) that names the nearest
// option.
boost::program_options::variables_map parse_words(
    const CommandArguments& words, const boost::program_options::options_description& options,
    const char* positional);

// Options that run and show share: --set, --max-ranks, --max-bytes.
boost::program_options::options_description loading_options();
LoadOptions read_loading_options(const boost::program_options::variables_map& given);
// Of --max-bytes; 0 when it is not given.
int64_t read_max_bytes(const boost::program_options::variables_map& given);
// "local,mpi": each once, known, and viable unless that has been asked already.
enum class Availability : uint8_t { asked, asked_beside_others, known };
std::vector<std::string> read_backends(const std::string& text, const Registries& registries,
                                       Availability viability);

// Nothing when a file was refused: that is printed, or the first such Error is thrown.
enum class ErrorHandling : uint8_t { told, thrown };
std::vector<Scenario> load_all(const std::vector<ScenarioPath>& paths, LoadOptions options,
                               ErrorHandling refusal = ErrorHandling::told);

// --json and --junit name a file, or with "-" standard output, which then holds that report and
// nothing for people. Throws before there is anything to write: Error(io) where a file cannot be,
// Error(bad_input) where both are "-".
void check_reports(const boost::program_options::variables_map& given);
bool prints_for_terminal(const boost::program_options::variables_map& given);
// Nothing when the option is not given. Throws as write_whole_file does.
void write_report(const boost::program_options::variables_map& given, const char* option,
                  const std::function<std::string()>& text);

// Standard output; Error(io) when it cannot be written.
void print_out(std::string_view text);
void print_error(const Error& error);  // at most six lines
// The exit code of what is run. What it throws is printed, and 2.
int run_and_report_errors(const std::function<int()>& run);
bool stdout_is_terminal();

}  // namespace shardproof
