// A sweep turned into cases: what each sets, and the root object with that set.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardproof/scenarios/json/json_reader.h"

namespace shardproof {

struct SweepCase {
  std::string name;                                        // "mesh=tp=3 tokens=7"
  std::vector<std::pair<std::string, JsonTree>> settings;  // key of the sweep, value
  std::string path;                                        // of the case, for errors
};

// One case without settings when there is no sweep. Throws Error(bad_input): more cases than
// `max_cases`, a key that is neither mesh, dtype, topology, a `let` nor a JSON pointer.
std::vector<SweepCase> expand_sweep(const JsonReader& root, int64_t max_cases);
// The root object of one case: without `sweep`, with the settings.
JsonTree apply_case(const JsonTree& root, const SweepCase& sweep_case);
// --set: a let that must be there and that no sweep sets.
void override_let(JsonTree& root, const std::string& name, const std::string& text);

}  // namespace shardproof
