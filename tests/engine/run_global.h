// Runs a global program of one op, or of a few lines: partition, executor, one device beside it,
// every value compared. Without text in between, so that any attribute and any placement can be
// tried.
//
// Values are compared as tests/ops/agreement.h says, each line on the values that the ranks hold:
// in the program's own dtypes within a few units, and again with all floats in f64, where rounding
// hides nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof::testing {

const Registries& builtin_registries();

// One input of a program: a number when weak, nothing when absent, else a tensor as placed.
struct GlobalInput {
  TensorMeta meta;
  Tensor data;
  Spec spec;
};

struct GlobalRun {
  std::string trouble;  // empty: every value agrees with one device's, in both runs
  // How the op itself ran: "same", "attrs", "shard", "lower" (other ops ran in its place).
  std::vector<std::string> forms;
  std::vector<CallCount> calls;
  std::vector<Tensor> outputs;  // assembled
  std::vector<Spec> output_specs;
  int64_t values_compared = 0;
  int64_t calls_of(const std::string& kind) const;  // largest over the ranks
  int64_t all_calls() const;
};

// Throws Error where the partitioner refuses.
GlobalRun run_one_op(const OpRecord& record, const Attrs& attrs,
                     const std::vector<GlobalInput>& inputs, const Mesh& mesh);

// The global program of a job, whose results are its y0, y1, ...
GlobalRun run_lines(const Job& job);

// A job of one unnamed mesh with a program in text; inputs hold ints of their name's seed.
Job job_of(const std::string& mesh, const std::vector<std::string>& program);
void add_input(Job& job, const std::string& name, const Dims& shape,
               const std::string& placements = "", DType dtype = DType::f32);
void add_ranks(Job& job, const std::string& path, const Lanes& lanes,
               const std::vector<std::string>& lines);

}  // namespace shardproof::testing
