// Tests of contractions as matrix products: a plan gives the contraction's numbers, and every
// product of matrices with a matrix layout is planned.
#include <gtest/gtest.h>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/ops/cuda/gemm_from_contraction.h"

namespace shardproof::testing {
namespace {

// Acts as the library: computes a call in f64.
double element(const GemmMatrix& matrix, int64_t product, int64_t row, int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  const auto* start = reinterpret_cast<const double*>(matrix.start);
  return start[product * matrix.batch_stride + row + column * matrix.leading];
}

void multiply(const GemmCall& call) {
  auto* result = reinterpret_cast<double*>(call.result);
  const auto* bias = reinterpret_cast<const double*>(call.bias);
  for (int64_t p = 0; p < call.batch; ++p)
    for (int64_t j = 0; j < call.columns; ++j)
      for (int64_t i = 0; i < call.rows; ++i) {
        double sum = bias == nullptr ? 0 : bias[i];
        for (int64_t k = 0; k < call.depth; ++k)
          sum += call.alpha * element(call.a, p, i, k) * element(call.b, p, k, j);
        result[p * call.batch_stride + i + j * call.leading] = sum;
      }
}

enum class Lies { by_rows, by_columns, with_gaps };

// `products` matrices of whole numbers, one below the other or, by columns, with rows apart.
struct Operand {
  std::vector<double> numbers;
  LaneView view;

  Operand(const Dims& shape, Lies lies, uint64_t seed) {
    const int64_t padding = 3, rows = shape[1], columns = shape[2];
    const int64_t gap = lies == Lies::with_gaps ? 2 : 1;
    const bool by_columns = lies == Lies::by_columns;
    const int64_t leading = (by_columns ? rows : columns) * gap + padding;
    const int64_t each = (by_columns ? columns : rows) * leading;
    const Rng rng(seed, 7);
    for (int64_t i = 0; i < shape[0] * each; ++i)
      numbers.push_back(static_cast<double>(rng.integer(static_cast<uint64_t>(i), -4, 5)));
    view.base = reinterpret_cast<std::byte*>(numbers.data());
    view.dtype = DType::f64;
    view.shape = shape;
    view.strides = by_columns ? Dims{each, 1, leading} : Dims{each, leading, gap};
  }
  Operand(const Operand&) = delete;
  double at(int64_t p, int64_t i, int64_t j) const {
    return numbers[static_cast<size_t>(p * view.strides[0] + i * view.strides[1] +
                                       j * view.strides[2])];
  }
};

struct Sizes {
  int64_t products, rows, columns, depth;
};

ContractionPlan plan_of(const Sizes& s) {
  ContractionPlan plan;
  plan.letters = {{s.products, {0}, {0}, 0},
                  {s.rows, {1}, {}, 1},
                  {s.columns, {}, {2}, 2},
                  {s.depth, {2}, {1}, -1}};
  plan.compute = DType::f64;
  return plan;
}

// Computes the plan and compares it with three loops. Returns true if there was a plan.
bool agrees(const Sizes& s, Lies a_lies, Lies b_lies, uint64_t seed, double alpha) {
  const Operand a({s.products, s.rows, s.depth}, a_lies, seed);
  const Operand b({s.products, s.depth, s.columns}, b_lies, seed + 1);
  const Operand bias({1, 1, s.columns}, Lies::by_rows, seed + 2);
  std::vector<double> found(static_cast<size_t>(s.products * s.rows * s.columns), -1);
  LaneView out = a.view;
  out.base = reinterpret_cast<std::byte*>(found.data());
  out.shape = {s.products, s.rows, s.columns};
  out.strides = contiguous_strides(out.shape);
  ContractionPlan plan = plan_of(s);
  plan.bias = {true, {s.columns}, DType::f64, alpha, 1};
  plan.bias_input = 2;
  LaneView bias_view = bias.view;
  bias_view.shape = {s.columns};
  bias_view.strides = {1};
  const std::vector<LaneView> inputs{a.view, b.view, bias_view}, outputs{out};
  KernelCall call;
  call.inputs = &inputs;
  call.outputs = &outputs;
  const std::optional<GemmCall> product = plan_gemm(plan, call, 0);
  if (!product) return false;
  multiply(*product);
  size_t at = 0;
  for (int64_t p = 0; p < s.products; ++p)
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t j = 0; j < s.columns; ++j, ++at) {
        double expected = bias.at(0, 0, j);
        for (int64_t k = 0; k < s.depth; ++k) expected += alpha * a.at(p, i, k) * b.at(p, k, j);
        EXPECT_EQ(found[at], expected) << p << " " << i << " " << j;
      }
  return true;
}

TEST(PlanGemm, Plan_GivesContractionNumbers) {
  const Rng rng(3, 0);
  uint64_t draw = 0;
  for (uint64_t round = 0; round < 300; ++round) {
    const Sizes s{rng.integer(draw, 1, 4), rng.integer(draw + 1, 1, 5), rng.integer(draw + 2, 1, 5),
                  rng.integer(draw + 3, 1, 5)};
    const Lies a = rng.integer(draw + 4, 0, 2) == 0 ? Lies::by_rows : Lies::by_columns;
    const Lies b = rng.integer(draw + 5, 0, 2) == 0 ? Lies::by_rows : Lies::by_columns;
    const double alpha = static_cast<double>(rng.integer(draw + 6, 1, 3));
    draw += 7;
    EXPECT_TRUE(agrees(s, a, b, round, alpha))
        << s.products << " products, " << s.rows << "x" << s.depth << "x" << s.columns;
  }
}

TEST(PlanGemm, NoMatrixLayout_GivesNoPlan) {
  const Sizes sizes{2, 3, 4, 5};
  EXPECT_FALSE(agrees(sizes, Lies::with_gaps, Lies::by_rows, 1, 1));
  EXPECT_FALSE(agrees(sizes, Lies::by_rows, Lies::with_gaps, 1, 1));

  const Operand a({2, 3, 5}, Lies::by_rows, 1), b({2, 5, 4}, Lies::by_rows, 2);
  std::vector<double> room(24);
  LaneView out = a.view;
  out.base = reinterpret_cast<std::byte*>(room.data());
  out.shape = {2, 3, 4};
  out.strides = contiguous_strides(out.shape);
  std::vector<LaneView> inputs{a.view, b.view}, outputs{out};
  KernelCall call;
  call.inputs = &inputs;
  call.outputs = &outputs;
  ContractionPlan plan = plan_of(sizes);
  EXPECT_TRUE(plan_gemm(plan, call, 0));
  inputs[0].strides[2] = 0;  // one number, repeated
  EXPECT_FALSE(plan_gemm(plan, call, 0));
  inputs[0] = a.view;
  plan.compute = DType::f32;  // narrower than the inputs
  EXPECT_FALSE(plan_gemm(plan, call, 0));
  plan.compute = DType::f64;
  inputs[0].dtype = DType::f32;
  EXPECT_FALSE(plan_gemm(plan, call, 0));
  inputs[0].dtype = DType::f64;
  plan.letters[3].b = {1, 2};  // a diagonal
  plan.letters[2].b = {};
  EXPECT_FALSE(plan_gemm(plan, call, 0));
}

TEST(PlanGemm, Floats8Bit_SumsAreLeft) {
  std::vector<std::byte> room(16 * 16);
  LaneView view;
  view.base = room.data();
  view.dtype = DType::f8e4m3;
  view.shape = {1, 16, 16};
  view.strides = {256, 16, 1};
  std::vector<LaneView> inputs{view, view}, outputs{view};
  KernelCall call;
  call.inputs = &inputs;
  call.outputs = &outputs;
  ContractionPlan plan = plan_of({1, 16, 16, 16});
  plan.compute = DType::f32;
  const std::optional<GemmCall> product = plan_gemm(plan, call, 0);
  ASSERT_TRUE(product);
  EXPECT_TRUE(product->leaves_sums);
  EXPECT_EQ(product->leading, 16);
  for (LaneView* one : {&inputs[0], &inputs[1], &outputs[0]}) one->dtype = DType::f16;
  EXPECT_FALSE(plan_gemm(plan, call, 0)->leaves_sums);
}

}  // namespace
}  // namespace shardproof::testing
