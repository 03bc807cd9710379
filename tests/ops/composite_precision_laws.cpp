// The law of composite ops in narrow floats. The error of a result is at most four times that of
// the same op computed in f32 and rounded once. The truth is the op in f64. Every op with a
// decomposition is tested on its samples in every narrow float, and on inputs far from 0, where
// differences lose digits.
#include <gtest/gtest.h>

#include <cmath>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/ops/eager_tape.h"

namespace shardproof::testing::composite_precision_laws {
namespace {

constexpr uint64_t kSeed = 23;
constexpr double kMostTimes = 4;

Tensor converted(const Tensor& tensor, DType to) {
  Tensor made = Tensor::empty(to, tensor.shape);
  const Tensor dense = contiguous_copy(tensor);
  convert(dense.data(), dense.dtype, made.mutate(), to, dense.elements());
  return made;
}

// Returns an instance with its floats rounded to `narrow` and then stored in `stored`.
OpInstance in_dtype(OpInstance instance, DType narrow, DType stored) {
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    TensorMeta& meta = instance.inputs[i];
    if (meta.absent || meta.weak || !is_floating(meta.dtype)) continue;
    meta.dtype = stored;
    instance.tensors[i] = converted(converted(instance.tensors[i], narrow), stored);
  }
  const Attrs given = instance.attrs;
  for (const auto& [name, value] : given.values())
    if (const DType* dtype = std::get_if<DType>(&value); dtype && is_floating(*dtype))
      instance.attrs.set(name, stored);
  return instance;
}

// Moves all floats of an instance to values near `level`.
OpInstance moved_to(OpInstance instance, double level) {
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    const TensorMeta& meta = instance.inputs[i];
    if (meta.absent || meta.weak || !is_floating(meta.dtype)) continue;
    std::vector<double> values = values_of(instance.tensors[i]);
    for (double& value : values) value += level;
    instance.tensors[i] = tensor_of(meta.dtype, meta.shape, values);
  }
  return instance;
}

// Returns the results of the op; empty if it refuses the call.
std::vector<Tensor> results_of(const OpRegistry& ops, const OpInstance& instance) {
  EagerTape tape(ops);
  std::vector<int> inputs;
  for (size_t i = 0; i < instance.inputs.size(); ++i)
    inputs.push_back(instance.inputs[i].absent
                         ? kAbsent
                         : tape.leaf(instance.tensors[i], instance.inputs[i].weak));
  std::vector<Tensor> results;
  try {
    for (const int handle : tape.run(instance.record->name, instance.attrs, inputs))
      results.push_back(tape.value(handle));
  } catch (const Error&) {
    return {};
  }
  return results;
}

class CompositePrecision : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_law(const OpInstance& drawn, DType dtype) {
    const std::vector<Tensor> own = results_of(ops_, in_dtype(drawn, dtype, dtype));
    const std::vector<Tensor> single = results_of(ops_, in_dtype(drawn, dtype, DType::f32));
    const std::vector<Tensor> truth = results_of(ops_, in_dtype(drawn, dtype, DType::f64));
    if (own.size() != single.size() || own.size() != truth.size()) return;
    for (size_t o = 0; o < own.size(); ++o) {
      if (is_complex(own[o].dtype)) continue;
      const std::vector<double> got = values_of(own[o]);
      const std::vector<double> rounded = values_of(converted(single[o], own[o].dtype));
      const std::vector<double> exact = values_of(truth[o]);
      for (size_t i = 0; i < got.size(); ++i) {
        ++compared_;
        if (got[i] == rounded[i] || (std::isnan(got[i]) && std::isnan(rounded[i]))) continue;
        // One rounding to the dtype may be an error of half a unit, or 0 by chance.
        const double once = is_floating(own[o].dtype) && std::isfinite(exact[i])
                                ? unit_in_last_place(own[o].dtype, std::fabs(exact[i])) / 2
                                : 0;
        const double allowed = kMostTimes * std::max(std::fabs(rounded[i] - exact[i]), once);
        EXPECT_LE(std::fabs(got[i] - exact[i]), allowed)
            << GetParam() << "(" << to_string(drawn.attrs) << ") in " << name(dtype) << ", output "
            << o << ", element " << i << ": " << got[i] << ", in f32 and rounded once "
            << rounded[i] << ", in f64 " << exact[i];
        if (HasFailure()) return;
      }
    }
  }

  const OpRegistry ops_ = builtin_ops();
  int64_t compared_ = 0;
};

TEST_P(CompositePrecision, NarrowFloats_AreRoundedOnce) {
  const OpRecord& record = ops_.at(GetParam());
  for (const Sample& sample : record.samples())
    for (const DType dtype : {DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2}) {
      const OpInstance drawn = instance_of(record, sample, kSeed);
      if (!record.is_composite(in_dtype(drawn, dtype, dtype).call())) continue;
      expect_law(drawn, dtype);
      const bool bounded = size_of(dtype) == 1;  // 96 squared is beyond the range of fp8
      if (!bounded) expect_law(moved_to(drawn, 96), dtype);
    }
}

std::vector<std::string> composite_ops() {
  std::vector<std::string> names;
  const OpRegistry ops = builtin_ops();
  for (const OpRecord* record : ops.all())
    if (!record->decompositions.empty()) names.push_back(record->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllOps, CompositePrecision, ::testing::ValuesIn(composite_ops()),
                         [](const auto& info) { return info.param; });

// The calls that decompose by an attribute have no samples of their own.
TEST(CompositeForms, Attributes_AreRoundedOnce) {
  const OpRegistry ops = builtin_ops();
  struct Form {
    const char* op;
    Attrs attrs;
    size_t tensors;
  };
  const std::vector<Form> forms = {{"round", {{"decimals", int64_t{2}}}, 1},
                                   {"round", {{"decimals", int64_t{-1}}}, 1},
                                   {"softplus", {{"beta", 2.5}}, 1},
                                   {"softplus", {{"beta", 0.3}, {"threshold", 5.0}}, 1},
                                   {"add", {{"alpha", 0.3}}, 2},
                                   {"sub", {{"alpha", 0.3}}, 2},
                                   {"rsub", {{"alpha", 0.3}}, 2},
                                   {"sum", {{"dtype", DType::bf16}}, 1}};
  for (const Form& form : forms)
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const OpRecord& record = ops.at(form.op);
      const Sample sample = sample_of({std::vector<Dims>(form.tensors, {6, 5}), DType::f32,
                                       std::vector<std::string>(form.tensors, "uniform(-9, 9)")},
                                      form.attrs);
      const OpInstance drawn = instance_of(record, sample, kSeed);
      const std::vector<Tensor> own = results_of(ops, in_dtype(drawn, dtype, dtype));
      const std::vector<Tensor> single = results_of(ops, in_dtype(drawn, dtype, DType::f32));
      ASSERT_EQ(own.size(), 1u) << form.op;
      ASSERT_EQ(single.size(), 1u) << form.op;
      EXPECT_EQ(values_of(own[0]), values_of(converted(single[0], own[0].dtype)))
          << form.op << "(" << to_string(form.attrs) << ") in " << name(dtype);
    }
}

// The logarithm is taken in the dtype that both inputs are promoted to.
TEST(CompositeForms, MixedDtypes_ArePromotedFirst) {
  const OpRegistry ops = builtin_ops();
  EagerTape tape(ops);
  const int y = tape.leaf(tensor_of(DType::bf16, {4}, {3, 7, 0.3, 11}));
  for (const DType wide : {DType::f32, DType::f64}) {
    const int x = tape.leaf(tensor_of(wide, {4}, {1, 2, 3, 4}));
    const Tensor got = tape.value(tape.run("xlogy", {}, {x, y}).front());
    const int promoted = tape.run("cast", {{"dtype", wide}}, {y}).front();
    const Tensor want = tape.value(tape.run("xlogy", {}, {x, promoted}).front());
    EXPECT_EQ(got.dtype, wide);
    EXPECT_TRUE(bit_equal(got, 0, want, 0)) << name(wide);
  }
}

}  // namespace
}  // namespace shardproof::testing::composite_precision_laws
