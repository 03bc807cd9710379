// Tests optimizer steps against torch.optim's formulas in double, and random ops against the
// generator.
#include <gtest/gtest.h>

#include <cmath>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/ops/core/run_single_device.h"
#include "shardproof/tests/ops/agreement.h"
#include "shardproof/tests/ops/eager_tape.h"
#include "shardproof/tests/ops/op_case.h"

namespace shardproof::testing::optimizer_test {
namespace {

std::vector<Tensor> step(const std::string& name, const std::vector<Tensor>& inputs, Attrs attrs) {
  return OpCase(name, inputs, std::move(attrs)).run_all();
}

TEST(Optimizer, AdamAndAdamW_FollowTorch) {
  const double w = 0.5, g = 0.25, m = 0.1, v = 0.04, lr = 0.01, b1 = 0.9, b2 = 0.999, eps = 1e-8,
               decay = 0.1;
  const auto one = [](double x) { return tensor_of(DType::f64, {1}, {x}); };
  for (const bool decoupled : {false, true}) {
    const auto got = step(decoupled ? "adamw" : "adam", {one(w), one(g), one(m), one(v)},
                          {{"lr", lr}, {"weight_decay", decay}, {"step", int64_t{3}}});
    const double gradient = decoupled ? g : g + decay * w,
                 kept = decoupled ? w * (1 - lr * decay) : w;
    const double first = b1 * m + (1 - b1) * gradient,
                 second = b2 * v + (1 - b2) * gradient * gradient;
    const double scale = std::sqrt(second) / std::sqrt(1 - std::pow(b2, 3)) + eps;
    EXPECT_NEAR(values_of(got[0])[0], kept - lr / (1 - std::pow(b1, 3)) * first / scale, 1e-15);
    EXPECT_NEAR(values_of(got[1])[0], first, 1e-16);
    EXPECT_NEAR(values_of(got[2])[0], second, 1e-16);
  }
}

// In f32, 1 - 0.999 has three digits less than 0.001.
TEST(Optimizer, AdamInF32_ScalesByRoundedRests) {
  const auto one = [](double x) { return tensor_of(DType::f32, {1}, {x}); };
  for (const char* name : {"adam", "adamw"}) {
    const auto got = step(name, {one(1), one(0.3), one(0), one(0)}, {{"lr", 1.0}});
    const auto g = static_cast<float>(0.3);
    EXPECT_NEAR(values_of(got[1])[0], 0.1 * g, 0x1p-28);
    EXPECT_NEAR(values_of(got[2])[0], 0.001 * g * g, 0x1p-36);
  }
}

TEST(Optimizer, SgdWithoutMomentum_IgnoresDampening) {
  const auto one = [](double x) { return tensor_of(DType::f64, {1}, {x}); };
  for (const int64_t at : {1, 2}) {
    const auto got = step("sgd_momentum", {one(1), one(0.5), one(7)},
                          {{"lr", 1.0}, {"momentum", 0.0}, {"dampening", 0.9}, {"step", at}});
    EXPECT_EQ(values_of(got[0])[0], 0.5);
  }
}

// The step may be a tensor that the program counts.
TEST(Optimizer, AdamWithStepTensor_IsAdamWithThatStep) {
  const OpRegistry ops = builtin_ops();
  for (const char* name : {"adam", "adamw"})
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      EagerTape tape(ops);
      std::vector<int> inputs;
      for (const char* fill :
           {"uniform(-1, 1)", "uniform(-1, 1)", "uniform(-1, 1)", "uniform(0.01, 1)"})
        inputs.push_back(tape.leaf(filled_by(fill, dtype, {5, 3}, inputs.size())));
      const Attrs attrs{{"lr", 0.1}, {"weight_decay", 0.1}};
      Attrs counted = attrs;
      counted.set("step", int64_t{3});
      const std::vector<int> want = tape.run(name, counted, inputs);
      inputs.push_back(tape.leaf(tensor_of(DType::i64, {}, {3})));
      const std::vector<int> got = tape.run(name, attrs, inputs);
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(difference_in_value(tape.value(got[i]), tape.value(want[i])), "") << name;
    }
}

TEST(Optimizer, SgdWithMomentum_FollowsTorch) {
  const Tensor w = tensor_of(DType::f32, {2}, {1, 2}), g = tensor_of(DType::f32, {2}, {0.5, -0.5}),
               buffer = tensor_of(DType::f32, {2}, {1, 0});
  const auto got = step("sgd_momentum", {w, g, buffer}, {{"lr", 0.5}, {"momentum", 0.5}});
  EXPECT_EQ(values_of(got[1]), (std::vector<double>{1, -0.5}));
  EXPECT_EQ(values_of(got[0]), (std::vector<double>{0.5, 2.25}));
  EXPECT_EQ(values_of(step("sgd", {w, g}, {{"lr", 0.5}})[0]), (std::vector<double>{0.75, 2.25}));
  const auto buffer_of = [&](int64_t number) {
    return values_of(step("sgd_momentum", {w, g, buffer},
                          {{"momentum", 0.5}, {"dampening", 0.5}, {"step", number}})[1]);
  };
  EXPECT_EQ(buffer_of(1), (std::vector<double>{1, -0.5}));
  EXPECT_EQ(buffer_of(2), (std::vector<double>{0.75, -0.25}));
}

TEST(Random, Shards_DrawByGlobalElement) {
  const OpRegistry ops = builtin_ops();
  const OpRecord& record = ops.at("uniform");
  const Attrs attrs = with_fallbacks(
      record, {{"shape", std::vector<int64_t>{3, 5}}, {"seed", int64_t{4}}, {"dtype", DType::f64}});
  const OpCall call{&attrs, {{DType::f32, {}, false, true}}};
  const std::vector<double> got = values_of(run_once(record, call, {nullptr})[0]);
  const Rng rng(4, 0);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], rng.uniform(i));
}

TEST(Random, Dropout_ScalesWhatItKeeps) {
  const Tensor x = filled_by("ones", DType::f32, {1000}, 0);
  const std::vector<double> got =
      values_of(step("dropout", {x}, {{"p", 0.25}, {"seed", int64_t{9}}})[0]);
  int64_t kept = 0;
  for (const double v : got) {
    EXPECT_TRUE(v == 0 || v == static_cast<float>(1 / 0.75)) << v;
    kept += v != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept), 750, 60);
}

}  // namespace
}  // namespace shardproof::testing::optimizer_test
