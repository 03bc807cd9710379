// Implements differing_element.h.
//
// 1. Visit the elements of each pair of copies once, and note the least global index that differs.
// 2. Read that element on every rank that replicates it. Replicas own the same global elements, so
//    it has one local position in all of them.
#include "shardproof/engine/compare/differing_element.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "shardproof/engine/compare/element.h"
#include "shardproof/engine/compare/owned_elements.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/mesh/process_group.h"

namespace shardproof {
namespace {

bool same_float(const std::byte* a, const std::byte* b, DType dtype) {
  return std::memcmp(a, b, static_cast<size_t>(size_of(dtype))) == 0 ||
         (std::isnan(load_f64(a, dtype)) && std::isnan(load_f64(b, dtype)));
}

bool same_element(const std::byte* a, const std::byte* b, DType dtype) {
  if (is_floating(dtype)) return same_float(a, b, dtype);
  if (!is_complex(dtype)) return std::memcmp(a, b, static_cast<size_t>(size_of(dtype))) == 0;
  const DType part = component_dtype(dtype);
  return same_float(a, b, part) && same_float(a + size_of(part), b + size_of(part), part);
}

// Dense copies of the blocks, made once each.
class DenseBlocks {
 public:
  const std::byte* element(const Block& block, int64_t lane, int64_t local) {
    auto found = dense_.find(&block);
    if (found == dense_.end()) found = dense_.emplace(&block, contiguous_copy(block.tensor)).first;
    return found->second.data(block.slot(lane)) + local * size_of(block.tensor.dtype);
  }

 private:
  std::map<const Block*, Tensor> dense_;
};

struct ElementPosition {
  int64_t global = 0, local = 0;
  int32_t rank = 0;
};

std::optional<ElementPosition> first_difference(const std::vector<ReplicaPair>& pairs,
                                                const Spec& spec, DenseBlocks& dense,
                                                std::vector<bool>& differs) {
  std::optional<ElementPosition> first;
  std::set<std::tuple<const Block*, int64_t, const Block*, int64_t>> seen;
  for (const ReplicaPair& pair : pairs) {
    const Block &a = *pair.a, &b = *pair.b;
    const int32_t rank = a.lanes[pair.lane_a];
    const Dims shape = spec.local_shape(rank);
    if (!(a.tensor.shape == shape) || !(b.tensor.shape == shape)) return std::nullopt;
    if (!seen.emplace(&a, a.slot(pair.lane_a), &b, b.slot(pair.lane_b)).second) continue;
    if (shape.size() > 0 && element_count(shape) == 0) continue;
    const std::byte* data_a = dense.element(a, pair.lane_a, 0);
    const std::byte* data_b = dense.element(b, pair.lane_b, 0);
    const DType dtype = a.tensor.dtype;
    const auto visit = [&](int64_t local, int64_t global) {
      const int64_t at = local * size_of(dtype);
      if (same_element(data_a + at, data_b + at, dtype)) return;
      differs[static_cast<size_t>(global)] = true;
      if (!first || global < first->global) first = ElementPosition{global, local, rank};
    };
    for_each_element(local_indices(spec, rank), contiguous_strides(spec.shape()), visit);
  }
  return first;
}

Lanes replicas_of(int32_t rank, const Spec& spec) {
  std::vector<int> axes;
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (spec.placement(axis).is_replicate()) axes.push_back(axis);
  const Group group = Group::of_axes(spec.mesh(), axes);
  return Lanes::of(group.members(group.sibling_of(rank)));
}

std::vector<std::pair<std::string, Lanes>> held_at(const ElementPosition& place,
                                                   const LocalTensor& value, const Spec& spec,
                                                   DenseBlocks& dense) {
  const Lanes replicas = replicas_of(place.rank, spec);
  std::map<std::string, std::vector<int32_t>> ranks_by_text;
  for (const Block& block : value.blocks())
    for (int64_t i = 0; i < block.lanes.size(); ++i)
      if (replicas.contains(block.lanes[i]))
        ranks_by_text[element_text(
                          element_of(dense.element(block, i, place.local), block.tensor.dtype),
                          kShortest)]
            .push_back(block.lanes[i]);
  std::vector<std::pair<std::string, Lanes>> held;
  for (auto& [text, ranks] : ranks_by_text) held.emplace_back(text, Lanes::of(std::move(ranks)));
  std::sort(held.begin(), held.end(),
            [](const auto& a, const auto& b) { return a.second[0] < b.second[0]; });
  return held;
}

}  // namespace

std::optional<DifferingElement> find_differing_element(const std::vector<ReplicaPair>& pairs,
                                                       const LocalTensor& value, const Spec& spec) {
  DenseBlocks dense;
  std::vector<bool> differs(static_cast<size_t>(element_count(spec.shape())), false);
  const std::optional<ElementPosition> first = first_difference(pairs, spec, dense, differs);
  if (!first) return std::nullopt;
  return DifferingElement{first->global, std::count(differs.begin(), differs.end(), true),
                          held_at(*first, value, spec, dense)};
}

}  // namespace shardproof
