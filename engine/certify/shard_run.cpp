// Implements shard_run.h.
#include "shardproof/engine/certify/shard_run.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Ranks that run one program side by side.
struct ShardGroup {
  const Computation* computation = nullptr;
  std::vector<TensorMeta> metas;  // local
  std::vector<int> ranks;
};

std::vector<ShardGroup> groups_of(const RuleDraw& draw,
                                  const std::vector<const Computation*>& by_rank,
                                  const std::vector<Slices>& inputs, int ranks) {
  std::vector<ShardGroup> groups;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<size_t>(rank);
    ShardGroup own{by_rank[by_rank.size() == 1 ? 0 : at], draw.instance.inputs, {rank}};
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!own.metas[i].absent) own.metas[i].shape = inputs[i].shapes[at];
    bool joined = false;
    for (ShardGroup& group : groups)
      if (group.computation == own.computation && group.metas == own.metas) {
        group.ranks.push_back(rank);
        joined = true;
        break;
      }
    if (!joined) groups.push_back(std::move(own));
  }
  return groups;
}

void run_group(const ShardGroup& group, const std::vector<Slices>& inputs,
               const std::vector<PlacedInput>& placed, ShardResults& results) {
  const LocalProgram program = group.computation->compile(group.metas);
  std::vector<std::vector<std::byte>> contents(group.metas.size());
  std::vector<LaneView> views(group.metas.size());
  for (size_t i = 0; i < group.metas.size(); ++i) {
    const TensorMeta& meta = group.metas[i];
    if (meta.absent) continue;
    const int64_t bytes = element_count(meta.shape) * size_of(meta.dtype);
    contents[i].resize(static_cast<size_t>(bytes) * group.ranks.size() + 1);
    for (size_t lane = 0; lane < group.ranks.size(); ++lane)
      copy_local(placed[i], inputs[i], group.ranks[lane],
                 contents[i].data() + static_cast<int64_t>(lane) * bytes);
    views[i] = {contents[i].data(), bytes,      nullptr,
                meta.dtype,         meta.shape, contiguous_strides(meta.shape)};
  }
  std::vector<std::vector<std::byte>> made =
      program.run(static_cast<int64_t>(group.ranks.size()), views);
  results.outputs.resize(made.size());
  results.shapes.resize(made.size());
  for (size_t o = 0; o < made.size(); ++o) {
    const TensorMeta& meta = program.outputs()[o];
    const int64_t bytes = element_count(meta.shape) * size_of(meta.dtype);
    const size_t ranks = inputs.front().shapes.size();
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

PlacedInput place_input(const RuleDraw& draw, size_t input, const Slices& slices) {
  const Tensor& whole = draw.instance.tensors[input];
  PlacedInput placed;
  if (!slices.is_partial) {
    placed.parts = {whole};
    return placed;
  }
  placed.parts = exact_parts(whole, slices.reduction, slices.parts(), slices.divisor,
                             draw.part_range(), draw.seed + 31 * input);
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
                           const std::vector<Slices>& inputs,
                           const std::vector<PlacedInput>& placed) {
  ShardResults results;
  try {
    for (const ShardGroup& group : groups_of(draw, by_rank, inputs, inputs.front().ranks()))
      run_group(group, inputs, placed, results);
  } catch (const Error& error) {
    results = {};
    results.trouble = error.message();
  }
  return results;
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
  return judge(placed, results.outputs[output], whole, limits_of(draw, output, largest_part),
               first);
}

}  // namespace shardproof
