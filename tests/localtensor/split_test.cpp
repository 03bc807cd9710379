// Tests split.h: assemble(split(x, spec, any fill)) == x, by brute force over small meshes and all
// placements.
#include "shardproof/localtensor/split/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shardproof/tests/localtensor/spec_corpus.h"

namespace shardproof::split_test {
namespace {

using corpus::all_specs;
using corpus::cuts_of;
using corpus::numbered;

void expect_round_trip(const Tensor& x, const Spec& spec, PartialFill fill) {
  const LocalTensor locals = split(x, spec, fill, 7);
  EXPECT_EQ(locals.lanes(), spec.mesh().ranks());
  EXPECT_TRUE(bit_equal(assemble(locals, spec), 0, x, 0)) << to_string(spec);
  for (const Block& block : locals.blocks())
    for (int64_t i = 0; i < block.lanes.size(); ++i)
      ASSERT_EQ(spec.local_shape(block.lanes[i]), block.tensor.shape) << to_string(spec);
}

TEST(Split, RoundTripOfEveryCut) {
  int64_t count = 0;
  for (const char* mesh_text : {"a=2", "a=3", "a=4", "a=2, b=2", "a=2, b=3", "a=2, b=2, c=2"})
    for (const Dims& shape : {Dims{5}, Dims{8}, Dims{3, 4}, Dims{1, 6}, Dims{0, 3}}) {
      const Mesh mesh = Mesh::parse(mesh_text);
      const bool strided = mesh.axis_count() < 3 || shape.size() < 2;
      for (const Spec& spec : all_specs(mesh, shape, DType::f32, cuts_of(shape, strided))) {
        expect_round_trip(numbered(DType::f32, shape), spec, PartialFill::owner);
        EXPECT_EQ(Spec::parse(placements_text(spec), mesh, shape, DType::f32), spec)
            << placements_text(spec);
        ++count;
      }
    }
  std::printf("%lld specs\n", static_cast<long long>(count));
}

// Rows are contiguous in the tensor, so nothing is copied until a write.
TEST(Split, ByRows_SharesContentsUntilAWrite) {
  const Mesh mesh = Mesh::parse("a=4");
  const Tensor x = numbered(DType::f32, {8, 3});
  LocalTensor rows = split(x, Spec::parse("a:S(0)", mesh, {8, 3}, DType::f32));
  Tensor& local = rows.blocks()[0].tensor;
  EXPECT_TRUE(local.buffer->bytes.shares_with(x.buffer->bytes));
  store_f64(local.mutate(2), DType::f32, -1);
  EXPECT_FALSE(local.buffer->bytes.shares_with(x.buffer->bytes));
  EXPECT_TRUE(bit_equal(x, 0, numbered(DType::f32, {8, 3}), 0));
  EXPECT_EQ(element_f64(local, 2, {0, 0}), -1);
  EXPECT_EQ(element_f64(local, 1, {1, 2}), element_f64(x, 0, {3, 2}));
}

TEST(Split, RoundTripOfEveryPartial) {
  const Mesh mesh = Mesh::parse("a=2, b=3");
  const Dims shape = {3, 4};
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                        ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) {
      // With two or three bits of significand, three values with a given average may not exist.
      if (op == ReduceOp::avg && precision_bits(dtype) <= 4 && is_floating(dtype)) continue;
      for (const Spec& spec : all_specs(mesh, shape, dtype, {R(), S(0), S(1), P(op)}))
        for (PartialFill fill : {PartialFill::owner, PartialFill::exact, PartialFill::adversarial})
          expect_round_trip(numbered(dtype, shape), spec, fill);
    }
  }
}

// Parts differ, so that a missing reduction, a repeated one and a wrong operator are detected.
TEST(Split, ExactPartsDiffer) {
  for (int64_t n : {2, 3, 4, 8})
    for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32})
      for (ReduceOp op :
           {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::min, ReduceOp::max}) {
        const Mesh mesh = Mesh::make({{"tp", n}});
        const Tensor x = numbered(dtype, {6, 5});
        const Spec spec(mesh, {P(op)}, x.shape, dtype);
        const LocalTensor locals = split(x, spec, PartialFill::exact, 3);
        bool negative = false, positive = false;
        for (int64_t i = 0; i < n; ++i) {
          const Tensor part = locals.of_rank(i);
          EXPECT_FALSE(bit_equal(part, 0, x, 0)) << name(dtype) << " " << name(op);
          for (int64_t j = 0; j < i; ++j)
            EXPECT_FALSE(bit_equal(part, 0, locals.of_rank(j), 0)) << name(dtype) << name(op) << n;
          for (double value : values_of(part)) {
            negative = negative || value < 0;
            positive = positive || value > 0;
          }
        }
        EXPECT_TRUE(negative && positive);
        expect_round_trip(x, spec, PartialFill::exact);
      }
}

TEST(Split, OddValuesStayExact) {
  const Mesh mesh = Mesh::parse("a=3, b=2");
  for (DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2}) {
    std::vector<double> values;
    for (int i = 0; i < 64; ++i)
      values.push_back(std::ldexp((i % 2 ? 1.0 : -1.0) * (1 + i * 0.137), i % 13 - 6));
    values[0] = 0;
    values[1] = -0.0;
    values[2] = max_finite(dtype);
    const Tensor x = tensor_of(dtype, {64}, values);
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max})
      for (PartialFill fill : {PartialFill::exact, PartialFill::adversarial})
        expect_round_trip(x, Spec(mesh, {P(op), P(op)}, x.shape, dtype), fill);
  }
}

// Values for which parts with that average exist on each axis: n times the value fits the dtype.
TEST(Split, AveragesOverManyAxesStayExact) {
  for (const char* mesh_text : {"a=3, b=2, c=3", "a=3, b=3", "a=2, b=6", "a=5, b=3, c=2"})
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64, DType::c64}) {
      const Mesh mesh = Mesh::parse(mesh_text);
      const int last = mesh.axis_count() - 1;
      std::vector<double> values;
      for (int i = -90; i <= 90; ++i) values.push_back(i * 0.37);
      for (int i = -90; i <= 90; ++i) values.push_back(i);
      const Tensor all = tensor_of(dtype, {std::ssize(values)}, values);
      std::vector<double> reached;
      for (const double x : values_of(all)) {
        const Tensor sum = tensor_of(dtype, {}, {x * static_cast<double>(mesh.axis_size(last))});
        const double mean = values_of(sum)[0] / static_cast<double>(mesh.axis_size(last));
        if (values_of(tensor_of(dtype, {}, {mean}))[0] == x) reached.push_back(x);
      }
      EXPECT_GT(reached.size(), values.size() / 2);
      const Tensor x = tensor_of(dtype, {std::ssize(reached)}, reached);
      const std::vector<Placement> averages(static_cast<size_t>(last) + 1, P(ReduceOp::avg));
      for (PartialFill fill : {PartialFill::owner, PartialFill::exact, PartialFill::adversarial})
        expect_round_trip(x, Spec(mesh, averages, x.shape, dtype), fill);
      std::vector<Placement> mixed = averages;
      mixed[0] = P(ReduceOp::sum);
      expect_round_trip(x, Spec(mesh, mixed, x.shape, dtype), PartialFill::exact);
    }
}

// An op that is not linear gives other results on the parts. Parts vary in sign, even if the value
// has all bits of its dtype. A left fold of the parts is the value.
TEST(Split, PartsOfLongNumbersVaryInSign) {
  std::vector<double> values;
  for (int i = 1; i <= 60; ++i) values.push_back((i % 3 == 0 ? -1 : 1) * (1 + std::sin(i) / 2));
  for (int64_t n : {2, 3, 4, 8})
    for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
        const Mesh mesh = Mesh::make({{"tp", n}});
        const Tensor x = tensor_of(dtype, {std::ssize(values)}, values);
        const Spec spec(mesh, {P(op)}, x.shape, dtype);
        const LocalTensor locals = split(x, spec, PartialFill::exact, 0);
        if (op == ReduceOp::sum) expect_round_trip(x, spec, PartialFill::exact);
        int vary = 0;
        for (size_t i = 0; i < values.size(); ++i) {
          double positive = 0, negative = 0;
          for (int64_t rank = 0; rank < n; ++rank) {
            const double part = values_of(locals.of_rank(rank))[i];
            (part > 0 ? positive : negative) += std::fabs(part);
          }
          vary += std::min(positive, negative) > 0.01 * std::fabs(values[i]) ? 1 : 0;
        }
        EXPECT_GT(vary, 30) << name(dtype) << " " << name(op) << " " << n;
      }
}

// A bug on one rank is visible: each rank has parts above 0, parts below 0, and parts that are not
// the value. This also holds for averages of integers and of values with few bits.
TEST(Split, EveryRankHasPartsOfBothSigns) {
  for (int64_t n : {2, 3, 4, 5})
    for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::f8e4m3,
                        DType::f8e5m2, DType::i64, DType::i32, DType::i8, DType::u8})
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod}) {
        const bool is_signed_dtype = dtype != DType::u8;
        const bool is_small = is_floating(dtype) && precision_bits(dtype) <= 4;
        if (is_small && n > 3) continue;  // no room
        std::vector<double> values;
        for (int i = 0; i < 200; ++i)
          values.push_back(is_floating(dtype) && i % 2 == 0 ? 1 + std::sin(i) / 2 : 1 + i % 12);
        const Tensor x = tensor_of(dtype, {std::ssize(values)}, values);
        const Mesh mesh = Mesh::make({{"tp", n}});
        const LocalTensor locals =
            split(x, Spec(mesh, {P(op)}, x.shape, dtype), PartialFill::exact, 11);
        const std::vector<double> wholes = values_of(x);
        for (int64_t rank = 0; rank < n; ++rank) {
          const std::vector<double> part = values_of(locals.of_rank(rank));
          int above = 0, below = 0, others = 0, odd = 0;
          for (size_t i = 0; i < part.size(); ++i) {
            above += part[i] > 0 ? 1 : 0;
            below += part[i] < 0 ? 1 : 0;
            others += part[i] != wholes[i] ? 1 : 0;
            odd += std::fmod(std::fabs(part[i]), 2) == 1 ? 1 : 0;
          }
          const std::string text = fmt::format("{} {} rank {} of {}: {} {} {} {}", name(dtype),
                                               name(op), rank, n, above, below, others, odd);
          EXPECT_GE(above, 10) << text;
          EXPECT_TRUE(below >= 10 || !is_signed_dtype) << text;
          EXPECT_TRUE(others >= 40 || (!is_signed_dtype && op == ReduceOp::prod)) << text;
          EXPECT_TRUE(odd >= 20 || is_floating(dtype)) << text;
        }
      }
}

// No subset of the parts rounds, in whatever order they are added.
TEST(Split, PartsOfWholeNumbersAreAddedWithoutRounding) {
  constexpr double kMost = 80;
  std::vector<double> values;
  for (double x = -kMost; x <= kMost; ++x) values.push_back(x);
  for (const char* mesh_text : {"a=2", "a=8", "a=2, b=3", "a=4, b=2", "a=2, b=2, c=2"})
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
      const Mesh mesh = Mesh::parse(mesh_text);
      const Tensor x = tensor_of(dtype, {std::ssize(values)}, values);
      const std::vector<Placement> all(static_cast<size_t>(mesh.axis_count()), P(ReduceOp::sum));
      const LocalTensor locals = split(x, Spec(mesh, all, x.shape, dtype), PartialFill::exact, 5);
      std::vector<double> sums(values.size()), sizes(values.size());
      for (int64_t rank = 0; rank < mesh.size(); ++rank) {
        const std::vector<double> part = values_of(locals.of_rank(rank));
        for (size_t i = 0; i < part.size(); ++i) {
          EXPECT_EQ(part[i], std::trunc(part[i]));
          sums[i] += part[i];
          sizes[i] += std::fabs(part[i]);
        }
      }
      EXPECT_EQ(sums, values) << mesh_text << name(dtype);
      EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), std::ldexp(1, precision_bits(dtype)))
          << mesh_text << name(dtype);
    }
}

}  // namespace
}  // namespace shardproof::split_test
