// Names of the files of a record and of the tensors in them (record_directory.h).
#pragma once

#include <string>

#include "shardproof/engine/job/recorded_value.h"
#include "shardproof/scenarios/model/own_formats.h"

namespace shardproof {

inline constexpr const char* kRunFile = "run.json";
inline constexpr const char* kScenarioFile = "scenario.json";
inline constexpr const char* kProgramFile = "program.txt";
inline constexpr const char* kFlightFile = "flight.txt";
inline constexpr const char* kValuesFile = "values.safetensors";
inline constexpr const char* kRoundingFile = "rounding.safetensors";

inline std::string measured_file(size_t repetition) {
  return fmt::format("measured-{}.txt", repetition + 1);
}
// Returns the tensor name of a part: "y" for a whole value, "y@0-3" for the shard of these ranks.
inline std::string tensor_name(const RecordedValue& value, const RecordedShard& part) {
  if (value.whole) return value.id;
  return value.id.substr(0, value.id.find('@')) + "@" + to_string(part.lanes);
}

}  // namespace shardproof
