// Implements compare_recorded_values of run_comparison.h. Steps: visit the elements whose bits
// differ; find the worst one, by the class of its distance and then by the distance as a multiple
// of its measured rounding. Then visit again and collect all elements of that class, their ranks
// and the precision that explains them; derive the cause. If only digests were recorded, compare
// those. Example: f32 elements 308.654694 and 308.654724 are 3.0e-5 apart. With a measured rounding
// of 3.2e-5 the factor is 0.97, below kWithinRounding = 8. So the value is within rounding. If the
// runs added in different orders, its cause is the reduction order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "shardproof/engine/compare/owned_elements.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/scenarios/record/run_comparison.h"

namespace shardproof {
namespace {

// --- elements ------------------------------------------------------------------------------------

bool same_bits(const Tensor& a, const Tensor& b, int64_t at) {
  const int64_t size = size_of(a.dtype);
  return std::memcmp(a.data() + at * size, b.data() + at * size, static_cast<size_t>(size)) == 0;
}

// The distance of two elements. Two NaNs have distance 0; complex numbers have that of their real
// or imaginary parts, whichever is larger.
struct Distance {
  double apart = 0;
  double size = 0;  // magnitude of the larger element
  double ulps(DType dtype) const {
    const bool finite = std::isfinite(apart) && std::isfinite(size);
    return finite ? apart / unit_in_last_place(dtype, size)
                  : std::numeric_limits<double>::infinity();
  }
};

Distance distance(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y))) return {0, 0};
  const double apart = std::abs(x - y);
  return {std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart,
          std::max(std::abs(x), std::abs(y))};
}

Distance distance(const Tensor& a, const Tensor& b, int64_t at) {
  const DType dtype = a.dtype;
  const std::byte* x = a.data() + at * size_of(dtype);
  const std::byte* y = b.data() + at * size_of(dtype);
  if (is_floating(dtype)) return distance(load_f64(x, dtype), load_f64(y, dtype));
  if (!is_complex(dtype)) {
    const Distance own =
        distance(static_cast<double>(load_i64(x, dtype)), static_cast<double>(load_i64(y, dtype)));
    return {std::max(own.apart, 1.0), own.size};  // integers of different bits are at least 1 apart
  }
  const DType part = component_dtype(dtype);
  const int64_t half = size_of(part);
  const Distance real = distance(load_f64(x, part), load_f64(y, part));
  const Distance imaginary = distance(load_f64(x + half, part), load_f64(y + half, part));
  return real.apart >= imaginary.apart ? real : imaginary;
}

std::string recorded_element_text(const Tensor& tensor, int64_t at) {
  const std::byte* element = tensor.data() + at * size_of(tensor.dtype);
  if (is_floating(tensor.dtype)) return fmt::format("{:.9g}", load_f64(element, tensor.dtype));
  if (!is_complex(tensor.dtype)) return std::to_string(load_i64(element, tensor.dtype));
  const DType part = component_dtype(tensor.dtype);
  return fmt::format("{:.9g}{:+.9g}i", load_f64(element, part),
                     load_f64(element + size_of(part), part));
}

// An element whose bits differ between the runs.
struct DifferingElement {
  const Tensor *a = nullptr, *b = nullptr;
  int64_t at = 0;       // index in these tensors
  int64_t global = -1;  // index in the whole value; -1: unknown
  int32_t rank = -1;    // holder of the shard; -1: the tensors are whole values
  auto place() const { return std::tuple(global, rank, at); }
};

bool owns(const Spec& spec, int32_t rank, const Dims& index) {
  for (int dim = 0; dim < index.size(); ++dim) {
    const Runs runs = spec.owned(rank, dim);
    if (std::none_of(runs.begin(), runs.end(), [&](const Run& run) {
          return index[dim] >= run.start && index[dim] < run.start + run.length;
        }))
      return false;
  }
  return true;
}

Lanes owners_of(const Spec& spec, const Lanes& lanes, const Dims& index) {
  std::vector<int32_t> ranks;
  for (int64_t i = 0; i < lanes.size(); ++i)
    if (owns(spec, lanes[i], index)) ranks.push_back(lanes[i]);
  return Lanes::of(std::move(ranks));
}

// --- shards --------------------------------------------------------------------------------------

// The shard of each rank. A whole value is split once for all ranks.
class HeldShards {
 public:
  explicit HeldShards(const RecordedValue& value) {
    if (value.whole && !value.spec->has_partial()) cut_ = split(value.parts[0].tensor, *value.spec);
    for (const RecordedShard& part : value.parts)
      for (int64_t i = 0; !value.whole && i < part.lanes.size(); ++i)
        parts_.emplace(part.lanes[i], &part.tensor);
  }
  // Returns nothing if only the sum over ranks was recorded.
  std::optional<Tensor> of(int32_t rank) const {
    if (cut_.find(rank) != nullptr) return cut_.of_rank(rank);
    const auto found = parts_.find(rank);
    return found == parts_.end() ? std::nullopt : std::optional(*found->second);
  }

 private:
  LocalTensor cut_;
  std::map<int32_t, const Tensor*> parts_;
};

std::vector<int64_t> global_indices(const RecordedValue& value, int32_t rank, int64_t elements) {
  std::vector<int64_t> indices(static_cast<size_t>(elements), -1);
  if (!value.spec) return indices;
  for_each_element(local_indices(*value.spec, rank), contiguous_strides(value.spec->shape()),
                   [&](int64_t local, int64_t global) {
                     if (local < elements) indices[static_cast<size_t>(local)] = global;
                   });
  return indices;
}

// Visits the elements of two values whose bits differ.
class ValuePair {
 public:
  using Visit = std::function<void(const DifferingElement&)>;
  ValuePair(const RecordedValue& a, const RecordedValue& b) : a_(a), b_(b) {}

  // Returns false if the contents of some shard were not recorded.
  bool visit(const Visit& visit) const {
    if (a_.whole && b_.whole) {
      visit_tensors({&a_.parts[0].tensor, &b_.parts[0].tensor}, visit);
      return true;
    }
    const HeldShards of_a(a_), of_b(b_);
    bool complete = true;
    for (int64_t i = 0; i < a_.lanes.size(); ++i) {
      const int32_t rank = a_.lanes[i];
      const std::optional<Tensor> own = of_a.of(rank), other = of_b.of(rank);
      complete = complete && own && other;
      if (own && other) visit_tensors({&*own, &*other, 0, -1, rank}, visit);
    }
    return complete;
  }

 private:
  void visit_tensors(DifferingElement element, const Visit& visit) const {
    const Tensor &a = *element.a, &b = *element.b;
    if (a.dtype != b.dtype || !(a.shape == b.shape))
      throw_bad_input("{} is {}{} in one run and {}{} in the other", a_.id, name(a.dtype),
                      to_string(a.shape), name(b.dtype), to_string(b.shape));
    if (a.elements() == 0 || bit_equal(a, 0, b, 0)) return;
    std::vector<int64_t> global;
    if (element.rank >= 0) global = global_indices(a_, element.rank, a.elements());
    for (element.at = 0; element.at < a.elements(); ++element.at) {
      if (same_bits(a, b, element.at)) continue;
      element.global = element.rank < 0 ? element.at : global[static_cast<size_t>(element.at)];
      visit(element);
    }
  }

  const RecordedValue &a_, &b_;
};

// --- judging -------------------------------------------------------------------------------------

// The unit roundoff of matrix products in a run, as its environment states it ("matmul"). A run on
// a GPU that states nothing is assumed to multiply in TF32 if `assumes_tf32`.
struct LowPrecision {
  double roundoff = 0;
  std::string text;
};
std::optional<LowPrecision> low_precision(const RecordedRun& run, bool assumes_tf32 = true) {
  std::optional<std::string> stated = find_fact(run.environment, "matmul");
  if (!stated && assumes_tf32 && find_fact(run.environment, "gpu")) stated = "tf32";
  if (!stated) return std::nullopt;
  if (*stated == "tf32") return LowPrecision{std::ldexp(1.0, -11), "tf32"};
  const std::optional<DType> dtype = parse_dtype(*stated);
  if (!dtype || !is_floating(*dtype)) return std::nullopt;
  return LowPrecision{unit_roundoff(*dtype), std::string(name(*dtype))};
}

bool multiplies_in_fewer_bits(DType dtype) {
  return dtype == DType::f32 || (is_floating(dtype) && size_of(dtype) == 1);
}

// The measured rounding of each element of a value.
class MeasuredRounding {
 public:
  explicit MeasuredRounding(const RecordedValue& value) : value_(value) {
    for (const RecordedShard& part : value.parts)
      for (int64_t i = 0; !value.whole && i < part.lanes.size(); ++i)
        parts_.emplace(part.lanes[i], &part.rounding);
  }
  // Returns 0 for an exact element and nothing if the rounding was not measured.
  std::optional<double> at(const DifferingElement& element) const {
    if (!value_.measured) return std::nullopt;
    if (value_.whole) return element_rounding(value_.rounding, element.global);
    const auto found = parts_.find(element.rank);
    return found == parts_.end() ? std::nullopt : element_rounding(*found->second, element.at);
  }

 private:
  static std::optional<double> element_rounding(const std::vector<double>& rounding, int64_t at) {
    if (rounding.empty()) return 0;
    if (at < 0 || at >= std::ssize(rounding)) return std::nullopt;
    const double own = rounding[static_cast<size_t>(at)];
    return std::isfinite(own) ? std::optional(own) : std::nullopt;
  }

  const RecordedValue& value_;
  std::map<int32_t, const std::vector<double>*> parts_;
};

class DifferenceJudge {
 public:
  DifferenceJudge(const RecordedValue& a, const RecordedValue& b, const RecordedRun& run_a,
                  const RecordedRun& run_b)
      : a_(a), of_a_(a), of_b_(b), run_a_(run_a), run_b_(run_b) {
    one_measured_ = a.measured != b.measured;
    // A library may choose another order for each run.
    other_order_ = run_a.order != run_b.order || run_a.order == "library";
    other_device_ = find_fact(run_a.environment, "gpu") != find_fact(run_b.environment, "gpu");
    for (const RecordedRun* run : {&run_a, &run_b})
      if (!stated_) stated_ = low_precision(*run, false);
    if (!multiplies_in_fewer_bits(a.dtype)) stated_.reset();
  }

  // Returns nothing if the rounding is unknown. Products in fewer bits that a run states scale it.
  std::optional<double> rounding(const DifferingElement& element) const {
    const std::optional<double> own = larger(of_a_.at(element), of_b_.at(element));
    return own && stated_ ? *own * times(*stated_) : own;
  }
  // Returns the distance as a multiple of the rounding.
  double factor(const DifferingElement& element) const {
    const double apart = distance(*element.a, *element.b, element.at).apart;
    return apart == 0 ? 0 : apart / rounding(element).value_or(0);
  }
  ValueMatch match(const DifferingElement& element) const {
    if (!rounding(element)) return ValueMatch::not_decided;
    const double factor = this->factor(element);
    if (factor <= kWithinRounding) return ValueMatch::within_rounding;
    return factor <= kNotDecided ? ValueMatch::not_decided : ValueMatch::wrong;
  }
  // True if products in fewer bits explain the distance.
  bool is_explained_by(const LowPrecision& low, const DifferingElement& element) const {
    const double more = stated_ ? std::max(1.0, times(low) / times(*stated_)) : times(low);
    return is_floating(a_.dtype) && factor(element) <= kWithinRounding * more;
  }
  // Sets cause and reason. `low` is the precision that explains all wrong elements, if there is
  // one.
  void explain(ValueDifference& difference, const std::optional<LowPrecision>& low) const {
    if (difference.match == ValueMatch::wrong) return explain_precision(difference, low);
    if (difference.match == ValueMatch::within_rounding && stated_)
      return explain_precision(difference, stated_);
    explain_order(difference);
  }

 private:
  std::optional<double> larger(std::optional<double> a, std::optional<double> b) const {
    if (a && b) return std::max(*a, *b);
    // If both runs measured but one has no rounding for the element, it is unknown.
    return one_measured_ ? (a ? a : b) : std::nullopt;
  }
  double times(const LowPrecision& low) const {
    return std::max(1.0, low.roundoff / unit_roundoff(a_.dtype));
  }
  void explain_precision(ValueDifference& difference,
                         const std::optional<LowPrecision>& low) const {
    difference.cause = low ? Cause::precision : Cause::bug;
    if (!low) return;
    difference.why = size_of(a_.dtype) == 1
                         ? "within the rounding of sums of 8-bit floats on tensor cores"
                         : fmt::format("within the rounding of products in {}", low->text);
  }
  void explain_order(ValueDifference& difference) const {
    const bool known = difference.match == ValueMatch::within_rounding;
    difference.cause = Cause::bug;
    if (a_.added && other_order_) {
      difference.cause = known ? Cause::reduction_order : Cause::unknown;
      difference.why = known ? fmt::format("added over ranks in the orders {} and {}", run_a_.order,
                                           run_b_.order)
                             : "the rounding does not decide: another order of addition, or a bug";
    } else if (other_device_) {
      difference.cause = known ? Cause::reduction_order : Cause::unknown;
      difference.why = "kernels of different devices add and round in different ways";
    } else {
      difference.why = "both runs add in one order, which gives equal bits without a bug";
    }
  }

  const RecordedValue& a_;
  const MeasuredRounding of_a_, of_b_;
  std::optional<LowPrecision> stated_;  // in the environment of a run
  bool one_measured_ = false, other_order_ = false, other_device_ = false;
  const RecordedRun &run_a_, &run_b_;
};

ValueDifference blank_difference(const RecordedValue& value) {
  ValueDifference difference;
  difference.id = value.id;
  difference.bound = value.bound;
  difference.instance = value.instance;
  return difference;
}

// The worst element of a value, which the report describes; the first one if several are equally
// bad.
struct WorstElement {
  ValueMatch match = ValueMatch::bit_equal;
  double factor = 0;
  std::tuple<int64_t, int32_t, int64_t> place;

  void add(const DifferingElement& element, const DifferenceJudge& judge) {
    const ValueMatch own = judge.match(element);
    const double factor_here = judge.factor(element);
    const bool worse = own != match ? own > match : factor_here > factor;
    const bool alike = own == match && factor_here == factor && element.place() < place;
    if (worse || alike || match == ValueMatch::bit_equal)
      *this = {own, factor_here, element.place()};
  }
};

// All elements that match as badly as the worst one.
class WorstElements {
 public:
  WorstElements(const RecordedValue& value, const DifferenceJudge& judge, const WorstElement& worst,
                const RecordedRun& a, const RecordedRun& b)
      : value_(value), judge_(judge), worst_(worst) {
    for (const RecordedRun* run : {&a, &b})
      if (std::optional<LowPrecision> low = low_precision(*run)) low_.push_back(std::move(*low));
  }

  void add(const DifferingElement& element) {
    const bool local = element.global < 0;
    const auto index = static_cast<size_t>(local ? element.at : element.global);
    if (marked_.size() <= index) marked_.resize(index + 1, false);
    if (!marked_[index]) ++elements_;
    marked_[index] = true;
    if (element.rank >= 0) ranks_.insert(element.rank);
    std::erase_if(low_,
                  [&](const LowPrecision& low) { return !judge_.is_explained_by(low, element); });
    const auto [global, rank, at] = worst_.place;
    if (element.rank >= 0 && element.global == global && (!local || element.at == at))
      owners_.push_back(element.rank);
    if (element.place() != worst_.place) return;
    text_a_ = recorded_element_text(*element.a, element.at);
    text_b_ = recorded_element_text(*element.b, element.at);
    rounding_ = judge_.rounding(element);
    ulps_ = distance(*element.a, *element.b, element.at).ulps(element.a->dtype);
    shape_ = local ? element.a->shape : value_.spec->shape();
  }

  void describe(ValueDifference& difference) const {
    const auto [global, rank, at] = worst_.place;
    difference.match = worst_.match;
    difference.local = global < 0;
    difference.index = unravel(difference.local ? at : global, shape_);
    difference.got_a = text_a_;
    difference.got_b = text_b_;
    difference.rounding = rounding_;
    difference.rounding_factor = worst_.factor;
    difference.ulps = ulps_;
    difference.elements = elements_;
    if (rank >= 0) {
      difference.owners = Lanes::of(owners_);
      difference.ranks = Lanes::of({ranks_.begin(), ranks_.end()});
    } else {
      difference.owners = owners_of(*value_.spec, value_.lanes, *difference.index);
      difference.ranks = holders();
    }
    judge_.explain(difference, low_.empty() ? std::nullopt : std::optional(low_.front()));
  }

 private:
  // Ranks whose shard of the whole value has a marked element. Visits one of several replicas.
  Lanes holders() const {
    std::map<Dims, bool> known;
    std::vector<int32_t> ranks;
    const Dims strides = contiguous_strides(value_.spec->shape());
    for (int64_t i = 0; i < value_.lanes.size(); ++i) {
      const int32_t rank = value_.lanes[i];
      const auto entry = known.emplace(place_of_shard(*value_.spec, rank), false);
      bool& holds = entry.first->second;
      if (entry.second)
        for_each_element(local_indices(*value_.spec, rank), strides, [&](int64_t, int64_t global) {
          const auto index = static_cast<size_t>(global);
          holds = holds || (index < marked_.size() && marked_[index]);
        });
      if (holds) ranks.push_back(rank);
    }
    return Lanes::of(std::move(ranks));
  }

  const RecordedValue& value_;
  const DifferenceJudge& judge_;
  const WorstElement& worst_;
  std::vector<LowPrecision> low_;
  std::vector<bool> marked_;  // by index in the whole value, or in the shard if that is unknown
  int64_t elements_ = 0;
  std::set<int32_t> ranks_;
  std::vector<int32_t> owners_;
  std::string text_a_, text_b_;
  std::optional<double> rounding_;
  double ulps_ = 0;
  Dims shape_;
};

// Ranks whose digests differ. There may be as many digests as ranks, so digests are looked up in a
// map.
Lanes other_digests(const RecordedValue& a, const RecordedValue& b) {
  std::map<uint64_t, Lanes> known;
  for (const ShardDigest& digest : b.digests) {
    Lanes& lanes = known[digest.digest];
    lanes = lanes.unite(digest.lanes);
  }
  std::vector<int32_t> ranks;
  for (const ShardDigest& own : a.digests) {
    const Lanes others = own.lanes.minus(known[own.digest]);
    for (int64_t i = 0; i < others.size(); ++i) ranks.push_back(others[i]);
  }
  return Lanes::of(std::move(ranks)).unite(b.lanes.minus(a.lanes));
}

}  // namespace

std::optional<ValueDifference> compare_recorded_values(const RecordedValue& a,
                                                       const RecordedValue& b,
                                                       const RecordedRun& run_a,
                                                       const RecordedRun& run_b) {
  ValueDifference difference = blank_difference(a);
  const DifferenceJudge judge(a, b, run_a, run_b);
  const bool contents = !a.parts.empty() && !b.parts.empty();
  const ValuePair pair(a, b);
  WorstElement worst_element;
  const bool complete = contents && pair.visit([&](const DifferingElement& element) {
    worst_element.add(element, judge);
  });
  if (worst_element.match != ValueMatch::bit_equal) {
    WorstElements worst(a, judge, worst_element, run_a, run_b);
    pair.visit([&](const DifferingElement& element) {
      if (judge.match(element) == worst_element.match) worst.add(element);
    });
    worst.describe(difference);
    return difference;
  }
  // Parts may differ although their sum is equal; then the value does not differ.
  if (complete) return std::nullopt;
  const Lanes ranks = other_digests(a, b);
  if (ranks.empty()) return std::nullopt;
  // Each run compared the value with one device and found nothing wrong.
  const bool measured = !contents || (a.measured && b.measured);
  const bool honest = measured && run_a.findings.empty() && run_b.findings.empty();
  difference.match = honest ? ValueMatch::within_rounding : ValueMatch::not_decided;
  difference.ranks = difference.owners = ranks;
  judge.explain(difference, std::nullopt);
  return difference;
}

}  // namespace shardproof
