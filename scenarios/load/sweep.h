// Expansion of a sweep to cases, and the root object of each case.
#pragma once

#include <string>
#include <vector>

#include "shardproof/scenarios/json/json_reader.h"

namespace shardproof {

struct SweepSetting {
  std::string key;  // of the sweep: "mesh", "tokens", "/train/steps"
  JsonTree value;
  std::string path;            // JSON path of the value: "/sweep/mesh/1"
  std::string target() const;  // JSON path of the value that it sets: "/let/tokens"
};
struct SweepCase {
  std::string name;                 // "mesh=tp=3 tokens=7"
  std::vector<std::string> labels;  // "mesh=tp=3", "tokens=7"
  std::vector<SweepSetting> settings;
  std::string path;  // JSON path of the case, for errors
};

// Returns all cases; one case without settings if there is no sweep. Throws Error(bad_input) for
// more than `max_cases` cases and for a key other than mesh, dtype, topology, a `let` or a JSON
// pointer.
std::vector<SweepCase> expand_sweep(const JsonReader& root, int64_t max_cases);
// Returns the root object of one case: without `sweep`, with its settings.
JsonTree apply_case(const JsonTree& root, const SweepCase& sweep_case);
// Applies --set NAME=TEXT. Throws Error(bad_input) if the file has no let of this name.
void override_let(JsonTree& root, const std::string& name, const std::string& text);

}  // namespace shardproof
