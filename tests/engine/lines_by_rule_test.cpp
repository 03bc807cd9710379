// Tests which lines of a global program need no run in f64 (engine/judging/lines_by_rule.h). Law: a
// run that begins with their results finds the wrong values that a run of all lines finds.
#include <gtest/gtest.h>

#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/generate/plant_error.h"
#include "shardproof/engine/generate/random_program.h"
#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/engine/judging/lines_by_rule.h"
#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::testing::lines_by_rule_test {
namespace {

// Returns the names of values by rule, those that other lines read with a star: "h* g".
std::string names_by_rule(const Job& job) {
  const OpRegistry& ops = builtin_registries().ops;
  const GlobalProgram program = lower_global(*job.program, context_of(job, ops), "/program");
  const LinesByRule lines(program, partition(program, job, ops));
  std::string text;
  for (const ValueId id : lines.made()) {
    const std::string& name = program.values[static_cast<size_t>(id)].name;
    text += (text.empty() ? "" : " ") + (name.empty() ? "_" : name);
    if (lines.is_read_by_others(id)) text += "*";
  }
  return text;
}

struct Example {
  std::vector<std::string> lines;
  std::string by_rule;
};

TEST(LinesByRule, AreThoseThatNeitherAddParts_NorClaimPlacements) {
  const std::vector<Example> examples = {
      {{"h = gelu(x @ w1)", "y = h @ w2", "z = redistribute(y, tp:R)"}, "_ h*"},
      {{"h = gelu(x @ w1)", "g = h * 2", "s = g + h"}, "_ h g s"},
      {{"h = x @ w1 as tp:S(1)", "g = relu(h)"}, "g"},
      {{"h = x @ w1", "y = softmax(h, dim=1)", "g = relu(y)"}, "h* g"},
      {{"y = w1 @ w2", "z = y + y", "r = redistribute(z, tp:R)", "g = relu(r)"}, "g"},
      {{"h = cast(x @ w1, bf16)", "g = cast(h, f32)"}, "_* g"},
      {{"i = argmax(x, dim=1)", "m = x > 0"}, "i m"},
  };
  for (const Example& example : examples) {
    Job job = job_of("tp=4", example.lines);
    add_input(job, "x", {4, 8}, "tp:R");
    add_input(job, "w1", {8, 8}, "tp:S(1)");
    add_input(job, "w2", {8, 8}, "tp:S(0)");
    EXPECT_EQ(names_by_rule(job), example.by_rule)
        << fmt::format("{}", fmt::join(example.lines, "\n"));
  }
}

// Runs a job in its own dtypes, and then in f64 from its results by rule, or with all lines.
class BothRuns {
 public:
  explicit BothRuns(const Job& job) : own_(JudgedProgram::make(job, builtin_registries())) {
    OwnDtypeJudge::Options options;
    options.keeps_integers = true;
    options.lifted = [this]() -> const EvaluationPlan& { return lifted_->plan; };
    judge_.emplace(options);
    own_->run(*judge_, {.results_by_rule = &results_});
    others_ = own_->lifted_without_lines_by_rule(results_, judge_->equal());
  }
  bool begins_with_results() const { return others_ != nullptr; }
  std::set<std::string> wrong_in_other_lines() const { return wrong_in(*others_); }
  std::set<std::string> wrong_in_all() const { return wrong_in(*own_->lifted()); }

 private:
  std::set<std::string> wrong_in(const JudgedProgram& lifted) const {
    F64Judge::Options options;
    options.own = own_->reference();
    options.integers = &judge_->integers();
    options.equal_in_own = &judge_->equal();
    options.inputs_in_parts = lifted.inputs_in_parts();
    F64Judge judge(options);
    lifted.run(judge, {.integers = &judge_->integers()});
    judge.settle();
    std::set<std::string> keys;
    for (const JudgedValue& value : judge.found())
      if (value.judgement == Judgement::wrong) keys.insert(value.key);
    return keys;
  }

  std::unique_ptr<JudgedProgram> own_, others_;
  std::unique_ptr<LiftedReference> lifted_ = own_->lifted_reference();
  std::optional<OwnDtypeJudge> judge_;
  std::map<ValueId, LocalTensor> results_;
};

TEST(LinesByRule, LeftOutOfTheRunInF64_ChangeNoWrongValue) {
  constexpr uint64_t kFirstSeed = 2600;
  constexpr int kPrograms = kFewDraws ? 20 : 300;
  constexpr double kSize = 1e-6;
  ProgramOptions options;
  options.kind = ProgramKind::global;
  options.dtype = DType::f32;
  options.max_lines = 30;
  int compared = 0, wrong = 0;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kPrograms; ++seed) {
    const RandomProgram program = random_program(seed, options, builtin_registries().ops);
    const auto planted = plant_error(program, kSize, builtin_registries());
    if (!planted) continue;
    const BothRuns runs(job_of(planted->text));
    if (!runs.begins_with_results()) continue;
    const std::set<std::string> others = runs.wrong_in_other_lines();
    EXPECT_EQ(others, runs.wrong_in_all()) << "seed " << seed;
    ++compared;
    wrong += others.empty() ? 0 : 1;
  }
  EXPECT_GT(compared, kPrograms / 4);
  EXPECT_GT(wrong, compared / 2);
}

}  // namespace
}  // namespace shardproof::testing::lines_by_rule_test
