// Tests engine/execute/buffer_viewers.h against a list of all pairs. Many values share buffers, so
// entries of the table collide, and move when others are removed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "shardproof/engine/execute/buffer_viewers.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof {
namespace {

LocalTensor view_of(const std::vector<Tensor>& owners) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < owners.size(); ++i)
    blocks.push_back({Lanes::one(static_cast<int64_t>(i)), owners[i]});
  return LocalTensor(std::move(blocks));
}

std::set<ValueId> viewers_in(const BufferViewers& viewers, const Buffer* buffer) {
  std::set<ValueId> ids;
  viewers.for_each(buffer, [&](ValueId id) { EXPECT_TRUE(ids.insert(id).second) << id; });
  return ids;
}

TEST(BufferViewers, RandomValues_AreFoundUntilTheyAreRemoved) {
  constexpr size_t kBuffers = 40;
  constexpr ValueId kValues = 100;
  std::vector<Tensor> owners;
  for (size_t i = 0; i < kBuffers; ++i) owners.push_back(Tensor::empty(DType::f32, Dims{2}));
  const Rng random(1, 0);
  uint64_t drawn = 0;
  BufferViewers viewers;
  std::map<ValueId, LocalTensor> values;
  for (int step = 0; step < 5000; ++step) {
    const auto id = static_cast<ValueId>(random.bits(drawn++) % kValues);
    if (const auto held = values.find(id); held != values.end()) {
      viewers.remove(id, held->second);
      values.erase(held);
    } else {
      const size_t first = random.bits(drawn++) % kBuffers,
                   second = random.bits(drawn++) % kBuffers;
      values[id] = view_of({owners[first], owners[second]});
      viewers.add(id, values[id]);
    }
    const Buffer* const buffer = owners[random.bits(drawn++) % kBuffers].buffer.get();
    std::set<ValueId> expected;
    for (const auto& [value, tensor] : values)
      for (const Block& block : tensor.blocks())
        if (block.tensor.buffer.get() == buffer) expected.insert(value);
    ASSERT_EQ(viewers_in(viewers, buffer), expected) << "step " << step;
    const auto any = [](ValueId) { return true; };
    ASSERT_EQ(viewers.another_views(buffer, id, any),
              expected.size() > (expected.contains(id) ? 1u : 0u));
  }
}

TEST(BufferViewers, Empty_HasNoViewers) {
  const Tensor tensor = Tensor::empty(DType::f32, Dims{2});
  BufferViewers viewers;
  viewers.remove(1, view_of({tensor}));
  EXPECT_TRUE(viewers_in(viewers, tensor.buffer.get()).empty());
}

}  // namespace
}  // namespace shardproof
