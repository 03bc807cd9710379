// Random programs with which judging is tested. An honest program computes on its ranks what one
// device computes, but for rounding: no finding about it is right, except `imprecise` where a
// dtype's range is left (partial sums of f16 that overflow). A planted error (plant_error.h) makes
// one line of it wrong.
//
// A program is a function of (seed, options), on every platform. As text it becomes a Job
// (program_text.h) or a scenario file (scenarios/report/scenario_text.h).
//
// Global programs: 3 to 200 lines over 1 to 3 axes and 2 to 12 ranks; inputs under any placement;
// ops of all families, loops, `redistribute`, correct `as` claims.
// Rank programs: steps that do by collectives what the truth does on one device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/draw_values.h"
#include "shardproof/engine/generate/program_text.h"

namespace shardproof {

enum class ProgramKind : uint8_t { global, ranks };
std::string_view name(ProgramKind kind);

struct ProgramOptions {
  // Drawn where not given.
  std::optional<ProgramKind> kind;
  std::optional<DType> dtype;  // f64, f32, bf16 or f16: of most values
  std::optional<Conditioning> conditioning;
  int64_t max_lines = 200;
};

// A line that an error can be planted on: `name = expression [as placements]`.
struct PlantingSite {
  int line = 0;  // in the global program, or in the listing of the ranks
  std::string name, expression;
  std::string placements;  // of every axis: as claimed, or as the output is declared
};

struct RandomProgram {
  uint64_t seed = 0;
  ProgramKind kind = ProgramKind::global;
  Conditioning conditioning = Conditioning::tame;
  ProgramText text;
  std::vector<PlantingSite> sites;
  std::vector<std::string> forms;  // names of the forms of lines it is made of
};

// Throws nothing for options that are legal; the program lowers, partitions and runs.
RandomProgram random_program(uint64_t seed, const ProgramOptions& options, const OpRegistry& ops);

}  // namespace shardproof
