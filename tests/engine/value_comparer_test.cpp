// Tests which values a judge gets. A partial value comes with the result of the call that reduces
// it, if that result has the bits that the judge would compute itself.
#include "shardproof/engine/compare/value_comparer.h"

#include <gtest/gtest.h>

#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::value_comparer_test {
namespace {

// Counts partial values with and without a reduced value, and compares the two reductions.
class PartialJudge : public Judge {
 public:
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override {
    reference.value(value.global);
    if (!value.spec.has_partial()) return Judgement::right;
    ++partials;
    if (value.reduced.empty()) return Judgement::right;
    ++reduced;
    Spec whole = value.spec;
    for (const int axis : value.spec.partial_axes()) whole = whole.with_placement(axis, R());
    const LocalTensor own = reduced_over_partials(value.value, value.spec, value.value.dtype());
    EXPECT_TRUE(bit_equal(assemble(own, whole), 0, assemble(value.reduced, whole), 0));
    return Judgement::right;
  }
  int partials = 0, reduced = 0;
};

// Returns a job on "dp=2, tp=4" with x of [8, 12] and w of [12, 6]. Their numbers are thirds, so
// sums of them depend on the order.
Job thirds_job(const std::vector<std::string>& lines, DType dtype) {
  Job job = job_of("dp=2, tp=4", lines);
  add_input(job, "x", Dims{8, 12}, "dp:S(0) tp:S(1)", dtype);
  add_input(job, "w", Dims{12, 6}, "tp:S(0)", dtype);
  for (JobInput& input : job.inputs) {
    std::vector<double> values = values_of(input.data);
    for (double& value : values) value /= 3;
    input.data = tensor_of(dtype, input.spec.shape(), values);
  }
  return job;
}

PartialJudge judged(const Job& job) {
  PartialJudge judge;
  JudgedProgram::make(job, builtin_registries())->run(judge, {});
  return judge;
}

const char* const kPartials[] = {"y = x @ w as dp:S(0) tp:P(sum)",
                                 "y = mean(x, dim=1) as dp:S(0) tp:P(avg)",
                                 "y = amax(x, dim=1) as dp:S(0) tp:P(max)"};

TEST(ReducedValue, AllReduceOfAllParts_GivesTheBitsOfTheJudge) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const char* const line : kPartials) {
      const PartialJudge judge =
          judged(thirds_job({line, "z = redistribute(y, dp:S(0) tp:R)"}, dtype));
      EXPECT_EQ(judge.partials, 1) << line;
      EXPECT_EQ(judge.reduced, 1) << line;
    }
}

TEST(ReducedValue, AnotherCallOrALaterOne_GivesNone) {
  const std::vector<std::string> scattered = {kPartials[0], "z = redistribute(y, dp:S(0) tp:S(1))"};
  EXPECT_EQ(judged(thirds_job(scattered, DType::f32)).reduced, 0);
  const std::vector<std::string> late = {kPartials[0], "v = x * 2",
                                         "z = redistribute(y, dp:S(0) tp:R)"};
  EXPECT_EQ(judged(thirds_job(late, DType::f32)).reduced, 0);
}

// Such a call adds in another order than the judge.
TEST(ReducedValue, AllReduceWithASchedule_GivesNone) {
  Job job = thirds_job({kPartials[0], "z = redistribute(y, dp:S(0) tp:R)"}, DType::f32);
  job.order.order = FoldOrder::exact;
  const PartialJudge judge = judged(job);
  EXPECT_EQ(judge.partials, 1);
  EXPECT_EQ(judge.reduced, 0);
}

}  // namespace
}  // namespace shardproof::testing::value_comparer_test
