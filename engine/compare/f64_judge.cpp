// Implements f64_judge.h.
//
// Example: a line y = x @ w of f32 with y[3] = 1.5. If the ranks hold 1.5 + 1e-9:
//   step 1   2^-40 * 1.5 is 1.4e-12: not enough
//   step 2   one device in f32 is off by 4e-8 there, an eighth is 5e-9: the element agrees
// If the ranks hold 1.5 + 1e-6:
//   step 3   other roundings in f64 change y[3] by 3e-16; 1e-6 is more than 64 times that: wrong
#include "shardproof/engine/compare/f64_judge.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

// Returns the exact difference of two integers, at most 2^53: that of two doubles would change with
// the rounding direction.
double integer_offset(const std::byte* got, const std::byte* expected, DType dtype) {
  static constexpr uint64_t kLargest = uint64_t{1} << 53;
  const int64_t a = load_i64(got, dtype), b = load_i64(expected, dtype);
  const auto size = [](int64_t large, int64_t small) {
    const uint64_t apart = static_cast<uint64_t>(large) - static_cast<uint64_t>(small);
    return static_cast<double>(apart < kLargest ? apart : kLargest);
  };
  return a < b ? -size(b, a) : size(a, b);
}

Offset offset_of(const std::byte* got, const std::byte* expected, DType dtype) {
  if (!is_floating(dtype) && !is_complex(dtype)) return {integer_offset(got, expected, dtype), 0};
  if (dtype != DType::c128 && dtype != DType::c64)
    return {load_f64(got, dtype) - load_f64(expected, dtype), 0};
  const DType part = component_dtype(dtype);
  const int64_t half = size_of(part);
  return {load_f64(got, part) - load_f64(expected, part),
          load_f64(got + half, part) - load_f64(expected + half, part)};
}

// Returns the ranks' value in the dtype of the reference with reduced partial axes.
LocalTensor reduced_as(const ComparedValue& value, DType dtype) {
  if (!value.spec.has_partial() && value.value.dtype() == dtype) return value.value;
  if (!value.reduced.empty() && value.reduced.dtype() == dtype) return value.reduced;
  return reduced_over_partials(value.value, value.spec, dtype);
}

// Returns the offset of each open element in the shard of its rank; nullopt if the shard lacks it.
std::vector<std::optional<Offset>> offsets_of(const LocalTensor& value, const Spec& spec,
                                              const std::vector<OpenElement>& open,
                                              const Tensor& expected) {
  std::vector<std::optional<Offset>> offsets(open.size());
  std::vector<size_t> order(open.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto earlier = [&](size_t a, size_t b) {
    return std::pair(open[a].rank, open[a].deviation.global) <
           std::pair(open[b].rank, open[b].deviation.global);
  };
  if (!std::is_sorted(order.begin(), order.end(), earlier))
    std::sort(order.begin(), order.end(), earlier);
  std::map<const Block*, Tensor> dense_blocks;
  ShardRuns runs(spec);
  const int64_t size = size_of(expected.dtype);
  const auto element = [&](auto at) { return open[*at].deviation.global; };
  for (auto first = order.begin(), end = first; first != order.end(); first = end) {
    const int32_t rank = open[*first].rank;
    end = std::find_if(first, order.end(), [&](size_t at) { return open[at].rank != rank; });
    const Block* const block = value.find(rank);
    if (block == nullptr || !(block->tensor.shape == spec.local_shape(rank))) continue;
    const auto [entry, fresh] = dense_blocks.try_emplace(block);
    if (fresh) entry->second = dense(block->tensor);
    const std::byte* data = entry->second.data(block->slot(block->lanes.index_of(rank)));
    runs.move_to(rank);
    runs.for_each([&](int64_t local, int64_t global, int64_t length) {
      auto at = std::lower_bound(first, end, global, [&](size_t one, int64_t wanted) {
        return open[one].deviation.global < wanted;
      });
      for (; at != end && element(at) < global + length; ++at)
        offsets[*at] = offset_of(data + (local + element(at) - global) * size,
                                 expected.data() + element(at) * size, expected.dtype);
    });
  }
  return offsets;
}

// Returns the distances for spread_. Copies that lie farther apart than rounding explains do not
// count: they were judged themselves. Returns nothing if no copy counts.
std::vector<double> spread_around(const Tensor& whole, const LocalTensor& ready, const Spec& spec) {
  if (whole.dtype != DType::f64 && whole.dtype != DType::c128) return {};
  const Tensor held = dense(whole);
  const double most = kNegligible / kSpreadFactor * largest_element(held);
  std::vector<double> spread;
  for (const Deviation& one : deviations(stored_copies(ready, spec), spec, held, 0)) {
    if (!(one.distance <= most)) continue;
    spread.resize(static_cast<size_t>(held.elements()), 0);
    double& at = spread[static_cast<size_t>(one.global)];
    at = std::max(at, one.distance);
  }
  return spread;
}

}  // namespace

double distance(const Offset& a, const Offset& b) {
  return std::max(distance(a.real, b.real), distance(a.imaginary, b.imaginary));
}

double largest_line_input(const ReferenceRun& reference) {
  double largest = 0;
  for (const ValueId id : reference.line_inputs())
    largest = std::max(largest, largest_element(*reference.find(id)));
  return largest;
}

bool is_noise(double largest, double farthest, double largest_input) {
  return largest <= kNoiseLevel * largest_input && farthest >= kNoiseShare * largest;
}

double RoundingLoss::at(size_t element, double size) const {
  const double own = std::isfinite(size) ? size * share : 0;
  return std::min(most, std::max(errors.empty() ? 0 : errors[element], own));
}

Tensor Judge::held(const ComparedValue& value, const ReferenceRun& reference) {
  return whole_value(value.value, value.spec, reference.find(value.global));
}

std::vector<OpenElement> F64Judge::opened(const ComparedValue& value, const Tensor& expected) {
  const std::vector<StoredCopy> copies = stored_copies(ready_, value.spec);
  identical_ = are_identical(copies, value.spec, expected);
  if (identical_) return {};
  const bool rounds = is_floating(expected.dtype) || is_complex(expected.dtype);
  std::vector<OpenElement> open;
  for (const Deviation& one : deviations(copies, value.spec, expected, rounds ? kAgreement : 0))
    open.push_back({copies[one.copy].ranks[0], one, {}, 0, 0});
  if (open.empty()) return open;
  drop_within_parts(value, open);
  const std::vector<std::optional<Offset>> offsets = offsets_of(ready_, value.spec, open, expected);
  for (size_t i = 0; i < open.size(); ++i) open[i].offset = offsets[i].value();
  return open;
}

void F64Judge::drop_within_parts(const ComparedValue& value, std::vector<OpenElement>& open) const {
  if (!value.spec.has_partial()) return;
  std::vector<int64_t> elements;
  for (const OpenElement& one : open) elements.push_back(one.deviation.global);
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  const std::vector<double> sizes = part_sizes(value.value, value.spec, elements);
  std::erase_if(open, [&](const OpenElement& one) {
    const auto at = std::lower_bound(elements.begin(), elements.end(), one.deviation.global);
    const double size = sizes[static_cast<size_t>(at - elements.begin())];
    return std::isfinite(size) && one.deviation.distance <= kAgreement * size;
  });
}

// Computes the line on the same inputs in the program's own dtypes and in f64, and returns the
// difference. Elements that are not finite in one of them do not count.
RoundingLoss F64Judge::loss_of(const ComparedValue& value, const ReferenceRun& reference) const {
  RoundingLoss loss;
  const EvaluationPlan& own = *options_.own;
  const auto rounded = [&](ValueId id, const Tensor& tensor) {
    return as_dtype(as_dtype(tensor, own.info(id).dtype), tensor.dtype);
  };
  const Tensor exact = dense(
      reference.again(value.global, reference.plan(), rounded, LineArithmetic::rounded_inputs));
  const DType dtype = own.info(value.global).dtype;
  if (!is_floating(dtype) && !is_complex(dtype)) return loss;
  const Tensor lossy = dense(
      as_dtype(reference.again(value.global, own, {}, LineArithmetic::held_inputs), exact.dtype));
  loss.errors = distances(lossy, exact);
  for (double& error : loss.errors) {
    if (!std::isfinite(error)) error = 0;
    loss.largest = std::max(loss.largest, error);
  }
  const double size = largest_element(exact);
  loss.share = unit_roundoff(dtype);
  loss.most = kMostUnits * loss.share * size;
  if (size > 0) loss.share = std::max(loss.share, loss.largest / size);
  return loss;
}

namespace {

// Returns the tensor with each element changed by about this share of itself.
Tensor moved_by(double share, const Tensor& tensor, int direction, ValueId id) {
  std::vector<double> sizes(static_cast<size_t>(tensor.elements()));
  const Tensor input = dense(tensor);
  const double scale = std::ldexp(share, kMovedBits);
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = scale * magnitude_at(input, static_cast<int64_t>(i));
  return moved(input, sizes, direction, id);
}

}  // namespace

// An element may have no loss by chance; one in 50 small differences of large terms has none. So
// the loss of an element is at least its change when the line's inputs change by one rounding of
// their own dtypes.
void F64Judge::add_sensitivity(const ComparedValue& value, const ReferenceRun& reference,
                               RoundingLoss& loss) const {
  if (loss.errors.empty()) return;
  const Tensor still =
      dense(reference.again(value.global, reference.plan(), {}, LineArithmetic::held_inputs));
  for (int direction = 0; direction < kOtherRoundings; ++direction) {
    const InputChange change = [&](ValueId id, const Tensor& tensor) {
      return moved_by(unit_roundoff(options_.own->info(id).dtype), tensor, direction, id);
    };
    const Tensor other =
        dense(reference.again(value.global, reference.plan(), change,
                              in_direction(LineArithmetic::moved_by_a_rounding, direction)));
    for (size_t i = 0; i < loss.errors.size(); ++i) {
      const double movement = distance_at(other, still, static_cast<int64_t>(i));
      if (std::isfinite(movement)) loss.errors[i] = std::max(loss.errors[i], movement);
    }
  }
}

void F64Judge::drop_within_loss(const RoundingLoss& loss, const Tensor& expected,
                                std::vector<OpenElement>& open) const {
  std::erase_if(open, [&](const OpenElement& one) {
    const double size = magnitude_at(expected, one.deviation.global);
    return one.deviation.distance <=
           kLossShare * loss.at(static_cast<size_t>(one.deviation.global), size);
  });
}

std::vector<double> F64Judge::sizes_of_parts(ValueId id) const {
  if (const auto found = in_parts_.find(id); found != in_parts_.end())
    return rounding_part_sizes(found->second.value, found->second.spec);
  return {};
}

// Parts that are larger than their sum lose one rounding of their own size.
void F64Judge::set_losses(const ComparedValue& value, const RoundingLoss& loss,
                          std::vector<OpenElement>& open) const {
  if (loss.errors.empty()) return;
  const double unit = unit_roundoff(options_.own->info(value.global).dtype);
  std::vector<double> sizes;
  if (value.spec.has_partial()) sizes = part_sizes(value.value, value.spec);
  for (OpenElement& one : open) {
    const auto at = static_cast<size_t>(one.deviation.global);
    one.loss = std::min(loss.most, loss.errors[at]);
    if (!sizes.empty() && std::isfinite(sizes[at])) one.loss = std::max(one.loss, unit * sizes[at]);
  }
}

// Returns, for `moved`, the sizes of the line's inputs that may differ from the reference on the
// ranks. These are partial sums, and values whose copies on the ranks differ by rounding.
std::map<ValueId, std::vector<double>> F64Judge::moved_sizes(const ReferenceRun& reference) const {
  std::map<ValueId, std::vector<double>> sizes;
  for (const ValueId id : reference.line_inputs()) {
    std::vector<double> own = sizes_of_parts(id);
    if (const auto spread = spread_.find(id); spread != spread_.end()) {
      own.resize(spread->second.size(), 0);
      for (size_t i = 0; i < own.size(); ++i)
        own[i] = std::max(own[i], std::ldexp(spread->second[i], kMovedBits));
    }
    if (!own.empty()) sizes.emplace(id, std::move(own));
  }
  return sizes;
}

void F64Judge::add_movements(const ComparedValue& value, const ReferenceRun& reference,
                             std::vector<OpenElement>& open) const {
  const Tensor still =
      dense(reference.again(value.global, reference.plan(), {}, LineArithmetic::held_inputs));
  const std::map<ValueId, std::vector<double>> sizes = moved_sizes(reference);
  double largest = largest_element(still), farthest = 0;
  for (int direction = 0; direction < kOtherRoundings; ++direction) {
    const InputChange change = [&](ValueId id, const Tensor& tensor) {
      const auto found = sizes.find(id);
      return found == sizes.end() ? tensor : moved(tensor, found->second, direction, id);
    };
    std::optional<Tensor> other;
    {
      const ScopedRoundingMode rounding(direction);
      other = dense(reference.again(value.global, reference.plan(), change,
                                    in_direction(LineArithmetic::moved, direction)));
    }
    for (OpenElement& one : open)
      one.movement = std::max(one.movement, distance_at(*other, still, one.deviation.global));
    for (const double movement : distances(*other, still))
      if (std::isfinite(movement)) farthest = std::max(farthest, movement);
    largest = std::max(largest, largest_element(*other));
  }
  // On a line of rounding alone, an element may stay unmoved by chance, so it gets the largest
  // movement.
  if (is_noise(largest, farthest, largest_line_input(reference)))
    for (OpenElement& one : open) one.movement = std::max(one.movement, farthest);
}

// One device may add without rounding by chance, while ranks round because they add in another
// order. So the movement of an element that would be wrong includes changes of the line's inputs.
// They add at most one rounding of the line's largest value. If the line rounds to a whole number,
// a small change of an input may change the result by a whole one.
void F64Judge::add_input_movements(const ComparedValue& value, const ReferenceRun& reference,
                                   double scale, std::vector<OpenElement>& open) const {
  const auto is_wrong = [](const OpenElement& one) {
    return one.deviation.distance > kSpreadFactor * one.movement;
  };
  const double most = unit_roundoff(DType::f64) * scale;
  if (std::none_of(open.begin(), open.end(), [&](const OpenElement& one) {
        return is_wrong(one) && one.deviation.distance <= kSpreadFactor * most;
      }))
    return;
  const Tensor still =
      dense(reference.again(value.global, reference.plan(), {}, LineArithmetic::held_inputs));
  for (int direction = 0; direction < kOtherRoundings; ++direction) {
    const InputChange change = [&](ValueId id, const Tensor& tensor) {
      return moved_by(kInputUnits * unit_roundoff(DType::f64), tensor, direction, id);
    };
    const Tensor other =
        dense(reference.again(value.global, reference.plan(), change,
                              in_direction(LineArithmetic::moved_by_a_unit, direction)));
    for (OpenElement& one : open)
      one.movement =
          std::max(one.movement, std::min(most, distance_at(other, still, one.deviation.global)));
  }
}

void F64Judge::find_unresolved_replicas(const ComparedValue& value, const Tensor& expected) {
  if (!options_.ranks_move || !is_floating(expected.dtype)) return;
  const std::vector<StoredCopy> copies = stored_copies(ready_, value.spec);
  const std::vector<Deviation> found = deviations(copies, value.spec, expected, kAgreement);
  if (!are_apart(found, copies, value.spec, expected, kAgreement)) return;
  unresolved_.push_back(value);
  unresolved_.back().value = unresolved_.back().reduced = {};
}

Judgement F64Judge::judge(const ComparedValue& value, ReferenceRun& reference) {
  judged_.insert(value.key);
  if (value.spec.has_partial()) (in_parts_[value.global] = value).reduced = {};
  const auto is_freed = [&](const auto& entry) {
    return entry.first != value.global && reference.find(entry.first) == nullptr;
  };
  std::erase_if(in_parts_, is_freed);
  std::erase_if(spread_, is_freed);
  const Tensor expected = dense(reference.value(value.global));
  ready_ = reduced_as(value, expected.dtype);
  std::vector<OpenElement> elements = opened(value, expected);
  if (elements.empty()) return Judgement::right;
  RoundingLoss loss = loss_of(value, reference);
  drop_within_loss(loss, expected, elements);
  // No loss of an element explains, or hides in the own dtypes, a distance of more than this.
  const double farthest = std::max(kLossShare, kUnitsShown) * loss.most;
  if (std::any_of(elements.begin(), elements.end(),
                  [&](const OpenElement& one) { return !(one.deviation.distance > farthest); })) {
    add_sensitivity(value, reference, loss);
    drop_within_loss(loss, expected, elements);
  }
  if (elements.empty()) {
    find_unresolved_replicas(value, expected);
    return Judgement::right;
  }
  set_losses(value, loss, elements);
  add_movements(value, reference, elements);
  const double scale = std::max(largest_element(expected), largest_line_input(reference));
  if (is_floating(expected.dtype) || is_complex(expected.dtype))
    add_input_movements(value, reference, scale, elements);
  OpenValue open{value, std::move(elements), expected.elements(), scale, loss.largest};
  open.about.value = {};
  // The ranks round as well. A global program runs in other directions only if a value is wrong
  // without that.
  if (!options_.ranks_move) {
    std::optional<JudgedValue> decided = decision(open);
    if (!decided) return Judgement::right;
    if (decided->judgement != Judgement::wrong) {
      found_.push_back(std::move(*decided));
      return Judgement::undecided;
    }
  }
  open.place = open_.size();
  open_.insert_or_assign(value.key, std::move(open));
  return Judgement::undecided;
}

namespace {

JudgedValue judged_as(Judgement judgement, const OpenValue& value) {
  JudgedValue judged;
  judged.global = value.about.global;
  judged.key = value.about.key;
  judged.label = value.about.label;
  judged.judgement = judgement;
  judged.of = value.of;
  return judged;
}

// Collects the elements of a judged value. An element may be open on several copies; elements come
// in the order of copies.
class JudgedElements {
 public:
  explicit JudgedElements(JudgedValue value) : value_(std::move(value)) {}

  bool empty() const { return added_.empty(); }
  void add(const OpenElement& one) {
    added_.emplace_back(one.deviation.global, one.loss);
    several_ = several_ || added_.back().first != added_.front().first;
    if (several_ && one.deviation.distance <= value_.distance) return;
    value_.distance = one.deviation.distance;
    value_.movement = one.movement;
  }
  // Returns the value with each element once, with the loss on its first copy.
  JudgedValue take() {
    const auto earlier = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!std::is_sorted(added_.begin(), added_.end(), earlier))
      std::stable_sort(added_.begin(), added_.end(), earlier);
    for (const auto& [element, loss] : added_) {
      if (!value_.elements.empty() && value_.elements.back() == element) continue;
      value_.elements.push_back(element);
      value_.losses.push_back(loss);
    }
    return std::move(value_);
  }

 private:
  JudgedValue value_;
  std::vector<std::pair<int64_t, double>> added_;
  bool several_ = false;  // elements, not copies of one
};

}  // namespace

// Returns nothing for a value that is right.
std::optional<JudgedValue> F64Judge::decision(const OpenValue& value) const {
  const DType dtype = value.about.spec.dtype();
  const bool rounds = is_floating(dtype) || is_complex(dtype);
  const bool equal_in_own =
      options_.equal_in_own != nullptr && options_.equal_in_own->contains(value.about.key);
  JudgedElements wrong(judged_as(Judgement::wrong, value));
  JudgedElements undecided(judged_as(Judgement::undecided, value));
  for (const OpenElement& one : value.elements) {
    const double reach = kSpreadFactor * one.movement;
    if (one.movement == 0 || (rounds && one.deviation.distance > reach))
      wrong.add(one);
    else if (!equal_in_own && !(rounds && reach <= std::max(kNegligible * value.scale, value.loss)))
      undecided.add(one);
  }
  if (wrong.empty() && undecided.empty()) return std::nullopt;
  return wrong.empty() ? undecided.take() : wrong.take();
}

namespace {

std::vector<const OpenValue*> in_judged_order(const std::map<std::string, OpenValue>& open) {
  std::vector<const OpenValue*> values;
  for (const auto& [key, value] : open) values.push_back(&value);
  std::sort(values.begin(), values.end(),
            [](const OpenValue* a, const OpenValue* b) { return a->place < b->place; });
  return values;
}

}  // namespace

void F64Judge::settle() {
  for (const OpenValue* value : in_judged_order(open_))
    if (std::optional<JudgedValue> decided = decision(*value))
      found_.push_back(std::move(*decided));
  open_.clear();
}

Tensor F64Judge::held(const ComparedValue& value, const ReferenceRun& reference) {
  spread_of_held_.clear();
  if (options_.integers != nullptr)
    if (const auto own = options_.integers->find(value.global); own != options_.integers->end())
      return own->second;
  const Tensor* known = reference.find(value.global);
  if (identical_ && known->dtype == value.spec.dtype()) return *known;
  Tensor whole = assembled(ready_, value.spec, known);
  if (!identical_) spread_of_held_ = spread_around(whole, ready_, value.spec);
  return whole;
}

void F64Judge::was_held(const std::vector<ValueId>& ids) {
  for (const ValueId id : ids) {
    spread_.erase(id);
    if (!spread_of_held_.empty()) spread_[id] = spread_of_held_;
  }
}

Judgement PerturbationJudge::judge(const ComparedValue& value, ReferenceRun& reference) {
  const auto found = open_.find(value.key);
  if (found == open_.end()) return Judgement::right;
  measured_.insert(value.key);
  const Tensor expected = dense(reference.value(value.global));
  const LocalTensor ready = reduced_as(value, expected.dtype);
  std::vector<OpenElement>& elements = found->second.elements;
  const std::vector<std::optional<Offset>> offsets =
      offsets_of(ready, value.spec, elements, expected);
  for (size_t i = 0; i < elements.size(); ++i) {
    const double movement = offsets[i] ? distance(*offsets[i], elements[i].offset) : kInfinity;
    elements[i].movement = std::max(elements[i].movement, movement);
  }
  return Judgement::right;
}

std::vector<ValueLabel> PerturbationJudge::unmeasured() const {
  std::vector<ValueLabel> labels;
  for (const OpenValue* value : in_judged_order(open_))
    if (!measured_.contains(value->about.key)) labels.push_back(value->about.label);
  return labels;
}

}  // namespace shardproof
