// shardproof validate: reads scenario files and lowers their programs, and runs nothing.
#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/options/loading_options.h"
#include "shardproof/cli/options/parse_options.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

po::options_description validate_options() {
  po::options_description options;
  options.add(loading_options());
  options.add_options()("path", po::value<CommandArguments>());
  return options;
}

}  // namespace

int validate_command(const CommandArguments& words, const Registries& registries) {
  const po::variables_map given = parse_words(words, validate_options(), "path");
  if (!given.count("path"))
    throw_bad_input("validate: expected scenario files or folders, found none");
  const FoundScenarios found = find_all_scenarios(given["path"].as<CommandArguments>());
  int code = 0;
  for (LoadedFile& file : load_all(found.paths, read_loading_options(given))) {
    if (file.errors.empty()) file.errors = program_errors(file.scenario, registries);
    for (const Error& error : file.errors) print_error(error);
    if (!file.errors.empty()) {
      code = 2;
      continue;
    }
    const size_t cases = file.scenario.cases.size();
    print_out(
        fmt::format("ok   {}   {} case{}\n", file.scenario.file, cases, cases == 1 ? "" : "s"));
  }
  return code;
}

std::string validate_help() {
  return R"text(shardproof validate FILE|FOLDER ... [options]

Reads scenario files and checks everything that can be checked without a run: keys, expressions, names,
placements, shapes. Prints up to 10 errors of each file, each as file:line:column: /json/pointer: message.

  --set NAME=VALUE   override a let; may be repeated
  --max-ranks N      refuse more ranks (default 1048576)
  --max-bytes SIZE   refuse more memory for tensors, such as 8GB (default: half of the machine's)

Exit code: 0 if all files can run, else 2.
)text";
}

}  // namespace shardproof
