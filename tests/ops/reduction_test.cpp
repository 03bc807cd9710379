// Tests reductions, scans and softmax against plain loops in double, and torch's rules for dims,
// dtypes, ties and NaN. Some cases are those in which PyTorch's sharded results are wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/reduction/reduce_kernel.h"
#include "shardproof/tests/ops/agreement.h"
#include "shardproof/tests/ops/op_case.h"

namespace shardproof::testing::reduction_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
using List = std::vector<int64_t>;

Tensor ran(const std::string& name, const Tensor& x, Attrs attrs = {}) {
  return OpCase(name, {x}, std::move(attrs)).run();
}
std::vector<double> values(const std::string& name, const Tensor& x, Attrs attrs = {}) {
  return values_of(ran(name, x, std::move(attrs)));
}

DimMask mask_of(const Tensor& x, const List& dims) {
  DimMask mask(static_cast<size_t>(x.shape.size()), dims.empty());
  for (const int64_t d : dims) mask[static_cast<size_t>(d)] = true;
  return mask;
}

// Returns the result that element `i` is reduced into.
size_t place_of(int64_t i, const Tensor& x, const DimMask& mask) {
  const Dims at = unravel(i, x.shape);
  int64_t place = 0;
  for (int d = 0; d < x.shape.size(); ++d)
    if (!mask[static_cast<size_t>(d)]) place = place * x.shape[d] + at[d];
  return static_cast<size_t>(place);
}

// Returns the elements of each result.
std::vector<std::vector<double>> groups_of(const Tensor& x, const List& dims) {
  const DimMask mask = mask_of(x, dims);
  std::vector<std::vector<double>> groups(
      static_cast<size_t>(element_count(reduced_shape(x.shape, mask, true))));
  const std::vector<double> all = values_of(x);
  for (int64_t i = 0; i < x.elements(); ++i)
    groups[place_of(i, x, mask)].push_back(all[static_cast<size_t>(i)]);
  return groups;
}

double mean_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}
double variance_of(const std::vector<double>& x) {
  double squares = 0;
  for (const double v : x) squares += (v - mean_of(x)) * (v - mean_of(x));
  return squares / static_cast<double>(x.size() - 1);
}

using Formula = double (*)(const std::vector<double>&);
struct Case {
  const char* name;
  Formula formula;
};
const Case kCases[] = {
    {"sum",
     [](const std::vector<double>& x) { return mean_of(x) * static_cast<double>(x.size()); }},
    {"mean", mean_of},
    {"prod",
     [](const std::vector<double>& x) {
       double p = 1;
       for (const double v : x) p *= v;
       return p;
     }},
    {"amax", [](const std::vector<double>& x) { return *std::max_element(x.begin(), x.end()); }},
    {"amin", [](const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); }},
    {"var", variance_of},
    {"std", [](const std::vector<double>& x) { return std::sqrt(variance_of(x)); }},
    {"norm",
     [](const std::vector<double>& x) {
       double s = 0;
       for (const double v : x) s += v * v;
       return std::sqrt(s);
     }},
    {"logsumexp",
     [](const std::vector<double>& x) {
       double s = 0;
       for (const double v : x) s += std::exp(v);
       return std::log(s);
     }},
};

TEST(Reduction, EveryOp_AgreesWithPlainLoops) {
  for (const Case& c : kCases)
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (const List& dims :
           {List{}, List{0}, List{1}, List{2}, List{0, 2}, List{1, 2}, List{0, 1}}) {
        const Tensor x = filled_by("uniform(-1, 1.5)", dtype, {5, 7, 33}, 4);
        const std::vector<double> have = values(c.name, x, {{"dim", dims}});
        const auto groups = groups_of(x, dims);
        ASSERT_EQ(have.size(), groups.size());
        for (size_t i = 0; i < have.size(); ++i) {
          const double want = c.formula(groups[i]);
          EXPECT_LE(std::fabs(have[i] - want),
                    room_computed_in(dtype, std::max(largest_number(x), std::fabs(want))))
              << c.name << " " << name(dtype) << " dims " << to_string(AttrValue(dims));
        }
      }
}

TEST(Reduction, EmptyListOfDims_MeansAll) {
  const Tensor x = tensor_of(DType::f32, {4}, {1, 2, 3, 4});
  const Tensor sum = ran("sum", x, {{"dim", List{}}, {"keepdim", true}});
  EXPECT_EQ(sum.shape, (Dims{1}));
  EXPECT_EQ(values_of(sum), (std::vector<double>{10}));
  EXPECT_EQ(values("amax", x, {{"dim", List{}}, {"keepdim", true}}), (std::vector<double>{4}));
}

TEST(Reduction, Dtypes_FollowTorch) {
  EXPECT_EQ(ran("sum", tensor_of(DType::i8, {2}, {100, 100})).dtype, DType::i64);
  EXPECT_EQ(values("sum", tensor_of(DType::i8, {2}, {100, 100})), (std::vector<double>{200}));
  EXPECT_EQ(values("sum", tensor_of(DType::boolean, {3}, {1, 1, 0})), (std::vector<double>{2}));
  EXPECT_THROW(ran("mean", tensor_of(DType::i32, {2}, {1, 2})), Error);
  EXPECT_EQ(ran("any", tensor_of(DType::f32, {2}, {0, 2})).dtype, DType::boolean);
  EXPECT_EQ(values("all", tensor_of(DType::f32, {2}, {0, 2})), (std::vector<double>{0}));
}

TEST(Reduction, NanInALine_GivesNan) {
  const Tensor x = tensor_of(DType::f32, {2, 20}, std::vector<double>(40, 1));
  std::vector<double> with = values_of(x);
  with[7] = kNan;
  for (const char* name : {"amax", "amin", "max", "min", "sum"}) {
    const std::vector<double> rows =
        values(name, tensor_of(DType::f32, {2, 20}, with), {{"dim", List{1}}});
    EXPECT_TRUE(std::isnan(rows[0]) && !std::isnan(rows[1])) << name;
    const std::vector<double> columns =
        values(name, tensor_of(DType::f32, {2, 20}, with), {{"dim", List{0}}});
    EXPECT_TRUE(std::isnan(columns[7]) && !std::isnan(columns[6])) << name;
  }
}

TEST(Reduction, NoElements_GiveTheIdentity) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    EXPECT_EQ(values("amax", tensor_of(dtype, {0, 2}, {}), {{"dim", List{0}}}),
              (std::vector<double>{-kInf, -kInf}));
    EXPECT_EQ(values("sum", tensor_of(dtype, {2, 0}, {}), {{"dim", List{1}}}),
              (std::vector<double>{0, 0}));
  }
  EXPECT_EQ(values("amax", tensor_of(DType::f8e4m3, {0}, {})), (std::vector<double>{-448}));
  EXPECT_EQ(values("amin", tensor_of(DType::i8, {0}, {})), (std::vector<double>{127}));
  EXPECT_EQ(values("amax", tensor_of(DType::u8, {0}, {})), (std::vector<double>{0}));
  EXPECT_EQ(values("amax", tensor_of(DType::boolean, {0}, {})), (std::vector<double>{0}));
}

TEST(Argmax, EqualsAndNan_GiveTheFirstIndex) {
  EXPECT_EQ(values("argmax", tensor_of(DType::f32, {5}, {1, 4, 2, 4, 0})),
            (std::vector<double>{1}));
  EXPECT_EQ(values("argmin", tensor_of(DType::i32, {5}, {1, 0, 2, 0, 3})),
            (std::vector<double>{1}));
  EXPECT_EQ(values("argmax", tensor_of(DType::f32, {5}, {1, kNan, 9, kNan, 0})),
            (std::vector<double>{1}));
  EXPECT_EQ(values("argmin", tensor_of(DType::f32, {3}, {-kInf, 2, -kInf})),
            (std::vector<double>{0}));
  const Tensor x = tensor_of(DType::f32, {3, 3}, {4, 0, 6, 5, 7, 2, 8, 3, 1});
  EXPECT_EQ(values("argmax", x, {{"dim", int64_t{1}}}), (std::vector<double>{2, 1, 0}));
  EXPECT_EQ(values("argmax", x), (std::vector<double>{6}));
  EXPECT_EQ(ran("argmax", x, {{"dim", int64_t{0}}, {"keepdim", true}}).shape, (Dims{1, 3}));
}

TEST(Norm, SpecialExponents_FollowTorch) {
  const Tensor x = tensor_of(DType::f32, {4}, {3, 0, -4, 0});
  EXPECT_EQ(values("norm", x), (std::vector<double>{5}));
  EXPECT_EQ(values("norm", x, {{"p", 1.0}}), (std::vector<double>{7}));
  EXPECT_EQ(values("norm", x, {{"p", 0.0}}), (std::vector<double>{2}));
  EXPECT_EQ(values("norm", x, {{"p", kInf}}), (std::vector<double>{4}));
  EXPECT_EQ(values("norm", x, {{"p", -kInf}}), (std::vector<double>{0}));
}

TEST(LogSumExp, Infinities_AreKept) {
  EXPECT_EQ(values("logsumexp", tensor_of(DType::f32, {2}, {-kInf, -kInf})),
            (std::vector<double>{-kInf}));
  EXPECT_EQ(values("logsumexp", tensor_of(DType::f32, {2}, {kInf, 1})),
            (std::vector<double>{kInf}));
}

TEST(Softmax, Rows_AgreeWithPlainLoops) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const int64_t dim : {0, 1, 2}) {
      const Tensor x = filled_by("uniform(-5, 5)", dtype, {3, 17, 4}, 8);
      const auto groups = groups_of(x, {dim});
      const DimMask mask = mask_of(x, {dim});
      const std::vector<double> in = values_of(x), p = values("softmax", x, {{"dim", dim}}),
                                l = values("log_softmax", x, {{"dim", dim}});
      for (size_t i = 0; i < in.size(); ++i) {
        double sum = 0;
        for (const double v : groups[place_of(static_cast<int64_t>(i), x, mask)])
          sum += std::exp(v);
        const double share = std::exp(in[i]) / sum, log_share = in[i] - std::log(sum);
        EXPECT_LE(std::fabs(p[i] - share), room_computed_in(dtype, share));
        EXPECT_LE(std::fabs(l[i] - log_share), room_computed_in(dtype, std::fabs(log_share) + 5));
      }
    }
}

TEST(Softmax, MaskedElements_AreZero) {
  const Tensor got =
      ran("softmax", tensor_of(DType::f32, {3}, {1, -kInf, 2}), {{"dim", int64_t{0}}});
  EXPECT_EQ(values_of(got)[1], 0);
}

TEST(Cumsum, EveryDim_IsSummedAlong) {
  const Tensor x = tensor_of(DType::i32, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(values("cumsum", x, {{"dim", int64_t{0}}}), (std::vector<double>{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(values("cumsum", x, {{"dim", int64_t{1}}}), (std::vector<double>{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(ran("cumsum", x, {{"dim", int64_t{1}}}).dtype, DType::i64);
}

}  // namespace
}  // namespace shardproof::testing::reduction_test
