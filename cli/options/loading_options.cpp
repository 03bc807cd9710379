// Implements loading_options.h.
#include "shardproof/cli/options/loading_options.h"

#include <filesystem>
#include <set>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/cli/base/console.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/value/quantity.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

// "8589934592", "8 GB", "512MiB".
int64_t read_bytes(const std::string& text) {
  const bool has_unit = text.find_first_not_of("0123456789") != text.npos;
  const std::optional<Quantity> found = find_quantity(has_unit ? text : text + "B");
  if (!found || found->unit != Unit::bytes || found->whole == 0)
    throw_bad_input("--max-bytes: expected a number of bytes such as 8GB or 512MiB, found \"{}\"",
                    text);
  return found->whole;
}

}  // namespace

int64_t read_max_bytes(const po::variables_map& given) {
  return given.count("max-bytes") ? read_bytes(given["max-bytes"].as<std::string>()) : 0;
}

po::options_description loading_options() {
  po::options_description options;
  options.add_options()                                            //
      ("set", po::value<CommandArguments>()->composing())          //
      ("max-ranks", po::value<int64_t>()->default_value(1 << 20))  //
      ("max-bytes", po::value<std::string>());
  return options;
}

LoadOptions read_loading_options(const po::variables_map& given) {
  LoadOptions options;
  options.max_ranks = given["max-ranks"].as<int64_t>();
  if (options.max_ranks < 1)
    throw_bad_input("--max-ranks: expected at least 1, found {}", options.max_ranks);
  options.max_bytes = read_max_bytes(given);
  if (!given.count("set")) return options;
  for (const std::string& text : given["set"].as<CommandArguments>()) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw_bad_input("--set: expected name=value, found \"{}\"", text);
    options.set.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return options;
}

FoundScenarios find_all_scenarios(const CommandArguments& paths) {
  namespace fs = std::filesystem;
  FoundScenarios all;
  std::set<std::string> known;
  for (const std::string& path : paths) {
    FoundScenarios found;
    try {
      found = find_scenarios(path);
    } catch (const Error& error) {  // the others run
      found.paths.push_back({path, error.where().file, "", std::nullopt, error});
    }
    for (ScenarioPath& one : found.paths) {
      std::error_code error;
      const fs::path same = fs::weakly_canonical(fs::absolute(one.path, error), error);
      if (known.insert(error || one.text ? one.path : same.string()).second)
        all.paths.push_back(std::move(one));
    }
    all.skipped.insert(all.skipped.end(), found.skipped.begin(), found.skipped.end());
  }
  return all;
}

std::vector<LoadedFile> load_all(const std::vector<ScenarioPath>& paths, LoadOptions options) {
  std::vector<LoadedFile> files;
  for (const ScenarioPath& path : paths) {
    const size_t slash = path.path.rfind('/');
    // A file of this name is a copy of standard input, made for worker processes.
    const bool input = path.path.substr(slash == std::string::npos ? 0 : slash + 1) == kInputPath;
    options.folder = slash == std::string::npos || input ? "" : path.path.substr(0, slash);
    LoadedFile& file = files.emplace_back();
    try {
      if (path.error) throw Error(*path.error);
      file = read_scenario(path.text ? *path.text : read_file(path.path, path.file), path.file,
                           options);
    } catch (const Error& error) {  // the file cannot be read
      file.scenario.file = path.file;
      file.errors = {error};
    }
    file.scenario.path = path.text ? "" : path.path;
  }
  return files;
}

std::vector<Scenario> print_refused(std::vector<LoadedFile> files) {
  std::vector<Scenario> scenarios;
  for (LoadedFile& file : files) {
    for (const Error& error : file.errors) print_error(error);
    if (file.errors.empty()) scenarios.push_back(std::move(file.scenario));
  }
  return scenarios;
}

}  // namespace shardproof
