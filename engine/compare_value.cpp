#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/compare.h"
#include "shardproof/engine/owned_elements.h"
#include "shardproof/localtensor/collective.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/split.h"

namespace shardproof {
namespace {

DType comparison_dtype(DType dtype) { return is_floating(dtype) ? DType::f64 : dtype; }

// Axes whose partials fold with one reduction, in mesh order.
std::vector<std::pair<Reduction, std::vector<int>>> folds(const Spec& spec) {
  std::vector<std::pair<Reduction, std::vector<int>>> result;
  for (int axis : spec.partial_axes()) {
    const Reduction& reduction = spec.placement(axis).partial().reduction;
    if (result.empty() || !(result.back().first == reduction)) result.push_back({reduction, {}});
    result.back().second.push_back(axis);
  }
  return result;
}

bool same_number(double a, double b, double allowed) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::abs(a - b) <= 2 * allowed;
}

double as_stored(double value, DType dtype) {
  std::byte element[16];
  store_f64(element, dtype, value);
  return load_f64(element, dtype);
}

struct Wrong {
  std::set<int64_t> elements;
  std::map<int64_t, double> got;
};

// Both parts: -0 equals 0 there too.
bool same_complex(const std::byte* a, const std::byte* b, DType dtype, double allowed) {
  const DType part = dtype == DType::c64 ? DType::f32 : DType::f64;
  const int64_t half = size_of(part);
  return same_number(load_f64(a, part), load_f64(b, part), allowed) &&
         same_number(load_f64(a + half, part), load_f64(b + half, part), allowed);
}

// One stored copy against the truth; wrong elements by global index.
Wrong compare_copy(const std::byte* data, DType dtype, const Spec& spec, int64_t rank,
                   const Tensor& truth, const Bound& bound) {
  Wrong wrong;
  const int64_t size = size_of(dtype);
  const std::byte* expected = truth.data();
  const auto visit = [&](int64_t local, int64_t global) {
    const std::byte* a = data + local * size;
    const std::byte* b = expected + global * size;
    if (std::memcmp(a, b, static_cast<size_t>(size)) == 0) return;
    const double got = load_f64(a, dtype);
    const double allowed = bound.exact ? 0 : bound.error[static_cast<size_t>(global)];
    // Of an integer or a truth too: it is known, and then equal, or it hangs on a rounding.
    if (std::isinf(allowed)) return;
    const double right = load_f64(b, dtype);
    if (is_floating(dtype) && same_number(got, right, allowed)) return;
    // What overflows in the value's own dtype has been added up in f64 here.
    if (is_floating(dtype) && !std::isfinite(right) &&
        same_number(as_stored(got, spec.dtype()), right, allowed))
      return;
    if (is_complex(dtype) && same_complex(a, b, dtype, allowed)) return;
    wrong.elements.insert(global);
    wrong.got.emplace(global, got);
  };
  for_each_element(local_indices(spec, rank), contiguous_strides(spec.shape()), visit);
  return wrong;
}

// The coordinate of what a rank holds: axes of copies count as 0.
Dims place_of_part(const Spec& spec, int64_t rank) {
  Dims place = *spec.mesh().coordinate_of(rank);
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (spec.placement(axis).is_replicate()) place[axis] = 0;
  return place;
}

bool whole_and_equal(const Block& block, int64_t slot, const Spec& spec, const Tensor& truth) {
  if (!(block.tensor.shape == spec.shape()) || !block.tensor.contiguous()) return false;
  for (const Placement& p : spec.placements())
    if (p.is_shard()) return false;
  const int64_t bytes = truth.elements() * size_of(truth.dtype);
  return bytes == 0 ||
         std::memcmp(block.tensor.data(slot), truth.data(), static_cast<size_t>(bytes)) == 0;
}

}  // namespace

LocalTensor reduced_for_comparison(const LocalTensor& value, const Spec& spec) {
  const DType dtype = comparison_dtype(spec.dtype());
  std::vector<Block> blocks;
  for (const Block& block : value.blocks()) {
    if (!has_contents(block.tensor)) poison(*block.tensor.buffer, block.tensor.dtype);
    blocks.push_back({block.lanes, as_dtype(block.tensor, dtype)});
  }
  LocalTensor now(std::move(blocks));
  for (const auto& [reduction, axes] : folds(spec)) {
    Collective c;
    c.kind = CollectiveKind::all_reduce;
    c.reduction = reduction;
    c.dtype = dtype;
    c.group = Group::of_axes(spec.mesh(), axes);
    std::map<Dims, Lanes> by_shape;
    for (const Block& block : now.blocks()) {
      Lanes& lanes = by_shape[block.tensor.shape];
      lanes = lanes.unite(block.lanes);
    }
    std::vector<Block> folded;
    for (const auto& [shape, lanes] : by_shape) {
      LocalTensor flat(promise_block(dtype, Dims{element_count(shape)}, lanes));
      adopt(flat, now.restrict_to(lanes));
      c.count = element_count(shape);
      LocalTensor reduced = reference(c, flat);
      for (Block& block : reduced.blocks()) {
        block.tensor.shape = shape;
        block.tensor.strides = contiguous_strides(shape);
        folded.push_back(block);
      }
    }
    now = LocalTensor(std::move(folded));
  }
  return now;
}

double largest_element(const Tensor& tensor) {
  double largest = 0;
  for (const double value : values_of(tensor))
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  return largest;
}

double width_of(const Tensor& truth, const Bound& bound) {
  if (bound.exact || is_complex(truth.dtype)) return 0;
  const double largest = largest_element(truth);
  double error = 0;
  for (const double each : bound.error) error = std::max(error, each);
  if (error == 0) return 0;
  return largest == 0 ? std::numeric_limits<double>::infinity() : 2 * error / largest;
}

bool judges(const Tensor& truth, const Bound& bound) {
  if (bound.exact || bound.error.empty() || is_complex(truth.dtype)) return true;
  const double largest = largest_element(truth);
  return std::any_of(bound.error.begin(), bound.error.end(), [&](double error) {
    return largest == 0 ? std::isfinite(error) : 2 * error < largest / 2;
  });
}

std::optional<Difference> compare_value(const LocalTensor& value, const Spec& spec,
                                        const Tensor& truth, const Bound& bound) {
  const LocalTensor reduced = reduced_for_comparison(value, spec);
  const Tensor expected = as_dtype(truth, comparison_dtype(truth.dtype));
  std::map<std::tuple<const Block*, int64_t, Dims>, Wrong> known;  // by copy and place of the shard
  std::vector<std::pair<int32_t, const Wrong*>> holders;
  std::set<int64_t> elements;
  std::map<int64_t, double> got;
  for (const Block& block : reduced.blocks())
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      const int64_t slot = block.slot(i);
      if (whole_and_equal(block, slot, spec, expected)) {
        if (block.tensor.buffer->slots.is_shared()) break;
        continue;
      }
      const auto key = std::make_tuple(&block, slot, place_of_shard(spec, block.lanes[i]));
      auto entry = known.find(key);
      if (entry == known.end()) {
        Wrong wrong = compare_copy(block.tensor.data(slot), block.tensor.dtype, spec,
                                   block.lanes[i], expected, bound);
        elements.insert(wrong.elements.begin(), wrong.elements.end());
        got.insert(wrong.got.begin(), wrong.got.end());
        entry = known.emplace(key, std::move(wrong)).first;
      }
      if (!entry->second.elements.empty()) holders.emplace_back(block.lanes[i], &entry->second);
    }
  if (elements.empty()) return std::nullopt;
  Difference difference;
  difference.first = *elements.begin();
  std::vector<int32_t> ranks, first_owners;
  for (const auto& [rank, wrong] : holders) {
    ranks.push_back(rank);
    if (!wrong->elements.contains(difference.first)) continue;
    first_owners.push_back(rank);
    difference.got_by_rank.emplace_back(rank, wrong->got.at(difference.first));
  }
  difference.elements = static_cast<int64_t>(elements.size());
  difference.ranks = Lanes::of(std::move(ranks));
  difference.first_owners = Lanes::of(std::move(first_owners));
  difference.got_all = values_of(expected);
  for (const auto& [index, wrong] : got) difference.got_all[static_cast<size_t>(index)] = wrong;
  difference.expected =
      load_f64(expected.data() + difference.first * size_of(expected.dtype), expected.dtype);
  difference.got = difference.got_all[static_cast<size_t>(difference.first)];
  return difference;
}

std::optional<Spec> right_as(const LocalTensor& value, const Spec& declared, const Tensor& truth,
                             const Bound& bound) {
  const bool whole = value.lanes() == declared.mesh().ranks();
  if (!whole || truth.elements() > 1 << 20 || truth.dtype == DType::boolean) return std::nullopt;
  const auto holds = [&](const Spec& spec) { return !compare_value(value, spec, truth, bound); };
  for (int axis : declared.partial_axes()) {
    if (const Spec one = declared.with_placement(axis, R()); holds(one)) return one;
    const ReduceOp known = declared.placement(axis).partial().reduction.op;
    if (known != ReduceOp::sum && known != ReduceOp::avg) return std::nullopt;
  }
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
    if (op == ReduceOp::avg && !is_floating(truth.dtype)) continue;
    Spec all = declared;
    int changed = 0;
    for (int axis = 0; axis < declared.mesh().axis_count(); ++axis) {
      const bool copies = declared.placement(axis).is_replicate();
      if (!copies || declared.mesh().axes()[static_cast<size_t>(axis)].size == 1) continue;
      if (const Spec one = declared.with_placement(axis, P(op)); holds(one)) return one;
      all = all.with_placement(axis, P(op));
      ++changed;
    }
    if (changed > 1 && holds(all)) return all;
  }
  return std::nullopt;
}

bool is_made(const LocalTensor& value) {
  return !value.empty() && std::all_of(value.blocks().begin(), value.blocks().end(),
                                       [](const Block& b) { return has_contents(b.tensor); });
}

std::optional<int32_t> missing_part(const Lanes& on, const Spec& spec) {
  if (!spec.has_partial()) return std::nullopt;
  const Group group = Group::of_axes(spec.mesh(), spec.partial_axes());
  for (int64_t sibling = 0; sibling < group.count(); ++sibling) {
    const Lanes members = Lanes::of(group.members(sibling)), missing = members.minus(on);
    if (!missing.empty() && missing.size() < members.size()) return missing[0];
  }
  return std::nullopt;
}

std::optional<Tensor> whole_of(const LocalTensor& value, const Spec& spec) {
  std::set<Dims> held;
  for (const Block& block : value.blocks())
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      if (!(spec.local_shape(block.lanes[i]) == block.tensor.shape)) return std::nullopt;
      held.insert(place_of_part(spec, block.lanes[i]));
    }
  int64_t parts = 1;
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (!spec.placement(axis).is_replicate()) parts *= spec.mesh().axis_size(axis);
  if (static_cast<int64_t>(held.size()) < parts) return std::nullopt;
  return assemble(value, spec);
}

std::optional<ReplicaDifference> compare_replicas(const LocalTensor& value, const Spec& spec) {
  std::map<Dims, std::pair<const Block*, int64_t>>
      first_of;  // by coordinate of the axes that are not R
  std::vector<int32_t> differing;
  std::vector<ReplicaPair> pairs;
  ReplicaDifference result;
  for (const Block& block : value.blocks()) {
    if (!has_contents(block.tensor)) poison(*block.tensor.buffer, block.tensor.dtype);
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      const auto [entry, fresh] =
          first_of.emplace(place_of_part(spec, block.lanes[i]), std::make_pair(&block, i));
      if (fresh) continue;
      const auto [other, lane] = entry->second;
      if (other == &block && other->slot(lane) == block.slot(i)) continue;
      if (bit_equal(other->tensor, other->slot(lane), block.tensor, block.slot(i))) continue;
      if (differing.empty()) {
        result.first = other->lanes[lane];
        result.other = block.lanes[i];
      }
      differing.push_back(block.lanes[i]);
      pairs.push_back({other, &block, lane, i});
    }
  }
  if (differing.empty()) return std::nullopt;
  result.element = find_differing_element(pairs, value, spec);
  result.ranks = Lanes::of(std::move(differing));
  return result;
}

namespace {

// The fraction of small numbers that rounding has moved a ratio away from, if there is one.
double unrounded(double ratio, double share) {
  constexpr int kMostRanks = 64;
  for (int below = 1; below <= kMostRanks; ++below) {
    const double above = std::round(ratio * below);
    if (above != 0 && std::abs(ratio - above / below) <= share * std::abs(ratio))
      return above / below;
  }
  return ratio;
}

}  // namespace

std::optional<double> constant_ratio(const Difference& difference, const Tensor& truth) {
  const std::vector<double> expected = values_of(truth);
  size_t at = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    if (std::abs(expected[i]) > std::abs(expected[at])) at = i;
  if (expected.empty() || expected[at] == 0) return std::nullopt;
  const double ratio = difference.got_all[at] / expected[at], largest = std::abs(expected[at]);
  // Rounding of either side, which small elements feel in full.
  const double share = std::max(1e-6, 4 * unit_roundoff(truth.dtype));
  if (!std::isfinite(ratio) || std::abs(ratio - 1) <= share) return std::nullopt;
  const double allowed = share * largest * std::max(std::abs(ratio), 1e-300);
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(difference.got_all[i] - ratio * expected[i]) <= allowed)) return std::nullopt;
  return unrounded(ratio, share);
}

std::vector<double> errors_of(const Difference& difference, const Tensor& truth) {
  std::vector<double> errors = values_of(truth);
  for (size_t i = 0; i < errors.size(); ++i) errors[i] = difference.got_all[i] - errors[i];
  return errors;
}

std::optional<double> multiple_of(const std::vector<double>& elements, const Dims& shape,
                                  const Tensor& other) {
  const std::vector<double> values = values_of(other);
  if (values.empty() || other.shape.size() > shape.size()) return std::nullopt;
  Dims strides = Dims::filled(shape.size(), 0);
  const Dims own = contiguous_strides(other.shape);
  const int pad = shape.size() - other.shape.size();
  for (int d = 0; d < other.shape.size(); ++d) {
    if (other.shape[d] != 1 && other.shape[d] != shape[d + pad]) return std::nullopt;
    strides[d + pad] = other.shape[d] == 1 ? 0 : own[d];
  }
  std::optional<double> factor;
  int64_t used = 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    const Dims index = unravel(static_cast<int64_t>(i), shape);
    int64_t at = 0;
    for (int d = 0; d < index.size(); ++d) at += index[d] * strides[d];
    const double unit = values[static_cast<size_t>(at)];
    if (unit == 0) {
      if (elements[i] != 0) return std::nullopt;
      continue;
    }
    const double here = elements[i] / unit;
    if (!factor) factor = here;
    if (!(std::abs(here - *factor) <= 1e-6 * std::abs(*factor))) return std::nullopt;
    ++used;
  }
  if (used < 2 || *factor == 0) return std::nullopt;
  return factor;
}

}  // namespace shardproof
