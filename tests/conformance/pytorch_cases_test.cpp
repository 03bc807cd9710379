// Facts of PyTorch about placements, redistribution and meshes. Ops and views are in
// op_cases_test.cpp.
#include <algorithm>
#include <map>

#include "shardproof/localtensor/mesh/process_group.h"
#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/tests/conformance/cases.h"

namespace shardproof::conformance::pytorch_cases_test {
namespace {

Spec spec_of(const Json& row) {
  return Spec(mesh_of(row["mesh"]), placements_of(row["pl"]), dims_of(row["shape"]), DType::f32);
}

std::vector<int64_t> indices_of(const Spec& spec, int64_t rank) {
  std::vector<int64_t> out;
  for (const Run& run : spec.owned(rank, 0))
    for (int64_t i = 0; i < run.length; ++i) out.push_back(run.start + i);
  return out;
}

TEST(PytorchCases, LocalShapes) {
  Tally tally("pytorch_cases A");
  auto all = cases();
  const Spec a01 = spec_of(all["A01"]);
  for (int64_t r = 0; r < 4; ++r)
    EXPECT_EQ(a01.local_shape(r)[0], all["A01"]["local_sizes_dim0"][static_cast<size_t>(r)]);
  const Spec a02 = spec_of(all["A02"]);
  for (int64_t r = 0; r < 4; ++r) {
    const Json& want = all["A02"]["per_rank_(shape,offset)"][static_cast<size_t>(r)];
    EXPECT_EQ(a02.local_shape(r), dims_of(want[0]));
    EXPECT_EQ(a02.start(r), dims_of(want[1]));
  }
  for (const char* id : {"A03", "A05"}) {
    const Spec spec = spec_of(all[id]);
    for (int64_t r = 0; r < 8; ++r) {
      const Json& want = all[id]["(size,offset)_rank0..7"][static_cast<size_t>(r)];
      EXPECT_EQ(spec.local_shape(r)[0], want[0]) << id;
      EXPECT_EQ(spec.start(r)[0], want[1]) << id;
    }
  }
  const Spec a09 = spec_of(all["A09"]);
  for (int64_t dp = 0; dp < 30; ++dp)
    for (int64_t tp = 0; tp < 8; ++tp) {
      const int64_t size = dp < 28 ? 18 : dp == 28 ? 8 : 0;
      EXPECT_EQ(a09.local_shape(dp * 8 + tp)[0], size);
      EXPECT_EQ(a09.start(dp * 8 + tp)[0], size == 0 ? 4096 : 512 * tp + 18 * dp);
    }
  const Spec a11 = spec_of(all["A11"]);
  for (int64_t r = 0; r < 8; ++r) EXPECT_EQ(a11.start(r)[0], 2 * (r % 2 * 4 + r / 2));
  const Spec a12 = spec_of(all["A12"]);
  for (int64_t r = 0; r < 8; ++r)
    EXPECT_EQ(a12.start(r)[0], 4 * (r / 4) + 8 * (r / 2 % 2) + 2 * (r % 2));
  const Spec a14 = spec_of(all["A14"]);
  for (int64_t r = 0; r < 4; ++r)
    EXPECT_EQ(Json(indices_of(a14, r)), all["A14"]["index_lists"][static_cast<size_t>(r)]);
  const Spec a15 = spec_of(all["A15"]);
  for (int64_t r = 0; r < 4; ++r)
    EXPECT_EQ(Json(indices_of(a15, r)), all["A15"]["rows"][std::to_string(r)]);
  const Spec a17 =
      spec_of(all["A17"]);  // the rule taken is the one PyTorch follows: pieces, then parts
  for (int64_t r = 0; r < 2; ++r)
    EXPECT_EQ(Json(indices_of(a17, r)), all["A17"]["pytorch_gives"][static_cast<size_t>(r)]);
  for (int64_t n = 0; n <= 16; ++n) {  // A19
    const Spec spec(Mesh::parse("a=8"), {S(0)}, {n}, DType::f32);
    for (int64_t r = 0; r < 8; ++r)
      for (size_t i = 0; i < indices_of(spec, r).size(); ++i)
        EXPECT_EQ(indices_of(spec, r)[i], spec.start(r)[0] + static_cast<int64_t>(i));
  }
  for (int i = 0; i < 10; ++i) tally.ran();
}

struct Counts {
  std::map<std::string, int64_t> by_kind;
  int64_t total = 0;
};

Counts plan_counts(const Mesh& mesh, const Dims& shape, std::vector<Placement> from,
                   std::vector<Placement> to) {
  const Spec a(mesh, std::move(from), shape, DType::f32), b(mesh, std::move(to), shape, DType::f32);
  const Plan plan = plan_redistribution(a, b).plan;
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>(i % 7 - 3));
  const Tensor x = tensor_of(DType::f32, shape, values);
  EXPECT_TRUE(bit_equal(assemble(replay(plan, split(x, a, PartialFill::exact, 1)), b), 0, x, 0))
      << to_string(plan);
  Counts counts;
  for (const PlanStep& step : plan.steps) {
    const int64_t calls = cost_of(step).calls;
    counts.by_kind[std::string(name(step.kind))] += calls;
    counts.total += calls;
  }
  return counts;
}

TEST(PytorchCases, Redistribute) {
  Tally tally("pytorch_cases B and C");
  const Mesh four = Mesh::parse("a=4");
  for (const Dims& shape : {Dims{12, 3}, Dims{13, 3}, Dims{14, 3}, Dims{3, 13}}) {
    for (int d = 0; d < 2; ++d) {
      EXPECT_EQ(plan_counts(four, shape, {S(d)}, {R()}).by_kind["all_gather"], 1);      // B01
      EXPECT_EQ(plan_counts(four, shape, {R()}, {S(d)}).total, 0);                      // B02
      EXPECT_EQ(plan_counts(four, shape, {P()}, {S(d)}).by_kind["reduce_scatter"], 1);  // B04
    }
    EXPECT_EQ(plan_counts(four, shape, {P()}, {R()}).by_kind["all_reduce"], 1);  // B03
    EXPECT_EQ(plan_counts(four, shape, {R()}, {P()}).total, 0);                  // B05
    EXPECT_EQ(plan_counts(four, shape, {P()}, {P()}).total, 0);                  // B07
  }
  for (const Placement& x : {S(1), R(), P()})
    for (const Placement& y : {S(0), S(1), R()})
      EXPECT_EQ(plan_counts(Mesh::parse("a=4, b=1"), {16, 8}, {S(0), x}, {S(0), y}).total,
                0);                                                            // B10
  EXPECT_THROW(plan_counts(four, {12, 3}, {P()}, {P(ReduceOp::avg)}), Error);  // B11
  const Mesh two = Mesh::parse("a=2, b=2");
  const Dims shape = {8, 8};
  EXPECT_LE(plan_counts(two, shape, {S(0), S(1)}, {S(0), S(0)}).total, 1);  // C01
  EXPECT_LE(plan_counts(two, shape, {S(0), S(0)}, {S(1), S(1)}).total, 2);
  EXPECT_LE(plan_counts(two, {8, 8, 8}, {S(1), S(1)}, {S(1), S(2)}).total, 1);
  EXPECT_EQ(
      plan_counts(Mesh::parse("a=2, b=2, c=2"), {16, 16}, {S(0), S(0), S(0)}, {S(1), S(1), S(1)})
          .total,
      1);  // C03: PyTorch 6
  const Mesh eight = Mesh::parse("a=4, b=2");
  const Dims cube = {16, 16, 16};  // C04
  EXPECT_EQ(plan_counts(eight, cube, {P(), P()}, {R(), R()}).by_kind["all_reduce"], 1);
  EXPECT_EQ(plan_counts(eight, cube, {P(), P()}, {S(0), S(0)}).by_kind["reduce_scatter"], 1);
  EXPECT_LE(plan_counts(eight, cube, {P(), P()}, {S(0), S(1)}).total, 2);
  EXPECT_EQ(plan_counts(eight, cube, {S(0), S(0)}, {R(), R()}).by_kind["all_gather"], 1);
  EXPECT_LE(plan_counts(eight, cube, {S(0), S(1)}, {R(), R()}).total, 2);
  // C07, C08: PyTorch does not merge these, or loses elements when it does. The planner may merge
  // them, because each rank keeps the indices that it owns.
  EXPECT_EQ(plan_counts(Mesh::parse("a=2, b=3"), {4, 1}, {P(), P()}, {S(0), S(0)}).total, 1);
  EXPECT_EQ(plan_counts(two, {5, 3}, {S(0), S(0)}, {R(), R()}).total, 1);
  EXPECT_EQ(plan_counts(Mesh::parse("a=2, b=3"), {10}, {P(), P()}, {S(0), S(0)}).total, 1);  // C10
  EXPECT_EQ(plan_counts(Mesh::parse("a=2, b=4, c=1"), {2}, {P(), S(0), P()}, {S(0), S(0), S(0)})
                .by_kind["all_reduce"],
            0);
  for (int i = 0; i < 16; ++i) tally.ran();
}

TEST(PytorchCases, Values) {
  Tally tally("pytorch_cases D14, F01");
  auto all = cases();
  const Json& d14 = all["D14"];
  std::vector<Tensor> inputs;
  for (const Json& in : d14["in"]) {
    std::vector<double> values;
    for (const Json& row : in)
      for (const Json& value : row) values.push_back(value);
    inputs.push_back(tensor_of(DType::f32, {2, 2}, values));
  }
  const auto flat = [](const Json& rows) {
    std::vector<double> values;
    for (const Json& row : rows)
      for (const Json& value : row) values.push_back(value);
    return values;
  };
  EXPECT_EQ(values_of(reduce_all({ReduceOp::sum, 0}, inputs)), flat(d14["sum"]));
  EXPECT_EQ(values_of(reduce_all({ReduceOp::max, 0}, inputs)), flat(d14["max"]));
  EXPECT_EQ(values_of(reduce_all({ReduceOp::min, 0}, inputs)), flat(d14["min"]));
  const Mesh mesh = Mesh::parse("dp=2, cp=2, tp=2");  // F01
  const Mesh flattened = mesh.slice({"dp", "cp"}).flatten({"dp", "cp"}, "all");
  EXPECT_EQ(Group::of_axes(flattened, {0}).members(0), (std::vector<int32_t>{0, 2, 4, 6}));
  EXPECT_EQ(Group::of_axes(flattened, {0}).members(1), (std::vector<int32_t>{1, 3, 5, 7}));
  EXPECT_THROW(mesh.slice({"cp", "dp"}), Error);
  tally.ran();
  tally.ran();
}

// F03: an input that PyTorch refuses with an exception is an Error here, with the names in its
// text.
TEST(PytorchCases, MeshErrors) {
  EXPECT_THROW(Mesh::make({{"a", 2}, {"a", 2}}), Error);
  EXPECT_THROW(Mesh::make({{"a", 0}}), Error);
  EXPECT_THROW(Mesh::make({{"a", -1}}), Error);
  const Mesh mesh = Mesh::parse("a=2, b=4");
  EXPECT_THROW(mesh.slice({"z"}), Error);
  EXPECT_THROW(mesh.slice({"b", "a"}), Error);
  EXPECT_THROW(mesh.slice({"a"}).flatten({"a"}, "b"), Error);
  EXPECT_THROW(mesh.unflatten("b", {{"x", 3}, {"y", 2}}), Error);
  EXPECT_THROW(Mesh::concatenate({mesh, mesh}), Error);
  EXPECT_THROW(Mesh::concatenate({mesh.slice({"a"}), Mesh::parse("c=2")}), Error);
}

}  // namespace
}  // namespace shardproof::conformance::pytorch_cases_test
