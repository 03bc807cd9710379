#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "shardproof/engine/owned_elements.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/split.h"
#include "shardproof/ops/bound.h"
#include "shardproof/scenarios/run_comparison.h"

namespace shardproof {
namespace {

// --- elements
// -----------------------------------------------------------------------------------

bool same_bits(const Tensor& a, const Tensor& b, int64_t at) {
  const int64_t size = size_of(a.dtype);
  return std::memcmp(a.data() + at * size, b.data() + at * size, static_cast<size_t>(size)) == 0;
}

// How far apart two elements are; 0 for two NaN.
double distance(const Tensor& a, const Tensor& b, int64_t at) {
  const DType dtype = a.dtype;
  const auto apart = [](double x, double y) {
    if (x == y || (std::isnan(x) && std::isnan(y))) return 0.0;
    const double d = std::abs(x - y);
    return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  };
  const std::byte* x = a.data() + at * size_of(dtype);
  const std::byte* y = b.data() + at * size_of(dtype);
  if (!is_complex(dtype)) {
    if (is_floating(dtype)) return apart(load_f64(x, dtype), load_f64(y, dtype));
    const double d =
        std::abs(static_cast<double>(load_i64(x, dtype)) - static_cast<double>(load_i64(y, dtype)));
    return std::max(d, 1.0);  // other bits are another number
  }
  const DType part = dtype == DType::c64 ? DType::f32 : DType::f64;
  const int64_t half = size_of(part);
  return std::max(apart(load_f64(x, part), load_f64(y, part)),
                  apart(load_f64(x + half, part), load_f64(y + half, part)));
}

std::string element_text(const Tensor& tensor, int64_t at) {
  const std::byte* element = tensor.data() + at * size_of(tensor.dtype);
  if (is_floating(tensor.dtype)) return fmt::format("{:.9g}", load_f64(element, tensor.dtype));
  if (!is_complex(tensor.dtype)) return std::to_string(load_i64(element, tensor.dtype));
  const DType part = tensor.dtype == DType::c64 ? DType::f32 : DType::f64;
  return fmt::format("{:.9g}{:+.9g}i", load_f64(element, part),
                     load_f64(element + size_of(part), part));
}

// An element that is not the same: where it lies, who holds it.
struct Spot {
  const Tensor *a = nullptr, *b = nullptr;
  int64_t at = 0;                              // in these tensors
  int64_t global = -1;                         // -1: unknown
  int32_t rank = -1;                           // of a shard; -1: of the whole value
  const std::vector<double>* error = nullptr;  // of these tensors, where no global index is known
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

// --- shards
// -------------------------------------------------------------------------------------

// What each rank holds. A whole value is cut once for all of them.
class Shards {
 public:
  explicit Shards(const SeenValue& value) {
    if (value.whole && !value.spec->has_partial()) cut_ = split(value.parts[0].tensor, *value.spec);
    for (const SeenPart& part : value.parts)
      for (int64_t i = 0; !value.whole && i < part.lanes.size(); ++i) {
        parts_.emplace(part.lanes[i], &part.tensor);
        if (!part.error.empty()) errors_.emplace(part.lanes[i], &part.error);
      }
  }
  // Of a rank's own elements; null: exact, or there is no such bound.
  const std::vector<double>* error_of(int32_t rank) const {
    const auto found = errors_.find(rank);
    return found == errors_.end() ? nullptr : found->second;
  }
  // Nothing when only a sum over ranks is known.
  std::optional<Tensor> of(int32_t rank) const {
    if (cut_.find(rank) != nullptr) return cut_.of_rank(rank);
    const auto found = parts_.find(rank);
    return found == parts_.end() ? std::nullopt : std::optional(*found->second);
  }

 private:
  LocalTensor cut_;
  std::map<int32_t, const Tensor*> parts_;
  std::map<int32_t, const std::vector<double>*> errors_;
};

std::vector<int64_t> global_indices(const SeenValue& value, int32_t rank, int64_t elements) {
  std::vector<int64_t> indices(static_cast<size_t>(elements), -1);
  if (!value.spec) return indices;
  for_each_element(local_indices(*value.spec, rank), contiguous_strides(value.spec->shape()),
                   [&](int64_t local, int64_t global) {
                     if (local < elements) indices[static_cast<size_t>(local)] = global;
                   });
  return indices;
}

// Two values, element by element.
class Pair {
 public:
  using Visit = std::function<void(const Spot&)>;
  Pair(const SeenValue& a, const SeenValue& b) : a_(a), b_(b) {}

  // False when some contents are not known.
  bool visit(const Visit& visit) const {
    if (a_.whole && b_.whole) {
      visit_tensors({&a_.parts[0].tensor, &b_.parts[0].tensor}, visit);
      return true;
    }
    const Shards of_a(a_), of_b(b_);
    bool complete = true;
    for (int64_t i = 0; i < a_.lanes.size(); ++i) {
      const int32_t rank = a_.lanes[i];
      const std::optional<Tensor> own = of_a.of(rank), other = of_b.of(rank);
      complete = complete && own && other;
      if (own && other) visit_tensors({&*own, &*other, 0, -1, rank, of_a.error_of(rank)}, visit);
    }
    return complete;
  }

 private:
  void visit_tensors(Spot spot, const Visit& visit) const {
    const Tensor &a = *spot.a, &b = *spot.b;
    if (a.dtype != b.dtype || !(a.shape == b.shape))
      throw_bad_input("{} is {}{} in one run and {}{} in the other", a_.id, name(a.dtype),
                      to_string(a.shape), name(b.dtype), to_string(b.shape));
    if (a.elements() == 0 || bit_equal(a, 0, b, 0)) return;
    std::vector<int64_t> global;
    if (spot.rank >= 0) global = global_indices(a_, spot.rank, a.elements());
    for (spot.at = 0; spot.at < a.elements(); ++spot.at) {
      if (same_bits(a, b, spot.at)) continue;
      spot.global = spot.rank < 0 ? spot.at : global[static_cast<size_t>(spot.at)];
      visit(spot);
    }
  }

  const SeenValue &a_, &b_;
};

// --- judging
// ------------------------------------------------------------------------------------

// The unit roundoff of products that one run says, or may be thought, to have made.
struct LowPrecision {
  double roundoff = 0;
  std::string text;
};
std::optional<LowPrecision> low_precision(const RecordedRun& run, bool presumes = true) {
  std::optional<std::string> stated = find_fact(run.environment, "matmul");
  if (!stated && presumes && find_fact(run.environment, "gpu")) stated = "tf32";
  if (!stated) return std::nullopt;
  if (*stated == "tf32") return LowPrecision{std::ldexp(1.0, -11), "tf32"};
  const std::optional<DType> dtype = parse_dtype(*stated);
  if (!dtype || !is_floating(*dtype)) return std::nullopt;
  return LowPrecision{unit_roundoff(*dtype), std::string(name(*dtype))};
}

bool multiplies_in_fewer_bits(DType dtype) {
  return precision_error(MatmulPrecision::high, 1, dtype) > 0;
}

class Judge {
 public:
  Judge(const SeenValue& a, const SeenValue& b, const RecordedRun& run_a, const RecordedRun& run_b)
      : a_(a), bounded_(a.bounded && b.bounded), run_a_(run_a), run_b_(run_b) {
    // A library's own order may be another one each time.
    other_order_ = run_a.order != run_b.order || run_a.order == "library";
    other_device_ = find_fact(run_a.environment, "gpu") != find_fact(run_b.environment, "gpu");
    for (const RecordedRun* run : {&run_a, &run_b})
      if (!stated_) stated_ = low_precision(*run, false);
  }

  // What two honest computations may differ.
  double allowed(const Spot& spot) const {
    if (spot.global < 0)
      return spot.error == nullptr ? 0 : 2 * (*spot.error)[static_cast<size_t>(spot.at)];
    return a_.error.empty() ? 0 : 2 * a_.error[static_cast<size_t>(spot.global)];
  }
  Likeness likeness(const Spot& spot) const {
    if (!bounded_ || std::isinf(allowed(spot))) return Likeness::differs;
    return distance(*spot.a, *spot.b, spot.at) <= allowed(spot) ? Likeness::within
                                                                : Likeness::wrong;
  }
  // Whether products in fewer bits may have made it.
  bool is_explained_by(const LowPrecision& low, const Spot& spot) const {
    if (!is_floating(spot.a->dtype)) return false;
    const double times = std::max(1.0, low.roundoff / unit_roundoff(spot.a->dtype));
    return distance(*spot.a, *spot.b, spot.at) <= times * allowed(spot);
  }
  // `low`: what explains all that is wrong.
  void explain(ValueDifference& difference, const std::optional<LowPrecision>& low) const {
    if (difference.likeness == Likeness::wrong) return explain_precision(difference, low);
    // Bounds allow for what a run says of itself.
    if (difference.likeness == Likeness::within && stated_ && multiplies_in_fewer_bits(a_.dtype))
      return explain_precision(difference, stated_);
    explain_order(difference);
  }

 private:
  void explain_precision(ValueDifference& difference,
                         const std::optional<LowPrecision>& low) const {
    difference.cause = low ? Cause::precision : Cause::bug;
    if (!low) return;
    difference.why = size_of(a_.dtype) == 1
                         ? "as far apart as sums of 8-bit floats on tensor cores may be"
                         : fmt::format("as far apart as products in {} may be", low->text);
  }
  void explain_order(ValueDifference& difference) const {
    difference.cause = Cause::bug;
    if (a_.added && other_order_) {
      const bool known = difference.likeness == Likeness::within;
      difference.cause = known ? Cause::reduction_order : Cause::unknown;
      difference.why = known ? fmt::format("added over ranks in the orders {} and {}", run_a_.order,
                                           run_b_.order)
                             : "no bound is known: another order of addition, or a bug";
    } else if (other_device_) {
      const bool known = difference.likeness == Likeness::within;
      difference.cause = known ? Cause::reduction_order : Cause::unknown;
      difference.why = "kernels of different devices add and round in their own ways";
    } else {
      difference.why = "both runs add in one order: the bits have to be the same";
    }
  }

  const SeenValue& a_;
  std::optional<LowPrecision> stated_;  // by a run of itself
  bool bounded_, other_order_ = false, other_device_ = false;
  const RecordedRun &run_a_, &run_b_;
};

ValueDifference blank(const SeenValue& value) {
  ValueDifference difference;
  difference.id = value.id;
  difference.bound = value.bound;
  difference.instance = value.instance;
  return difference;
}

// All elements that are as bad as the whole.
class Worst {
 public:
  Worst(const SeenValue& value, const Judge& judge, const RecordedRun& a, const RecordedRun& b)
      : value_(value), judge_(judge) {
    for (const RecordedRun* run : {&a, &b})
      if (std::optional<LowPrecision> low = low_precision(*run)) low_.push_back(std::move(*low));
  }

  void add(const Spot& spot) {
    const bool local = spot.global < 0;
    const auto index = static_cast<size_t>(local ? spot.at : spot.global);
    if (marked_.size() <= index) marked_.resize(index + 1, false);
    if (!marked_[index]) ++elements_;
    marked_[index] = true;
    if (spot.rank >= 0) ranks_.insert(spot.rank);
    std::erase_if(low_,
                  [&](const LowPrecision& low) { return !judge_.is_explained_by(low, spot); });
    if (!first_ || spot.place() < *first_) {
      first_ = spot.place();
      text_a_ = element_text(*spot.a, spot.at);
      text_b_ = element_text(*spot.b, spot.at);
      allowed_ = judge_.allowed(spot);
      shape_ = local ? spot.a->shape : value_.spec->shape();
      owners_.clear();
    }
    const auto [global, rank, at] = *first_;
    if (spot.rank >= 0 && spot.global == global && (!local || spot.at == at))
      owners_.push_back(spot.rank);
  }

  void tell(ValueDifference& difference) const {
    const auto [global, rank, at] = *first_;
    difference.local = global < 0;
    difference.index = unravel(difference.local ? at : global, shape_);
    difference.got_a = text_a_;
    difference.got_b = text_b_;
    difference.error = allowed_;
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
  // Ranks whose shard of the whole value has any of them.
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

  const SeenValue& value_;
  const Judge& judge_;
  std::vector<LowPrecision> low_;
  std::vector<bool> marked_;  // by global index, or by index in the shard
  int64_t elements_ = 0;
  std::set<int32_t> ranks_;
  std::optional<std::tuple<int64_t, int32_t, int64_t>> first_;
  std::vector<int32_t> owners_;
  std::string text_a_, text_b_;
  double allowed_ = 0;
  Dims shape_;
};

// Ranks whose digests are not the same. There may be as many digests as ranks.
Lanes other_digests(const SeenValue& a, const SeenValue& b) {
  std::map<uint64_t, Lanes> known;
  for (const SeenDigest& digest : b.digests) {
    Lanes& lanes = known[digest.digest];
    lanes = lanes.unite(digest.lanes);
  }
  std::vector<int32_t> ranks;
  for (const SeenDigest& own : a.digests) {
    const Lanes others = own.lanes.minus(known[own.digest]);
    for (int64_t i = 0; i < others.size(); ++i) ranks.push_back(others[i]);
  }
  return Lanes::of(std::move(ranks)).unite(b.lanes.minus(a.lanes));
}

}  // namespace

std::optional<ValueDifference> compare_seen(const SeenValue& a, const SeenValue& b,
                                            const RecordedRun& run_a, const RecordedRun& run_b) {
  ValueDifference difference = blank(a);
  difference.likeness = Likeness::equal;
  const Judge judge(a, b, run_a, run_b);
  const bool contents = !a.parts.empty() && !b.parts.empty();
  const Pair pair(a, b);
  const bool complete = contents && pair.visit([&](const Spot& spot) {
    difference.likeness = std::max(difference.likeness, judge.likeness(spot));
  });
  if (difference.likeness != Likeness::equal) {
    Worst worst(a, judge, run_a, run_b);
    pair.visit([&](const Spot& spot) {
      if (judge.likeness(spot) == difference.likeness) worst.add(spot);
    });
    worst.tell(difference);
    return difference;
  }
  // Parts of a sum may differ and the sum be the same: then nothing is wrong with it.
  if (complete) return std::nullopt;
  const Lanes ranks = other_digests(a, b);
  if (ranks.empty()) return std::nullopt;
  // Each was compared with one truth when it was made, and neither run found it wrong.
  const bool honest = a.bounded && b.bounded && run_a.findings.empty() && run_b.findings.empty();
  difference.likeness = honest ? Likeness::within : Likeness::differs;
  difference.ranks = difference.owners = ranks;
  judge.explain(difference, std::nullopt);
  return difference;
}

}  // namespace shardproof
