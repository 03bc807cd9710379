// Implements shard_run.h.
#include "shardproof/engine/check_ops/shard_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Ranks that run one program side by side.
struct ShardGroup {
  const Computation* computation = nullptr;
  std::vector<int32_t> ranks;
};

bool have_equal_shapes(const std::vector<const Slices*>& inputs, int32_t a, int32_t b) {
  for (const Slices* input : inputs)
    if (!(input->shapes[static_cast<size_t>(a)] == input->shapes[static_cast<size_t>(b)]))
      return false;
  return true;
}

std::vector<ShardGroup> groups_of(const std::vector<const Computation*>& by_rank,
                                  const std::vector<const Slices*>& inputs) {
  std::vector<ShardGroup> groups;
  for (int32_t rank = 0; rank < inputs.front()->ranks(); ++rank) {
    const Computation* const own = by_rank[by_rank.size() == 1 ? 0 : static_cast<size_t>(rank)];
    ShardGroup* joined = nullptr;
    for (ShardGroup& group : groups)
      if (group.computation == own && have_equal_shapes(inputs, group.ranks[0], rank))
        joined = &group;
    if (!joined) joined = &groups.emplace_back(ShardGroup{own, {}});
    joined->ranks.push_back(rank);
  }
  return groups;
}

void run_group(const RuleDraw& draw, const ShardGroup& group, const LocalProgram& program,
               const std::vector<TensorMeta>& metas, const std::vector<const Slices*>& inputs,
               ShardCache& cache, ShardResults& results) {
  std::vector<LaneView> views(metas.size());
  const size_t ranks = inputs.front()->shapes.size();
  for (size_t i = 0; i < metas.size(); ++i) {
    const TensorMeta& meta = metas[i];
    if (meta.absent) continue;
    const LocalContents& contents = cache.contents(draw, i, *inputs[i]);
    const int64_t bytes = element_count(meta.shape) * size_of(meta.dtype);
    // Lanes that lie densely and in order need no table; kernels may run them as one flat loop.
    const bool is_flat = group.ranks.size() == ranks && bytes == contents.stride;
    views[i] = {const_cast<std::byte*>(contents.bytes.data()),
                contents.stride,
                is_flat ? nullptr : group.ranks.data(),
                meta.dtype,
                meta.shape,
                contiguous_strides(meta.shape)};
  }
  std::vector<std::vector<std::byte>> made =
      program.run(static_cast<int64_t>(group.ranks.size()), views);
  results.outputs.resize(made.size());
  results.shapes.resize(made.size());
  for (size_t o = 0; o < made.size(); ++o) {
    const TensorMeta& meta = program.outputs()[o];
    const int64_t bytes = element_count(meta.shape) * size_of(meta.dtype);
    results.outputs[o].dtype = meta.dtype;
    results.outputs[o].data.resize(ranks);
    results.shapes[o].resize(ranks);
    for (size_t lane = 0; lane < group.ranks.size(); ++lane) {
      const auto rank = static_cast<size_t>(group.ranks[lane]);
      results.outputs[o].data[rank] = made[o].data() + static_cast<int64_t>(lane) * bytes;
      results.shapes[o][rank] = meta.shape;
    }
    results.storage.push_back(std::move(made[o]));
  }
}

}  // namespace

PlacedInput place_input(const RuleDraw& draw, size_t input, const Slices& slices,
                        PlacedInput memory) {
  const Tensor& whole = draw.instance.tensors[input];
  PlacedInput placed = std::move(memory);
  placed.largest_part = 0;
  if (!slices.is_partial) {
    placed.parts.assign(1, whole);
    return placed;
  }
  placed.parts = exact_parts(whole, slices.reduction, slices.parts(), slices.divisor,
                             draw.part_range(), draw.seed + 31 * input, std::move(placed.parts));
  for (const Tensor& part : placed.parts)
    placed.largest_part = std::max(placed.largest_part, largest_of(part));
  return placed;
}

void copy_local(const PlacedInput& placed, const Slices& slices, int rank, std::byte* target) {
  const auto at = static_cast<size_t>(rank);
  const size_t part = slices.is_partial ? static_cast<size_t>(slices.part_of[at]) : 0;
  const Tensor& tensor = placed.parts[part];
  const auto bytes = static_cast<size_t>(size_of(tensor.dtype));
  const std::byte* const source = tensor.data();
  if (bytes == sizeof(uint64_t)) {  // the usual size, copied by one instruction
    for (const int32_t position : slices.positions[at]) {
      std::memcpy(target, source + static_cast<size_t>(position) * sizeof(uint64_t),
                  sizeof(uint64_t));
      target += sizeof(uint64_t);
    }
    return;
  }
  for (const int32_t position : slices.positions[at]) {
    std::memcpy(target, source + static_cast<size_t>(position) * bytes, bytes);
    target += bytes;
  }
}

LocalTensor local_tensor_of(const PlacedInput& placed, const Slices& slices) {
  std::vector<Block> blocks;
  for (int rank = 0; rank < slices.ranks(); ++rank) {
    const Lanes lane = Lanes::of({rank});
    Tensor local = Tensor::empty(placed.parts[0].dtype, slices.shapes[static_cast<size_t>(rank)],
                                 lane, Slots::shared(1));
    copy_local(placed, slices, rank, local.mutate());
    blocks.push_back({lane, local});
  }
  return LocalTensor(std::move(blocks));
}

ShardResults run_on_shards(const RuleDraw& draw, const std::vector<const Computation*>& by_rank,
                           const std::vector<const Slices*>& inputs, ShardCache& cache) {
  ShardResults results;
  int32_t rank = 0;  // whose call runs
  try {
    for (const ShardGroup& group : groups_of(by_rank, inputs)) {
      rank = group.ranks[0];
      std::vector<TensorMeta> metas = draw.instance.inputs;
      for (size_t i = 0; i < inputs.size(); ++i)
        if (!metas[i].absent)
          metas[i].shape = inputs[i]->shapes[static_cast<size_t>(group.ranks[0])];
      if (by_rank.size() == 1)
        run_group(draw, group, cache.program(*group.computation, metas), metas, inputs, cache,
                  results);
      else
        run_group(draw, group, group.computation->compile(metas), metas, inputs, cache, results);
    }
  } catch (const Error& error) {
    results = {};
    results.trouble = fmt::format("on the shards of rank {}: {}", rank, error.message());
  }
  return results;
}

double ShardResults::largest(size_t output) const {
  const RankResults& held = outputs[output];
  const bool is_pair = is_complex(held.dtype);
  if (!is_floating(held.dtype) && !is_pair) return 0;
  const DType dtype = component_dtype(held.dtype);
  double largest = 0;
  for (size_t rank = 0; rank < held.data.size(); ++rank) {
    const int64_t count = element_count(shapes[output][rank]) * (is_pair ? 2 : 1);
    for (int64_t i = 0; i < count; ++i) {
      const double size = std::fabs(load_f64(held.data[rank] + i * size_of(dtype), dtype));
      if (std::isfinite(size)) largest = std::max(largest, size);
    }
  }
  return largest;
}

ShardResults results_of(const std::vector<LocalTensor>& values, int ranks) {
  ShardResults results;
  for (const LocalTensor& value : values) {
    RankResults& output = results.outputs.emplace_back();
    output.dtype = value.dtype();
    results.shapes.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) {
      results.tensors.push_back(value.of_rank(rank));
      output.data.push_back(results.tensors.back().data());
      results.shapes.back().push_back(results.tensors.back().shape);
    }
  }
  return results;
}

Agreement judge_output(const RuleDraw& draw, size_t output, const Slices& placed,
                       const ShardResults& results, double largest_part, Disagreement* first) {
  const Tensor& whole = draw.outputs[output];
  for (int rank = 0; rank < placed.ranks(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (results.shapes[output][at] == placed.shapes[at]) continue;
    if (first) {
      *first = {};
      first->ranks = {rank};
      first->got = "shape " + to_string(results.shapes[output][at]);
      first->want = "shape " + to_string(placed.shapes[at]);
    }
    return Agreement::differs;
  }
  if (results.outputs[output].dtype != whole.dtype) return Agreement::differs;
  const double parts = draw.kind == DrawKind::own ? results.largest(output) : 0;
  return judge(placed, results.outputs[output], whole, limits_of(draw, output, largest_part, parts),
               first);
}

}  // namespace shardproof
