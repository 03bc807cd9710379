// What the checks of global programs and of rank programs have in common. Internal to the engine.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/explain.h"
#include "shardproof/engine/global_lowering.h"
#include "shardproof/engine/job.h"
#include "shardproof/engine/measured_bounds.h"
#include "shardproof/engine/partition.h"
#include "shardproof/engine/sides.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {

// Beside a job, as one pass of it runs.
struct JobPass {
  // With all floats in f64: the job as it is written, which says what its lines mean. Else null.
  const Job* written = nullptr;
  // Of the truth: what ranks hold of these is right, whatever it is, and the truth of what follows.
  std::set<ValueId> granted = {};
  // Of outputs whose worst case is too wide.
  Movements movements = {};
  // Values whose sides are asked for although they may be right; of rank programs, all of them.
  std::set<ValueId> asked = {};
  bool asks_outputs = false;
  bool sees_only = false;  // nothing is judged
  std::map<ValueId, Sides> seen = {}, wrong = {};

  void see(ValueId global, const LocalTensor& value, const Spec& spec, const Tensor& truth);
  void see_wrong(const WrongValue& about, const Difference& difference, const Tensor& truth);
};

Outcome check_ranks(const Job& job, const Registries& registries, JobPass& pass);
// The program of a pass, or its truth.
GlobalProgram lower_global(const Job& job, const JobPass& pass, const Listing& listing,
                           const OpRegistry& ops, const std::string& path);

GlobalContext context_of(const Job& job, const OpRegistry& ops);
std::vector<Tensor> global_inputs(const Job& job);
void reduce_in_order(SpmdProgram& program, const ReductionSchedule& order);
PartitionOptions partition_options(const Job& job);
// Whether the caller wants the value of this name.
bool keeps(const Job& job, const std::string& name);
std::string line_text(const std::vector<std::string>& lines, int line);
// Errors of kernels and of the truth are bad input found while running.
[[noreturn]] void rethrow(const Error& error, const std::string& path);

}  // namespace shardproof
