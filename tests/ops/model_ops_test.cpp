// Tests index, norm, attention, loss and convolution ops against plain loops in double, and their
// errors.
#include <cmath>
#include <numeric>

#include "shardproof/tests/ops/agreement.h"
#include "shardproof/tests/ops/op_case.h"

namespace shardproof::testing::model_ops_test {
namespace {

using L = std::vector<int64_t>;
using Values = std::vector<double>;

Tensor labels_of(const Dims& shape, const Values& values) {
  return tensor_of(DType::i64, shape, values);
}

// Returns values whose sums are not exact in the dtype.
Tensor wavy(DType dtype, const Dims& shape, double phase) {
  Values values;
  for (int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(std::sin(static_cast<double>(i) * 1.3 + phase) * 2);
  return tensor_of(dtype, shape, values);
}

// Expects the result within a few units in the last place of `expected`, measured by the largest
// number of result and inputs.
void expect_near(const OpCase& op, const Values& expected) {
  const Tensor got = op.run();
  const Tensor want = tensor_of(DType::f64, got.shape, expected);
  double largest = largest_number(want);
  for (const Tensor* input : op.pointers())
    if (input && is_floating(input->dtype)) largest = std::max(largest, largest_number(*input));
  const double room = room_computed_in(got.dtype, largest);
  EXPECT_EQ(difference(got, want, [room](size_t) { return room; }), "") << op.record().name;
}

TEST(Index, RowsByIndex_AreSelected) {
  Tensor table = filled(DType::bf16, {4, 3});
  auto rows = values_of(table);
  auto got = OpCase("embedding", {labels_of({2}, {3, 1}), table}).values();
  EXPECT_EQ(got, (Values{rows[9], rows[10], rows[11], rows[3], rows[4], rows[5]}));
  Tensor x = filled(DType::f32, {2, 3});
  auto v = values_of(x);
  EXPECT_EQ(
      OpCase("index_select", {x}, {{"dim", int64_t{1}}, {"index", L{2, 0}}}).without(1).values(),
      (Values{v[2], v[0], v[5], v[3]}));
  EXPECT_EQ(OpCase("one_hot", {labels_of({2}, {2, 0})}, {{"num_classes", int64_t{3}}}).values(),
            (Values{0, 0, 1, 1, 0, 0}));
}

TEST(Index, IndexAlongADim_TakesAndScatters) {
  Tensor x = filled(DType::f32, {3, 4});
  auto v = values_of(x);
  EXPECT_EQ(
      OpCase("take_along_dim", {x, labels_of({2, 3}, {3, 0, 1, 2, 2, 0})}, {{"dim", int64_t{1}}})
          .values(),
      (Values{v[3], v[0], v[1], v[6], v[6], v[4]}));
  auto wrote = OpCase("scatter_along_dim", {x, labels_of({1, 2}, {2, 1})},
                      {{"dim", int64_t{0}}, {"value", 9.0}})
                   .without(2)
                   .values();
  auto expected = v;
  expected[2 * 4 + 0] = expected[1 * 4 + 1] = 9;
  EXPECT_EQ(wrote, expected);
  auto added = OpCase("scatter_along_dim",
                      {x, labels_of({1, 3}, {0, 0, 0}), tensor_of(DType::f32, {1, 3}, {1, 2, 3})},
                      {{"dim", int64_t{1}}, {"reduce", std::string("add")}})
                   .values();
  expected = v;
  expected[0] += 6;
  EXPECT_EQ(added, expected);
}

TEST(Index, IndexOutOfRange_IsNamedInTheError) {
  auto message = [](const OpCase& op) {
    try {
      op.run();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_input);
      return e.message();
    }
    return std::string("no error");
  };
  Tensor table = filled(DType::f32, {4, 3});
  EXPECT_EQ(message(OpCase("embedding", {labels_of({1}, {4}), table})),
            "embedding: index 4 is out of range for 4 rows");
  EXPECT_EQ(message(OpCase("embedding", {labels_of({1}, {-1}), table})),
            "embedding: index -1 is out of range for 4 rows");
  EXPECT_EQ(
      message(OpCase("take_along_dim", {table, labels_of({1, 1}, {7})}, {{"dim", int64_t{0}}})),
      "take_along_dim: index 7 is out of range for a dim of size 4");
  EXPECT_EQ(message(OpCase("one_hot", {labels_of({1}, {3})}, {{"num_classes", int64_t{3}}})),
            "one_hot: index 3 is out of range for 3 classes");
  Tensor logits = filled(DType::f32, {1, 3});
  EXPECT_EQ(message(OpCase("cross_entropy", {logits, labels_of({1}, {5})}).without(2)),
            "cross_entropy: label 5 is out of range for 3 classes");
}

TEST(Order, EqualsAndNan_SortStablyWithNanLast) {
  Tensor x = tensor_of(DType::f32, {5}, {2, NAN, -1, 2, 0});
  auto up = OpCase("sort", {x}).run_all();
  EXPECT_EQ(values_of(up[1]), (Values{2, 4, 0, 3, 1}));
  auto down = OpCase("sort", {x}, {{"descending", true}}).run_all();
  EXPECT_EQ(values_of(down[1]), (Values{1, 0, 3, 4, 2}));
  Tensor y = tensor_of(DType::i64, {2, 3}, {5, 7, 6, 1, 1, 0});
  auto top = OpCase("topk", {y}, {{"k", int64_t{2}}}).run_all();
  EXPECT_EQ(values_of(top[0]), (Values{7, 6, 1, 1}));
  EXPECT_EQ(values_of(top[1]), (Values{1, 2, 0, 1}));
  EXPECT_EQ(OpCase("topk", {y}, {{"k", int64_t{4}}}).error(),
            "topk([2, 3]): k must be from 0 to 3, found 4");
}

Values plain_norm(const Values& x, size_t row, bool centered, double eps, const Values& w,
                  const Values& b) {
  Values y;
  for (size_t r = 0; r < x.size() / row; ++r) {
    double mean = 0, squares = 0;
    for (size_t i = 0; centered && i < row; ++i) mean += x[r * row + i] / static_cast<double>(row);
    for (size_t i = 0; i < row; ++i)
      squares += std::pow(x[r * row + i] - mean, 2) / static_cast<double>(row);
    for (size_t i = 0; i < row; ++i)
      y.push_back((x[r * row + i] - mean) / std::sqrt(squares + eps) * (w.empty() ? 1 : w[i]) +
                  (b.empty() ? 0 : b[i]));
  }
  return y;
}

TEST(Norm, EveryDtype_EqualsThePlainLoop) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    Tensor x = wavy(dtype, {3, 2, 7}, 0), w = wavy(dtype, {7}, 1), b = wavy(dtype, {7}, 2);
    expect_near(OpCase("layer_norm", {x, w, b}),
                plain_norm(values_of(x), 7, true, 1e-5, values_of(w), values_of(b)));
    expect_near(OpCase("layer_norm", {x}, {{"dims", int64_t{2}}}).without(1).without(2),
                plain_norm(values_of(x), 14, true, 1e-5, {}, {}));
    const double step = dtype == DType::f64 ? 0x1p-52 : 0x1p-23;  // of the compute dtype
    expect_near(OpCase("rms_norm", {x, w}),
                plain_norm(values_of(x), 7, false, step, values_of(w), {}));
  }
  EXPECT_EQ(OpCase("rms_norm", {wavy(DType::f32, {2, 3}, 0), wavy(DType::f32, {4}, 0)}).error(),
            "rms_norm([2, 3], [4]): weight must have shape [3]");
}

// Returns the rows from `first` on, `count` of them.
Tensor rows_of(const Tensor& x, int64_t first, int64_t count) {
  const Values all = values_of(x);
  const int64_t row = x.elements() / x.shape[0];
  Dims shape = x.shape;
  shape[0] = count;
  return tensor_of(x.dtype, shape,
                   Values(all.begin() + first * row, all.begin() + (first + count) * row));
}

// A rank that holds some of the rows computes the bits that one device computes for them.
TEST(GradientOps, BitsOfARow_DependOnItsOwnRowOnly) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor dy = wavy(dtype, {7, 37}, 3), x = wavy(dtype, {7, 37}, 0),
                 w = wavy(dtype, {37}, 1);
    const Tensor by_row = wavy(dtype, {7}, 2);
    const Tensor labels = tensor_of(DType::i64, {7}, {0, 36, 5, -100, 7, 7, 12});
    const auto expect_rows = [](const Tensor& whole, const Tensor& part, int64_t first) {
      EXPECT_EQ(values_of(rows_of(whole, first, part.shape[0])), values_of(part));
    };
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 3}, {3, 4}, {6, 1}}) {
      const auto cut = [first = first, count = count](const Tensor& t) {
        return rows_of(t, first, count);
      };
      for (const char* op : {"layer_norm_grad", "rms_norm_grad"})
        expect_rows(OpCase(op, {dy, x, w}).run(), OpCase(op, {cut(dy), cut(x), w}).run(), first);
      expect_rows(OpCase("cross_entropy_grad", {by_row, x, labels}).without(3).run(),
                  OpCase("cross_entropy_grad", {cut(by_row), cut(x), cut(labels)}).without(3).run(),
                  first);
      const Attrs classes{{"num_classes", int64_t{37}}};
      expect_rows(OpCase("nll_loss_grad", {by_row, labels}, classes).run(),
                  OpCase("nll_loss_grad", {cut(by_row), cut(labels)}, classes).run(), first);
    }
  }
}

TEST(GradientOps, RefusedShapes_AreNamed) {
  const Tensor x = wavy(DType::f32, {2, 3}, 0), row = wavy(DType::f32, {3}, 0);
  EXPECT_EQ(OpCase("layer_norm_grad", {row, x, row}).error(),
            "layer_norm_grad([3], [2, 3], [3]): dy must have the shape of x, [2, 3]");
  EXPECT_EQ(OpCase("cross_entropy_grad", {row, x, tensor_of(DType::i64, {2}, {0, 1})}).error(),
            "cross_entropy_grad([3], [2, 3], [2]): dy must have shape [2]");
  EXPECT_EQ(OpCase("nll_loss_grad", {row, tensor_of(DType::i64, {2}, {0, 1})},
                   {{"num_classes", int64_t{3}}})
                .error(),
            "nll_loss_grad([3], [2]): dy must have the shape of the labels, [2]");
}

TEST(Rope, Halves_AreRotatedByPosition) {
  for (DType dtype : {DType::f32, DType::f64}) {
    Tensor x = wavy(dtype, {2, 5, 6}, 0);
    auto v = values_of(x);
    Values expected(v.size());
    for (size_t h = 0; h < 2; ++h)
      for (size_t s = 0; s < 5; ++s)
        for (size_t i = 0; i < 3; ++i) {
          double angle =
              (static_cast<double>(s) + 4) * std::pow(100.0, -2.0 * static_cast<double>(i) / 6);
          size_t at = (h * 5 + s) * 6 + i;
          expected[at] = v[at] * std::cos(angle) - v[at + 3] * std::sin(angle);
          expected[at + 3] = v[at + 3] * std::cos(angle) + v[at] * std::sin(angle);
        }
    expect_near(OpCase("rope", {x}, {{"base", 100.0}, {"offset", int64_t{4}}}).without(1),
                expected);
    Tensor places = labels_of({5}, {4, 5, 6, 7, 8});
    EXPECT_EQ(OpCase("rope", {x, places}, {{"base", 100.0}}).values(),
              OpCase("rope", {x}, {{"base", 100.0}, {"offset", int64_t{4}}}).without(1).values());
  }
}

Values plain_attention(const Tensor& query, const Tensor& key, const Tensor& value, bool causal) {
  auto q = values_of(query), k = values_of(key), v = values_of(value);
  auto heads = static_cast<size_t>(query.shape[0]),
       group = heads / static_cast<size_t>(key.shape[0]);
  auto queries = static_cast<size_t>(query.shape[1]), keys = static_cast<size_t>(key.shape[1]);
  auto dim = static_cast<size_t>(query.shape[2]), width = static_cast<size_t>(value.shape[2]);
  Values out;
  for (size_t h = 0; h < heads; ++h)
    for (size_t s = 0; s < queries; ++s) {
      Values weight;
      for (size_t j = 0; j < keys; ++j) {
        double dot = 0;
        for (size_t i = 0; i < dim; ++i)
          dot += q[(h * queries + s) * dim + i] * k[(h / group * keys + j) * dim + i];
        weight.push_back(causal && j > s ? 0 : std::exp(dot / std::sqrt(static_cast<double>(dim))));
      }
      double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
      for (size_t i = 0; i < width; ++i) {
        double mixed = 0;
        for (size_t j = 0; j < keys; ++j)
          mixed += weight[j] / sum * v[(h / group * keys + j) * width + i];
        out.push_back(mixed);
      }
    }
  return out;
}

TEST(Attention, GroupedHeads_EqualsThePlainLoop) {
  for (bool causal : {false, true}) {
    for (int64_t kv : {1, 2, 4}) {
      for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
        Tensor q = wavy(dtype, {4, 5, 6}, 0), k = wavy(dtype, {kv, 7, 6}, 1),
               v = wavy(dtype, {kv, 7, 3}, 2);
        expect_near(OpCase("sdpa", {q, k, v}, {{"causal", causal}}),
                    plain_attention(q, k, v, causal));
      }
    }
  }
  Tensor q = filled(DType::f32, {3, 2, 2}), k = filled(DType::f32, {2, 2, 2});
  EXPECT_EQ(OpCase("sdpa", {q, k, k}).error(),
            "sdpa([3, 2, 2], [2, 2, 2], [2, 2, 2]): the 3 query heads must be a multiple of the 2 "
            "kv heads");
}

Values plain_entropy(const Values& x, size_t classes, const Values& labels, double smoothing) {
  Values losses;
  for (size_t r = 0; r < labels.size(); ++r) {
    if (labels[r] < 0) {
      losses.push_back(0);
      continue;
    }
    double sum = 0, mean = 0;
    for (size_t c = 0; c < classes; ++c) {
      sum += std::exp(x[r * classes + c]);
      mean += x[r * classes + c] / static_cast<double>(classes);
    }
    double loss = std::log(sum) - x[r * classes + static_cast<size_t>(labels[r])];
    losses.push_back((1 - smoothing) * loss + smoothing * (std::log(sum) - mean));
  }
  return losses;
}

TEST(Loss, CrossEntropy_EqualsThePlainLoop) {
  Values labels = {2, -100, 0, 3, 1};
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (double smoothing : {0.0, 0.25}) {
      Tensor x = wavy(dtype, {5, 4}, 0);
      Values rows = plain_entropy(values_of(x), 4, labels, smoothing);
      double sum = std::accumulate(rows.begin(), rows.end(), 0.0);
      auto attrs = [&](const char* reduction) {
        return Attrs{{"reduction", std::string(reduction)}, {"label_smoothing", smoothing}};
      };
      expect_near(OpCase("cross_entropy", {x, labels_of({5}, labels)}, attrs("none")).without(2),
                  rows);
      expect_near(OpCase("cross_entropy", {x, labels_of({5}, labels)}, attrs("sum")).without(2),
                  {sum});
      expect_near(OpCase("cross_entropy", {x, labels_of({5}, labels)}, attrs("mean")).without(2),
                  {sum / 4});
    }
  }
}

TEST(Loss, MeanOfNoLabels_IsNan) {
  OpCase op("cross_entropy", {filled(DType::f32, {2, 3}), labels_of({2}, {-100, -100})});
  EXPECT_TRUE(std::isnan(op.without(2).values()[0]));
}

TEST(Loss, ClassesBeforeOtherDims_EqualThePlainLoop) {
  Tensor x = wavy(DType::f64, {2, 3, 4}, 0);
  auto v = values_of(x);
  Values labels = {0, 1, 2, 0, 2, 2, 1, 0}, turned;
  for (size_t n = 0; n < 2; ++n)
    for (size_t d = 0; d < 4; ++d)
      for (size_t c = 0; c < 3; ++c) turned.push_back(v[(n * 3 + c) * 4 + d]);
  expect_near(
      OpCase("cross_entropy", {x, labels_of({2, 4}, labels)}, {{"reduction", std::string("none")}})
          .without(2),
      plain_entropy(turned, 3, labels, 0));
}

TEST(Loss, MeanOfAShard_DividesByTheGlobalCount) {
  Tensor x = wavy(DType::f32, {5, 3}, 0), y = wavy(DType::f32, {5, 3}, 1);
  auto a = values_of(x), b = values_of(y);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  expect_near(OpCase("mse_loss", {x, y}), {sum / 15});
  expect_near(OpCase("mse_loss", {x, y}, {{"count", int64_t{30}}}), {sum / 30});
  expect_near(OpCase("mse_loss", {x, y}, {{"reduction", std::string("sum")}}), {sum});
}

TEST(Conv, StridesAndGroups_EqualsThePlainLoop) {
  struct Case {
    int64_t stride, padding, dilation, groups;
  };
  for (Case c : {Case{1, 0, 1, 1}, Case{2, 1, 1, 1}, Case{1, 2, 2, 2}, Case{3, 1, 1, 4}}) {
    for (DType dtype : {DType::f32, DType::i32, DType::f64}) {
      Tensor x = filled(dtype, {2, 4, 7, 6}, 1), w = filled(dtype, {8, 4 / c.groups, 3, 2}, 2),
             bias = filled(dtype, {8}, 3);
      auto in = values_of(x), weight = values_of(w), add = values_of(bias);
      OpCase op("conv2d", {x, w, bias},
                {{"stride", L{c.stride}},
                 {"padding", L{c.padding}},
                 {"dilation", L{c.dilation}},
                 {"groups", c.groups}});
      Tensor out = op.run();
      int64_t per_group = 4 / c.groups;
      auto got = values_of(out);
      for (int64_t i = 0; i < out.elements(); ++i) {
        Dims o = unravel(i, out.shape);
        double sum = add[static_cast<size_t>(o[1])];
        for (int64_t ch = 0; ch < per_group; ++ch)
          for (int64_t ky = 0; ky < 3; ++ky)
            for (int64_t kx = 0; kx < 2; ++kx) {
              int64_t y = o[2] * c.stride + ky * c.dilation - c.padding;
              int64_t z = o[3] * c.stride + kx * c.dilation - c.padding;
              if (y < 0 || y >= 7 || z < 0 || z >= 6) continue;
              int64_t channel = o[1] / (8 / c.groups) * per_group + ch;
              sum += in[static_cast<size_t>(((o[0] * 4 + channel) * 7 + y) * 6 + z)] *
                     weight[static_cast<size_t>(((o[1] * per_group + ch) * 3 + ky) * 2 + kx)];
            }
        EXPECT_EQ(got[static_cast<size_t>(i)], sum) << name(dtype) << " at " << i;
      }
    }
  }
}

TEST(Conv, WrongChannels_AreNamedInErrors) {
  EXPECT_EQ(OpCase("conv1d", {filled(DType::f32, {1, 3, 5}), filled(DType::f32, {2, 2, 3})})
                .without(2)
                .error(),
            "conv1d([1, 3, 5], [2, 2, 3]): the input has 3 channels, but the weight expects 2 x 1 "
            "groups");
}

}  // namespace
}  // namespace shardproof::testing::model_ops_test
