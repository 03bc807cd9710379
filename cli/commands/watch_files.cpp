// Implements watch_files.h. It polls modification times, which works on every file system. Only
// scenarios are watched, so the reports of a run do not start the next one.
#include "shardproof/cli/commands/watch_files.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include "shardproof/cli/options/loading_options.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

using FileTimes = std::map<std::string, fs::file_time_type>;

FileTimes times_of(const CommandArguments& paths) {
  FileTimes times;
  try {
    for (const ScenarioPath& path : find_all_scenarios(paths).paths) {
      std::error_code error;
      times[path.path] = fs::last_write_time(path.path, error);
    }
  } catch (const Error&) {
    // A file that an editor is about to replace is missing for a moment.
  }
  return times;
}

}  // namespace

void watch_files(const CommandArguments& paths, const std::function<void()>& run) {
  for (const std::string& path : paths)
    if (path == "-") throw_bad_input("--watch: standard input does not change");
  while (true) {
    const FileTimes before = times_of(paths);
    run();
    print_out(fmt::format("  watching {} file{}; control-C ends\n\n", before.size(),
                          before.size() == 1 ? "" : "s"));
    while (times_of(paths) == before) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
}

}  // namespace shardproof
