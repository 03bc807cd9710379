#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <set>

#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/split.h"
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
  const Tensor *a, *b;
  int64_t at = 0;       // in these tensors
  int64_t global = -1;  // -1: unknown
  int32_t rank = -1;    // of a shard; -1: of the whole value
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

// What a rank holds; nothing when only a sum over ranks is known.
std::optional<Tensor> shard_of(const SeenValue& value, int32_t rank) {
  if (!value.whole) {
    for (const SeenPart& part : value.parts)
      if (part.lanes.contains(rank)) return part.tensor;
    return std::nullopt;
  }
  if (value.spec->has_partial()) return std::nullopt;
  return split(value.parts[0].tensor, *value.spec).of_rank(rank);
}

// Of each element of a rank's shard.
std::vector<int64_t> global_indices(const Spec& spec, int32_t rank) {
  std::vector<double> numbers(static_cast<size_t>(element_count(spec.shape())));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  Spec whole = spec.with_dtype(DType::i64);
  for (const int axis : spec.partial_axes()) whole = whole.with_placement(axis, R());
  const Tensor shard = split(tensor_of(DType::i64, spec.shape(), numbers), whole).of_rank(rank);
  std::vector<int64_t> indices;
  for (const double number : values_of(shard)) indices.push_back(static_cast<int64_t>(number));
  return indices;
}

class Spots {
 public:
  Spots(const SeenValue& a, const SeenValue& b) : a_(a), b_(b) {
    if (a.whole && b.whole)
      collect(a.parts[0].tensor, b.parts[0].tensor, -1);
    else
      collect_shards();
  }
  const std::vector<Spot>& spots() const { return spots_; }
  bool complete() const { return complete_; }  // all contents were looked at

 private:
  void collect(const Tensor& a, const Tensor& b, int32_t rank) {
    if (a.dtype != b.dtype || !(a.shape == b.shape))
      throw_bad_input("{} is {}{} in one run and {}{} in the other", a_.id, name(a.dtype),
                      to_string(a.shape), name(b.dtype), to_string(b.shape));
    std::vector<int64_t> global;
    for (int64_t at = 0; at < a.elements(); ++at) {
      if (same_bits(a, b, at)) continue;
      if (rank >= 0 && a_.spec && global.empty()) global = global_indices(*a_.spec, rank);
      const int64_t place = rank < 0 ? at : a_.spec ? global[static_cast<size_t>(at)] : -1;
      spots_.push_back({&a, &b, at, place, rank});
    }
  }

  void collect_shards() {
    for (int64_t i = 0; i < a_.lanes.size(); ++i) {
      const int32_t rank = a_.lanes[i];
      std::optional<Tensor> own = shard_of(a_, rank), other = shard_of(b_, rank);
      complete_ = complete_ && own && other;
      if (!own || !other) continue;
      shards_.push_back(std::move(*own));
      const Tensor& first = shards_.back();
      shards_.push_back(std::move(*other));
      collect(first, shards_.back(), rank);
    }
  }

  const SeenValue &a_, &b_;
  std::deque<Tensor> shards_;
  std::vector<Spot> spots_;
  bool complete_ = true;
};

// --- judging
// ------------------------------------------------------------------------------------

// The unit roundoff of products that one run says, or may be thought, to have made.
struct LowPrecision {
  double roundoff = 0;
  std::string text;
};
std::optional<LowPrecision> low_precision(const RecordedRun& run) {
  std::optional<std::string> stated = find_fact(run.environment, "matmul");
  if (!stated && find_fact(run.environment, "gpu")) stated = "tf32";
  if (!stated) return std::nullopt;
  if (*stated == "tf32") return LowPrecision{std::ldexp(1.0, -11), "tf32"};
  const std::optional<DType> dtype = parse_dtype(*stated);
  if (!dtype || !is_floating(*dtype)) return std::nullopt;
  return LowPrecision{unit_roundoff(*dtype), std::string(name(*dtype))};
}

class Judge {
 public:
  Judge(const SeenValue& a, const SeenValue& b, const RecordedRun& run_a, const RecordedRun& run_b)
      : a_(a), bounded_(a.bounded && b.bounded), run_a_(run_a), run_b_(run_b) {
    // A library's own order may be another one each time.
    other_order_ = run_a.order != run_b.order || run_a.order == "library";
    other_device_ = find_fact(run_a.environment, "gpu") != find_fact(run_b.environment, "gpu");
  }

  // What two honest computations may differ.
  double allowed(const Spot& spot) const {
    if (a_.error.empty() || spot.global < 0) return 0;
    return 2 * a_.error[static_cast<size_t>(spot.global)];
  }
  Likeness likeness(const Spot& spot) const {
    if (!bounded_) return Likeness::differs;
    return distance(*spot.a, *spot.b, spot.at) <= allowed(spot) ? Likeness::within
                                                                : Likeness::wrong;
  }
  bool is_explained_by_precision(const Spot& spot, const LowPrecision& low) const {
    const double times = std::max(1.0, low.roundoff / unit_roundoff(spot.a->dtype));
    return distance(*spot.a, *spot.b, spot.at) <= times * allowed(spot);
  }

  void explain(ValueDifference& difference, const std::vector<Spot>& worst) const {
    if (difference.likeness != Likeness::wrong) return explain_order(difference);
    difference.cause = Cause::bug;
    if (!is_floating(a_.dtype)) return;
    for (const RecordedRun* run : {&run_a_, &run_b_}) {
      const std::optional<LowPrecision> low = low_precision(*run);
      if (!low || !std::all_of(worst.begin(), worst.end(), [&](const Spot& spot) {
            return is_explained_by_precision(spot, *low);
          }))
        continue;
      difference.cause = Cause::precision;
      difference.why = fmt::format("as far apart as products in {} may be", low->text);
      return;
    }
  }

 private:
  void explain_order(ValueDifference& difference) const {
    difference.cause = Cause::bug;
    if (a_.added && other_order_) {
      const bool known = difference.likeness == Likeness::within;
      difference.cause = known ? Cause::reduction_order : Cause::unknown;
      difference.why = known ? fmt::format("added over ranks in the orders {} and {}", run_a_.order,
                                           run_b_.order)
                             : "no truth, so no bound: another order of addition, or a bug";
    } else if (other_device_) {
      const bool known = difference.likeness == Likeness::within;
      difference.cause = known ? Cause::reduction_order : Cause::unknown;
      difference.why = "kernels of different devices add in different orders";
    } else {
      difference.why = "both runs add in one order: the bits have to be the same";
    }
  }

  const SeenValue& a_;
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

void tell_first(ValueDifference& difference, const SeenValue& value, const Judge& judge,
                const std::vector<Spot>& worst) {
  const auto first = std::min_element(worst.begin(), worst.end(), [](const Spot& x, const Spot& y) {
    return std::tuple(x.global, x.rank, x.at) < std::tuple(y.global, y.rank, y.at);
  });
  const bool local = first->global < 0;
  difference.local = local;
  difference.index =
      unravel(local ? first->at : first->global, local ? first->a->shape : value.spec->shape());
  difference.got_a = element_text(*first->a, first->at);
  difference.got_b = element_text(*first->b, first->at);
  difference.error = judge.allowed(*first);
  std::set<int64_t> elements;
  std::vector<int32_t> owners, ranks;
  for (const Spot& spot : worst) {
    elements.insert(local ? spot.at : spot.global);
    if (spot.rank < 0) continue;
    ranks.push_back(spot.rank);
    const bool here = local ? spot.at == first->at : spot.global == first->global;
    if (here) owners.push_back(spot.rank);
  }
  difference.elements = static_cast<int64_t>(elements.size());
  if (first->rank >= 0) {
    difference.owners = Lanes::of(std::move(owners));
    difference.ranks = Lanes::of(std::move(ranks));
    return;
  }
  difference.owners = owners_of(*value.spec, value.lanes, *difference.index);
  for (const int64_t element : elements)
    difference.ranks = difference.ranks.unite(
        owners_of(*value.spec, value.lanes, unravel(element, value.spec->shape())));
}

// Ranks whose digests are not the same.
Lanes other_digests(const SeenValue& a, const SeenValue& b) {
  Lanes same;
  for (const SeenDigest& own : a.digests)
    for (const SeenDigest& other : b.digests)
      if (own.digest == other.digest) same = same.unite(own.lanes.intersect(other.lanes));
  return a.lanes.unite(b.lanes).minus(same);
}

}  // namespace

std::optional<ValueDifference> compare_seen(const SeenValue& a, const SeenValue& b,
                                            const RecordedRun& run_a, const RecordedRun& run_b) {
  ValueDifference difference = blank(a);
  const Judge judge(a, b, run_a, run_b);
  const Lanes ranks = other_digests(a, b);
  if (a.parts.empty() || b.parts.empty()) {
    if (ranks.empty()) return std::nullopt;
    difference.likeness = Likeness::differs;
    difference.ranks = difference.owners = ranks;
    judge.explain(difference, {});
    return difference;
  }
  const Spots spots(a, b);
  if (spots.spots().empty()) {
    // Parts of a sum may differ and the sum be the same: then nothing is wrong with it.
    if (spots.complete()) return std::nullopt;
    if (ranks.empty()) return std::nullopt;
    difference.likeness = Likeness::differs;
    difference.ranks = difference.owners = ranks;
    judge.explain(difference, {});
    return difference;
  }
  std::vector<Spot> worst;
  difference.likeness = Likeness::equal;
  for (const Spot& spot : spots.spots()) {
    const Likeness own = judge.likeness(spot);
    if (own > difference.likeness) worst.clear();
    difference.likeness = std::max(difference.likeness, own);
    if (own == difference.likeness) worst.push_back(spot);
  }
  tell_first(difference, a, judge, worst);
  judge.explain(difference, worst);
  return difference;
}

}  // namespace shardproof
