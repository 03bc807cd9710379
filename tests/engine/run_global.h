// Runs a global program of one op or a few lines: partitions it, executes it, and compares every
// value with one device. The program is built without text, so tests can use any attribute and
// placement.
//
// Values are compared by tests/ops/agreement.h, each line on the values that the ranks hold. They
// must agree within a few units in the program's own dtypes, and again with all floats in f64,
// where rounding hides no error.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof::testing {

const Registries& builtin_registries();

// One input of a program: a number if weak, none if absent, else a placed tensor.
struct GlobalInput {
  TensorMeta meta;
  Tensor data;
  Spec spec;
};

struct GlobalRun {
  std::string error;  // empty: every value agrees with that of one device, in both runs
  // The forms in which the op ran: "same", "attrs", "shard", "lower" (other ops ran in its place).
  std::vector<std::string> forms;
  std::vector<CallCount> calls;
  std::vector<Tensor> outputs;  // assembled
  std::vector<Spec> output_specs;
  int64_t values_compared = 0;
  int64_t calls_of(const std::string& kind) const;  // largest over the ranks
  int64_t all_calls() const;
};

// Throws Error if the partitioner refuses the program.
GlobalRun run_one_op(const OpRecord& record, const Attrs& attrs,
                     const std::vector<GlobalInput>& inputs, const Mesh& mesh);

// Runs the global program of a job. Its results are the values y0, y1, ...
GlobalRun run_lines(const Job& job);

// Returns a job of one unnamed mesh with a program in text. Inputs hold integers drawn from a seed
// that depends on their name.
Job job_of(const std::string& mesh, const std::vector<std::string>& program);
void add_input(Job& job, const std::string& name, const Dims& shape,
               const std::string& placements = "", DType dtype = DType::f32);
void add_ranks(Job& job, const std::string& path, const Lanes& lanes,
               const std::vector<std::string>& lines);

}  // namespace shardproof::testing
