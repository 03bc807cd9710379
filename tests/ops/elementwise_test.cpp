// Tests elementwise kernels against plain formulas in double, on every dtype, within a few units in
// the last place of the compute dtype. Strided, broadcast and many-lane calls are compared with
// dense calls of one element.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/float_math.h"
#include "shardproof/tests/ops/op_case.h"

namespace shardproof::testing::elementwise_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
const DType kFloatTypes[] = {DType::f64,  DType::f32,    DType::f16,
                             DType::bf16, DType::f8e5m2, DType::f8e4m3};
const DType kWholeTypes[] = {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8};

Tensor run_op(const std::string& name, const std::vector<Tensor>& inputs, Attrs attrs = {}) {
  return OpCase(name, inputs, std::move(attrs)).run();
}

// The accuracy of an op in units in the last place of its compute dtype. Units are those of the
// result, or those of the operand if the result is a small difference.
struct Precision {
  double units = 0;  // 0: the result is rounded once, to its dtype
  bool of_operand = false;
};

void expect_near(const std::string& name, const std::vector<Tensor>& inputs,
                 const std::vector<double>& expected, Precision precision, Attrs attrs = {}) {
  const Tensor got = run_op(name, inputs, std::move(attrs));
  const std::vector<double> values = values_of(got), operands = values_of(inputs[0]);
  ASSERT_EQ(values.size(), expected.size());
  const DType compute = is_floating(got.dtype) ? compute_dtype(got.dtype) : got.dtype;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(values[i])) continue;
    if (std::fabs(expected[i]) > max_finite(got.dtype)) continue;  // overflow is not compared
    const double size = std::fabs(precision.of_operand ? operands[i] : expected[i]);
    // The formula in double rounds too.
    double room = 1e-15 * std::fabs(expected[i]);
    if (precision.units > 0) room += precision.units * unit_in_last_place(compute, size);
    if (compute != got.dtype || precision.units == 0)
      room += is_floating(got.dtype) ? unit_in_last_place(got.dtype, expected[i]) / 2 : 0;
    EXPECT_LE(std::fabs(values[i] - expected[i]), room)
        << name << " of " << shardproof::name(inputs[0].dtype) << " element " << i << ": "
        << values[i] << " for " << expected[i] << " at " << operands[i];
  }
}

using Formula = std::function<double(double)>;
struct UnaryCase {
  const char* name;
  const char* fill;
  Precision precision;
  Formula formula;
};
const std::vector<UnaryCase>& unary_cases() {
  static const std::vector<UnaryCase> cases = {
      {"neg", "uniform(-9, 9)", {}, [](double x) { return -x; }},
      {"abs", "uniform(-9, 9)", {}, [](double x) { return std::fabs(x); }},
      {"exp", "uniform(-9, 9)", {4}, [](double x) { return std::exp(x); }},
      {"log", "uniform(0.01, 9)", {4}, [](double x) { return std::log(x); }},
      {"sqrt", "uniform(0, 9)", {1}, [](double x) { return std::sqrt(x); }},
      {"rsqrt", "uniform(0.01, 9)", {4}, [](double x) { return 1 / std::sqrt(x); }},
      {"square", "uniform(-9, 9)", {1}, [](double x) { return x * x; }},
      {"reciprocal", "uniform(0.1, 9)", {2}, [](double x) { return 1 / x; }},
      {"sin", "uniform(-9, 9)", {4}, [](double x) { return std::sin(x); }},
      {"cos", "uniform(-9, 9)", {4}, [](double x) { return std::cos(x); }},
      {"tanh", "uniform(-9, 9)", {8}, [](double x) { return std::tanh(x); }},
      {"erf", "uniform(-5, 5)", {8}, [](double x) { return std::erf(x); }},
      {"sigmoid", "uniform(-9, 9)", {8}, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"relu", "uniform(-9, 9)", {}, [](double x) { return x > 0 ? x : 0; }},
      {"gelu",
       "uniform(-6, 6)",
       {8, true},
       [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"silu", "uniform(-9, 9)", {8}, [](double x) { return x / (1 + std::exp(-x)); }},
      {"softplus", "uniform(-9, 9)", {4}, [](double x) { return std::log1p(std::exp(x)); }},
      {"floor", "uniform(-9, 9)", {}, [](double x) { return std::floor(x); }},
      {"ceil", "uniform(-9, 9)", {}, [](double x) { return std::ceil(x); }},
      {"round", "uniform(-9, 9)", {}, [](double x) { return std::nearbyint(x); }},
      {"trunc", "uniform(-9, 9)", {}, [](double x) { return std::trunc(x); }},
      {"sign", "ints", {}, [](double x) { return x > 0   ? 1.0
                                                 : x < 0 ? -1.0
                                                         : 0.0; }},
      {"isnan", "ints", {}, [](double) { return 0.0; }},
      {"isinf", "ints", {}, [](double) { return 0.0; }},
      {"logical_not", "ints", {}, [](double x) { return x == 0 ? 1.0 : 0.0; }},
  };
  return cases;
}

TEST(Unary, EveryFloatType_AgreesWithItsFormula) {
  for (const UnaryCase& c : unary_cases())
    for (const DType dtype : kFloatTypes) {
      const Tensor x = filled_by(c.fill, dtype, {37, 41}, 3);
      std::vector<double> expected;
      for (const double v : values_of(x)) expected.push_back(c.formula(v));
      expect_near(c.name, {x}, expected, c.precision);
    }
}

TEST(Unary, GeluOfTanhForm_AgreesWithItsFormula) {
  const Tensor x = filled_by("uniform(-6, 6)", DType::f32, {500}, 3);
  std::vector<double> expected;
  for (const double v : values_of(x))
    expected.push_back(0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))));
  expect_near("gelu", {x}, expected, {12, true}, {{"approximate", std::string("tanh")}});
}

TEST(Unary, Integers_StayOrBecomeTheDefaultFloat) {
  for (const DType dtype : kWholeTypes) {
    const Tensor x = tensor_of(dtype, {4}, {0, 1, 2, 5});
    EXPECT_EQ(run_op("neg", {x}).dtype, dtype);
    EXPECT_EQ(values_of(run_op("square", {x})), (std::vector<double>{0, 1, 4, 25}));
    EXPECT_EQ(values_of(run_op("relu", {x})), (std::vector<double>{0, 1, 2, 5}));
    EXPECT_EQ(run_op("exp", {x}).dtype, DType::f32);
    EXPECT_EQ(run_op("isnan", {x}).dtype, DType::boolean);
  }
  EXPECT_EQ(values_of(run_op("neg", {tensor_of(DType::u8, {2}, {0, 3})})),
            (std::vector<double>{0, 253}));
  EXPECT_EQ(values_of(run_op("abs", {tensor_of(DType::i8, {2}, {-128, -3})})),
            (std::vector<double>{-128, 3}));
  EXPECT_THROW(run_op("neg", {tensor_of(DType::boolean, {1}, {1})}), Error);
}

TEST(Unary, NanAndInfinity_PassThrough) {
  for (const char* name :
       {"relu", "exp", "log", "tanh", "erf", "gelu", "sigmoid", "silu", "floor", "sqrt", "abs"}) {
    const Tensor y = run_op(name, {tensor_of(DType::f32, {1}, {kNan})});
    EXPECT_TRUE(std::isnan(values_of(y)[0])) << name;
  }
  auto at = [](const char* name, double x) {
    return values_of(run_op(name, {tensor_of(DType::f32, {1}, {x})}))[0];
  };
  EXPECT_EQ(at("sign", kNan), 0);  // torch gives 0 too
  EXPECT_EQ(at("exp", kInf), kInf);
  EXPECT_EQ(at("exp", -kInf), 0);
  EXPECT_EQ(at("exp", 89), kInf);
  EXPECT_EQ(at("exp", -200), 0);
  EXPECT_EQ(at("log", 0), -kInf);
  EXPECT_EQ(at("log", kInf), kInf);
  EXPECT_TRUE(std::isnan(at("log", -1)));
  EXPECT_EQ(at("tanh", kInf), 1);
  EXPECT_EQ(at("tanh", -kInf), -1);
  EXPECT_EQ(at("erf", -kInf), -1);
  EXPECT_EQ(at("sigmoid", -kInf), 0);
  EXPECT_EQ(at("sigmoid", kInf), 1);
  EXPECT_EQ(at("isinf", -kInf), 1);
  EXPECT_EQ(at("isnan", kNan), 1);
}

// Returns the distance in units of the last place of the f32 result.
double ulps(float got, double want) {
  const auto rounded = static_cast<float>(want);
  if (got == rounded) return 0;
  const double step = std::fabs(static_cast<double>(std::nextafter(rounded, HUGE_VALF)) - rounded);
  return std::fabs(got - want) / step;
}

TEST(FloatMath, ExpLogTanhErf_StayWithinAFewUnits) {
  double worst_exp = 0, worst_log = 0, worst_tanh = 0, worst_erf = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    const double t = i / 2e6;
    const auto e = static_cast<float>(-103 + 191.7 * t);
    worst_exp = std::max(worst_exp, ulps(exp_of(e), std::exp(static_cast<double>(e))));
    const auto l = static_cast<float>(std::exp2(-140 + 267 * t));
    worst_log = std::max(worst_log, ulps(log_of(l), std::log(static_cast<double>(l))));
    const auto s = static_cast<float>(-10 + 20 * t);
    worst_tanh = std::max(worst_tanh, ulps(tanh_of(s), std::tanh(static_cast<double>(s))));
    worst_erf = std::max(worst_erf, ulps(erf_of(s), std::erf(static_cast<double>(s))));
  }
  RecordProperty("exp", std::to_string(worst_exp));
  EXPECT_LE(worst_exp, 4);
  EXPECT_LE(worst_log, 4);
  EXPECT_LE(worst_tanh, 8);
  EXPECT_LE(worst_erf, 8);
}

struct BinaryCase {
  const char* name;
  const char* second;
  std::function<double(double, double)> formula;
};
double floored(double a, double b) { return std::floor(a / b); }
double floored_rest(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
const std::vector<BinaryCase>& binary_cases() {
  static const std::vector<BinaryCase> cases = {
      {"add", "ints", [](double a, double b) { return a + b; }},
      {"sub", "ints", [](double a, double b) { return a - b; }},
      {"mul", "ints", [](double a, double b) { return a * b; }},
      {"floordiv", "ints(1, 5)", floored},
      {"remainder", "ints(1, 5)", floored_rest},
      {"maximum", "ints", [](double a, double b) { return std::max(a, b); }},
      {"minimum", "ints", [](double a, double b) { return std::min(a, b); }},
      {"eq", "ints", [](double a, double b) { return a == b; }},
      {"ne", "ints", [](double a, double b) { return a != b; }},
      {"lt", "ints", [](double a, double b) { return a < b; }},
      {"le", "ints", [](double a, double b) { return a <= b; }},
      {"gt", "ints", [](double a, double b) { return a > b; }},
      {"ge", "ints", [](double a, double b) { return a >= b; }},
      {"logical_and", "ints", [](double a, double b) { return a != 0 && b != 0; }},
      {"logical_or", "ints", [](double a, double b) { return a != 0 || b != 0; }},
      {"logical_xor", "ints", [](double a, double b) { return (a != 0) != (b != 0); }},
  };
  return cases;
}

// Whole numbers give results that are rounded once at most, so they must be bit-equal; u8 wraps.
TEST(Binary, EveryType_AgreesWithItsFormula) {
  for (const BinaryCase& c : binary_cases()) {
    std::vector<DType> dtypes(std::begin(kFloatTypes), std::end(kFloatTypes));
    dtypes.insert(dtypes.end(), std::begin(kWholeTypes), std::end(kWholeTypes));
    for (const DType dtype : dtypes) {
      const Tensor a = filled_by("ints", dtype, {13, 7}, 1), b = filled_by(c.second, dtype, {7}, 2);
      const std::vector<double> x = values_of(a), y = values_of(b),
                                got = values_of(run_op(c.name, {a, b}));
      for (size_t i = 0; i < x.size(); ++i) {
        double want = c.formula(x[i], y[i % 7]);
        if (dtype == DType::u8 && want < 0) want += 256;
        EXPECT_EQ(got[i], values_of(tensor_of(dtype, {1}, {want}))[0])
            << c.name << " " << name(dtype) << ": " << x[i] << ", " << y[i % 7];
      }
    }
  }
}

TEST(Binary, DivisionAndPowers_FollowPython) {
  for (const DType dtype : kFloatTypes) {
    const Tensor a = filled_by("uniform(0.5, 2)", dtype, {300}, 1),
                 b = filled_by("uniform(0.5, 2)", dtype, {300}, 2);
    const std::vector<double> x = values_of(a), y = values_of(b);
    std::vector<double> quotients, powers;
    for (size_t i = 0; i < x.size(); ++i) {
      quotients.push_back(x[i] / y[i]);
      powers.push_back(std::pow(x[i], y[i]));
    }
    expect_near("div", {a, b}, quotients, {1});
    expect_near("pow", {a, b}, powers, {8});
  }
  const Tensor seven = tensor_of(DType::i32, {2}, {7, -7}),
               two = tensor_of(DType::i32, {2}, {2, 2});
  EXPECT_EQ(run_op("div", {seven, two}).dtype, DType::f32);
  EXPECT_EQ(values_of(run_op("div", {seven, two})), (std::vector<double>{3.5, -3.5}));
  EXPECT_EQ(values_of(run_op("pow", {seven, two})), (std::vector<double>{49, 49}));
}

TEST(Binary, IntegersBeyondTheRange_Wrap) {
  const Tensor a = tensor_of(DType::i8, {3}, {127, -128, 100}),
               b = tensor_of(DType::i8, {3}, {1, -1, 2});
  EXPECT_EQ(values_of(run_op("add", {a, b})), (std::vector<double>{-128, 127, 102}));
  EXPECT_EQ(values_of(run_op("mul", {a, b})), (std::vector<double>{127, -128, -56}));
  EXPECT_EQ(values_of(run_op("floordiv", {a, b})), (std::vector<double>{127, -128, 50}));
}

TEST(Binary, MaximumAndMinimumOfNan_AreNan) {
  const Tensor a = tensor_of(DType::f32, {3}, {kNan, 1, 2}),
               b = tensor_of(DType::f32, {3}, {1, kNan, 3});
  for (const char* name : {"maximum", "minimum"}) {
    const std::vector<double> got = values_of(run_op(name, {a, b}));
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[1])) << name;
  }
}

TEST(Promotion, MixedDtypes_FollowTorch) {
  auto result = [](std::vector<TensorMeta> inputs) {
    return result_dtype(OpCall{nullptr, std::move(inputs)});
  };
  const TensorMeta whole{DType::i64, {}, true}, real{DType::f64, {}, true};
  EXPECT_EQ(result({{DType::i32, {3}}, real}), DType::f32);
  EXPECT_EQ(result({{DType::bf16, {3}}, whole}), DType::bf16);
  EXPECT_EQ(result({{DType::bf16, {3}}, real}), DType::bf16);
  EXPECT_EQ(result({{DType::boolean, {3}}, whole}), DType::i64);
  EXPECT_EQ(result({{DType::f16, {3}}, {DType::bf16, {3}}}), DType::f32);
  EXPECT_EQ(result({{DType::f32, {3}}, {DType::f64, {}}}), DType::f32);
  EXPECT_EQ(result({{DType::i32, {3}}, {DType::i64, {}}}), DType::i32);
  EXPECT_EQ(result({{DType::i32, {3}}, {DType::f64, {}}}), DType::f64);
  EXPECT_EQ(result({{DType::u8, {3}}, {DType::i8, {3}}}), DType::i16);
  EXPECT_EQ(result({{DType::f64, {3}}, {DType::c64, {}}}), DType::c128);
}

TEST(Where, TwoDtypes_ArePromoted) {
  const Tensor c = tensor_of(DType::boolean, {3, 1}, {1, 0, 1}),
               x = tensor_of(DType::i32, {2}, {5, 6}), y = tensor_of(DType::f32, {}, {0.5});
  const Tensor got = run_op("where", {c, x, y});
  EXPECT_EQ(got.dtype, DType::f32);
  EXPECT_EQ(values_of(got), (std::vector<double>{5, 6, 0.5, 0.5, 5, 6}));
}

// A transposed view, a broadcast row and a long inner dim give the results of dense copies. Tested
// for every pair of storage types for which the kernel stages its operands.
TEST(Engine, StridedOperands_EqualDenseOnes) {
  for (const DType a : {DType::f32, DType::bf16, DType::i32, DType::c64})
    for (const DType b : {DType::f32, DType::f16}) {
      Tensor x = filled_by("ints", a, {700, 3}, 1), y = filled_by("ints", b, {3, 700}, 2);
      Tensor turned = x;
      std::swap(turned.shape[0], turned.shape[1]);
      std::swap(turned.strides[0], turned.strides[1]);
      const Tensor got = run_op("add", {turned, y});
      EXPECT_TRUE(bit_equal(got, 0, run_op("add", {contiguous_copy(turned), y}), 0))
          << name(a) << name(b);
    }
}

}  // namespace
}  // namespace shardproof::testing::elementwise_test
