// Implements compare.h.
//
//   difference_of        lists the deviations of all stored copies and selects the largest of each
//                        element; collects the ranks whose copy is off by at least a 64th of it
//   find_matching_spec   tries R on each partial axis, then P(sum) and P(avg) on each replicated
//                        axis, then on all of them together; accepts the only one that fits
//   constant_ratio       takes the ratio of the largest expected element; tests it on all others
//
// Example: y is declared dp:R on dp=2, ranks 0 and 1 hold 3 and 4, and the truth is 7. With
// dp:P(sum) the value is 3 + 4 = 7. So find_matching_spec returns dp:P(sum): the sum over dp is
// missing.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "shardproof/engine/compare/compare.h"
#include "shardproof/engine/compare/owned_elements.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

// Returns the coordinate of a rank's shard and part, with 0 on replicated axes.
Dims place_of_part(const Spec& spec, int64_t rank) {
  Dims place = *spec.mesh().coordinate_of(rank);
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (spec.placement(axis).is_replicate()) place[axis] = 0;
  return place;
}

}  // namespace

Difference difference_of(const ComparedValue& value, const Tensor& truth,
                         const std::vector<int64_t>& wrong) {
  constexpr double kAlike = 64;
  Difference difference;
  difference.truth = truth.contiguous() ? truth : contiguous_copy(truth);
  const LocalTensor ready = reduced_over_partials(value.value, value.spec, truth.dtype);
  const std::vector<StoredCopy> copies = stored_copies(ready, value.spec);
  const std::vector<Deviation> found = deviations(copies, value.spec, difference.truth, 0);
  difference.first = wrong.front();
  difference.elements = std::ssize(wrong);
  difference.got = contiguous_copy(difference.truth);
  std::byte* const got_data = difference.got.mutate();
  const auto size = static_cast<size_t>(size_of(truth.dtype));
  std::vector<double> farthest(static_cast<size_t>(truth.elements()), 0);
  for (const Deviation& one : found) {
    const auto at = static_cast<size_t>(one.global);
    if (!(one.distance > farthest[at])) continue;
    farthest[at] = one.distance;
    std::memcpy(got_data + at * size, element_at(copies[one.copy], one.local), size);
  }
  std::vector<bool> is_wrong(farthest.size(), false);
  for (const int64_t element : wrong) is_wrong[static_cast<size_t>(element)] = true;
  std::vector<bool> differs(copies.size(), false);
  std::map<int32_t, Element> owners;
  for (const Deviation& one : found) {
    const auto at = static_cast<size_t>(one.global);
    if (!is_wrong[at] || kAlike * one.distance < farthest[at]) continue;
    differs[one.copy] = true;
    if (one.global != difference.first) continue;
    const Lanes& readers = copies[one.copy].ranks;
    const Element got = element_of(element_at(copies[one.copy], one.local), truth.dtype);
    for (int64_t i = 0; i < readers.size(); ++i) owners.emplace(readers[i], got);
  }
  std::vector<int32_t> ranks, first_owners;
  for (size_t copy = 0; copy < copies.size(); ++copy)
    for (int64_t i = 0; differs[copy] && i < copies[copy].ranks.size(); ++i)
      ranks.push_back(copies[copy].ranks[i]);
  difference.ranks = Lanes::of(std::move(ranks));
  difference.got_by_rank.assign(owners.begin(), owners.end());
  for (const auto& [rank, got] : owners) first_owners.push_back(rank);
  difference.first_owners = Lanes::of(std::move(first_owners));
  return difference;
}

namespace {

double apart(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || a == b ? 0 : std::fabs(a - b);
}

// Returns the least normal number of a dtype. Below it differences may vanish.
double least_normal(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::f8e5m2: return std::ldexp(1, -14);
    case DType::f8e4m3: return std::ldexp(1, -6);
    case DType::bf16:
    case DType::f32: return std::ldexp(1, -126);
    default: return std::ldexp(1, -1022);
  }
}

// One element of one device (expected) and of the ranks (got), in the program's own dtypes and in
// f64.
struct ElementInBoth {
  double own_expected, own_got, expected, got;
  double own_distance() const { return apart(own_got, own_expected); }
  double distance() const { return apart(got, expected); }
  // Returns the change from f64 to the own dtypes: the smaller one of both sides.
  double changed() const { return std::min(apart(own_expected, expected), apart(own_got, got)); }
};

}  // namespace

bool contradicts_f64(const Difference& own, const Difference& in_f64, const JudgedValue& judged) {
  const DType dtype = own.truth.dtype;
  // Integers may be labels, whose distances mean nothing.
  if (!is_floating(dtype) || own.got.elements() != in_f64.got.elements()) return false;
  const std::vector<double> own_truth = values_of(own.truth), truth = values_of(in_f64.truth);
  const std::vector<double> own_got = values_of(own.got), got = values_of(in_f64.got);
  size_t shown = 0, not_shown = 0;
  double farthest = 0, farthest_shown = 0;
  bool f64_not_finite = false, agrees = true;  // not finite in f64 only; equal in the own dtypes
  for (size_t k = 0; k < judged.elements.size(); ++k) {
    const auto i = static_cast<size_t>(judged.elements[k]);
    const ElementInBoth e{own_truth[i], own_got[i], truth[i], got[i]};
    if (!std::isfinite(e.own_got) || !std::isfinite(e.own_expected)) continue;
    if (!std::isfinite(e.got) && std::isfinite(e.expected)) {
      f64_not_finite = true;
      agrees = agrees &&
               e.own_distance() <= kUnitsShown * unit_roundoff(dtype) * std::fabs(e.own_expected);
    }
    const double lost = std::max(
        {unit_roundoff(dtype) * std::fabs(e.expected), judged.losses[k], least_normal(dtype)});
    if (!(e.distance() > kUnitsShown * lost) || std::isinf(e.distance())) continue;
    if (e.changed() > e.distance() / 2) continue;
    const bool hides =
        e.own_distance() < e.distance() / 2 && e.own_distance() <= kUnitsShown * lost;
    ++(hides ? not_shown : shown);
    farthest = std::max(farthest, e.distance());
    farthest_shown = std::max(farthest_shown, e.own_distance());
  }
  if (shown + not_shown == 0) return f64_not_finite && agrees;
  return not_shown > shown && farthest_shown < farthest / 2;
}

std::optional<Spec> find_matching_spec(const LocalTensor& value, const Spec& declared,
                                       const Tensor& truth, double share) {
  const bool all = value.lanes() == declared.mesh().ranks();
  if (!all || truth.elements() > 1 << 20 || truth.dtype == DType::boolean) return std::nullopt;
  const double allowed = share * largest_element(truth);
  const auto holds = [&](const Spec& spec) {
    const LocalTensor ready = reduced_over_partials(value, spec, truth.dtype);
    const std::vector<Deviation> found = deviations(stored_copies(ready, spec), spec, truth, 0);
    return std::all_of(found.begin(), found.end(),
                       [&](const Deviation& one) { return one.distance <= allowed; });
  };
  // Two axes of one size may explain one value; then no spec is returned.
  std::vector<Spec> found;
  for (int axis : declared.partial_axes()) {
    if (Spec one = declared.with_placement(axis, R()); holds(one)) found.push_back(std::move(one));
    const ReduceOp known = declared.placement(axis).partial().reduction.op;
    if (known != ReduceOp::sum && known != ReduceOp::avg) return std::nullopt;
  }
  // The sum of equal copies is a multiple of each, which does not show that they are its parts.
  const bool all_alike = !compare_replicas(value, declared).has_value();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
    if (all_alike || !found.empty() || (op == ReduceOp::avg && !is_floating(truth.dtype))) continue;
    Spec summed = declared;
    int changed = 0;
    for (int axis = 0; axis < declared.mesh().axis_count(); ++axis) {
      const bool copies = declared.placement(axis).is_replicate();
      if (!copies || declared.mesh().axes()[static_cast<size_t>(axis)].size == 1) continue;
      if (Spec one = declared.with_placement(axis, P(op)); holds(one))
        found.push_back(std::move(one));
      summed = summed.with_placement(axis, P(op));
      ++changed;
    }
    if (found.empty() && changed > 1 && holds(summed)) found.push_back(summed);
  }
  if (found.size() != 1) return std::nullopt;
  return found.front();
}

bool has_all_contents(const LocalTensor& value) {
  return !value.empty() && std::all_of(value.blocks().begin(), value.blocks().end(),
                                       [](const Block& b) { return has_contents(b.tensor); });
}

std::optional<Tensor> assemble_if_complete(const LocalTensor& value, const Spec& spec) {
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

// Returns the fraction of small integers that lies within rounding of the ratio, else the ratio.
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

std::optional<TensorNumbers> exact_numbers_of(const Tensor& tensor) {
  constexpr int64_t kLargestExact = int64_t{1} << 53;
  TensorNumbers numbers{numbers_of(tensor), tensor.shape};
  if (is_complex(tensor.dtype)) numbers.shape.push_back(2);
  if (tensor.dtype == DType::i64)
    for (const double value : numbers.values)
      if (std::fabs(value) > kLargestExact) return std::nullopt;
  return numbers;
}

std::optional<double> constant_ratio(const Difference& difference) {
  const std::optional<TensorNumbers> right = exact_numbers_of(difference.truth),
                                     held = exact_numbers_of(difference.got);
  if (!right || !held) return std::nullopt;
  const std::vector<double>&expected = right->values, &got = held->values;
  size_t at = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    if (std::abs(expected[i]) > std::abs(expected[at])) at = i;
  if (expected.empty() || expected[at] == 0) return std::nullopt;
  const double ratio = got[at] / expected[at], largest = std::abs(expected[at]);
  // Rounding of both sides. It is a share of the largest element, because small elements may be off
  // by more than their own rounding.
  const double share = std::max(1e-6, 4 * unit_roundoff(difference.truth.dtype));
  if (!std::isfinite(ratio) || std::abs(ratio - 1) <= share) return std::nullopt;
  const double allowed = share * largest * std::max(std::abs(ratio), 1e-300);
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(got[i] - ratio * expected[i]) <= allowed)) return std::nullopt;
  return unrounded(ratio, share);
}

std::optional<TensorNumbers> errors_of(const Difference& difference) {
  const std::optional<TensorNumbers> right = exact_numbers_of(difference.truth);
  std::optional<TensorNumbers> errors = exact_numbers_of(difference.got);
  if (!right || !errors) return std::nullopt;
  for (size_t i = 0; i < errors->values.size(); ++i) errors->values[i] -= right->values[i];
  return errors;
}

std::optional<double> multiple_of(const TensorNumbers& numbers, const TensorNumbers& other) {
  const std::vector<double>&elements = numbers.values, &values = other.values;
  const Dims& shape = numbers.shape;
  if (values.empty() || other.shape.size() > shape.size()) return std::nullopt;
  Dims strides = Dims::filled(shape.size(), 0);
  const Dims own = contiguous_strides(other.shape);
  const int pad = shape.size() - other.shape.size();
  for (int d = 0; d < other.shape.size(); ++d) {
    if (other.shape[d] != 1 && other.shape[d] != shape[d + pad]) return std::nullopt;
    strides[d + pad] = other.shape[d] == 1 ? 0 : own[d];
  }
  std::vector<double> units(elements.size());
  size_t at_largest = 0;
  Dims index = Dims::filled(shape.size(), 0);
  int64_t at = 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    units[i] = values[static_cast<size_t>(at)];
    if (std::fabs(units[i]) > std::fabs(units[at_largest])) at_largest = i;
    for (int d = shape.size() - 1; d >= 0; --d) {
      at += strides[d];
      if (++index[d] < shape[d]) break;
      at -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
  if (elements.empty() || units[at_largest] == 0) return std::nullopt;
  // The rounding of both sides is far below this share of the largest element.
  constexpr double kShare = 1e-6;
  const double factor = elements[at_largest] / units[at_largest];
  const double allowed = kShare * std::fabs(elements[at_largest]);
  int64_t used = 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (!(std::fabs(elements[i] - factor * units[i]) <= allowed)) return std::nullopt;
    if (std::fabs(units[i]) > kShare * std::fabs(units[at_largest])) ++used;
  }
  if (used < 2 || factor == 0) return std::nullopt;
  return factor;
}

}  // namespace shardproof
