// Observation: runs a job on simulated ranks without judging it and returns its values.
// measure_rounding.h measures with it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/compare/rank_outputs.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/job/job.h"

namespace shardproof {

// Dtypes of an observed run: the program's own, or f64 and c128 in place of all floats.
enum class Floats : uint8_t { as_written, widest };

using ValuesById = std::map<std::string, RecordedValue>;

class Observation {
 public:
  // Lowers the job. Throws Error like lower_job. `registries` must outlive this.
  Observation(const Job& job, const Registries& registries, Floats floats);
  // Runs the job once, on the host and without faults, in the rounding direction of this thread.
  // Reductions over ranks add in this order. Returns the values with these ids that the ranks made;
  // fewer if ranks block. Throws Error if a kernel refuses its data (an index out of range).
  ValuesById run(const std::set<std::string>& ids, const ReductionSchedule& order) const;

 private:
  ValuesById run_global(const SpmdProgram& program, const std::set<std::string>& ids) const;
  ValuesById run_ranks(const SpmdProgram& program, const std::set<std::string>& ids) const;

  Job job_;
  const Registries& registries_;
  RankProgram ranks_;  // of a global program: no names
};

// Returns the values of a rank program after its run, in program order. A declared output that fits
// its placements is one value; any other name is the tensors of its ranks.
std::vector<RecordedValue> values_at_end(const RankOutputs& outputs, const ProgramRun& run,
                                         const OpRegistry& ops);
// Returns the values that values_at_end() reads.
std::vector<ValueId> named_values(const RankProgram& ranks);

}  // namespace shardproof
