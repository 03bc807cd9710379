// Observation: a job run on simulated ranks without judging it, for its values. It is what
// measure_rounding.h measures by.
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
  // Lowers the job. Throws Error like lower_job. `registries` has to outlive this.
  Observation(const Job& job, const Registries& registries, Floats floats);
  // Runs it once, on the host and without faults, in the rounding direction of this thread, with
  // reductions over ranks adding in this order. Returns the values with these ids that the ranks
  // made; fewer where ranks stand still. Throws Error for data-dependent trouble of a kernel (an
  // index out of range).
  ValuesById run(const std::set<std::string>& ids, const ReductionSchedule& order) const;

 private:
  ValuesById run_global(const SpmdProgram& program, const std::set<std::string>& ids) const;
  ValuesById run_ranks(const SpmdProgram& program, const std::set<std::string>& ids) const;

  Job job_;
  const Registries& registries_;
  RankProgram ranks_;  // of a global program: no names
};

// Values of a rank program after its run, in program order: declared outputs that fit their
// placements as one value each, all other names as what each rank holds. Empty in a process that
// runs hosts of ranks for a coordinator: it has a part of each value.
std::vector<RecordedValue> values_at_end(const RankOutputs& outputs, const ProgramRun& run,
                                         const OpRegistry& ops);
// The values that values_at_end reads.
std::vector<ValueId> named_values(const RankProgram& ranks);

}  // namespace shardproof
