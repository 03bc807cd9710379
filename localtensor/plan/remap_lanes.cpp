// Implements remap_lanes.h.
//
//   1. Make every input block contiguous.
//   2. Number the lanes of each block by (copy read, coordinates of `axes`); equal numbers share an
//      output copy. Output copies are grouped by their shape: each shape becomes one block.
//   3. For each shape, sort its lanes by rank, number its copies by first use, and fill each once.
//
// Fast path: without axes and with one block, each lane reads the output copy that has the number
// of its input copy.
#include "shardproof/localtensor/plan/remap_lanes.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

namespace {

// One block of the result: all lanes of one shape.
struct Output {
  std::vector<std::pair<int32_t, int32_t>> slot_of_rank;
  std::vector<LaneRemap> sources;

  Tensor make(const CopyPlace& place, DType dtype, const Dims& shape, const Fill& fill) {
    if (!std::is_sorted(slot_of_rank.begin(), slot_of_rank.end()))
      std::sort(slot_of_rank.begin(), slot_of_rank.end());
    std::vector<int32_t> ranks, slots, order, renamed(sources.size(), -1);
    for (const auto& [rank, source] : slot_of_rank) {
      int32_t& slot = renamed[static_cast<size_t>(source)];
      if (slot < 0) {
        slot = static_cast<int32_t>(order.size());
        order.push_back(source);
      }
      ranks.push_back(rank);
      slots.push_back(slot);
    }
    const auto lanes = static_cast<int64_t>(ranks.size());
    const Slots table = order.size() == 1 ? Slots::shared(lanes) : Slots::table(std::move(slots));
    Tensor out = place.empty(dtype, shape, Lanes::of(std::move(ranks)), table);
    for (size_t i = 0; i < order.size(); ++i)
      fill(sources[static_cast<size_t>(order[i])], shape,
           place.write(out, static_cast<int64_t>(i)));
    return out;
  }
};

// The fast path of one block without axes: the result has the slots of the input.
LocalTensor remap_copies(const CopyPlace& place, const Block& block, const Tensor& dense,
                         const Mesh& mesh, const ShapeAt& shape_at, const Fill& fill) {
  LaneRemap view{place, &dense, 0, *mesh.coordinate_of(block.lanes[0])};
  const Dims shape = shape_at(view.coordinate);
  const Slots& slots = dense.buffer->slots;
  Tensor out = place.empty(dense.dtype, shape, block.lanes, slots);
  for (view.slot = 0; view.slot < slots.count(); ++view.slot)
    fill(view, shape, place.write(out, view.slot));
  return LocalTensor(std::move(out));
}

}  // namespace

LocalTensor remap_lanes(const LocalTensor& input, const Mesh& mesh, const std::vector<int>& axes,
                        const ShapeAt& shape_at, const Fill& fill, RemapKind kind) {
  std::vector<Tensor> dense;
  for (const Block& block : input.blocks())
    dense.push_back(block.tensor.contiguous() ? block.tensor : contiguous_copy(block.tensor));
  std::vector<const Tensor*> tensors;
  for (const Tensor& tensor : dense) tensors.push_back(&tensor);
  const CopyPlace place = kind == RemapKind::moves ? CopyPlace::of_all(tensors) : CopyPlace();
  const Block& first = input.blocks().front();
  if (axes.empty() && dense.size() == 1 && first.lanes == dense[0].buffer->lanes)
    return remap_copies(place, first, dense[0], mesh, shape_at, fill);

  std::map<Dims, Output> outputs;
  for (size_t b = 0; b < dense.size(); ++b) {
    const Block& block = input.blocks()[b];
    std::unordered_map<int64_t, std::pair<Output*, int32_t>> seen;
    for (int64_t lane = 0; lane < block.lanes.size(); ++lane) {
      const int32_t rank = block.lanes[lane];
      const auto coordinate = mesh.coordinate_of(rank);
      SP_CHECK(coordinate.has_value(), "rank {} is not on the mesh \"{}\"", rank, to_string(mesh));
      const int64_t slot = block.slot(lane);
      int64_t key = slot;
      for (int axis : axes) key = key * mesh.axis_size(axis) + (*coordinate)[axis];
      auto [found, fresh] = seen.try_emplace(key);
      if (fresh) {
        Output& output = outputs[shape_at(*coordinate)];
        found->second = {&output, static_cast<int32_t>(output.sources.size())};
        output.sources.push_back({place, &dense[b], slot, *coordinate});
      }
      found->second.first->slot_of_rank.emplace_back(rank, found->second.second);
    }
  }
  std::vector<Block> blocks;
  for (auto& [shape, output] : outputs) {
    Tensor tensor = output.make(place, input.dtype(), shape, fill);
    blocks.push_back({tensor.buffer->lanes, std::move(tensor)});
  }
  return LocalTensor(std::move(blocks));
}

}  // namespace shardproof
