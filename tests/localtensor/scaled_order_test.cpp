// Tests reduction_order.h for scaled inputs: NCCL's orders multiply and add with one rounding.
#include <gtest/gtest.h>

#include <cmath>

#include "shardproof/tests/localtensor/ordered_call.h"

namespace shardproof::scaled_order_test {
namespace {

double narrow(DType dtype, double x) { return at(tensor(dtype, {x}), 0); }

// Exact in double: products of 16-bit floats have only a few bits more than their factors.
double multiply_and_add(DType dtype, double x, double scalar, double sum) {
  if (dtype == DType::f32) return std::fma(float(x), float(scalar), float(sum));
  if (dtype == DType::f64) return std::fma(x, scalar, sum);
  return narrow(dtype, x * scalar + sum);
}

Collective scaled(DType dtype, const char* order, const Reduction& reduction) {
  return all_reduce(9, dtype, 63, order, reduction);
}

// Returns values between 1/8 and 8 in size.
std::vector<Tensor> inputs_of(const Collective& call) {
  std::vector<Tensor> inputs;
  for (int64_t member = 0; member < call.group.size(); ++member) {
    std::vector<double> values;
    for (int64_t i = 0; i < call.count; ++i) {
      const double x = std::fmod(noise(member, i), 7.9);
      values.push_back(std::copysign(std::fabs(x) + 0.125, x));
    }
    inputs.push_back(tensor(call.dtype, values));
  }
  return inputs;
}

double round_and_add(DType dtype, double x, double scalar, double sum) {
  return narrow(dtype, sum + narrow(dtype, x * scalar));
}

// Folds element i over members in this order.
double folded(const std::vector<Tensor>& inputs, int64_t i, double scalar,
              const std::vector<size_t>& members,
              double (*add)(DType, double, double, double) = multiply_and_add) {
  const DType dtype = inputs[0].dtype;
  double sum = narrow(dtype, at(inputs[members[0]], i) * scalar);
  for (size_t k = 1; k < members.size(); ++k)
    sum = add(dtype, at(inputs[members[k]], i), scalar, sum);
  return sum;
}

constexpr DType kFused[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

TEST(ScaledOrder, ProductsAreRoundedWithTheSum) {
  for (const DType dtype : kFused)
    for (const Reduction& reduction : {Reduction{ReduceOp::avg, 0}, {ReduceOp::premul_sum, 0.1}}) {
      const double scalar =
          narrow(dtype, reduction.op == ReduceOp::avg ? 1.0 / 9 : reduction.scalar);
      const Collective call = scaled(dtype, "ring", reduction);
      const std::vector<Tensor> inputs = inputs_of(call);
      const auto sums = reference(call, inputs);
      int64_t apart = 0;
      for (int64_t i = 0; i < 7; ++i) {  // the first chunk ends at member 0
        const std::vector<size_t> members{1, 2, 3, 4, 5, 6, 7, 8, 0};
        const double sum = folded(inputs, i, scalar, members);
        EXPECT_EQ(at(*sums[0], i), sum) << name(dtype);
        apart += sum != folded(inputs, i, scalar, members, round_and_add);
      }
      EXPECT_GT(apart, 0) << name(dtype);
    }
}

// Root 0 has the child 2, which has the child 1. Each node multiplies its own elements and adds
// them to the result of its first child, with one rounding for both. Then it adds the second child.
TEST(ScaledOrder, TreeNode_ScalesItsOwnIntoItsFirstChild) {
  for (const DType dtype : kFused) {
    const Reduction reduction{ReduceOp::premul_sum, narrow(dtype, 0.1)};
    Collective call = scaled(dtype, "tree(nodes=3)", reduction);
    call.group = Group::world(3);
    const std::vector<Tensor> inputs = inputs_of(call);
    const auto sums = reference(call, inputs);
    for (int64_t i = 0; i < call.count; ++i)
      EXPECT_EQ(at(*sums[0], i), folded(inputs, i, reduction.scalar, {1, 2, 0})) << name(dtype);
    call.group = Group::world(4);
    call.schedule = parse_reduction_schedule("tree(nodes=4)");
    const std::vector<Tensor> four = inputs_of(call);
    const auto wider = reference(call, four);
    for (int64_t i = 0; i < call.count; ++i) {
      const double third = narrow(dtype, at(four[3], i) * reduction.scalar);
      const double inner = narrow(dtype, folded(four, i, reduction.scalar, {1, 2}) + third);
      EXPECT_EQ(at(*wider[0], i), multiply_and_add(dtype, at(four[0], i), reduction.scalar, inner))
          << name(dtype);
    }
  }
}

// 9 * 29 is halfway between 260 and 262 in bf16; the term that decides is lost in a double.
TEST(ScaledOrder, FusedProduct_DiffersFromTwoRoundings) {
  for (const double sign : {1.0, -1.0}) {
    const Collective call = all_reduce(2, DType::bf16, 1, "ring", {ReduceOp::premul_sum, 29});
    const Tensor nine = tensor(DType::bf16, {9}), tiny = tensor(DType::bf16, {sign * 1e-30});
    EXPECT_EQ(at(*reference(call, {nine, tiny})[0], 0), sign > 0 ? 262 : 260);
  }
}

TEST(ScaledOrder, ProductsOfSmallFloatsAreRounded) {
  const Reduction reduction{ReduceOp::premul_sum, 0.375};
  const Collective call = scaled(DType::f8e4m3, "ring", reduction);
  const std::vector<Tensor> inputs = inputs_of(call);
  const auto sums = reference(call, inputs);
  const std::vector<size_t> members{1, 2, 3, 4, 5, 6, 7, 8, 0};
  for (int64_t i = 0; i < 7; ++i)
    EXPECT_EQ(at(*sums[0], i), folded(inputs, i, 0.375, members, round_and_add));
}

}  // namespace
}  // namespace shardproof::scaled_order_test
