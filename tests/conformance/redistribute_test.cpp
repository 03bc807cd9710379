// Compares redistributions with recorded results of PyTorch: the values of every rank, and no more
// calls or bytes than a right plan of PyTorch.

#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/tests/conformance/cases.h"

namespace shardproof::conformance::redistribute_test {
namespace {

Tensor tensor_from(const Json& values, const Dims& shape, DType dtype) {
  return tensor_of(dtype, shape, values.get<std::vector<double>>());
}

DType dtype_for(const std::vector<Placement>& a, const std::vector<Placement>& b) {
  for (const auto& list : {a, b})
    for (const Placement& p : list)
      if (p.is_partial() && p.partial().reduction.op >= ReduceOp::band &&
          p.partial().reduction.op <= ReduceOp::bxor)
        return DType::i64;
  return DType::f64;
}

LocalTensor locals_of(const Json& list, const Spec& spec) {
  LocalTensor out = empty_locals(spec, spec.mesh().ranks());
  for (Block& block : out.blocks())
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      const Json& local = list[static_cast<size_t>(block.lanes[i])];
      const Tensor from = tensor_from(local["v"], dims_of(local["shape"]), spec.dtype());
      EXPECT_EQ(from.shape, block.tensor.shape);
      std::copy(from.data(), from.data() + from.elements() * size_of(spec.dtype()),
                block.tensor.mutate(block.slot(i)));
    }
  return out;
}

std::vector<int> order_in(const Json& row, const char* key, size_t axes) {
  return order_of(row.value(key, Json()), static_cast<int>(axes));
}

int64_t calls_of(const Plan& plan) {
  int64_t calls = 0;
  for (const PlanStep& step : plan.steps) calls += cost_of(step).calls;
  return calls;
}

int64_t calls_in(const Json& row) {
  int64_t calls = 0;
  for (const auto& [kind, count] : row["comms"].items()) calls += count.get<int64_t>();
  return calls;
}

// PyTorch computes R -> P(sum) as x / n. Here the first rank has the value, which is exact. Both
// reduce to the same.
void check_values(const Json& row, const Plan& plan, const LocalTensor& input) {
  const LocalTensor output = replay(plan, input);
  const Tensor global = tensor_from(row["global"], plan.to.shape(), plan.to.dtype());
  EXPECT_EQ(values_of(assemble(output, plan.to)), values_of(global)) << row["id"] << "\n"
                                                                     << to_string(plan);
  const Json& want = row.contains("truth") ? row["truth"] : row.value("locals", Json());
  if (plan.to.has_partial() || !want.is_array()) return;
  for (size_t rank = 0; rank < want.size(); ++rank) {
    const Tensor local = output.of_rank(static_cast<int64_t>(rank));
    EXPECT_EQ(local.shape, dims_of(want[rank]["shape"])) << row["id"] << " rank " << rank;
    EXPECT_EQ(values_of(local), want[rank]["v"].get<std::vector<double>>())
        << row["id"] << " rank " << rank << "\n"
        << to_string(plan);
  }
}

StepKind kind_of(const Placement& from, const Placement& to) {
  if (from.is_replicate() || (from.is_shard() && to.is_partial())) return StepKind::local;
  if (from.is_shard()) return to.is_shard() ? StepKind::all_to_all : StepKind::all_gather;
  return to.is_shard() ? StepKind::reduce_scatter : StepKind::all_reduce;
}

// Returns the bytes that the plan of PyTorch sends in each step.
double their_bytes(const Json& row, Spec at) {
  double bytes = 0;
  for (const Json& move : row["plan"]) {
    const std::string text = move["move"];
    const Placement from = placement_of(text.substr(0, text.find("->")));
    const Placement to = placement_of(text.substr(text.find("->") + 2));
    const auto axes = move["axes"].get<std::vector<int>>();
    Spec next = at;
    for (int axis : axes) next = next.with_placement(axis, to);
    bytes += price_without_topology({kind_of(from, to), axes, at, next}).primary;
    at = next;
  }
  return bytes;
}

// The price counts bytes before calls, so more calls are right only if they send less.
void check_calls(const Json& row, const Plan& plan) {
  if (!row.value("agrees_with_truth", false) || calls_of(plan) <= calls_in(row)) return;
  EXPECT_LT(price_of(plan).primary, their_bytes(row, plan.from)) << row["id"] << "\n"
                                                                 << to_string(plan);
}

std::string why_refused(const std::vector<Placement>& from, const std::vector<Placement>& to) {
  for (size_t a = 0; a < from.size(); ++a)
    if (from[a].is_partial() && to[a].is_partial() && from[a] != to[a])
      return "a P does not turn into another P";
  return "different partial operators on one tensor are refused, except sum with avg";
}

TEST(Redistribute, RecordedCases) {
  Tally tally("redistribute");
  int64_t fewer = 0;
  for (const Json& row : read_cases("torch/redistribute.jsonl")) {
    tally.ran();
    const std::string id = row["id"];
    const auto from_placements = placements_of(row["from"]),
               to_placements = placements_of(row["to"]);
    const size_t axes = from_placements.size();
    const Mesh mesh = mesh_of(row["mesh"]);
    const Dims shape = dims_of(row["shape"]);
    const DType dtype = dtype_for(from_placements, to_placements);
    try {
      const Spec from(mesh, from_placements, shape, dtype, order_in(row, "from_order", axes));
      const Spec to(mesh, to_placements, shape, dtype, order_in(row, "to_order", axes));
      const PlannerResult result = plan_redistribution(from, to);
      const LocalTensor input = row.contains("input_locals")
                                    ? locals_of(row["input_locals"], from)
                                    : split(tensor_from(row["global"], shape, dtype), from);
      check_values(row, result.plan, input);
      check_calls(row, result.plan);
      EXPECT_EQ(parse_plan(to_string(result.plan), from, to), result.plan) << id;
      if (row.contains("error"))
        tally.differs(id, "PyTorch refuses or raises; ours is right");
      else if (!row["agrees_with_truth"].get<bool>())
        tally.differs(id, "PyTorch's value is wrong");
      else if (to.has_partial())
        tally.differs(id, "other parts of the same P: ours are exact");
      if (row.contains("comms") && calls_of(result.plan) < calls_in(row)) ++fewer;
    } catch (const Error& error) {
      EXPECT_TRUE(row.contains("error")) << id << ": " << error.what();
      tally.differs(id, "refused: " + why_refused(from_placements, to_placements));
    }
  }
  std::printf("redistribute: %lld with fewer calls than PyTorch\n", static_cast<long long>(fewer));
}

}  // namespace
}  // namespace shardproof::conformance::redistribute_test
