// Implements join_slots of local_tensor.h.
//
//   1. If every input has one shared copy, the result has one shared copy.
//   2. If some input reads a new copy on every lane, the result is Slots::each.
//   3. If only one table differs from lane to lane, that table is reused (reusable_table).
//   4. Otherwise number the tuples of copies. All lanes start with tuple 0. After each input, a
//      lane has the number of its pair (tuple so far, copy of this input), in order of first
//      occurrence.
//
// Example of 4: inputs 0 0 1 1 and 0 1 1 1. After input 0: 0 0 1 1. Pairs with input 1: (0,0) (0,1)
// (1,1) (1,1), numbered 0 1 2 2.
#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {
namespace {

// The copy that each lane of a block reads; a constant or rising sequence is not written out.
struct LaneMap {
  int64_t first = 0;               // copy of lane 0
  int64_t step = 0;                // lane i reads first + i * step, unless there is a table
  const int32_t* table = nullptr;  // the buffer's table from this block's first lane on, or `own`
  std::vector<int32_t> own;

  int32_t operator[](int64_t i) const {
    return table != nullptr ? table[i] : static_cast<int32_t>(first + i * step);
  }
  bool is_constant() const { return table == nullptr && step == 0; }
  bool is_rising() const { return table == nullptr && step == 1; }
  bool same(const LaneMap& o) const {
    return table == o.table && own.empty() && o.own.empty() && first == o.first && step == o.step;
  }
};

LaneMap lane_map(const Lanes& lanes, const Block& block) {
  const Buffer& buffer = *block.tensor.buffer;
  LaneMap map;
  if (buffer.slots.is_shared() || lanes.size() == 1) {
    map.first = block.slot(0);
    return map;
  }
  const int64_t start = buffer.lanes.index_of(lanes[0]);
  const int64_t end = buffer.lanes.index_of(lanes[lanes.size() - 1]);
  if (end - start + 1 == lanes.size()) {
    if (buffer.slots.is_each()) {
      map.first = start;
      map.step = 1;
    } else {
      map.table = buffer.slots.table_data() + start;
    }
    return map;
  }
  map.own.reserve(static_cast<size_t>(lanes.size()));
  int64_t at = start;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    while (buffer.lanes[at] != lanes[i]) ++at;
    map.own.push_back(static_cast<int32_t>(buffer.slots[at]));
  }
  map.table = map.own.data();
  return map;
}

// Numbers pairs (a, b) by first occurrence. Uses a plain array for small ranges of a and b, else a
// hash table with open addressing.
class PairNumbers {
 public:
  PairNumbers(int64_t a_count, int64_t b_count, int64_t pairs) : b_count_(b_count) {
    const bool plain = a_count <= 8 * pairs / std::max<int64_t>(b_count, 1) + 1;
    if (!plain) mask_ = std::bit_ceil(static_cast<uint64_t>(2 * pairs)) - 1;
    const uint64_t cells = plain ? static_cast<uint64_t>(a_count * b_count) : mask_ + 1;
    numbers_.assign(cells, -1);
    if (!plain) keys_.resize(cells);
  }

  // Returns the number of a pair; a new pair gets the number `next`.
  int32_t number(int32_t a, int32_t b, int32_t next) {
    const uint64_t key =
        static_cast<uint64_t>(a) * static_cast<uint64_t>(b_count_) + static_cast<uint64_t>(b);
    uint64_t cell = key;
    if (mask_ != 0) {
      cell = (key * 0x9E3779B97F4A7C15u >> 32) & mask_;
      while (numbers_[cell] >= 0 && keys_[cell] != key) cell = (cell + 1) & mask_;
      keys_[cell] = key;
    }
    if (numbers_[cell] < 0) numbers_[cell] = next;
    return numbers_[cell];
  }

 private:
  int64_t b_count_;
  uint64_t mask_ = 0;
  std::vector<int32_t> numbers_;
  std::vector<uint64_t> keys_;
};

// One number for each lane, equal where all maps joined so far agree; numbered by first occurrence.
struct Tuples {
  std::vector<int32_t> of_lane;
  int32_t count = 0;
};

void refine(Tuples& tuples, const LaneMap& map, int64_t copies) {
  const int64_t lanes = static_cast<int64_t>(tuples.of_lane.size());
  PairNumbers numbers(tuples.count, copies, lanes);
  int32_t next = 0;
  for (int64_t i = 0; i < lanes; ++i) {
    int32_t& tuple = tuples.of_lane[static_cast<size_t>(i)];
    tuple = numbers.number(tuple, map[i], next);
    if (tuple == next) ++next;
  }
  tuples.count = next;
}

// Returns, for each input, the copy that the first lane of each tuple reads.
std::vector<std::vector<int32_t>> sources_of(const Slots& slots, const std::vector<LaneMap>& maps) {
  std::vector<std::vector<int32_t>> sources;
  sources.reserve(maps.size());
  for (const LaneMap& map : maps) {
    auto& source = sources.emplace_back(static_cast<size_t>(slots.count()), map[0]);
    if (map.is_constant()) continue;
    if (map.is_rising() && slots.is_each()) {
      std::iota(source.begin(), source.end(), map[0]);
      continue;
    }
    int64_t found = 0;
    for (int64_t i = 0; found < slots.count(); ++i)
      if (slots[i] == found) source[static_cast<size_t>(found++)] = map[i];
  }
  return sources;
}

// Returns the slots of an input whose table is the result, else null. A table is the result if it
// covers exactly these lanes and all other inputs are constant or equal to it. Later joins
// recognize the same table by its address, so they also reuse it.
const Slots* reusable_table(const Lanes& lanes, const std::vector<const Block*>& inputs,
                            const std::vector<LaneMap>& maps) {
  size_t chosen = maps.size();
  for (size_t k = 0; k < maps.size(); ++k) {
    if (maps[k].is_constant()) continue;
    if (chosen == maps.size()) chosen = k;
    if (!maps[k].same(maps[chosen])) return nullptr;
  }
  if (chosen == maps.size()) return nullptr;
  const Buffer& buffer = *inputs[chosen]->tensor.buffer;
  const bool whole = buffer.slots.is_ordered() && buffer.lanes.size() == lanes.size();
  return whole ? &buffer.slots : nullptr;
}

Slots joined_slots(const Lanes& lanes, const std::vector<const Block*>& inputs,
                   const std::vector<LaneMap>& maps) {
  if (std::any_of(maps.begin(), maps.end(), [](const LaneMap& m) { return m.is_rising(); }))
    return Slots::each(lanes.size());
  if (const Slots* kept = reusable_table(lanes, inputs, maps)) return *kept;
  Tuples tuples;
  const LaneMap* last = nullptr;
  for (size_t k = 0; k < maps.size(); ++k) {
    if (maps[k].is_constant() || (last != nullptr && last->same(maps[k]))) continue;
    if (last == nullptr) {
      tuples.of_lane.assign(static_cast<size_t>(lanes.size()), 0);
      tuples.count = 1;
    }
    last = &maps[k];
    refine(tuples, maps[k], inputs[k]->tensor.buffer->slots.count());
  }
  if (last == nullptr) return Slots::shared(lanes.size());
  return Slots::table(std::move(tuples.of_lane));
}

}  // namespace

SlotJoin join_slots(const Lanes& lanes, const std::vector<const Block*>& inputs) {
  const bool all_shared = std::all_of(inputs.begin(), inputs.end(), [](const Block* input) {
    return input->tensor.buffer->slots.is_shared();
  });
  if (all_shared && !lanes.empty())
    return {Slots::shared(lanes.size()), {inputs.size(), std::vector<int32_t>{0}}};
  std::vector<LaneMap> maps;
  maps.reserve(inputs.size());
  for (const Block* input : inputs) {
    SP_CHECK(input->lanes == lanes, "a block of ranks {} joined on {}", to_string(input->lanes),
             to_string(lanes));
    if (!lanes.empty()) maps.push_back(lane_map(lanes, *input));
  }
  SlotJoin join;
  join.slots = joined_slots(lanes, inputs, maps);
  join.sources = sources_of(join.slots, maps);
  join.sources.resize(inputs.size());
  return join;
}

}  // namespace shardproof
