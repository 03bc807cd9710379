// Implements measure_rounding.h.
//
// 1. Runs of the job are samples.
// 2. Each sample is converted to the layout of the given value, one tensor for each of its parts.
//    Ranks may be grouped differently, and replicas that agree in one run may differ in another.
// 3. Elements are compared one by one.
//
// Example: y is 0.3 in f64; 0.30000001 as it is, rounding up and given, 0.29999998 rounding down
// and to zero. Its rounding is 2e-8, but at least 0.3 * 2^-24 = 1.8e-8 and the median of its
// neighbours.
#include "shardproof/engine/check/measure_rounding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <set>

#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/engine/judging/observe_values.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {

std::vector<ReductionSchedule> other_orders(const ReductionSchedule& own) {
  std::vector<ReductionSchedule> orders;
  for (const FoldOrder order :
       {FoldOrder::ring, FoldOrder::tree, FoldOrder::exact, FoldOrder::rank})
    if (order != own.order && orders.size() < static_cast<size_t>(kOtherRoundings))
      orders.push_back({order});
  return orders;
}

namespace {

struct Samples {
  std::optional<ValuesById> reference;  // in f64
  std::vector<ValuesById> own;          // in the program's dtypes
};

// Returns nullopt if the program cannot run this way.
std::optional<ValuesById> observed(const Observation& observation, const ReductionSchedule& order,
                                   const std::set<std::string>& ids) {
  try {
    return observation.run(ids, order);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns the unchanged run first. It is executed last, so that C++ rank functions leave the state
// of the measured run behind.
std::vector<ValuesById> own_samples(const Job& job, const Registries& registries,
                                    const std::set<std::string>& ids) {
  const Observation observation(job, registries, Floats::as_written);
  std::vector<ValuesById> samples;
  int direction = 0;
  for (const ReductionSchedule& order : other_orders(job.order)) {
    const ScopedRoundingMode rounding(direction++);
    if (std::optional<ValuesById> sample = observed(observation, order, ids))
      samples.push_back(std::move(*sample));
  }
  if (std::optional<ValuesById> sample = observed(observation, job.order, ids))
    samples.insert(samples.begin(), std::move(*sample));
  return samples;
}

Samples samples_of(const Job& job, const Registries& registries, const std::set<std::string>& ids) {
  Samples samples;
  try {
    samples.own = own_samples(job, registries, ids);
    if (job.functions.empty())
      samples.reference = observed(Observation(job, registries, Floats::widest), job.order, ids);
  } catch (const Error&) {
    // The program has no such form; the other runs are used.
  } catch (const std::bad_alloc&) {
    // A run that has succeeded must not fail because there is too little memory to measure it.
  }
  return samples;
}

// True if elements of both can be compared.
bool is_comparable(const Tensor& sample, const Tensor& layout) {
  return sample.shape == layout.shape && is_complex(sample.dtype) == is_complex(layout.dtype) &&
         (sample.dtype == layout.dtype || !(is_exact(sample.dtype) || is_exact(layout.dtype)));
}

// Returns a whole value, cut for its ranks; empty if only a sum over ranks is stored.
LocalTensor cut_of(const RecordedValue& value) {
  if (!value.whole || value.spec->has_partial()) return {};
  return split(value.parts.front().tensor, *value.spec);
}

// Returns one copy of the tensor that a rank holds.
std::optional<Tensor> held_by(const RecordedValue& value, int32_t rank, const LocalTensor& cut) {
  if (value.whole)
    return cut.find(rank) == nullptr ? std::nullopt : std::optional(cut.of_rank(rank));
  for (const RecordedShard& part : value.parts)
    if (part.lanes.contains(rank)) return part.tensor;
  return std::nullopt;
}

// Returns the whole value of the ranks' copies, each element from the first rank that has it.
std::optional<Tensor> join_parts(const RecordedValue& value, const Spec& layout) {
  if (layout.has_partial() || !value.lanes.contains(layout.mesh().ranks())) return std::nullopt;
  std::vector<Block> blocks;
  for (const RecordedShard& part : value.parts)
    for (int64_t i = 0; i < part.lanes.size(); ++i) {
      if (!(part.tensor.shape == layout.local_shape(part.lanes[i]))) return std::nullopt;
      blocks.push_back({Lanes::one(part.lanes[i]), part.tensor});
    }
  return assemble(LocalTensor(std::move(blocks)), layout.with_dtype(value.dtype));
}

// Returns one tensor for each part of `layout`; nullopt if `value` does not determine them.
std::optional<std::vector<Tensor>> in_layout(const RecordedValue& value,
                                             const RecordedValue& layout) {
  const LocalTensor cut = layout.whole ? LocalTensor() : cut_of(value);
  std::vector<Tensor> tensors;
  for (const RecordedShard& part : layout.parts) {
    std::optional<Tensor> own;
    if (!layout.whole)
      own = held_by(value, part.lanes[0], cut);
    else
      own =
          value.whole ? std::optional(value.parts.front().tensor) : join_parts(value, *layout.spec);
    if (!own || !is_comparable(*own, part.tensor)) return std::nullopt;
    tensors.push_back(std::move(*own));
  }
  return tensors;
}

// Integers that differ have no meaningful distance, so it becomes infinite.
void widen_exact(const Tensor& reference, const Tensor& sample, std::vector<double>& distances) {
  const int64_t size = size_of(reference.dtype);
  for (size_t i = 0; i < distances.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) * size;
    if (std::memcmp(reference.data() + at, sample.data() + at, static_cast<size_t>(size)) != 0)
      distances[i] = kInfinity;
  }
}

// One part of a value: the reference, and the largest distance of each element from it so far.
struct MeasuredPart {
  Tensor reference;
  std::vector<double> numbers, distances = {};

  explicit MeasuredPart(const Tensor& tensor)
      : reference(tensor.contiguous() ? tensor : contiguous_copy(tensor)),
        numbers(numbers_of(reference)),
        distances(static_cast<size_t>(reference.elements()), 0) {}
  void widen(const Tensor& sample) {
    if (is_exact(reference.dtype))
      return widen_exact(reference, sample.contiguous() ? sample : contiguous_copy(sample),
                         distances);
    const std::vector<double> other = numbers_of(sample);
    const size_t width = is_complex(reference.dtype) ? 2 : 1;
    for (size_t i = 0; i < numbers.size(); ++i)
      distances[i / width] = std::max(distances[i / width], distance(numbers[i], other[i]));
  }
};

// Returns the median of the finite distances.
double median_of(const std::vector<MeasuredPart>& parts) {
  std::vector<double> all;
  for (const MeasuredPart& part : parts)
    std::copy_if(part.distances.begin(), part.distances.end(), std::back_inserter(all),
                 [](double distance) { return std::isfinite(distance); });
  if (all.empty()) return 0;
  const auto middle = all.begin() + std::ssize(all) / 2;
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

bool are_exact(const std::vector<MeasuredPart>& parts) {
  return std::all_of(parts.begin(), parts.end(), [](const MeasuredPart& part) {
    return std::count(part.distances.begin(), part.distances.end(), 0) ==
           std::ssize(part.distances);
  });
}

// Returns one rounding of each element, which may be below the smallest normal number.
std::vector<double> units_of(const Tensor& tensor) {
  const std::vector<double> numbers = numbers_of(tensor);
  const double least = std::ldexp(0.5, smallest_exponent(tensor.dtype));
  std::vector<double> units(static_cast<size_t>(tensor.elements()), least);
  const size_t width = is_complex(tensor.dtype) ? 2 : 1;
  for (size_t i = 0; i < numbers.size(); ++i)
    if (std::isfinite(numbers[i]))
      units[i / width] =
          std::max(units[i / width], unit_roundoff(tensor.dtype) * std::fabs(numbers[i]));
  return units;
}

const RecordedValue* find(const ValuesById& values, const std::string& id) {
  const auto found = values.find(id);
  return found == values.end() ? nullptr : &found->second;
}

// Returns the tensors of all samples, the reference first.
std::vector<std::vector<Tensor>> layouts_of(const Samples& samples, const RecordedValue& value) {
  std::vector<std::vector<Tensor>> layouts;
  const auto add = [&](const ValuesById& values) {
    const RecordedValue* sample = find(values, value.id);
    if (sample == nullptr) return;
    if (std::optional<std::vector<Tensor>> own = in_layout(*sample, value))
      layouts.push_back(std::move(*own));
  };
  if (samples.reference) add(*samples.reference);
  for (const ValuesById& own : samples.own) add(own);
  return layouts;
}

void measure(const Samples& samples, RecordedValue& value) {
  const std::vector<std::vector<Tensor>> layouts = layouts_of(samples, value);
  if (layouts.size() < 2) return;
  std::vector<MeasuredPart> parts(layouts.front().begin(), layouts.front().end());
  for (size_t i = 1; i < layouts.size(); ++i)
    for (size_t p = 0; p < parts.size(); ++p) parts[p].widen(layouts[i][p]);
  value.measured = true;
  if (are_exact(parts)) return;
  const double median = median_of(parts);
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<double> rounding = std::move(parts[p].distances);
    if (!is_exact(value.dtype)) {
      const std::vector<double> units = units_of(value.parts[p].tensor);
      for (size_t i = 0; i < rounding.size(); ++i)
        rounding[i] = std::max({rounding[i], units[i], median});
    }
    (value.whole ? value.rounding : value.parts[p].rounding) = std::move(rounding);
  }
}

}  // namespace

void measure_rounding(const Job& job, const Registries& registries,
                      std::vector<RecordedValue>& seen) {
  std::set<std::string> ids;
  for (const RecordedValue& value : seen)
    if (!value.parts.empty()) ids.insert(value.id);
  if (ids.empty()) return;
  const Samples samples = samples_of(job, registries, ids);
  for (RecordedValue& value : seen)
    if (!value.parts.empty()) measure(samples, value);
}

}  // namespace shardproof
