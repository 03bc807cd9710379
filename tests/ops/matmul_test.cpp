// Tests products against a plain triple loop, and the law that a lane's bits depend only on its own
// inputs.
#include <cmath>

#include "shardproof/tests/ops/agreement.h"
#include "shardproof/tests/ops/op_case.h"

namespace shardproof::testing::matmul_test {
namespace {

// Returns c[m][n] = sum over k of a[m][k] b[k][n], in the order of k, in double.
std::vector<double> plain_product(const std::vector<double>& a, const std::vector<double>& b,
                                  int64_t rows, int64_t inner, int64_t columns) {
  std::vector<double> c(static_cast<size_t>(rows * columns));
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < columns; ++n)
      for (int64_t k = 0; k < inner; ++k)
        c[static_cast<size_t>(m * columns + n)] +=
            a[static_cast<size_t>(m * inner + k)] * b[static_cast<size_t>(k * columns + n)];
  return c;
}

struct Sizes {
  int64_t rows, inner, columns;
};
const Sizes kSizes[] = {{1, 1, 1},   {4, 8, 16},  {5, 3, 7}, {16, 256, 3}, {3, 1, 65}, {70, 9, 33},
                        {130, 5, 2}, {1, 300, 1}, {0, 3, 2}, {3, 0, 2},    {2, 3, 0}};

TEST(Matmul, ExactNumbers_EqualThePlainLoop) {
  for (DType dtype : {DType::f32, DType::f64, DType::i64, DType::i32, DType::c64, DType::c128}) {
    for (const Sizes& s : kSizes) {
      Tensor a = filled(dtype, {s.rows, s.inner}, 1), b = filled(dtype, {s.inner, s.columns}, 2);
      OpCase op("matmul", {a, b});
      auto expected = plain_product(values_of(a), values_of(b), s.rows, s.inner, s.columns);
      EXPECT_EQ(op.values(), expected) << name(dtype) << " " << s.rows << "x" << s.inner;
    }
  }
}

TEST(Matmul, NarrowFloats_AreRoundedOnce) {
  for (DType dtype : {DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2}) {
    Tensor a = filled(dtype, {9, 40}, 1), b = filled(dtype, {40, 11}, 2);
    auto exact = plain_product(values_of(a), values_of(b), 9, 40, 11);
    // The sums are multiples of 1/16 (1/64 in fp8) below 2^12. f32 holds them, so only the end
    // rounds.
    EXPECT_EQ(OpCase("matmul", {a, b}).values(), values_of(tensor_of(dtype, {9, 11}, exact)));
  }
}

TEST(Matmul, IntegersBeyondTheRange_Wrap) {
  Tensor a = tensor_of(DType::i8, {1, 2}, {100, 100}), b = tensor_of(DType::i8, {2, 1}, {2, 1});
  EXPECT_EQ(OpCase("matmul", {a, b}).values(), std::vector<double>{44});  // 300 - 256
}

TEST(Matmul, ComplexNumbers_MultiplyAsInTextbooks) {
  Tensor a = Tensor::empty(DType::c128, {1, 1}), b = Tensor::empty(DType::c128, {1, 1});
  *reinterpret_cast<C128*>(a.mutate()) = {1, 2};
  *reinterpret_cast<C128*>(b.mutate()) = {3, -1};
  Tensor c = OpCase("matmul", {a, b}).run();
  EXPECT_EQ(*reinterpret_cast<const C128*>(c.data()), C128(5, 5));
}

TEST(Matmul, VectorsAndBatches_FollowTorch) {
  auto shape = [](Dims a, Dims b) {
    return OpCase("matmul", {filled(DType::f32, a), filled(DType::f32, b)}).infer()[0].shape;
  };
  EXPECT_EQ(shape({3}, {3}), Dims{});
  EXPECT_EQ(shape({3}, {3, 2}), Dims{2});
  EXPECT_EQ(shape({5, 3}, {3}), Dims{5});
  EXPECT_EQ(shape({2, 5, 3}, {3}), (Dims{2, 5}));
  EXPECT_EQ(shape({4, 1, 5, 3}, {2, 3, 6}), (Dims{4, 2, 5, 6}));
}

TEST(Matmul, BatchOfOne_IsBroadcast) {
  Tensor a = filled(DType::f32, {2, 1, 3, 4}, 1), b = filled(DType::f32, {5, 4, 2}, 2);
  auto got = OpCase("matmul", {a, b}).values();
  auto left = values_of(a), right = values_of(b);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      std::vector<double> x(left.begin() + i * 12, left.begin() + i * 12 + 12);
      std::vector<double> y(right.begin() + j * 8, right.begin() + j * 8 + 8);
      auto at = got.begin() + (i * 5 + j) * 6;
      EXPECT_EQ(std::vector<double>(at, at + 6), plain_product(x, y, 3, 4, 2));
    }
  }
}

TEST(Matmul, Terms_AreAddedInAscendingOrder) {
  // 1 + 2^-24 + 2^-24: added from the left, each half ulp is lost; added from the right, both
  // count.
  Tensor a = tensor_of(DType::f32, {1, 3}, {1, std::ldexp(1, -24), std::ldexp(1, -24)});
  Tensor b = tensor_of(DType::f32, {3, 1}, {1, 1, 1});
  EXPECT_EQ(OpCase("matmul", {a, b}).values(), std::vector<double>{1});
  Tensor c = tensor_of(DType::f32, {1, 3}, {std::ldexp(1, -24), std::ldexp(1, -24), 1});
  EXPECT_EQ(OpCase("matmul", {c, b}).values(), std::vector<double>{1 + std::ldexp(1, -23)});
}

// Neither the number of lanes, nor which of them share an operand, changes a bit.
TEST(Matmul, LanesSharingOperands_ChangeNoBit) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32}) {
    for (int64_t columns : {1, 2, 3, 4, 8, 16, 21}) {
      const Dims b_shape{37, columns};
      std::vector<Tensor> a, b;
      for (int i = 0; i < 6; ++i) {
        // Thirds do not sum exactly, so the order of additions matters.
        Tensor left = filled(DType::f64, {7, 37}, i), right = filled(DType::f64, b_shape, i + 9);
        auto scale = [](Tensor x, DType to) {
          auto values = values_of(x);
          for (double& v : values) v = is_integral(to) ? v * 4 : v / 3;
          return tensor_of(to, x.shape, values);
        };
        a.push_back(scale(left, dtype));
        b.push_back(scale(right, dtype));
      }
      OpCase op("matmul", {a[0], b[0]});
      for (size_t copies_a : {1, 2, 6}) {
        for (size_t copies_b : {1, 3, 6}) {
          std::vector<Tensor> some_a(a.begin(), a.begin() + static_cast<int64_t>(copies_a));
          std::vector<Tensor> some_b(b.begin(), b.begin() + static_cast<int64_t>(copies_b));
          auto lanes = run_lanes(op.record(), op.call(), {some_a, some_b}, 6);
          for (size_t lane = 0; lane < 6; ++lane) {
            auto alone =
                run_lanes(op.record(), op.call(), {{a[lane % copies_a]}, {b[lane % copies_b]}}, 1);
            EXPECT_EQ(lanes[lane], alone[0]) << name(dtype) << " lane " << lane;
          }
        }
      }
    }
  }
}

// Sharding rows or columns changes no bit: an element's bits depend on its row and column only.
TEST(Matmul, ColumnAlone_EqualsTheColumnOfTheWhole) {
  auto thirds = [](Tensor x) {
    auto values = values_of(x);
    for (double& v : values) v /= 3;
    return values;
  };
  auto a = thirds(filled(DType::f32, {9, 50}, 1)), b = thirds(filled(DType::f32, {50, 19}, 2));
  Tensor left = tensor_of(DType::f32, {9, 50}, a);
  auto whole = OpCase("matmul", {left, tensor_of(DType::f32, {50, 19}, b)}).values();
  for (int64_t n = 0; n < 19; ++n) {
    std::vector<double> column;
    for (int64_t k = 0; k < 50; ++k) column.push_back(b[static_cast<size_t>(k * 19 + n)]);
    auto alone = OpCase("matmul", {left, tensor_of(DType::f32, {50, 1}, column)}).values();
    for (int64_t m = 0; m < 9; ++m)
      EXPECT_EQ(alone[static_cast<size_t>(m)], whole[static_cast<size_t>(m * 19 + n)]);
  }
}

TEST(Matmul, StridedOperands_AreReadInPlace) {
  Tensor a = filled(DType::f32, {5, 3}, 1), b = filled(DType::f32, {4, 3}, 2);
  Tensor turned = b;  // b.T as a view
  turned.shape = {3, 4};
  turned.strides = {1, 3};
  Tensor dense = contiguous_copy(turned);
  EXPECT_EQ(OpCase("matmul", {a, turned}).values(), OpCase("matmul", {a, dense}).values());
}

// Returns the product with each product and sum rounded to T, in the order of the summed index.
template <typename T>
std::vector<double> rounded_product(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = values_of(a), right = values_of(b);
  const int64_t rows = a.shape[0], inner = a.shape[1], columns = b.shape[1];
  std::vector<double> c;
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < columns; ++n) {
      T sum = 0;
      for (int64_t k = 0; k < inner; ++k)
        sum += static_cast<T>(left[static_cast<size_t>(m * inner + k)]) *
               static_cast<T>(right[static_cast<size_t>(k * columns + n)]);
      c.push_back(static_cast<double>(sum));
    }
  return c;
}

Tensor stored_by_columns(const Tensor& x) {
  Tensor turned = x;
  turned.shape = {x.shape[1], x.shape[0]};
  turned.strides = {1, x.shape[1]};
  Tensor stored = contiguous_copy(turned);
  stored.shape = x.shape;
  stored.strides = {1, x.shape[0]};
  return stored;
}

std::vector<double> rounded_product(DType dtype, const Tensor& a, const Tensor& b) {
  switch (dtype) {
    case DType::f32: return rounded_product<float>(a, b);
    case DType::i64: return rounded_product<int64_t>(a, b);
    default: return rounded_product<double>(a, b);
  }
}

// The layout of operands in memory and their packing change no bit.
TEST(Matmul, RowsAndColumnsInAnyOrderOfMemory_HaveTheBitsOfThePlainLoop) {
  const Sizes sizes[] = {{16, 130, 48}, {18, 70, 33}, {530, 16, 20}, {3, 5, 50},
                         {16, 67, 512}, {1, 9, 16},   {4, 1, 16},    {5, 600, 19}};
  for (const DType dtype : {DType::f32, DType::f64, DType::i64})
    for (const Sizes& s : sizes) {
      const auto thirds = [&](const Dims& shape, uint64_t seed) {
        std::vector<double> values = values_of(filled(DType::f64, shape, seed));
        for (double& v : values) v = is_integral(dtype) ? std::round(v * 100) : v / 3;
        return tensor_of(dtype, shape, values);
      };
      const Tensor a = thirds({s.rows, s.inner}, 1), b = thirds({s.inner, s.columns}, 2);
      const std::vector<double> expected = rounded_product(dtype, a, b);
      for (const Tensor& left : {a, stored_by_columns(a)})
        for (const Tensor& right : {b, stored_by_columns(b)})
          EXPECT_EQ(OpCase("matmul", {left, right}).values(), expected)
              << name(dtype) << " " << s.rows << "x" << s.inner << "x" << s.columns << " strides "
              << to_string(left.strides) << " " << to_string(right.strides);
    }
}

TEST(Matmul, WrongSizes_AreNamedInErrors) {
  auto error = [](Dims a, Dims b) {
    return OpCase("matmul", {filled(DType::f32, a), filled(DType::f32, b)}).error();
  };
  EXPECT_EQ(error({16, 64}, {256, 64}),
            "matmul([16, 64], [256, 64]): the inner sizes differ, 64 and 256");
  EXPECT_EQ(error({}, {3}), "matmul([], [3]): each input must have at least 1 dim");
  EXPECT_EQ(error({2, 3, 4}, {3, 4, 5}),
            "matmul([2, 3, 4], [3, 4, 5]): the batch sizes 2 and 3 do not broadcast");
  EXPECT_EQ(OpCase("matmul", {filled(DType::f32, {2, 2}), filled(DType::bf16, {2, 2})}).error(),
            "matmul([2, 2], [2, 2]): the dtypes differ, f32 and bf16; cast one");
}

// Each sum is within a few units of the sum of its terms' sizes.
TEST(Matmul, InexactNumbers_StayNearExactArithmetic) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    std::vector<double> a, b;
    for (int i = 0; i < 6 * 80; ++i) a.push_back(std::sin(i * 1.7));
    for (int i = 0; i < 80 * 5; ++i) b.push_back(std::cos(i * 0.9));
    const Tensor left = tensor_of(dtype, {6, 80}, a), right = tensor_of(dtype, {80, 5}, b);
    const auto got = OpCase("matmul", {left, right}).values();
    const auto x = values_of(left), y = values_of(right);
    for (size_t i = 0; i < got.size(); ++i) {
      long double sum = 0;
      double sizes = 0;
      for (size_t k = 0; k < 80; ++k) {
        const long double term = static_cast<long double>(x[i / 5 * 80 + k]) * y[k * 5 + i % 5];
        sum += term;
        sizes += std::fabs(static_cast<double>(term));
      }
      EXPECT_LE(std::fabs(static_cast<double>(got[i] - sum)), room_computed_in(dtype, sizes, 2));
    }
  }
}

TEST(Addmm, AlphaAndBeta_ScaleProductAndBias) {
  Tensor bias = filled(DType::f32, {7}, 3), a = filled(DType::f32, {5, 3}, 1),
         b = filled(DType::f32, {3, 7}, 2);
  auto got = OpCase("addmm", {bias, a, b}, {{"beta", 2.0}, {"alpha", -1.0}}).values();
  auto product = plain_product(values_of(a), values_of(b), 5, 3, 7);
  auto added = values_of(bias);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 2 * added[i % 7] - product[i]);
}

TEST(Addmm, BiasOfAPartialProduct_IsPartial) {
  OpCase op("addmm",
            {filled(DType::f32, {7}), filled(DType::f32, {5, 4}), filled(DType::f32, {4, 7})});
  int inner = 0;
  for (const Strategy& s : op.record().rule.strategies(op.call(), op.infer(), 2)) {
    if (!s.inputs[1].is_shard(1)) continue;
    ++inner;
    EXPECT_TRUE(s.inputs[0].is_partial());
    EXPECT_TRUE(s.outputs[0].is_partial());
  }
  EXPECT_EQ(inner, 1);
}

TEST(Linear, WeightAndBias_GiveTheTransposedProduct) {
  Tensor x = filled(DType::f32, {2, 5, 3}, 1), w = filled(DType::f32, {7, 3}, 2);
  auto got = OpCase("linear", {x, w}).without(2).values();
  auto left = values_of(x), right = values_of(w);
  for (size_t row = 0; row < 10; ++row)
    for (size_t n = 0; n < 7; ++n) {
      double sum = 0;
      for (size_t k = 0; k < 3; ++k) sum += left[row * 3 + k] * right[n * 3 + k];
      EXPECT_EQ(got[row * 7 + n], sum);
    }
}

TEST(Einsum, PermutationReductionAndChain_EqualPlainLoops) {
  Tensor a = filled(DType::f32, {4, 3, 2}, 1);
  auto x = values_of(a);
  auto equation = [](const char* text) { return Attrs{{"equation", std::string(text)}}; };
  auto sums = OpCase("einsum", {a}, equation("ijk->j")).values();
  for (size_t j = 0; j < 3; ++j) {
    double sum = 0;
    for (size_t i = 0; i < 4; ++i)
      for (size_t k = 0; k < 2; ++k) sum += x[(i * 3 + j) * 2 + k];
    EXPECT_EQ(sums[j], sum);
  }
  Tensor p = filled(DType::f64, {3, 4}, 2), q = filled(DType::f64, {4, 5}, 3),
         r = filled(DType::f64, {5, 2}, 4);
  auto pq = plain_product(values_of(p), values_of(q), 3, 4, 5);
  EXPECT_EQ(OpCase("einsum", {p, q, r}, equation("ab,bc,cd->ad")).values(),
            plain_product(pq, values_of(r), 3, 5, 2));
  Tensor square = filled(DType::f32, {3, 3}, 5);
  auto s = values_of(square);
  EXPECT_EQ(OpCase("einsum", {square}, equation("ii->i")).values(),
            (std::vector<double>{s[0], s[4], s[8]}));
  EXPECT_EQ(OpCase("einsum", {square}, equation("ij->ji")).values(),
            (std::vector<double>{s[0], s[3], s[6], s[1], s[4], s[7], s[2], s[5], s[8]}));
}

TEST(Einsum, HeadsOfAProjection_EqualMatmul) {
  Tensor x = filled(DType::f32, {2, 5, 3}, 1), w = filled(DType::f32, {3, 4, 2}, 2);
  auto got = OpCase("einsum", {x, w}, {{"equation", std::string("bsd,dhk->bhsk")}}).values();
  auto left = values_of(x), right = values_of(w);
  for (size_t b = 0, i = 0; b < 2; ++b)
    for (size_t h = 0; h < 4; ++h)
      for (size_t s = 0; s < 5; ++s)
        for (size_t k = 0; k < 2; ++k, ++i) {
          double sum = 0;
          for (size_t d = 0; d < 3; ++d)
            sum += left[(b * 5 + s) * 3 + d] * right[(d * 4 + h) * 2 + k];
          EXPECT_EQ(got[i], sum);
        }
}

TEST(Einsum, WrongLetters_AreNamedInErrors) {
  auto error = [](const char* text, Dims a, Dims b) {
    return OpCase("einsum", {filled(DType::f32, a), filled(DType::f32, b)},
                  {{"equation", std::string(text)}})
        .error();
  };
  EXPECT_EQ(error("ab,bc->ac", {2, 3}, {4, 5}),
            "einsum([2, 3], [4, 5]): letter 'b' has the sizes 3 and 4");
  EXPECT_EQ(error("ab,bc->ad", {2, 3}, {3, 5}),
            "einsum([2, 3], [3, 5]): letter 'd' of the output is in no input");
  EXPECT_EQ(error("ab->a", {2, 3}, {3, 5}),
            "einsum([2, 3], [3, 5]): 'ab->a' names 1 tensors, found 2");
}

}  // namespace
}  // namespace shardproof::testing::matmul_test
