// The table of commands and their functions. A command receives the arguments after its name and
// returns the exit code; it throws Error for bad input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardproof/cli/base/console.h"
#include "shardproof/engine/job/job.h"

namespace shardproof {

struct Command {
  std::string_view name;
  std::string_view summary;  // one line of `shardproof help`
  int (*run)(const CommandArguments& words, const Registries& registries);
  std::string (*help)();  // text of `shardproof help NAME`
};
const std::vector<Command>& commands();  // in the order of `shardproof help`

int run_command(const CommandArguments& words, const Registries& registries);
int compare_command(const CommandArguments& words, const Registries& registries);
int validate_command(const CommandArguments& words, const Registries& registries);
int show_command(const CommandArguments& words, const Registries& registries);
int plan_command(const CommandArguments& words, const Registries& registries);
int explain_command(const CommandArguments& words, const Registries& registries);
int bench_command(const CommandArguments& words, const Registries& registries);
int check_judging_command(const CommandArguments& words, const Registries& registries);
int check_ops_command(const CommandArguments& words, const Registries& registries);
int fuzz_command(const CommandArguments& words, const Registries& registries);
int list_command(const CommandArguments& words, const Registries& registries);
int help_command(const CommandArguments& words, const Registries& registries);
int new_command(const CommandArguments& words, const Registries& registries);
int completion_command(const CommandArguments& words, const Registries& registries);

std::string run_help();
std::string compare_help();
std::string validate_help();
std::string show_help();
std::string plan_help();
std::string explain_help();
std::string bench_help();
std::string check_judging_help();
std::string check_ops_help();
std::string fuzz_help();
std::string list_help();
std::string help_help();
std::string new_help();
std::string completion_help();
std::string general_help();
std::string man_page();            // in the format of man(7)
std::string_view language_text();  // docs/language.md

// A scenario that `shardproof new NAME` prints.
struct Example {
  std::string_view name, summary, text;
};
const std::vector<Example>& examples();

}  // namespace shardproof
