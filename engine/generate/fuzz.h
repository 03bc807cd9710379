// Fuzzing: random programs against one device, and against themselves under changes that must not
// change a value.
//
//   oracle     a program fails if
//   value      a value differs from that of one device (engine/check)
//   text       its printed form does not parse, or gives another value on one device or on ranks
//   gradient   a gradient differs from central differences on one device
//   grouping   another grouping of ranks into cohorts changes a bit
//   schedule   another order of streams changes a bit
//   error      it cannot be lowered, partitioned or run
//
// Program i depends on seed + i only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/program_text.h"
#include "shardproof/engine/job/registries.h"

namespace shardproof {

struct FuzzOptions {
  uint64_t seed = 1;
  int64_t programs = 0;  // 0: no limit
  int threads = 1;
  std::function<bool()> may_go_on = [] { return true; };  // called before each program
  size_t most_failures = 20;                              // the run ends after them
};

struct FuzzFailure {
  uint64_t seed = 0;
  std::string oracle, message;
  ProgramText text, smallest;
};

struct FuzzCounts {
  int64_t programs = 0, values = 0;   // values: all that were compared with one device
  std::vector<FuzzFailure> failures;  // in order of seeds
};

// A program and the first oracle that it fails.
struct FuzzTrial {
  std::string oracle, message;  // "": none
  int64_t values = 0;
};

// Returns the program of a seed: a quarter over all ops of the registry, the others from the forms
// of random_program.h. Half of the global programs and a third of the rank programs end with
// gradients.
ProgramText fuzz_program(uint64_t seed, const OpRegistry& ops);
FuzzTrial try_program(const ProgramText& text, uint64_t seed, const Registries& registries);
// Returns a smaller program that fails like `failed`. It has fewer lines and tensors, more axes of
// size 1 and more replicated tensors.
ProgramText smallest_failing(const ProgramText& text, const FuzzTrial& failed, uint64_t seed,
                             const Registries& registries);

FuzzCounts fuzz(const FuzzOptions& options, const Registries& registries);

}  // namespace shardproof
