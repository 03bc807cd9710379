// Tests tensor.h and memory_pool.h: contents, identity and views; visibility of writes; sharing.
#include "shardproof/localtensor/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/localtensor/tensor/copy_strided.h"

namespace shardproof::tensor_test {
namespace {

using Values = std::vector<double>;

Tensor on_lanes(const Lanes& lanes, const Slots& slots, const Dims& shape) {
  Tensor tensor = Tensor::empty(DType::i32, shape, lanes, slots);
  for (int64_t slot = 0; slot < slots.count(); ++slot)
    for (int64_t i = 0; i < tensor.elements(); ++i)
      store_i64(tensor.mutate(slot) + 4 * i, DType::i32, 100 * slot + i);
  return tensor;
}

Values of_rank(const Tensor& tensor, int64_t rank) {
  const Buffer& buffer = *tensor.buffer;
  return values_of(tensor, buffer.slots[buffer.lanes.index_of(rank)]);
}

TEST(Bytes, WriteToSharedContents_CopiesThemFirst) {
  Bytes a = Bytes::zeros(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
  Bytes b = a;
  EXPECT_TRUE(a.shares_with(b));
  b.mutate()[3] = std::byte{7};
  EXPECT_FALSE(a.shares_with(b));
  EXPECT_EQ(a.data()[3], std::byte{0});
  const std::byte* before = b.data();
  EXPECT_EQ(b.mutate(), before);
}

TEST(Bytes, Empty_HaveAnAddress) {
  Bytes none = Bytes::uninitialized(0);
  EXPECT_EQ(none.size(), 0);
  EXPECT_NE(none.data(), nullptr);
  EXPECT_NE(Bytes().mutate(), nullptr);
  EXPECT_FALSE(none.shares_with(Bytes()));
}

TEST(Pool, BlockBytes_ExceedTheRequestByAnEighthAtMost) {
  for (size_t bytes = 1; bytes < (size_t{1} << 40); bytes += bytes / 7 + 1) {
    const size_t block = pool_block_bytes(bytes);
    ASSERT_GE(block, bytes);
    ASSERT_LE(block, bytes + std::max<size_t>(63, bytes / 8 + 64));
    ASSERT_EQ(block % 64, 0u);
    ASSERT_EQ(pool_block_bytes(block), block);
  }
}

TEST(Pool, RecyclesWithinItsLimit) {
  const size_t before = pool_cached_bytes();
  void* block = pool_allocate(100'000);
  pool_release(block, 100'000);
  const bool recycles = pool_cached_bytes() > before;  // not under the address sanitizer
  void* again = pool_allocate(99'999);
  EXPECT_TRUE(!recycles || again == block);
  pool_release(again, 99'999);
  std::vector<void*> blocks;
  constexpr size_t kBytes = size_t{40} << 20;
  for (int i = 0; i < 20; ++i) blocks.push_back(pool_allocate(kBytes));
  for (void* each : blocks) pool_release(each, kBytes);
  EXPECT_LE(pool_cached_bytes(), kPoolMaxCachedBytes);
  EXPECT_THROW(pool_allocate(size_t{1} << 62), Error);
}

TEST(Pool, BlockReleasedOnAnotherThread_CanBeReused) {
  Bytes bytes = Bytes::zeros(1000);
  std::thread([moved = std::move(bytes)]() mutable { moved = Bytes(); }).join();
  Bytes made;
  std::thread([&] { made = Bytes::zeros(1000); }).join();
  EXPECT_EQ(made.data()[999], std::byte{0});
}

TEST(Pool, SmallBlocksOfAnEndedThread_AreReused) {
  void* block = pool_allocate(100'000);
  const size_t before = pool_cached_bytes();
  pool_release(block, 100'000);
  if (pool_cached_bytes() == before) GTEST_SKIP() << "the address sanitizer: no recycling";
  const auto allocate_and_release = [](std::set<void*>& blocks) {
    std::thread([&] {
      // The blocks need more than one slab; all of them are distinct and do not overlap.
      for (int i = 0; i < 500; ++i) blocks.insert(pool_allocate(900));
      for (void* block : blocks) pool_release(block, 900);
    }).join();
  };
  std::set<void*> first, second;
  allocate_and_release(first);
  allocate_and_release(second);
  ASSERT_EQ(first.size(), 500u);
  for (auto it = first.begin(), next = std::next(it); next != first.end(); it = next++)
    ASSERT_GE(static_cast<std::byte*>(*next) - static_cast<std::byte*>(*it), 900);
  int again = 0;
  for (void* block : second) again += first.contains(block);
  EXPECT_GT(again, 250);
}

TEST(Pool, SlabRestOfAnEndedThread_IsReused) {
  void* block = pool_allocate(100'000);
  const size_t before = pool_cached_bytes();
  pool_release(block, 100'000);
  if (pool_cached_bytes() == before) GTEST_SKIP() << "the address sanitizer: no recycling";
  constexpr uintptr_t kLarge = uintptr_t{2} << 20;
  std::set<uintptr_t> first;
  int there = 0;
  std::thread([&] {
    std::vector<void*> blocks;
    for (int i = 0; i < 4000; ++i) blocks.push_back(pool_allocate(900));
    for (size_t i = 3500; i < 4000; ++i)
      first.insert(reinterpret_cast<uintptr_t>(blocks[i]) / kLarge);
    for (void* each : blocks) pool_release(each, 900);
  }).join();
  std::thread([&] {
    std::vector<void*> blocks;
    for (int i = 0; i < 1000; ++i) blocks.push_back(pool_allocate(450));
    for (void* each : blocks) there += first.contains(reinterpret_cast<uintptr_t>(each) / kLarge);
    for (void* each : blocks) pool_release(each, 450);
  }).join();
  EXPECT_GT(there, 500);
}

// An object that is destroyed after the pool of its thread.
const Tensor outlives_main = tensor_of(DType::f32, {2}, {1, 2});

TEST(Slots, Kinds) {
  EXPECT_TRUE(Slots::table({0, 0, 0}).is_shared());
  EXPECT_TRUE(Slots::table({0, 1, 2}).is_each());
  EXPECT_TRUE(Slots::table({0, 1, 2}).same(Slots::each(3)));
  const Slots table = Slots::table({1, 0, 1});
  EXPECT_EQ(table.count(), 2);
  EXPECT_EQ(table[2], 1);
  EXPECT_FALSE(table.is_ordered());
  EXPECT_TRUE(Slots::table({0, 1, 1}).is_ordered());
  EXPECT_TRUE(table.same(Slots(table)));
  EXPECT_EQ(Slots::shared(0).count(), 0);
}

TEST(Tensor, WriteThroughOneView_IsSeenByAll) {
  Tensor a = tensor_of(DType::f32, {2, 3}, {0, 1, 2, 3, 4, 5});
  Tensor transposed = a;
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  Tensor row = a;
  row.shape = {3};
  row.strides = {1};
  row.offset = 3;
  store_f64(row.mutate(), DType::f32, 30);
  EXPECT_EQ(values_of(a), (Values{0, 1, 2, 30, 4, 5}));
  EXPECT_EQ(values_of(transposed), (Values{0, 30, 1, 4, 2, 5}));
  EXPECT_EQ(element_f64(transposed, 0, {0, 1}), 30);
  EXPECT_FALSE(transposed.contiguous());
  EXPECT_TRUE(row.contiguous());
}

TEST(Tensor, ContiguousCopy_IsIndependentOfLaterWrites) {
  Tensor a = tensor_of(DType::i16, {4}, {1, 2, 3, 4});
  Tensor whole = contiguous_copy(a);
  Tensor part = a;
  part.shape = {2};
  part.offset = 1;
  Tensor part_copy = contiguous_copy(part);
  EXPECT_TRUE(whole.buffer->bytes.shares_with(a.buffer->bytes));
  EXPECT_NE(whole.buffer, a.buffer);
  store_i64(a.mutate(), DType::i16, 9);
  EXPECT_EQ(values_of(whole), (Values{1, 2, 3, 4}));
  EXPECT_EQ(values_of(part_copy), (Values{2, 3}));
  EXPECT_EQ(part_copy.buffer->bytes_per_lane, 4);
}

TEST(Tensor, ContiguousCopy_OfAnyView_IsContiguous) {
  Tensor a = Tensor::empty(DType::u8, {2, 1, 3});
  a.strides[1] = 77;
  EXPECT_TRUE(a.contiguous());
  a.strides[0] = 4;
  EXPECT_FALSE(a.contiguous());
  a.shape[2] = 0;
  EXPECT_TRUE(a.contiguous());
  EXPECT_TRUE(Tensor::empty(DType::u8, {}).contiguous());
}

TEST(Tensor, TooManyBytesOrValues_Throw) {
  EXPECT_THROW(Tensor::empty(DType::c128, {int64_t{1} << 60}), Error);
  EXPECT_THROW(tensor_of(DType::f32, {2}, {1, 2, 3}), Error);
  EXPECT_EQ(values_of(tensor_of(DType::f32, {0, 3}, {})), Values{});
}

// Every lane keeps its values; the lanes given own their copies; copies are numbered in lane order.
TEST(Separate, Lanes_GetOwnCopies_WithEqualValues) {
  const Rng rng(6, 0);
  for (uint64_t trial = 0; trial < 3000; ++trial) {
    const int64_t lanes = rng.integer(100 * trial, 1, 9);
    std::vector<int32_t> table, chosen, ranks;
    for (int64_t i = 0; i < lanes; ++i) {
      const uint64_t draw = 100 * trial + 1 + 3 * static_cast<uint64_t>(i);
      table.push_back(static_cast<int32_t>(rng.integer(draw, 0, 3)));
      ranks.push_back(static_cast<int32_t>(2 * i + rng.integer(draw + 1, 0, 2)));
      if (rng.integer(draw + 2, 0, 2) == 0) chosen.push_back(ranks.back());
    }
    std::vector<int32_t> numbers(3, -1);
    int32_t next = 0;
    for (int32_t& slot : table) {
      int32_t& number = numbers[static_cast<size_t>(slot)];
      if (number < 0) number = next++;
      slot = number;
    }
    Tensor a = on_lanes(Lanes::of(ranks), Slots::table(table), {3});
    const Tensor view = a;
    std::vector<Values> before;
    for (const int32_t rank : ranks) before.push_back(of_rank(a, rank));
    separate(*a.buffer, Lanes::of(chosen));
    const Slots& slots = a.buffer->slots;
    ASSERT_TRUE(slots.is_ordered());
    ASSERT_EQ(a.buffer->bytes.size(), slots.count() * 12);
    for (size_t i = 0; i < ranks.size(); ++i) {
      ASSERT_EQ(of_rank(view, ranks[i]), before[i]);
      const bool own = Lanes::of(chosen).contains(ranks[i]);
      for (size_t j = 0; j < ranks.size(); ++j) {
        const bool together = slots[static_cast<int64_t>(i)] == slots[static_cast<int64_t>(j)];
        const bool other_own = Lanes::of(chosen).contains(ranks[j]);
        ASSERT_EQ(together, i == j || (!own && !other_own && table[i] == table[j]));
      }
    }
  }
}

TEST(Separate, BuffersThatShareContents_AreUnchanged) {
  Tensor a = on_lanes(Lanes::range(0, 4), Slots::shared(4), {2});
  const Tensor copy = contiguous_copy(a);
  separate(*a.buffer, Lanes::one(2));
  const int64_t slot = a.buffer->slots[2];
  store_i64(a.mutate(slot), DType::i32, 50);
  EXPECT_EQ(of_rank(a, 2), (Values{50, 1}));
  EXPECT_EQ(of_rank(a, 3), (Values{0, 1}));
  EXPECT_EQ(of_rank(copy, 2), (Values{0, 1}));
  const Bytes held = a.buffer->bytes;
  separate(*a.buffer, Lanes::one(2));
  EXPECT_TRUE(held.shares_with(a.buffer->bytes));
}

TEST(Separate, BufferWithoutContents_GetsNewSlots) {
  Buffer buffer{{}, 1000, Lanes::range(0, 3), Slots::shared(3), 0};
  separate(buffer, buffer.lanes);
  EXPECT_TRUE(buffer.slots.is_each());
  EXPECT_EQ(buffer.bytes.size(), 0);
}

TEST(BitEqual, ZerosDiffer_AndNansAreEqual) {
  const auto equal = [](DType dtype, double a, double b) {
    return bit_equal(tensor_of(dtype, {1}, {a}), 0, tensor_of(dtype, {1}, {b}), 0);
  };
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::c64}) {
    EXPECT_TRUE(equal(dtype, NAN, -NAN)) << name(dtype);
    EXPECT_FALSE(equal(dtype, NAN, 1)) << name(dtype);
    EXPECT_FALSE(equal(dtype, 0.0, -0.0)) << name(dtype);
    EXPECT_TRUE(equal(dtype, 2, 2)) << name(dtype);
  }
  EXPECT_FALSE(equal(DType::i8, 0, 1));
  EXPECT_FALSE(bit_equal(tensor_of(DType::i8, {1}, {1}), 0, tensor_of(DType::u8, {1}, {1}), 0));
  EXPECT_FALSE(bit_equal(tensor_of(DType::i8, {1}, {1}), 0, tensor_of(DType::i8, {}, {1}), 0));
}

TEST(BitEqual, ViewsWithOtherStrides_AreEqual) {
  const Tensor a = tensor_of(DType::f32, {2, 2}, {1, 2, 3, 4});
  Tensor transposed = tensor_of(DType::f32, {2, 2}, {1, 3, 2, 4});
  std::swap(transposed.strides[0], transposed.strides[1]);
  EXPECT_TRUE(bit_equal(a, 0, transposed, 0));
}

// Returns strides of a box with its dims nested in any order and elements `gap` apart.
Dims nested_strides(const Dims& shape, const Dims& order, int64_t gap) {
  Dims strides = shape;
  for (const int64_t d : order) {
    strides[static_cast<int>(d)] = gap;
    gap *= std::max<int64_t>(shape[static_cast<int>(d)], 1);
  }
  return strides;
}

int64_t place(const Dims& at, const Dims& strides) {
  int64_t offset = 0;
  for (int d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
  return offset;
}

TEST(CopyStrided, AgreesWithElementByElement) {
  std::vector<std::byte> source(60'000);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (uint64_t trial = 0; trial < 3000; ++trial) {
    const Rng rng(8, trial);
    uint64_t draw = 0;
    const auto pick = [&](int64_t low, int64_t high) { return rng.integer(draw++, low, high); };
    const int dims = static_cast<int>(pick(0, 5));
    Dims shape, source_order, target_order;
    for (int d = 0; d < dims; ++d) {
      shape.push_back(pick(0, 30) == 0 ? 0 : pick(1, 5));
      source_order.insert(static_cast<int>(pick(0, d + 1)), d);
      target_order.insert(static_cast<int>(pick(0, d + 1)), d);
    }
    Dims source_strides = nested_strides(shape, source_order, pick(1, 3));
    const Dims target_strides = nested_strides(shape, target_order, pick(1, 3));
    for (int64_t& stride : source_strides)
      if (pick(0, 5) == 0) stride = 0;
    const int64_t bytes = int64_t{1} << pick(0, 5);
    std::vector<std::byte> target(source.size()), want(source.size());
    copy_strided(source.data(), source_strides, target.data(), target_strides, shape, bytes);
    for (int64_t i = 0; i < element_count(shape); ++i) {
      const Dims at = unravel(i, shape);
      std::memcpy(want.data() + place(at, target_strides) * bytes,
                  source.data() + place(at, source_strides) * bytes, static_cast<size_t>(bytes));
    }
    ASSERT_EQ(target, want) << to_string(shape);
  }
}

}  // namespace
}  // namespace shardproof::tensor_test
