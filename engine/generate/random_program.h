// Random programs that test judging. An honest program computes on its ranks what one device
// computes, apart from rounding. So no finding about it is right, except `imprecise` if values
// leave the range of a dtype (partial sums of f16 that overflow). A planted error (plant_error.h)
// makes one line wrong.
//
// A program is a function of (seed, options), on every platform. Its text becomes a Job
// (program_text.h) or a scenario file (scenarios/report/scenario_text.h).
//
// Global programs have 3 to 200 lines on 1 to 3 axes and 2 to 12 ranks, with inputs of any
// placement. Their lines are ops of all families, loops, `redistribute`, and correct claims with
// `as`. Rank programs consist of steps whose collectives compute what the truth computes on one
// device. If a program ends with gradients, each collective before them states its backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/draw_values.h"
#include "shardproof/engine/generate/forms/program_text.h"

namespace shardproof {

enum class ProgramKind : uint8_t { global, ranks };
std::string_view name(ProgramKind kind);

struct ProgramOptions {
  // Options without a value are drawn.
  std::optional<ProgramKind> kind;
  std::optional<DType> dtype;  // of most values: f64, f32, bf16 or f16
  std::optional<Conditioning> conditioning;
  int64_t max_lines = 200;
  bool has_gradients = false;  // rank programs end with gradients
};

// A line that an error can be planted on: `name = expression [as placements]`.
struct PlantingSite {
  int line = 0;  // in the global program, or in the listing of the ranks
  std::string name, expression;
  std::string placements;  // of every axis, as the line claims or the output declares
};

struct RandomProgram {
  uint64_t seed = 0;
  ProgramKind kind = ProgramKind::global;
  Conditioning conditioning = Conditioning::well;
  bool has_gradients = false;
  ProgramText text;
  std::vector<PlantingSite> sites;
  std::vector<std::string> forms;  // names of the forms of lines it is made of
};

// Returns a program that lowers, partitions and runs. Throws nothing for legal options.
RandomProgram random_program(uint64_t seed, const ProgramOptions& options, const OpRegistry& ops);

}  // namespace shardproof
