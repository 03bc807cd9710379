// Tests collective.h: the forms of `reference` agree to the bit, and folds round as stated.
#include "shardproof/localtensor/collective/collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof::collective_test {
namespace {

constexpr CollectiveKind kKinds[] = {CollectiveKind::all_reduce,     CollectiveKind::all_gather,
                                     CollectiveKind::reduce_scatter, CollectiveKind::all_to_all,
                                     CollectiveKind::broadcast,      CollectiveKind::reduce,
                                     CollectiveKind::gather,         CollectiveKind::scatter};

Slots slots_for(int mode, int64_t lanes) {
  if (mode == 0) return Slots::each(lanes);
  if (mode == 1) return Slots::shared(lanes);
  std::vector<int32_t> table;
  for (int64_t i = 0; i < lanes; ++i) table.push_back(static_cast<int32_t>(i % 3));
  return Slots::table(std::move(table));
}

Tensor random_lanes(DType dtype, int64_t count, const Lanes& lanes, const Slots& slots) {
  Tensor tensor = Tensor::empty(dtype, {count}, lanes, slots);
  const Rng rng(5, 1);
  const int64_t bytes = size_of(dtype);
  for (int64_t slot = 0; slot < slots.count(); ++slot)
    for (int64_t i = 0; i < count; ++i) {
      std::byte* at = tensor.mutate(slot) + i * bytes;
      const auto draw = static_cast<uint64_t>(slot * count + i);
      if (is_floating(dtype) || is_complex(dtype))
        store_f64(at, dtype, rng.normal(draw));
      else
        store_i64(at, dtype,
                  rng.integer(draw, dtype == DType::boolean ? 0 : -100,
                              dtype == DType::boolean ? 2 : 100));
    }
  return tensor;
}

int64_t in_count(const Collective& call) {
  const bool whole =
      call.kind == CollectiveKind::reduce_scatter || call.kind == CollectiveKind::scatter;
  return whole ? call.count * call.group.size() : call.count;
}

void expect_same_on_each_group(const Collective& call, const Tensor& x) {
  const LocalTensor input(x);
  const LocalTensor output = reference(call, input);
  for (int64_t s = 0; s < call.group.count(); ++s) {
    std::vector<Tensor> inputs;
    for (int32_t rank : call.group.members(s)) inputs.push_back(input.of_rank(rank));
    const auto results = reference(call, inputs);
    std::vector<std::span<const std::byte>> bytes;
    for (const Tensor& each : inputs)
      bytes.emplace_back(each.data(), static_cast<size_t>(each.elements() * size_of(each.dtype)));
    const LocalTensor by_member = reference(call, bytes);
    for (int64_t i = 0; i < call.group.size(); ++i) {
      const int32_t rank = call.group.member(s, i);
      const auto& result = results[static_cast<size_t>(i)];
      ASSERT_EQ(result.has_value(), output.find(rank) != nullptr) << to_string(call);
      ASSERT_EQ(result.has_value(), by_member.find(i) != nullptr) << to_string(call);
      if (result) {
        ASSERT_TRUE(bit_equal(*result, 0, output.of_rank(rank), 0))
            << to_string(call) << " rank " << rank;
        ASSERT_TRUE(bit_equal(*result, 0, by_member.of_rank(i), 0))
            << to_string(call) << " member " << i;
      }
    }
  }
}

TEST(Reference, CohortAgreesWithEachGroup) {
  for (const char* text : {"a=2, b=3", "a=2, b=3 on 4 1 0 7 3 2", "a=3, b=2, c=2"}) {
    const Mesh mesh = Mesh::parse(text);
    for (const std::vector<int>& axes : {std::vector<int>{0}, {1}, {0, 1}, {1, 0}})
      for (CollectiveKind kind : kKinds)
        for (DType dtype : {DType::f32, DType::bf16, DType::f8e4m3, DType::i8, DType::c64})
          for (int mode : {0, 1, 2}) {
            Collective call;
            call.kind = kind;
            call.dtype = dtype;
            call.group = Group::of_axes(mesh, axes);
            call.count = 2 * call.group.size();
            call.root = call.group.size() - 1;
            const Lanes lanes = mesh.ranks();
            expect_same_on_each_group(
                call, random_lanes(dtype, in_count(call), lanes, slots_for(mode, lanes.size())));
          }
  }
}

TEST(Reference, EqualOutputs_ShareOneCopy) {
  const Mesh mesh = Mesh::parse("dp=4, tp=8");
  Collective call;
  call.kind = CollectiveKind::all_reduce;
  call.group = Group::of_axes(mesh, {1});
  call.count = 5;
  const auto copies = [&](const Slots& slots) {
    return reference(call, LocalTensor(random_lanes(DType::f32, 5, mesh.ranks(), slots)))
        .blocks()[0]
        .tensor.buffer->slots.count();
  };
  EXPECT_EQ(copies(Slots::each(32)), 4);
  EXPECT_EQ(copies(Slots::shared(32)), 1);
}

// A cohort may hold some of the sibling groups, but only whole ones.
TEST(Reference, CohortOfSomeGroups_RunsThoseOnly) {
  const Mesh mesh = Mesh::parse("dp=4, tp=2");
  Collective call;
  call.kind = CollectiveKind::all_reduce;
  call.group = Group::of_axes(mesh, {1});
  call.count = 3;
  const Tensor x = random_lanes(DType::f32, 3, Lanes::range(2, 6), Slots::each(4));
  EXPECT_EQ(reference(call, LocalTensor(x)).lanes(), Lanes::range(2, 6));
  const Tensor broken = random_lanes(DType::f32, 3, Lanes::range(1, 3), Slots::each(2));
  EXPECT_DEATH(reference(call, LocalTensor(broken)), "");
}

// Folds by the definition: element by element, rounding after each step.
double fold_slowly(const Reduction& reduction, const std::vector<double>& inputs, DType dtype) {
  const auto rounded = [&](double x) {
    std::byte cell[16];
    store_f64(cell, dtype, x);
    return load_f64(cell, dtype);
  };
  double sum = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    const double x = inputs[i];
    switch (reduction.op) {
      case ReduceOp::prod: sum = rounded(sum * x); break;
      case ReduceOp::min: sum = std::isnan(x) || x < sum ? x : sum; break;
      case ReduceOp::max: sum = std::isnan(x) || x > sum ? x : sum; break;
      default: sum = rounded(sum + x);
    }
  }
  return reduction.op == ReduceOp::avg ? rounded(sum / static_cast<double>(inputs.size())) : sum;
}

TEST(Reference, LeftFoldWithRounding) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2})
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::min, ReduceOp::max})
      for (int64_t members : {1, 2, 3, 5, 6, 9}) {
        const int64_t count = 5000;  // more than a tile
        const Tensor x = random_lanes(dtype, count, Lanes::range(0, members), Slots::each(members));
        std::vector<Tensor> inputs;
        std::vector<std::vector<double>> values;
        for (int64_t i = 0; i < members; ++i) {
          inputs.push_back(LocalTensor(x).of_rank(i));
          values.push_back(values_of(inputs.back()));
        }
        const std::vector<double> got = values_of(reduce_all({op, 0}, inputs));
        for (size_t j = 0; j < got.size(); j += 7) {
          std::vector<double> column;
          for (const auto& of_member : values) column.push_back(of_member[j]);
          const double want = fold_slowly({op, 0}, column, dtype);
          ASSERT_TRUE(got[j] == want || (std::isnan(want) && std::isnan(got[j])))
              << name(dtype) << " " << name(op) << " " << got[j] << " " << want;
        }
      }
}

Tensor of(DType dtype, double value) {
  Tensor t = Tensor::empty(dtype, {1});
  store_f64(t.mutate(), dtype, value);
  return t;
}

// Backends with real processes may fold in another order. So min and max must have the same bits in
// every order, also for zeros and NaNs.
TEST(Reference, MinAndMax_InEveryOrder_HaveEqualBits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2})
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max})
      for (const std::vector<double>& values :
           {std::vector{0.0, -0.0, op == ReduceOp::max ? -1.0 : 1.0}, {-nan, 2.0, nan}}) {
        Collective call;
        call.kind = CollectiveKind::all_reduce;
        call.group = Group::world(3);
        call.dtype = dtype;
        call.count = 1;
        call.reduction = {op, 0};
        std::vector<size_t> order{0, 1, 2};
        std::set<std::string> found;
        do {
          std::vector<Tensor> inputs;
          for (const size_t i : order) inputs.push_back(of(dtype, values[i]));
          const auto outputs = reference(call, inputs);
          const char* const bits = reinterpret_cast<const char*>(outputs[0]->data());
          found.emplace(bits, static_cast<size_t>(size_of(dtype)));
          const double got = load_f64(outputs[0]->data(), dtype);
          EXPECT_EQ(std::isnan(got), std::isnan(values[0])) << name(dtype);
          EXPECT_TRUE(got != 0 || std::signbit(got) == (op == ReduceOp::min)) << name(dtype);
        } while (std::next_permutation(order.begin(), order.end()));
        EXPECT_EQ(found.size(), 1u) << name(dtype);
      }
}

TEST(Reference, Integers) {
  const auto reduce = [](ReduceOp op, DType dtype, const std::vector<double>& values) {
    std::vector<Tensor> inputs;
    for (double value : values) inputs.push_back(tensor_of(dtype, {1}, {value}));
    return values_of(reduce_all({op, 0}, inputs))[0];
  };
  EXPECT_EQ(reduce(ReduceOp::sum, DType::i8, {100, 100}), -56);
  EXPECT_EQ(reduce(ReduceOp::avg, DType::i32, {-3, -4}), -3);
  EXPECT_EQ(reduce(ReduceOp::band, DType::i32, {12, 10}), 8);
  EXPECT_EQ(reduce(ReduceOp::bxor, DType::u8, {12, 10}), 6);
  EXPECT_EQ(reduce(ReduceOp::max, DType::boolean, {0, 1}), 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(reduce(ReduceOp::min, DType::f32, {1, nan, 0})));
  EXPECT_THROW(reduce(ReduceOp::sum, DType::boolean, {1, 1}), Error);
}

TEST(Reference, WideAccumulation) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < 257; ++i) inputs.push_back(tensor_of(DType::bf16, {1}, {1}));
  EXPECT_EQ(values_of(reduce_all({ReduceOp::sum, 0}, inputs))[0], 256);
  EXPECT_EQ(values_of(reduce_all({ReduceOp::sum, 0}, inputs, {FoldOrder::f32}))[0], 256);
  inputs.push_back(tensor_of(DType::bf16, {1}, {1}));
  EXPECT_EQ(values_of(reduce_all({ReduceOp::sum, 0}, inputs))[0], 256);
  EXPECT_EQ(values_of(reduce_all({ReduceOp::sum, 0}, inputs, {FoldOrder::f32}))[0], 258);
}

// Rows of a table of counts: the elements that i sends to j are those that j receives from i.
TEST(Reference, UnevenExchange) {
  const Mesh mesh = Mesh::parse("ep=3");
  const std::vector<std::vector<int64_t>> counts = {{1, 2, 0}, {0, 1, 3}, {2, 0, 1}};
  Collective call;
  call.kind = CollectiveKind::all_to_all_v;
  call.group = Group::of_axes(mesh, {0});
  std::vector<Block> blocks;
  std::vector<Tensor> inputs;
  double next = 0;
  for (int64_t rank = 0; rank < 3; ++rank) {
    int64_t brought = 0;
    for (int64_t peer = 0; peer < 3; ++peer) {
      call.send_counts.push_back(counts[static_cast<size_t>(rank)][static_cast<size_t>(peer)]);
      call.recv_counts.push_back(counts[static_cast<size_t>(peer)][static_cast<size_t>(rank)]);
      brought += call.send_counts.back();
    }
    Tensor x = Tensor::empty(DType::f32, {brought}, Lanes::one(rank), Slots::shared(1));
    for (int64_t i = 0; i < brought; ++i) store_f64(x.mutate() + i * 4, DType::f32, next++);
    blocks.push_back({Lanes::one(rank), x});
    inputs.push_back(x);
  }
  const LocalTensor output = reference(call, LocalTensor(blocks));
  EXPECT_EQ(values_of(output.of_rank(0)), (std::vector<double>{0, 7, 8}));
  EXPECT_EQ(values_of(output.of_rank(1)), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(values_of(output.of_rank(2)), (std::vector<double>{4, 5, 6, 9}));
  const auto results = reference(call, inputs);
  for (int64_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(values_of(*results[static_cast<size_t>(rank)]), values_of(output.of_rank(rank)));
}

TEST(Collective, BytesSent) {
  EXPECT_EQ(bytes_sent(CollectiveKind::all_gather, 4, 48), Fraction(36));
  EXPECT_EQ(bytes_sent(CollectiveKind::all_to_all, 4, 192 * 4), Fraction(144));
  EXPECT_EQ(bytes_sent(CollectiveKind::all_reduce, 3, 10), Fraction(40, 3));
  EXPECT_EQ(bytes_sent(CollectiveKind::all_reduce, 1, 10), Fraction(0));
}

TEST(Collective, Text) {
  Collective call;
  call.kind = CollectiveKind::all_reduce;
  call.dtype = DType::bf16;
  call.group = Group::of_axes(Mesh::parse("dp=2, tp=4"), {1});
  call.count = 16384;
  EXPECT_EQ(to_string(call), "all_reduce(sum, group=tp)  bf16 x 16384");
}

}  // namespace
}  // namespace shardproof::collective_test
