// Job: one case of a scenario as a plain value, without files or JSON. engine/check/check.h runs it
// and returns an Outcome.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/engine/job/outcome.h"
#include "shardproof/engine/job/registries.h"
#include "shardproof/localtensor/dtype/matmul_precision.h"
#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/program/syntax/condition.h"

namespace shardproof {

class RankContext;

struct JobInput {
  std::string name;
  Spec spec;
  Lanes on;     // ranks that hold it; all ranks of the mesh unless the scenario restricts it
  Tensor data;  // global, one device
  Category category = Category::activations;
};

struct JobListing {
  Lanes lanes;
  Listing listing;
  std::string path;  // JSON pointer of its array, for errors: "/ranks/pp=0"
};

// Ranks that run a C++ function (backends/api/rank_context.h) in place of a listing.
struct JobFunction {
  Lanes lanes;
  std::function<void(RankContext&)> program;
};

// A declared output of rank programs: the ranks' values `name` are the shards of the truth's value
// of the same name.
struct JobOutput {
  std::string name;
  std::string
      placements;    // text; shape and dtype come from the truth, or from the ranks without one
  std::string mesh;  // key of Job::meshes
  Lanes on;
  std::string path;
};

// The grouping of ranks into cohorts. Values, records and verdicts do not depend on it; the tests
// of cohort_policy_test.cpp state this law.
enum class CohortPolicy {
  coarse_first,  // one cohort a listing; if that blocks or has a finding, as by_branch
  by_branch,     // one cohort for ranks that make the same calls; if that blocks, as one_by_one
  one_by_one,    // cohorts of one from the start
};

// The values that are compared.
enum class CompareScope : uint8_t {
  lines,    // the result of every line of a global program
  outputs,  // the values that names have at the end
};

// Repetitions that measure time, without probes. They are made only if ranks run in real processes.
struct Timing {
  int warmup = 0;         // not counted
  int iterations = 0;     // 0: nothing is measured
  bool as_graph = false;  // each iteration is one CUDA graph, where a graph can hold it
};

// A limit on ValuePrecision::ratio in place of kPrecisionLimit.
struct PrecisionLimit {
  std::string name;  // of the value; "" for all values without a limit of their own
  Condition condition;
  std::string path;  // JSON pointer, for errors
};

struct Job {
  int64_t world = 1;
  std::vector<std::pair<std::string, Mesh>> meshes;     // key "" for a single unnamed mesh
  std::vector<std::pair<std::string, Number>> numbers;  // `let`, evaluated
  std::vector<std::pair<std::string, std::vector<int32_t>>> groups;
  DType dtype = DType::f32;  // of tensors that name none
  std::vector<JobInput> inputs;
  std::optional<Listing> program;  // global program; path /program
  std::vector<JobListing> ranks;   // rank programs
  // Allowed together with rank programs: every rank has a listing or a function. Then each rank is
  // a cohort.
  std::vector<JobFunction> functions;
  std::optional<Listing> truth;  // path /truth
  std::vector<JobOutput> outputs;
  bool explicit_only = false;         // an unwritten redistribution is a finding
  PlanMoves moves = PlanMoves::all;   // steps of redistributions
  std::optional<int64_t> peak_limit;  // bytes of a tensor on a rank while it is redistributed
  std::vector<std::string> faults;
  std::shared_ptr<const CostModel> cost;  // null: no times
  std::string backend = "local";
  std::shared_ptr<Device> device;  // of all ranks of this process; null: the backend's own
  Schedule schedule;
  // True if the user chose the schedule: no other is tried. Otherwise a program whose streams or
  // slots may race also runs under adversarial, side-first and main-first.
  bool schedule_is_chosen = false;
  ReductionSchedule order;                            // of every reduction
  MatmulPrecision matmul = MatmulPrecision::highest;  // of products on a device
  CohortPolicy grouping = CohortPolicy::coarse_first;
  uint64_t seed = 0;
  std::vector<std::string> keep;  // names whose global values the outcome stores
  CompareScope compared = CompareScope::lines;
  bool records_values = false;  // the outcome stores the compared values and the program
  // False: findings about rank programs state no cause. The search runs a program up to hundreds of
  // times.
  bool searches_causes = true;
  Timing timing;
  std::vector<PrecisionLimit> precision_limits;
};

}  // namespace shardproof
