// `shardproof run --watch`: runs again whenever a scenario file changes.
#pragma once

#include <functional>

#include "shardproof/cli/base/console.h"

namespace shardproof {

// Calls `run`, and again after each change of a *.json file below `paths`, until a signal ends the
// process. Throws Error(bad_input) for standard input.
[[noreturn]] void watch_files(const CommandArguments& paths, const std::function<void()>& run);

}  // namespace shardproof
