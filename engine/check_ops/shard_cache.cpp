// Implements shard_cache.h. Each table is found by a hash and compared by content.
#include "shardproof/engine/check_ops/shard_cache.h"

#include "shardproof/engine/check_ops/shard_run.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

class Hash {
 public:
  void add(int64_t number) {
    value_ = (value_ ^ static_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15;
    value_ ^= value_ >> 29;
  }
  void add(const Dims& dims) {
    add(dims.size());
    for (const int64_t size : dims) add(size);
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0x243F6A8885A308D3;
};

uint64_t hash_of_places(const Spec& spec) {
  Hash hash;
  hash.add(spec.shape());
  hash.add(spec.mesh().size());
  for (const Placement& placement : spec.placements()) {
    if (placement.is_shard()) {
      hash.add(placement.shard().dim + 100);
      hash.add(placement.shard().split);
      for (const int64_t size : placement.shard().sizes) hash.add(size);
    } else {
      hash.add(placement.is_partial() ? 1 + static_cast<int64_t>(placement.partial().reduction.op)
                                      : 0);
    }
  }
  return hash.value();
}

// True if the specs differ in their dtype at most.
bool place_alike(const Spec& a, const Spec& b) {
  return a.placements() == b.placements() && a.shape() == b.shape() && a.order() == b.order() &&
         a.mesh() == b.mesh();
}

uint64_t hash_of(const Slices& slices) {
  Hash hash;
  for (const std::vector<int32_t>& positions : slices.positions) {
    hash.add(static_cast<int64_t>(positions.size()));
    for (const int32_t position : positions) hash.add(position);
  }
  for (const int32_t part : slices.part_of) hash.add(part);
  hash.add(slices.divisor);
  return hash.value();
}

bool hold_alike(const Slices& a, const Slices& b) {
  return a.shapes == b.shapes && a.positions == b.positions && a.groups == b.groups &&
         a.part_of == b.part_of && a.is_partial == b.is_partial && a.reduction == b.reduction &&
         a.divisor == b.divisor;
}

LocalContents contents_of(const RuleDraw& draw, size_t input, const Slices& slices) {
  LocalContents contents;
  contents.placed = place_input(draw, input, slices);
  const int64_t bytes = size_of(draw.instance.inputs[input].dtype);
  for (const std::vector<int32_t>& positions : slices.positions)
    contents.stride = std::max(contents.stride, static_cast<int64_t>(positions.size()) * bytes);
  contents.bytes.resize(static_cast<size_t>(contents.stride * slices.ranks() + 1));
  for (int rank = 0; rank < slices.ranks(); ++rank)
    copy_local(contents.placed, slices, rank, contents.bytes.data() + rank * contents.stride);
  return contents;
}

}  // namespace

const Slices& ShardCache::slices(const Spec& spec) {
  const uint64_t hash = hash_of_places(spec);
  for (auto [at, end] = by_spec_.equal_range(hash); at != end; ++at)
    if (place_alike(at->second.first, spec)) return *at->second.second;
  Slices made = slices_of(spec);
  const uint64_t elements = hash_of(made);
  const Slices* same = nullptr;
  for (auto [at, end] = by_elements_.equal_range(elements); at != end && !same; ++at)
    if (hold_alike(*at->second, made)) same = at->second;
  if (!same) {
    same = &slices_.emplace_back(std::move(made));
    by_elements_.emplace(elements, same);
  }
  by_spec_.emplace(hash, std::pair(spec, same));
  return *same;
}

const LocalContents& ShardCache::contents(const RuleDraw& draw, size_t input,
                                          const Slices& slices) {
  const auto [found, added] = contents_.try_emplace({&draw, input, &slices});
  if (added && !draw.instance.inputs[input].absent)
    found->second = contents_of(draw, input, slices);
  return found->second;
}

const LocalProgram& ShardCache::program(const Computation& computation,
                                        const std::vector<TensorMeta>& metas) {
  Hash hash;
  for (const TensorMeta& meta : metas) hash.add(meta.shape);
  auto& programs = programs_[&computation];
  const Compiled* compiled = nullptr;
  for (auto [at, end] = programs.equal_range(hash.value()); at != end && !compiled; ++at)
    if (at->second.metas == metas) compiled = &at->second;
  if (!compiled) {
    Compiled made{metas, {}, ""};
    try {
      made.program = computation.compile(metas);
    } catch (const Error& error) {
      made.trouble = computation.why_other_results(metas);
      if (made.trouble.empty()) made.trouble = error.message();
      SP_CHECK(!made.trouble.empty(), "an error without a message");
    }
    compiled = &programs.emplace(hash.value(), std::move(made))->second;
  }
  if (!compiled->trouble.empty()) throw_bad_input("{}", compiled->trouble);
  return compiled->program;
}

}  // namespace shardproof
