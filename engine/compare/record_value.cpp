// Implements record_value.h.
//
// A digest adds up one hash for each element, of its global index and its bits, modulo 2^64. So the
// digests of disjoint shards add up. With S(0) over 2 ranks, digest(rank 0) + digest(rank 1) is the
// digest of the whole value.
//
// A value with an author's name is stored whole if its spec is known, all ranks hold it and
// replicas agree. Otherwise each distinct copy is stored once.
#include "shardproof/engine/compare/record_value.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "shardproof/engine/compare/compare.h"
#include "shardproof/engine/compare/owned_elements.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

uint64_t mixed(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

uint64_t element_digest(const std::byte* element, int64_t size, int64_t index) {
  uint64_t bits[2] = {0, 0};
  std::memcpy(bits, element, static_cast<size_t>(size));
  const uint64_t place = mixed(static_cast<uint64_t>(index) + 0x9E3779B97F4A7C15ull);
  return mixed(mixed(bits[0] ^ place) ^ bits[1]);
}

uint64_t digest_of(const Tensor& tensor, int64_t slot, const std::optional<Spec>& spec,
                   int64_t rank) {
  const std::byte* data = tensor.data(slot);
  const int64_t size = size_of(tensor.dtype);
  uint64_t digest = 0;
  const auto add = [&](int64_t local, int64_t global) {
    digest += element_digest(data + local * size, size, global);
  };
  if (spec)
    for_each_element(local_indices(*spec, rank), contiguous_strides(spec->shape()), add);
  else
    for (int64_t i = 0; i < tensor.elements(); ++i) add(i, i);
  return digest;
}

// Computes one digest for each stored copy and position of its shard.
class Digests {
 public:
  explicit Digests(const std::optional<Spec>& spec) : spec_(spec) {}
  void add(const Block& block) {
    const Tensor dense = block.tensor.contiguous() ? block.tensor : contiguous_copy(block.tensor);
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      const int32_t rank = block.lanes[i];
      const Dims place = spec_ ? place_of_shard(*spec_, rank) : Dims();
      const auto [known, fresh] = known_.emplace(std::tuple(&block, block.slot(i), place), 0);
      if (fresh) known->second = digest_of(dense, block.slot(i), spec_, rank);
      ranks_[known->second].push_back(rank);
    }
  }
  std::vector<ShardDigest> take() {
    std::vector<ShardDigest> digests;
    for (auto& [digest, ranks] : ranks_) digests.push_back({Lanes::of(std::move(ranks)), digest});
    std::sort(digests.begin(), digests.end(),
              [](const ShardDigest& a, const ShardDigest& b) { return a.lanes[0] < b.lanes[0]; });
    return digests;
  }

 private:
  const std::optional<Spec>& spec_;
  std::map<std::tuple<const Block*, int64_t, Dims>, uint64_t> known_;
  std::map<uint64_t, std::vector<int32_t>> ranks_;
};

Tensor one_copy(const Block& block, int64_t slot) {
  const Tensor dense = block.tensor.contiguous() ? block.tensor : contiguous_copy(block.tensor);
  Tensor copy = Tensor::empty(dense.dtype, dense.shape);
  const size_t bytes = static_cast<size_t>(dense.elements() * size_of(dense.dtype));
  if (bytes != 0) std::memcpy(copy.mutate(), dense.data(slot), bytes);
  return copy;
}

Tensor recorded_whole(const LocalTensor& value, const Spec& spec) {
  if (!spec.has_partial()) return assemble(value, spec);
  const LocalTensor reduced =
      reduced_over_partials(value, spec, is_floating(spec.dtype()) ? DType::f64 : spec.dtype());
  Spec whole = spec.with_dtype(reduced.dtype());
  for (const int axis : spec.partial_axes()) whole = whole.with_placement(axis, R());
  return assemble(reduced, whole);
}

// Fills buffers that were never written, so that equal runs write equal records.
void fill_unwritten(const LocalTensor& value) {
  for (const Block& block : value.blocks())
    if (!has_contents(block.tensor)) poison(*block.tensor.buffer, block.tensor.dtype);
}

}  // namespace

std::vector<RecordedShard> stored_parts(const LocalTensor& value) {
  std::vector<RecordedShard> parts;
  for (const Block& block : value.blocks()) {
    std::map<int64_t, std::vector<int32_t>> ranks;
    for (int64_t i = 0; i < block.lanes.size(); ++i) ranks[block.slot(i)].push_back(block.lanes[i]);
    for (auto& [slot, own] : ranks)
      parts.push_back({Lanes::of(std::move(own)), one_copy(block, slot)});
  }
  std::sort(parts.begin(), parts.end(),
            [](const RecordedShard& a, const RecordedShard& b) { return a.lanes[0] < b.lanes[0]; });
  return parts;
}

RecordedValue record_value(const SpmdValue& info, const std::optional<Spec>& spec,
                           const LocalTensor& value) {
  RecordedValue recorded;
  recorded.id = info.name;
  recorded.bound = info.bound;
  recorded.line = info.origin.line;
  recorded.instance = info.origin.instance;
  recorded.dtype = info.dtype;
  recorded.lanes = value.lanes();
  recorded.spec = spec;
  fill_unwritten(value);
  Digests digests(recorded.spec);
  for (const Block& block : value.blocks()) digests.add(block);
  recorded.digests = digests.take();
  if (recorded.bound.empty()) return recorded;
  recorded.whole =
      spec && value.lanes().contains(spec->mesh().ranks()) && !compare_replicas(value, *spec);
  if (recorded.whole)
    recorded.parts.push_back({value.lanes(), recorded_whole(value, *spec)});
  else
    recorded.parts = stored_parts(value);
  return recorded;
}

}  // namespace shardproof
