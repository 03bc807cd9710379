// The text of one generated program: what a scenario file holds, as plain values. It becomes a Job
// here, and a scenario file in scenarios/report/scenario_text.h, so that both mean the same.
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
  std::vector<std::string> program;  // of a global program
  std::vector<std::string> ranks;    // of a rank program: the one listing of all ranks
  std::vector<std::string> truth;
  std::vector<std::pair<std::string, std::string>> outputs;  // name, placements

  bool is_global() const { return !program.empty(); }
  // The compared listing of one device: `program`, or `truth`.
  const std::vector<std::string>& one_device() const { return is_global() ? program : truth; }
};

// The job that a scenario file of this text gives at seed 0. Throws Error(bad_input) if the text is
// not legal, with the place in the listing.
Job job_of(const ProgramText& text);

}  // namespace shardproof
