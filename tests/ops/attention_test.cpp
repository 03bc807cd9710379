// Tests the second result of sdpa and sdpa_grad: against plain loops in double, and the bits of
// parts against those of the whole.
#include <algorithm>
#include <cmath>

#include "shardproof/tests/ops/agreement.h"
#include "shardproof/tests/ops/op_case.h"

namespace shardproof::testing::attention_test {
namespace {

using Values = std::vector<double>;

// Returns values whose sums are not exact in the dtype.
Tensor drawn(DType dtype, const Dims& shape, double phase) {
  Values values;
  for (int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(std::sin(static_cast<double>(i) * 1.3 + phase));
  return tensor_of(dtype, shape, values);
}

// Returns numbers first..first + count - 1 of a dim.
Tensor part_of(const Tensor& x, int dim, int64_t first, int64_t count) {
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < dim; ++d) outer *= x.shape[d];
  for (int d = dim + 1; d < x.shape.size(); ++d) inner *= x.shape[d];
  const Values all = values_of(x);
  Values part;
  for (int64_t o = 0; o < outer; ++o) {
    const auto from = all.begin() + (o * x.shape[dim] + first) * inner;
    part.insert(part.end(), from, from + count * inner);
  }
  Dims shape = x.shape;
  shape[dim] = count;
  return tensor_of(x.dtype, shape, part);
}

// Heads, rows and columns of a tensor [heads, rows, columns] in double.
struct Heads {
  explicit Heads(const Tensor& x)
      : values(values_of(x)), rows(x.shape[1]), columns(x.shape.size() > 2 ? x.shape[2] : 1) {}
  Heads(int64_t heads, int64_t rows, int64_t columns)
      : values(static_cast<size_t>(heads * rows * columns)), rows(rows), columns(columns) {}
  double& at(int64_t h, int64_t r, int64_t c = 0) {
    return values[static_cast<size_t>((h * rows + r) * columns + c)];
  }
  Values values;
  int64_t rows, columns;
};

struct PlainAttention {
  Values y, lse, dq, dk, dv;
};

// q: [heads, queries, dim]; k and v: [kv heads, keys, dim].
PlainAttention plain(const Tensor& query, const Tensor& key, const Tensor& value,
                     const Tensor& slope, const Tensor& log_sum_slope, bool causal) {
  Heads q(query), k(key), v(value), dy(slope), dlse(log_sum_slope);
  const int64_t heads = query.shape[0], group = heads / key.shape[0];
  const double scale = 1 / std::sqrt(static_cast<double>(q.columns));
  Heads y(heads, q.rows, v.columns), lse(heads, q.rows, 1), dq(heads, q.rows, q.columns);
  Heads dk(key.shape[0], k.rows, k.columns), dv(key.shape[0], k.rows, v.columns);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t s = 0; s < q.rows; ++s) {
      const int64_t kv = h / group, seen = causal ? std::min(s + 1, k.rows) : k.rows;
      Values p(static_cast<size_t>(seen)), dp(p);
      double sum = 0, delta = 0;
      for (int64_t j = 0; j < seen; ++j) {
        const auto at = static_cast<size_t>(j);
        for (int64_t i = 0; i < q.columns; ++i) p[at] += q.at(h, s, i) * k.at(kv, j, i) * scale;
        sum += p[at] = std::exp(p[at]);
      }
      lse.at(h, s) = std::log(sum);
      for (int64_t j = 0; j < seen; ++j) {
        const auto at = static_cast<size_t>(j);
        p[at] /= sum;
        for (int64_t i = 0; i < v.columns; ++i) {
          y.at(h, s, i) += p[at] * v.at(kv, j, i);
          dp[at] += dy.at(h, s, i) * v.at(kv, j, i);
          dv.at(kv, j, i) += p[at] * dy.at(h, s, i);
        }
        delta += p[at] * dp[at];
      }
      for (int64_t j = 0; j < seen; ++j) {
        const auto at = static_cast<size_t>(j);
        const double ds = p[at] * (dp[at] - delta + dlse.at(h, s)) * scale;
        for (int64_t i = 0; i < q.columns; ++i) {
          dq.at(h, s, i) += ds * k.at(kv, j, i);
          dk.at(kv, j, i) += ds * q.at(h, s, i);
        }
      }
    }
  return {y.values, lse.values, dq.values, dk.values, dv.values};
}

void expect_close(const Tensor& got, const Values& expected, DType dtype, const char* what) {
  const Tensor want = tensor_of(DType::f64, got.shape, expected);
  const double room = room_computed_in(dtype, std::max(8.0, largest_number(want)));
  EXPECT_EQ(difference(got, want, [room](size_t) { return room; }), "") << what;
}

struct Inputs {
  Tensor dy, q, k, v, y, lse, dlse;
  // Sizes beyond one block of rows, and no multiples of a vector.
  Inputs(DType dtype, int64_t heads, int64_t kv, int64_t queries, int64_t keys)
      : dy(drawn(dtype, {heads, queries, 5}, 0)),
        q(drawn(dtype, {heads, queries, 6}, 1)),
        k(drawn(dtype, {kv, keys, 6}, 2)),
        v(drawn(dtype, {kv, keys, 5}, 3)),
        dlse(drawn(compute_dtype(dtype), {heads, queries}, 4)) {}
  void attend(bool causal) {
    const std::vector<Tensor> both =
        OpCase("sdpa", {q, k, v}, {{"causal", causal}, {"return_lse", true}}).run_all();
    y = both.at(0);
    lse = both.at(1);
  }
};

TEST(Attention, LogSumAndGradients_EqualThePlainLoop) {
  for (const bool causal : {false, true})
    for (const int64_t kv : {1, 2, 4})
      for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
        Inputs in(dtype, 4, kv, 70, 53);
        in.attend(causal);
        const PlainAttention want = plain(in.q, in.k, in.v, in.dy, in.dlse, causal);
        expect_close(in.y, want.y, dtype, "y");
        EXPECT_EQ(in.lse.dtype, compute_dtype(dtype));
        expect_close(in.lse, want.lse, in.lse.dtype, "lse");
        const Attrs attrs{{"causal", causal}};
        const auto expect_gradients = [&](const std::vector<Tensor>& got) {
          expect_close(got.at(0), want.dq, dtype, "dq");
          expect_close(got.at(1), want.dk, dtype, "dk");
          expect_close(got.at(2), want.dv, dtype, "dv");
        };
        expect_gradients(
            OpCase("sdpa_grad", {in.dy, in.q, in.k, in.v, in.y, in.lse, in.dlse}, attrs).run_all());
        OpCase bare("sdpa_grad", {in.dy, in.q, in.k, in.v, in.y, in.lse, in.dlse}, attrs);
        expect_gradients(bare.without(4).without(5).run_all());
      }
}

// Ranks that share the queries or the heads compute the bits that one device computes for them.
TEST(Attention, BitsOfARow_DependOnItsOwnRowOnly) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 3}, {3, 90}, {99, 1}}) {
      Inputs in(dtype, 4, 2, 100, 37);
      in.attend(false);
      const auto rows = [first = first, count = count](const Tensor& x) {
        return part_of(x, 1, first, count);
      };
      Inputs part = in;
      for (Tensor* x : {&part.dy, &part.q, &part.dlse}) *x = rows(*x);
      part.attend(false);
      EXPECT_EQ(values_of(rows(in.y)), values_of(part.y));
      EXPECT_EQ(values_of(rows(in.lse)), values_of(part.lse));
      const auto dq = [](const Inputs& i) {
        return OpCase("sdpa_grad", {i.dy, i.q, i.k, i.v, i.y, i.lse, i.dlse}).run();
      };
      EXPECT_EQ(values_of(rows(dq(in))), values_of(dq(part)));
    }
}

// A wide value has its products in the micro kernel, a narrow one in plain loops.
TEST(Attention, BitsOfAColumn_DependOnItsOwnColumnOnly) {
  for (const bool causal : {false, true})
    for (const DType dtype : {DType::f32, DType::f64}) {
      Inputs in(dtype, 4, 2, 70, 37), wide = in;
      wide.v = drawn(dtype, {2, 37, 40}, 3);
      in.v = part_of(wide.v, 2, 11, 5);
      in.attend(causal);
      wide.attend(causal);
      EXPECT_EQ(values_of(part_of(wide.y, 2, 11, 5)), values_of(in.y));
      EXPECT_EQ(values_of(wide.lse), values_of(in.lse));
    }
}

TEST(Attention, BitsOfAHead_DependOnItsOwnHeadOnly) {
  for (const bool causal : {false, true}) {
    Inputs in(DType::f32, 4, 2, 70, 37);
    in.attend(causal);
    Inputs part = in;
    for (Tensor* x : {&part.dy, &part.q, &part.dlse}) *x = part_of(*x, 0, 2, 2);
    for (Tensor* x : {&part.k, &part.v}) *x = part_of(*x, 0, 1, 1);
    part.attend(causal);
    EXPECT_EQ(values_of(part_of(in.y, 0, 2, 2)), values_of(part.y));
    const auto gradients = [causal](const Inputs& i) {
      return OpCase("sdpa_grad", {i.dy, i.q, i.k, i.v, i.y, i.lse, i.dlse}, {{"causal", causal}})
          .run_all();
    };
    const std::vector<Tensor> whole = gradients(in), own = gradients(part);
    EXPECT_EQ(values_of(part_of(whole.at(0), 0, 2, 2)), values_of(own.at(0)));
    for (const size_t o : {1, 2})
      EXPECT_EQ(values_of(part_of(whole.at(o), 0, 1, 1)), values_of(own.at(o)));
  }
}

TEST(Attention, MaskedNumberThatIsNotFinite_GivesNan) {
  Inputs in(DType::f32, 1, 1, 70, 70);
  Values v = values_of(in.v);
  v[69 * 5] = INFINITY;  // the last key, to which only the last query attends
  in.v = tensor_of(DType::f32, in.v.shape, v);
  in.attend(true);
  const Values y = values_of(in.y);
  for (size_t s = 0; s < 69; ++s) {
    EXPECT_TRUE(std::isnan(y[s * 5])) << s;
    EXPECT_TRUE(std::isfinite(y[s * 5 + 1])) << s;
  }
}

TEST(Attention, NoKeysAndNoQueries_GiveEmptySums) {
  Inputs in(DType::f32, 2, 2, 3, 0);
  in.attend(false);
  EXPECT_EQ(values_of(in.y), Values(30, 0));
  EXPECT_EQ(values_of(in.lse), Values(6, -INFINITY));
  EXPECT_EQ(OpCase("sdpa_grad", {in.dy, in.q, in.k, in.v, in.y, in.lse, in.dlse}).values(),
            Values(36, 0));
  Inputs none(DType::f32, 2, 2, 0, 3);
  none.attend(false);
  const std::vector<Tensor> gradients =
      OpCase("sdpa_grad", {none.dy, none.q, none.k, none.v, none.y, none.lse, none.dlse}).run_all();
  EXPECT_EQ(values_of(gradients.at(1)), Values(36, 0));
  EXPECT_EQ(values_of(gradients.at(2)), Values(30, 0));
}

TEST(Attention, ShapesThatDoNotFit_AreNamed) {
  const Inputs in(DType::f32, 2, 2, 3, 4);
  EXPECT_EQ(OpCase("sdpa_grad", {in.q, in.q, in.k, in.v}).error(),
            "sdpa_grad([2, 3, 6], [2, 3, 6], [2, 4, 6], [2, 4, 5]): dy must have shape [2, 3, 5]");
  EXPECT_EQ(OpCase("sdpa_grad", {in.dy, in.q, in.k, in.v, in.dy, in.dy}).error(),
            "sdpa_grad([2, 3, 5], [2, 3, 6], [2, 4, 6], [2, 4, 5], [2, 3, 5], [2, 3, 5]): lse must "
            "have shape [2, 3]");
}

}  // namespace
}  // namespace shardproof::testing::attention_test
