// Tests the laws of generated programs without the judge. Programs are legal, honest and equal for
// equal seeds; a planted error is as large as stated. The tests assemble what the ranks hold and
// compare it with one device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "shardproof/engine/generate/forms/gradient_line.h"
#include "shardproof/engine/generate/forms/line_forms.h"
#include "shardproof/engine/generate/plant_error.h"
#include "shardproof/engine/generate/rank_forms.h"
#include "shardproof/engine/generate/run_on_ranks.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/scenario_text.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::testing::random_program_test {
namespace {

constexpr uint64_t kSeeds = kFewDraws ? 9 : 60;

// Returns the largest difference divided by the largest element of `scale`. Two NaN are equal.
double distance(const Tensor& a, const Tensor& b, const Tensor& scale) {
  const std::vector<double> left = values_of(a), right = values_of(b);
  if (left.size() != right.size() || a.dtype != b.dtype) return INFINITY;
  double largest = 0, most = 0;
  for (const double element : values_of(scale)) largest = std::max(largest, std::abs(element));
  for (size_t i = 0; i < left.size(); ++i)
    if (left[i] != right[i] && !(std::isnan(left[i]) && std::isnan(right[i])))
      most = std::max(most, std::abs(left[i] - right[i]));
  return most == 0 ? 0 : most / largest;
}

double distance(const HeldValue& pair) {
  return distance(pair.ranks, pair.one_device, pair.one_device);
}

std::vector<HeldValue> held_values(const Job& job) {
  return run_on_ranks(job, builtin_registries());
}

const OpRegistry& ops() { return builtin_registries().ops; }

ProgramOptions options_of(ProgramKind kind, DType dtype, Conditioning conditioning) {
  ProgramOptions options;
  options.kind = kind;
  options.dtype = dtype;
  options.conditioning = conditioning;
  return options;
}

class RandomPrograms : public ::testing::TestWithParam<ProgramKind> {};

TEST_P(RandomPrograms, OfOneSeed_AreTheSame) {
  ProgramOptions options;
  options.kind = GetParam();
  std::set<std::string> texts;
  for (uint64_t seed = 1; seed <= kSeeds / 3; ++seed) {
    const std::string text = scenario_text(random_program(seed, options, ops()).text);
    EXPECT_EQ(text, scenario_text(random_program(seed, options, ops()).text));
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), kSeeds / 3);
}

TEST_P(RandomPrograms, AsScenarioFiles_GiveTheSameJob) {
  ProgramOptions options;
  options.kind = GetParam();
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const RandomProgram program = random_program(seed, options, ops());
    const Job job = job_of(program.text);
    const Scenario scenario = load_text(scenario_text(program.text), "generated.json");
    const Job loaded = filled(scenario.cases.at(0).phases.at(0), 0);
    ASSERT_EQ(loaded.inputs.size(), job.inputs.size());
    for (size_t i = 0; i < job.inputs.size(); ++i) {
      EXPECT_EQ(loaded.inputs[i].spec, job.inputs[i].spec);
      EXPECT_TRUE(bit_equal(loaded.inputs[i].data, 0, job.inputs[i].data, 0)) << job.inputs[i].name;
    }
    EXPECT_EQ(loaded.program, job.program);
    EXPECT_EQ(loaded.truth, job.truth);
    EXPECT_EQ(loaded.seed, job.seed);
    EXPECT_EQ(loaded.outputs.size(), job.outputs.size());
  }
}

// Whole numbers are exact in any order of addition, so an honest program has the bits of one
// device.
TEST_P(RandomPrograms, OverWholeNumbers_EqualOneDeviceToTheBit) {
  const auto options = options_of(GetParam(), DType::f32, Conditioning::whole_numbers);
  int64_t values = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed)
    for (const HeldValue& pair : held_values(job_of(random_program(seed, options, ops()).text))) {
      EXPECT_EQ(distance(pair), 0) << "seed " << seed << " line " << pair.line << " " << pair.name;
      ++values;
    }
  EXPECT_GT(values, kFewDraws ? 27 : 200);
}

// Rounding is about 1e-16 in f64. A value that is off by more is near 0 and consists of rounding
// errors, or is a choice that depends on one.
TEST_P(RandomPrograms, TameInF64_AreCloseToOneDevice) {
  const auto options = options_of(GetParam(), DType::f64, Conditioning::well);
  int64_t values = 0, apart = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed)
    for (const HeldValue& pair : held_values(job_of(random_program(seed, options, ops()).text))) {
      apart += distance(pair) > 1e-9 ? 1 : 0;
      ++values;
    }
  EXPECT_GT(values, kFewDraws ? 27 : 200);
  EXPECT_LE(apart, values / 200);
}

TEST_P(RandomPrograms, OfManySeeds_UseEveryForm) {
  ProgramOptions options;
  options.kind = GetParam();
  std::set<std::string> drawn;
  for (uint64_t seed = 1; seed <= (kFewDraws ? 10 : 200); ++seed)
    for (const std::string& form : random_program(seed, options, ops()).forms) drawn.insert(form);
  if (kFewDraws) return;  // they do not reach every form
  if (GetParam() == ProgramKind::global) {
    for (const LineForm& form : all_forms()) EXPECT_TRUE(drawn.contains(form.name)) << form.name;
    EXPECT_TRUE(drawn.contains("claim"));
    EXPECT_TRUE(drawn.contains("redistribute"));
  } else {
    for (const RankForm& form : all_rank_forms())
      EXPECT_EQ(drawn.contains(form.name), !form.for_gradients) << form.name;
  }
}

TEST(RandomGradients, OfRanks_UseEveryForm) {
  ProgramOptions options;
  options.kind = ProgramKind::ranks;
  options.has_gradients = true;
  std::set<std::string> drawn;
  for (uint64_t seed = 1; seed <= (kFewDraws ? 10 : 150); ++seed) {
    const RandomProgram program = random_program(seed, options, ops());
    drawn.insert(program.forms.begin(), program.forms.end());
    EXPECT_TRUE(parse_gradient_line(program.text.truth.back())) << program.text.truth.back();
  }
  if (kFewDraws) return;  // they do not reach every form
  for (const RankForm& form : all_rank_forms()) EXPECT_TRUE(drawn.contains(form.name)) << form.name;
}

TEST(RandomGradients, OfRanksInF64_AreCloseToOneDevice) {
  auto options = options_of(ProgramKind::ranks, DType::f64, Conditioning::well);
  options.has_gradients = true;
  int64_t values = 0, apart = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed)
    for (const HeldValue& pair : held_values(job_of(random_program(seed, options, ops()).text))) {
      if (pair.name[0] != 'g') continue;
      apart += distance(pair) > 1e-9 ? 1 : 0;
      ++values;
    }
  EXPECT_GT(values, kFewDraws ? 10 : 100);
  EXPECT_LE(apart, values / 200);
}

const HeldValue& pair_at(const std::vector<HeldValue>& pairs, const PlantedError& error) {
  return *std::find_if(pairs.begin(), pairs.end(), [&](const HeldValue& pair) {
    return pair.name == error.name && pair.line == error.line;
  });
}

// In f64 rounding is negligible compared with the error, so the difference is its size.
TEST_P(RandomPrograms, WithPlantedError_AreOffByItsSizeFromItsLineOn) {
  const auto options = options_of(GetParam(), DType::f64, Conditioning::well);
  constexpr double kSize = 1e-4, kNoise = 1e-7;
  int64_t planted_errors = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RandomProgram program = random_program(seed, options, ops());
    const std::optional<PlantedProgram> planted = plant_error(program, kSize, builtin_registries());
    if (!planted) continue;
    ++planted_errors;
    EXPECT_GE(planted->error.size, kSize * 0.999);
    EXPECT_LE(planted->error.size, kSize * 1.1);
    const std::vector<HeldValue> wrong = held_values(job_of(planted->text));
    const std::vector<HeldValue> clean = held_values(job_of(planted->twin));
    EXPECT_LT(distance(pair_at(clean, planted->error)), kNoise) << "seed " << seed;
    EXPECT_NEAR(distance(pair_at(wrong, planted->error)), planted->error.size, kSize * 0.01)
        << "seed " << seed << " " << name(planted->error.pattern);
    if (GetParam() == ProgramKind::ranks) continue;
    for (size_t i = 0; i < wrong.size() && wrong[i].line < planted->error.line; ++i)
      EXPECT_EQ(distance(wrong[i].ranks, clean[i].ranks, clean[i].one_device), 0)
          << "seed " << seed;
  }
  EXPECT_GT(planted_errors, kFewDraws ? 4 : 30);
}

INSTANTIATE_TEST_SUITE_P(OfEachKind, RandomPrograms,
                         ::testing::Values(ProgramKind::global, ProgramKind::ranks),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace shardproof::testing::random_program_test
