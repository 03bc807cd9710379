// ProgramText: the content of a scenario file of one generated program, as plain values. It becomes
// a Job here and a scenario file in scenarios/report/scenario_text.h, and both mean the same.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardproof/engine/job/job.h"

namespace shardproof {

struct TensorText {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;                  // global
  std::string placements;      // "" means R on every axis
  std::vector<double> values;  // row-major, representable in `dtype`; real parts of complex ones
};

struct ProgramText {
  std::string about;
  std::string mesh;  // "dp=2, tp=3"
  DType dtype = DType::f32;
  std::vector<TensorText> tensors;
  std::vector<std::string> program;  // lines of a global program
  std::vector<std::string> ranks;    // lines of a rank program, one listing of all ranks
  std::vector<std::string> truth;
  std::vector<std::pair<std::string, std::string>> outputs;  // name, placements

  bool is_global() const { return !program.empty(); }
  // Returns the listing that one device runs: `program` or `truth`.
  const std::vector<std::string>& one_device() const { return is_global() ? program : truth; }
};

// Returns the job that a scenario file of this text gives at seed 0. Throws Error(bad_input) with
// line and column if the text is not legal.
Job job_of(const ProgramText& text);

}  // namespace shardproof
