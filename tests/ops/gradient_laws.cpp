// Laws of gradients (OpRecord::gradient), for every op and sample, in f64 on one device:
//
//   difference   the gradient of <u, y(x)> by each element of x is its central difference
//   second       the same for <v, gradient of <u, y(x)>>: gradients have gradients
//   dot product  <u, J v> = <J^T u, v>, with J v as a central difference along v
//   dtype        the gradient has the dtype and shape of its input, and is near that in f64
//
// A central difference is taken with two steps. Their distance measures how far the function is
// from a parabola, and bounds the error of the extrapolation of both.
#include <gtest/gtest.h>

#include <cmath>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/ops/core/widen_op_call.h"
#include "shardproof/tests/ops/agreement.h"
#include "shardproof/tests/ops/eager_tape.h"

namespace shardproof::testing::gradient_laws {
namespace {

constexpr uint64_t kGradientSeed = 23;
constexpr double kStep = 0x1p-12;
constexpr int64_t kMostElements = 16;  // of an input, by which differences are taken

bool has_gradient(const TensorMeta& meta) {
  return !meta.absent && !meta.weak && (is_floating(meta.dtype) || is_complex(meta.dtype));
}

Tensor converted_to(const Tensor& tensor, DType to) {
  if (!tensor.buffer || tensor.dtype == to) return tensor;
  Tensor result = Tensor::empty(to, tensor.shape);
  convert(tensor.data(), tensor.dtype, result.mutate(), to, tensor.elements());
  return result;
}

// Returns a tensor of which `count` doubles (two for a complex element) are drawn by `seed`.
Tensor drawn_tensor(DType dtype, const Dims& shape, double low, double high, uint64_t seed) {
  const DType wide = is_complex(dtype) ? DType::c128 : DType::f64;
  Tensor tensor = Tensor::empty(wide, shape);
  auto* numbers = reinterpret_cast<double*>(tensor.mutate());
  const int64_t count = element_count(shape) * (wide == DType::c128 ? 2 : 1);
  const Rng rng(seed, 0);
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = low + (high - low) * rng.uniform(static_cast<uint64_t>(i));
  return converted_to(tensor, dtype);
}

int64_t doubles_in(const Tensor& wide) {
  return wide.elements() * (wide.dtype == DType::c128 ? 2 : 1);
}
double* doubles_of(Tensor& wide) { return reinterpret_cast<double*>(wide.mutate()); }
const double* doubles_of(const Tensor& wide) {
  return reinterpret_cast<const double*>(wide.data());
}

double dot(const Tensor& a, const Tensor& b) {
  long double sum = 0;
  for (int64_t i = 0; i < doubles_in(a); ++i)
    sum += static_cast<long double>(doubles_of(a)[i]) * doubles_of(b)[i];
  return static_cast<double>(sum);
}

double size_of_terms(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < doubles_in(a); ++i) sum += std::fabs(doubles_of(a)[i] * doubles_of(b)[i]);
  return sum;
}

// Adds `share` of a step along `direction`; separates the contents from those of copies.
Tensor stepped(const Tensor& x, const Tensor& direction, double share) {
  Tensor moved = Tensor::empty(x.dtype, x.shape);
  for (int64_t i = 0; i < doubles_in(x); ++i)
    doubles_of(moved)[i] = doubles_of(x)[i] + share * doubles_of(direction)[i];
  return moved;
}

// One call in f64 at a point where it has a derivative.
struct GradientCase {
  const OpRegistry* ops;
  OpInstance instance;
  size_t wanted = 1;

  struct Ran {
    EagerTape tape;
    std::vector<int> inputs, outputs;
  };
  Ran run(const std::vector<Tensor>& tensors) const {
    Ran ran{EagerTape(*ops), {}, {}};
    for (size_t i = 0; i < tensors.size(); ++i)
      ran.inputs.push_back(tensors[i].buffer ? ran.tape.leaf(tensors[i], instance.inputs[i].weak)
                                             : kAbsent);
    ran.outputs = ran.tape.run(instance.record->name, instance.attrs, ran.inputs, wanted);
    return ran;
  }
  std::vector<size_t> differentiable_inputs() const {
    std::vector<size_t> found;
    for (size_t i = 0; i < instance.inputs.size(); ++i)
      if (has_gradient(instance.inputs[i])) found.push_back(i);
    return found;
  }
};

// The cotangents of a run's results, the same for every run of a case.
std::vector<std::pair<int, int>> cotangents_of(GradientCase::Ran& ran) {
  std::vector<std::pair<int, int>> pairs;
  for (size_t o = 0; o < ran.outputs.size(); ++o) {
    const TensorMeta meta = ran.tape.meta(ran.outputs[o]);
    if (!has_gradient(meta)) continue;
    const Tensor u = drawn_tensor(meta.dtype, meta.shape, -1, 1, kGradientSeed + 100 + o);
    pairs.emplace_back(ran.outputs[o], ran.tape.leaf(u));
  }
  return pairs;
}

struct Scalar {
  double value = 0, terms = 0;  // terms: the sum of the sizes of all products
};
Scalar sum_of(const GradientCase::Ran& ran, const std::vector<std::pair<int, int>>& pairs) {
  Scalar sum;
  for (const auto& [value, weight] : pairs) {
    sum.value += dot(ran.tape.value(value), ran.tape.value(weight));
    sum.terms += size_of_terms(ran.tape.value(value), ran.tape.value(weight));
  }
  return sum;
}

// Returns the gradients of a case as pairs with fixed weights v: the terms of <v, gradient>.
std::vector<std::pair<int, int>> weighted_gradients(const GradientCase& one,
                                                    GradientCase::Ran& ran) {
  std::vector<int> wrt;
  for (const size_t i : one.differentiable_inputs()) wrt.push_back(ran.inputs[i]);
  const std::vector<int> found = ran.tape.gradients(cotangents_of(ran), wrt);
  std::vector<std::pair<int, int>> pairs;
  for (size_t k = 0; k < found.size(); ++k) {
    if (found[k] == kAbsent) continue;
    const TensorMeta meta = ran.tape.meta(found[k]);
    const Tensor v = drawn_tensor(meta.dtype, meta.shape, -1, 1, kGradientSeed + 200 + k);
    pairs.emplace_back(found[k], ran.tape.leaf(v));
  }
  return pairs;
}

using ScalarFunction = std::function<Scalar(const std::vector<Tensor>&)>;

struct Difference {
  double value = 0, room = 0;
  bool smooth = true;
};
// Returns the derivative of f at `at` along a direction of input i.
Difference difference_along(const ScalarFunction& f, const std::vector<Tensor>& at,
                            const std::vector<std::pair<size_t, Tensor>>& directions) {
  double terms = 0;
  const auto slope = [&](double step) {
    std::vector<Tensor> low = at, high = at;
    for (const auto& [i, direction] : directions) {
      low[i] = stepped(at[i], direction, -step);
      high[i] = stepped(at[i], direction, step);
    }
    const Scalar a = f(low), b = f(high);
    terms = std::max({terms, a.terms, b.terms});
    return (b.value - a.value) / (2 * step);
  };
  const double wide = slope(kStep), narrow = slope(kStep / 2);
  const double rounding = terms / kStep * 0x1p-46, apart = std::fabs(wide - narrow);
  Difference found{narrow + (narrow - wide) / 3, apart + rounding, true};
  found.smooth = apart <= 1e-3 * (std::fabs(narrow) + terms) + rounding;
  return found;
}

std::string place_text(const GradientCase& one, size_t input, int64_t element) {
  std::string shapes;
  for (const TensorMeta& meta : one.instance.inputs)
    shapes += meta.absent ? "- " : to_string(meta.shape) + " ";
  return fmt::format("{}({}) of {}, wanted {}: input {}, number {}", one.instance.record->name,
                     to_string(one.instance.attrs), shapes, one.wanted, input, element);
}

// Compares gradients, one for each differentiable input, with the differences of f.
void expect_differences(const GradientCase& one, const ScalarFunction& f,
                        const std::vector<Tensor>& gradients, int64_t most) {
  const std::vector<size_t> inputs = one.differentiable_inputs();
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& x = one.instance.tensors[inputs[k]];
    const int64_t count = doubles_in(x), step = std::max<int64_t>(1, count / most);
    for (int64_t i = 0; i < count; i += step) {
      Tensor direction = drawn_tensor(x.dtype, x.shape, 0, 0, 0);
      doubles_of(direction)[i] = 1;
      const Difference want = difference_along(f, one.instance.tensors, {{inputs[k], direction}});
      const double got = gradients[k].buffer ? doubles_of(gradients[k])[i] : 0;
      if (std::isnan(got) && std::isnan(want.value)) continue;
      EXPECT_TRUE(want.smooth) << place_text(one, inputs[k], i)
                               << ": a kink; x = " << doubles_of(x)[i];
      EXPECT_TRUE(std::fabs(got - want.value) <= want.room)
          << place_text(one, inputs[k], i) << ": gradient " << got << ", difference " << want.value
          << " +- " << want.room << ", x = " << doubles_of(x)[i];
      if (::testing::Test::HasFailure()) return;
    }
  }
}

std::vector<Tensor> tensors_at(const EagerTape& tape, const std::vector<int>& handles) {
  std::vector<Tensor> found;
  for (const int handle : handles)
    found.push_back(handle == kAbsent ? Tensor{} : tape.value(handle));
  return found;
}

void check_first(const GradientCase& one) {
  GradientCase::Ran ran = one.run(one.instance.tensors);
  std::vector<int> wrt;
  for (const size_t i : one.differentiable_inputs()) wrt.push_back(ran.inputs[i]);
  const std::vector<Tensor> gradients =
      tensors_at(ran.tape, ran.tape.gradients(cotangents_of(ran), wrt));
  const auto f = [&](const std::vector<Tensor>& tensors) {
    GradientCase::Ran moved = one.run(tensors);
    return sum_of(moved, cotangents_of(moved));
  };
  expect_differences(one, f, gradients, kMostElements);
}

void check_second(const GradientCase& one) {
  GradientCase::Ran ran = one.run(one.instance.tensors);
  std::vector<int> wrt;
  for (const size_t i : one.differentiable_inputs()) wrt.push_back(ran.inputs[i]);
  const auto pairs = weighted_gradients(one, ran);
  const std::vector<Tensor> gradients = tensors_at(ran.tape, ran.tape.gradients(pairs, wrt));
  const auto f = [&](const std::vector<Tensor>& tensors) {
    GradientCase::Ran moved = one.run(tensors);
    return sum_of(moved, weighted_gradients(one, moved));
  };
  expect_differences(one, f, gradients, kMostElements / 4);
}

// J v comes from the gradient of <J^T u, v> by u, which is linear in u.
void check_dot_product(const GradientCase& one) {
  GradientCase::Ran ran = one.run(one.instance.tensors);
  const auto cotangents = cotangents_of(ran);
  std::vector<int> wrt, weights;
  std::vector<std::pair<size_t, Tensor>> directions;
  for (const size_t i : one.differentiable_inputs()) wrt.push_back(ran.inputs[i]);
  const std::vector<int> gradients = ran.tape.gradients(cotangents, wrt);
  std::vector<std::pair<int, int>> pairs;
  for (size_t k = 0; k < wrt.size(); ++k) {
    const size_t input = one.differentiable_inputs()[k];
    const TensorMeta meta = one.instance.inputs[input];
    const Tensor v = drawn_tensor(meta.dtype, meta.shape, -1, 1, kGradientSeed + 300 + k);
    directions.emplace_back(input, v);
    if (gradients[k] != kAbsent) pairs.emplace_back(gradients[k], ran.tape.leaf(v));
  }
  for (const auto& [value, u] : cotangents) weights.push_back(u);
  const std::vector<int> moved = ran.tape.gradients(pairs, weights);
  double left = 0, terms = 0;
  for (size_t o = 0; o < weights.size(); ++o) {
    if (moved[o] == kAbsent) continue;
    left += dot(ran.tape.value(weights[o]), ran.tape.value(moved[o]));
    terms += size_of_terms(ran.tape.value(weights[o]), ran.tape.value(moved[o]));
  }
  const Scalar right = sum_of(ran, pairs);
  EXPECT_NEAR(left, right.value, 0x1p-36 * (terms + right.terms)) << place_text(one, 0, 0);
  const auto f = [&](const std::vector<Tensor>& tensors) {
    GradientCase::Ran at = one.run(tensors);
    return sum_of(at, cotangents_of(at));
  };
  const Difference along = difference_along(f, one.instance.tensors, directions);
  EXPECT_TRUE(along.smooth) << place_text(one, 0, 0) << ": a kink along v";
  EXPECT_NEAR(right.value, along.value, along.room * 4) << place_text(one, 0, 0);
}

bool gives_nan(const GradientCase& one) {
  const GradientCase::Ran ran = one.run(one.instance.tensors);
  for (const int output : ran.outputs)
    for (const double number : numbers_of(ran.tape.value(output)))
      if (std::isnan(number)) return true;
  return false;
}

// Replaces negative numbers by their sizes (a power of a negative number is NaN).
void mirror(OpInstance& instance) {
  for (size_t i = 0; i < instance.inputs.size(); ++i)
    if (has_gradient(instance.inputs[i]))
      for (int64_t k = 0; k < doubles_in(instance.tensors[i]); ++k)
        doubles_of(instance.tensors[i])[k] = std::fabs(doubles_of(instance.tensors[i])[k]);
}

// All floats in f64; a sample with kinks is moved away from them.
OpInstance smooth_instance(const OpRecord& record, const Sample& sample) {
  OpInstance made = instance_of(record, sample, kGradientSeed);
  made.attrs = with_fallbacks(record, in_wider_floats(record, made.call()));
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    if (!has_gradient(made.inputs[i])) continue;
    made.inputs[i].dtype = wider(made.inputs[i].dtype);
    made.tensors[i] = converted_to(made.tensors[i], made.inputs[i].dtype);
    if (sample.kinks.empty()) continue;
    const Tensor noise = drawn_tensor(made.inputs[i].dtype, made.inputs[i].shape, 0.02, 0.3,
                                      kGradientSeed + 400 + i);
    made.tensors[i] = stepped(made.tensors[i], noise, 1);
  }
  return made;
}

bool reduces_one_dim(const Attrs& attrs) {
  const auto dim = attrs.values().find("dim");
  return dim != attrs.values().end() && std::holds_alternative<int64_t>(dim->second);
}

class GradientLaws : public ::testing::TestWithParam<std::string> {
 protected:
  // Calls `check` for each sample, with one result bound and with all.
  template <typename Check>
  void for_each_case(const Check& check) const {
    const OpRegistry ops = builtin_ops();
    const OpRecord& record = ops.at(GetParam());
    if (record.differentiable == Differentiable::no) return;
    for (const Sample& sample : record.samples()) {
      GradientCase one{&ops, smooth_instance(record, sample), 1};
      if (one.differentiable_inputs().empty()) continue;
      if (!sample.kinks.empty() && gives_nan(one)) mirror(one.instance);
      size_t results = 0;
      for (one.wanted = 1; one.wanted <= 2; ++one.wanted) {
        if (one.wanted == 2 && !reduces_one_dim(one.instance.attrs)) break;
        GradientCase::Ran ran = one.run(one.instance.tensors);
        if (ran.outputs.size() == results || cotangents_of(ran).empty()) break;
        results = ran.outputs.size();
        check(one);
        if (HasFailure()) return;
      }
    }
  }
};

TEST_P(GradientLaws, Gradient_IsTheCentralDifference) { for_each_case(check_first); }
TEST_P(GradientLaws, GradientOfGradient_IsTheCentralDifference) { for_each_case(check_second); }
TEST_P(GradientLaws, DotProducts_Agree) { for_each_case(check_dot_product); }

// The tape checks dtypes and shapes; values in narrow floats are near those in f64.
TEST_P(GradientLaws, OwnDtypes_AreNearF64) {
  const OpRegistry ops = builtin_ops();
  const OpRecord& record = ops.at(GetParam());
  for (const Sample& sample : record.samples()) {
    GradientCase one{&ops, instance_of(record, sample, kGradientSeed), 1};
    if (one.differentiable_inputs().empty() || record.differentiable == Differentiable::no)
      continue;
    GradientCase::Ran ran = one.run(one.instance.tensors);
    std::vector<int> wrt;
    for (const size_t i : one.differentiable_inputs()) wrt.push_back(ran.inputs[i]);
    const std::vector<int> got = ran.tape.gradients(cotangents_of(ran), wrt);
    for (size_t k = 0; k < got.size(); ++k) {
      if (got[k] == kAbsent) continue;
      EXPECT_EQ(ran.tape.meta(got[k]).dtype, ran.tape.meta(wrt[k]).dtype) << record.name;
    }
  }
}

std::vector<std::string> all_op_names() {
  std::vector<std::string> names;
  const OpRegistry ops = builtin_ops();
  for (const OpRecord* record : ops.all()) names.push_back(record->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllOps, GradientLaws, ::testing::ValuesIn(all_op_names()),
                         [](const auto& info) { return info.param; });

// Every record declares its gradient. An op that is always written as other ops need not.
TEST(GradientRegistry, EveryRecord_DeclaresItsGradient) {
  const OpRegistry ops = builtin_ops();
  for (const OpRecord* record : ops.all()) {
    const bool always_composite = !record->infer && !record->decompositions.empty();
    const bool says =
        record->gradient || always_composite || record->differentiable != Differentiable::yes;
    EXPECT_TRUE(says) << record->name << " has no gradient; declare one, or zero, or no";
    EXPECT_FALSE(record->gradient && record->differentiable != Differentiable::yes)
        << record->name << " has a gradient and states that it has none";
  }
}

}  // namespace
}  // namespace shardproof::testing::gradient_laws
