// Implements own_dtype_judge.h.
//
// Precision of a value: E is the result of the line in f64 from the inputs that the ranks hold. R
// is the result of one device in the program's own dtypes, N the value of the ranks.
//
//   ratio = max|N - E| / max(max|R - E|, u max|E|, u T)
//
// u is the unit roundoff of the dtype. For f64 it is that of the narrowest dtype to which one
// device rounds on the line, because ranks may round to less. T is the size of the value's terms.
// For a partial sum T is the size of its parts. T is measured for a line that reads partial sums.
// It is also measured for a value of fewer than 16 elements, because R may be exact by chance. It
// is then 2^45 times the change of E when the line's inputs change by 2^-45 of their sizes. T is
// measured only if the ratio is large without it.
//
// Example: fp32 gradients that are reduced in bf16 have a ratio of some 50,000; honest sums over 64
// ranks have one below 10.
#include "shardproof/engine/judging/own_dtype_judge.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "shardproof/engine/compare/compare.h"
#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/explain/explain.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns the least ratio that may be noted. Units of a narrow dtype are so large that a reduction
// in a narrower one may lose few of them.
double least_note(DType dtype) {
  return is_floating(dtype) && size_of(dtype) < 4 ? kNarrowNote : kPrecisionNote;
}
// Returns the least ratio with which a lost value is a finding.
double least_loss(DType narrowest) {
  return size_of(narrowest) == 1 ? kNarrowNote : kPrecisionNote;
}
constexpr int64_t kFewElements = 16;
// Largest share of the elements that rounding alone decides: those where the line is steep.
constexpr double kFewOfElements = 1.0 / 8;

// In f64 and c128 the exact value is rounded as well, so errors below this share of it mean
// nothing.
double least_error(DType dtype) { return is_below_f64(dtype) ? 0 : kAgreement; }

// Returns the value with reduced partial axes. Sums of floats narrower than f32 are added in f64
// and rounded once, others in their own dtype.
LocalTensor comparable(const ComparedValue& value, DType dtype) {
  if (!value.spec.has_partial() && value.value.dtype() == dtype) return value.value;
  const bool narrow = is_floating(dtype) && size_of(dtype) < 4;
  if (!narrow && !value.reduced.empty() && value.reduced.dtype() == dtype) return value.reduced;
  const LocalTensor reduced =
      reduced_over_partials(value.value, value.spec, narrow ? DType::f64 : dtype);
  if (!narrow) return reduced;
  std::vector<Block> blocks;
  for (const Block& block : reduced.blocks())
    blocks.push_back({block.lanes, as_dtype(block.tensor, dtype)});
  return LocalTensor(std::move(blocks));
}

// `held` is `expected` with each element replaced by the copy with the largest error. `ranks` hold
// an element with at least half of the largest error of all.
struct Worst {
  Tensor held;
  double distance = 0;
  Lanes ranks;
};

Worst worst_of(const std::vector<Deviation>& found, const std::vector<StoredCopy>& copies,
               const Tensor& expected) {
  Worst worst{contiguous_copy(expected), 0, {}};
  std::vector<double> known(static_cast<size_t>(expected.elements()), 0);
  const int64_t size = size_of(expected.dtype);
  std::byte* data = worst.held.mutate();
  for (const Deviation& one : found) {
    double& farthest = known[static_cast<size_t>(one.global)];
    if (one.distance <= farthest) continue;
    farthest = one.distance;
    std::memcpy(data + one.global * size, element_at(copies[one.copy], one.local),
                static_cast<size_t>(size));
    worst.distance = std::max(worst.distance, one.distance);
  }
  std::vector<bool> is_far(copies.size(), false);
  for (const Deviation& one : found)
    if (2 * one.distance >= worst.distance) is_far[one.copy] = true;
  std::vector<int32_t> ranks;
  for (size_t copy = 0; copy < copies.size(); ++copy)
    for (int64_t i = 0; is_far[copy] && i < copies[copy].ranks.size(); ++i)
      ranks.push_back(copies[copy].ranks[i]);
  worst.ranks = Lanes::of(std::move(ranks));
  return worst;
}

// Returns the largest error over elements that are finite on one device and in f64; infinity if the
// ranks hold one that is not. Elements whose error is within twice their `reach` do not count.
double largest_error(const Tensor& held, const Tensor& device, const Tensor& exact,
                     const std::vector<double>& reach = {}) {
  double largest = 0;
  for (int64_t i = 0; i < exact.elements(); ++i) {
    if (!std::isfinite(magnitude_at(device, i)) || !std::isfinite(magnitude_at(exact, i))) continue;
    const double error = distance_at(held, exact, i);
    const double reached = reach.empty() ? 0 : 2 * reach[static_cast<size_t>(i)];
    if (!(error <= reached)) largest = std::max(largest, error);
  }
  return largest;
}

// True if the error of at least one element, but of few of them, is as large as `least`.
bool is_over_in_few(const Tensor& held, const Tensor& exact, double least) {
  int64_t over = 0;
  for (int64_t i = 0; i < exact.elements(); ++i) over += distance_at(held, exact, i) >= least;
  return over == 1 ||
         static_cast<double>(over) <= kFewOfElements * static_cast<double>(exact.elements());
}

bool has_zeros_alone(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.elements(); ++i)
    if (magnitude_at(tensor, i) != 0) return false;
  return true;
}

void add_name(const ValueLabel& label, std::vector<std::string>& to) {
  const std::string name =
      label.name.empty() ? fmt::format("a value of line {}", label.line) : label.name;
  if (std::count(to.begin(), to.end(), name) == 0) to.push_back(name);
}

bool has_no_finite_element(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.elements(); ++i)
    if (std::isfinite(magnitude_at(tensor, i))) return false;
  return tensor.elements() > 0;
}

}  // namespace

bool is_float_or_complex(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

bool is_below_f64(DType dtype) {
  return is_float_or_complex(dtype) && dtype != DType::f64 && dtype != DType::c128;
}

bool is_lost(const MeasuredPrecision& measured) {
  return measured.precision.ratio >= least_loss(measured.narrowest) &&
         measured.precision.error >= kLostShare && measured.precision.device_error < kLostShare;
}

namespace {

// True if a value is nothing but rounding in f64, such as a sum of probabilities minus 1.
bool is_nothing_but_rounding(ValueId id, const ReferenceRun& reference,
                             const EvaluationPlan& lifted, const Tensor& exact) {
  const double input = largest_line_input(reference);
  double largest = largest_element(exact), farthest = 0;
  if (largest > kNoiseLevel * input) return false;
  for (int direction = 0; direction < kOtherRoundings; ++direction) {
    const ScopedRoundingMode rounding(direction);
    const Tensor other = dense(reference.again(id, lifted));
    for (const double movement : distances(other, exact))
      if (std::isfinite(movement)) farthest = std::max(farthest, movement);
    largest = std::max(largest, largest_element(other));
  }
  return is_noise(largest, farthest, input);
}

}  // namespace

void OwnDtypeJudge::restart() { *this = OwnDtypeJudge(options_); }

bool OwnDtypeJudge::has_precision(DType dtype) const {
  return is_below_f64(dtype) || (options_.measures_f64 && is_float_or_complex(dtype));
}

// Returns one rounding of a value. Products in TF32 keep 10 bits of the fraction of each factor,
// and may truncate the rest.
double OwnDtypeJudge::unit_of(DType dtype) const {
  const bool tf32 = options_.matmul == MatmulPrecision::high && dtype == DType::f32;
  return tf32 ? 0x1p-10 : unit_roundoff(dtype);
}

void OwnDtypeJudge::add_unequal(const ComparedValue& value, const std::vector<Deviation>& found,
                                const Tensor& expected, ReferenceRun& reference) {
  UnequalValue unequal;
  unequal.judged.global = value.global;
  unequal.judged.key = value.key;
  unequal.judged.label = value.label;
  unequal.judged.of = expected.elements();
  const double units = kOwnSpread * unit_of(expected.dtype);
  const double largest = largest_element(expected);
  // Another order of reduction on real ranks may turn an overflow of one device back into a number.
  const auto is_judged = [&](int64_t element) {
    return !options_.explains || std::isfinite(magnitude_at(expected, element));
  };
  std::vector<int64_t>& elements = unequal.judged.elements;
  const auto list_beyond = [&](double allowed) {
    elements.clear();
    for (const Deviation& one : found)
      if (!(one.distance <= allowed) && is_judged(one.global)) elements.push_back(one.global);
    std::sort(elements.begin(), elements.end());
    elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  };
  list_beyond(units * largest);
  if (options_.explains && unequal.is_wrong() && is_float_or_complex(expected.dtype))
    list_beyond(units * std::max(largest, size_of_terms_or_none(value, reference)));
  if (options_.explains && unequal.is_wrong()) separate_rounded(value, found, reference, unequal);
  if (options_.explains && unequal.is_wrong())
    unequal.finding =
        explain_difference({value.label_for ? value.label_for(value.value.lanes()) : value.label,
                            value.spec, value.global},
                           difference_of(value, expected, elements), nullptr, reference);
  unequal_.push_back(std::move(unequal));
  if (!options_.compares_replicas) add_differing_replicas(value, found, expected);
  if (replicas_ || !options_.compares_replicas) return;
  if (const std::optional<ReplicaDifference> apart = compare_replicas(value.value, value.spec))
    replicas_ = explain_replicas({value.label, value.spec, value.global}, *apart);
}

void OwnDtypeJudge::add_differing_replicas(const ComparedValue& value,
                                           const std::vector<Deviation>& found,
                                           const Tensor& expected) {
  if (!are_apart(found, stored_copies(ready_, value.spec), value.spec, expected,
                 kOwnSpread * unit_of(expected.dtype)))
    return;
  const std::optional<ReplicaDifference> apart = compare_replicas(ready_, value.spec);
  if (!apart) return;
  differing_replicas_.emplace_back(
      value.key, explain_replicas({value.label, value.spec, value.global}, *apart));
}

Judgement OwnDtypeJudge::judge(const ComparedValue& value, ReferenceRun& reference) {
  ++compared_;
  if (options_.on_value) options_.on_value(value);
  const Tensor expected = dense(reference.value(value.global));
  const DType dtype = expected.dtype;
  ready_ = comparable(value, dtype);
  const std::vector<StoredCopy> copies = stored_copies(ready_, value.spec);
  identical_ = are_identical(copies, value.spec, expected);
  const bool rounds = is_floating(dtype) || is_complex(dtype);
  if (options_.keeps_integers && !rounds)
    integers_[value.global] = whole_value(value.value, value.spec);
  if (value.spec.has_partial() && rounds) {
    in_parts_[value.global] = value;
    std::erase_if(in_parts_, [&](const auto& entry) {
      return entry.first != value.global && reference.find(entry.first) == nullptr;
    });
  }
  may_be_rounded_ = may_be_rounded_ || uses_last_bits(expected);
  if (rounds && has_no_finite_element(expected)) add_name(value.label, not_finite_);
  const std::vector<Deviation> found =
      identical_ ? std::vector<Deviation>() : deviations(copies, value.spec, expected, 0);
  if (found.empty()) {
    equal_.insert(value.key);
    if (rounds && options_.notes_zeros && expected.elements() > 1 && has_zeros_alone(expected))
      add_name(value.label, zero_);
    return Judgement::equal;
  }
  all_equal_ = false;
  add_unequal(value, found, expected, reference);
  find_beyond_steps(value, found, copies, expected, reference);
  if (!rounds) measure_integers(value, found, copies, expected, reference);
  if (!has_precision(dtype)) return Judgement::undecided;
  const Worst worst = worst_of(found, copies, expected);
  const double unit = unit_of(dtype) * largest_element(expected);
  const double ignored =
      std::max((least_note(dtype) - 1) * unit, least_error(dtype) * largest_element(expected));
  if (options_.measures_all || !(worst.distance <= ignored))
    measure(value, reference, expected, worst.held, worst.ranks);
  return Judgement::undecided;
}

Tensor OwnDtypeJudge::held(const ComparedValue& value, const ReferenceRun& reference) {
  const Tensor* known = reference.find(value.global);
  return identical_ ? *known : assembled(ready_, value.spec, known);
}

namespace {

constexpr int64_t kMostOpenElements = 1 << 24;  // that open values may hold

// Returns the entry of a value without its precision.
MeasuredPrecision unmeasured_value(const ComparedValue& value, DType dtype, const Lanes& ranks) {
  MeasuredPrecision measured;
  measured.key = value.key;
  measured.global = value.global;
  measured.dtype = dtype;
  measured.spec = value.spec;
  measured.ranks = ranks;
  measured.precision.name = value.label.name;
  measured.precision.line = value.label.line;
  measured.precision.instance = value.label.instance;
  return measured;
}

double largest_part(const ComparedValue& value) {
  double size = 0;
  if (value.spec.has_partial())
    for (const double own : part_sizes(value.value, value.spec))
      if (std::isfinite(own)) size = std::max(size, own);
  return size;
}

}  // namespace

// A value on the way to its precision, with its line as it was when the value was judged.
struct OwnDtypeJudge::OpenValue {
  MeasuredPrecision measured;
  ReferenceRun line;
  ValuesInParts in_parts;      // inputs of the line
  Tensor held, device, exact;  // in f64
  double error = 0;            // of the ranks
  double largest_part = 0;
  size_t place = 0;  // in the values that were measured at once
  JudgedLine judged_line() const { return {measured.global, line, in_parts}; }
  // Returns the number of elements that it holds, without the inputs of the program.
  int64_t elements() const {
    int64_t all = 3 * exact.elements();
    for (const ValueId id : line.line_inputs())
      if (line.plan().maker(id) >= 0) all += line.find(id)->elements();
    return all;
  }
};

double OwnDtypeJudge::size_of_terms(const OpenValue& open) const {
  // The largest loss over many elements is not small by chance.
  if (open.exact.elements() >= kFewElements && open.in_parts.empty()) return open.largest_part;
  return std::max(open.largest_part, moved_terms(open.judged_line()));
}

// Returns the size of the terms; 0 if the line has no form in f64, or leaves a table there.
double OwnDtypeJudge::size_of_terms_or_none(const ComparedValue& value,
                                            const ReferenceRun& reference) const try {
  return std::max(largest_part(value), moved_terms({value.global, reference, in_parts_}));
} catch (const Error&) {
  return 0;
}

// Returns the result of the line in f64. An input that is a partial sum is the sum of its parts
// before any rounding to its dtype. A cast to a wider dtype would preserve bits that the reference
// has rounded.
Tensor OwnDtypeJudge::exact_of(const ComparedValue& value, const ReferenceRun& reference) const {
  const auto whole = [&](ValueId id, const Tensor& tensor) {
    const auto parts = in_parts_.find(id);
    if (parts == in_parts_.end() || id == value.global) return tensor;
    const Spec& spec = parts->second.spec;
    return assembled(reduced_over_partials(parts->second.value, spec, tensor.dtype),
                     spec.with_dtype(tensor.dtype));
  };
  return dense(
      reference.again(value.global, options_.lifted(), whole, LineArithmetic::held_inputs));
}

// Returns the narrowest float dtype that one device rounds to on a line, inputs included.
DType OwnDtypeJudge::narrowest_of(ValueId id, const ReferenceRun& reference) {
  DType narrowest = component_dtype(reference.plan().info(id).dtype);
  const auto include_dtype = [&](ValueId other) {
    const DType dtype = component_dtype(reference.plan().info(other).dtype);
    if (is_floating(dtype) && !reference.plan().info(other).weak &&
        (!is_floating(narrowest) || precision_bits(dtype) < precision_bits(narrowest)))
      narrowest = dtype;
  };
  for (const ValueId input : reference.line_inputs()) include_dtype(input);
  for (const int index : reference.line())
    for (const ValueId output :
         reference.plan().program().instrs[static_cast<size_t>(index)].outputs)
      include_dtype(output);
  return narrowest;
}

// A library may add the parts of a sum in one order for a comparison and in another for its other
// side. Then the integer does not show an error of the library.
void OwnDtypeJudge::separate_rounded(const ComparedValue& value,
                                     const std::vector<Deviation>& found,
                                     const ReferenceRun& reference, UnequalValue& unequal) const {
  if (is_floating(value.spec.dtype()) || is_complex(value.spec.dtype())) return;
  std::vector<double> changes;
  try {
    changes = changes_by_rounding(value, reference);
  } catch (const Error&) {
    return;  // the line has no form in f64, or an index leaves its table
  }
  const auto is_rounded = [&](int64_t element) {
    return changes[static_cast<size_t>(element)] != 0;
  };
  JudgedValue& rounded = unequal.by_rounding;
  rounded = unequal.judged;
  rounded.judgement = Judgement::undecided;
  std::erase_if(rounded.elements, [&](int64_t element) { return !is_rounded(element); });
  std::erase_if(unequal.judged.elements, is_rounded);
  for (const Deviation& one : found) {
    const double change = changes[static_cast<size_t>(one.global)];
    if (change == 0 || one.distance < rounded.distance) continue;
    rounded.distance = one.distance;
    rounded.movement = change;
  }
}

// Measures an integer or a bool that one device computes without floats, such as token ids, counts
// and comparisons. Elements that a few roundings of float inputs change do not count.
void OwnDtypeJudge::measure_integers(const ComparedValue& value,
                                     const std::vector<Deviation>& found,
                                     const std::vector<StoredCopy>& copies, const Tensor& expected,
                                     const ReferenceRun& reference) try {
  if (widest_rounding_on(reference) > 0) return;
  const std::vector<double> changes = changes_by_rounding(value, reference);
  std::vector<Deviation> lost;
  for (const Deviation& one : found)
    if (changes[static_cast<size_t>(one.global)] == 0) lost.push_back(one);
  if (lost.empty()) return;
  const Worst worst = worst_of(lost, copies, expected);
  MeasuredPrecision measured = unmeasured_value(value, expected.dtype, worst.ranks);
  ValuePrecision& told = measured.precision;
  told.ratio = kInfinity;
  told.error = worst.distance / std::max(1.0, largest_element(expected));
  std::set<int64_t> elements;
  for (const Deviation& one : lost) elements.insert(one.global);
  told.unequal = static_cast<int64_t>(elements.size());
  told.of = expected.elements();
  told.difference = worst.distance;
  precision_.push_back(std::move(measured));
} catch (const Error& error) {
  unmeasured_ = error.message();
}

void OwnDtypeJudge::measure(const ComparedValue& value, const ReferenceRun& reference,
                            const Tensor& expected, const Tensor& held, const Lanes& ranks) try {
  const Tensor exact = exact_of(value, reference);
  OpenValue open{{},
                 reference.line_alone(),
                 {},
                 as_dtype(held, exact.dtype),
                 as_dtype(expected, exact.dtype),
                 exact};
  MeasuredPrecision& measured = open.measured;
  measured = unmeasured_value(value, expected.dtype, ranks);
  measured.nothing_left = largest_element(held) == 0;
  measured.narrowest = narrowest_of(value.global, reference);
  for (const ValueId id : open.line.line_inputs())
    if (const auto parts = in_parts_.find(id); parts != in_parts_.end())
      open.in_parts.insert(*parts);
  open.error = largest_error(open.held, open.device, exact);
  open.largest_part = largest_part(value);
  open.place = precision_.size();
  const bool is_far = open.error >= least_loss(measured.narrowest) * least_base(open);
  if (!is_far || open_elements_ + open.elements() > kMostOpenElements)
    return finish(open, precision_);
  open_elements_ += open.elements();
  open_.push_back(std::make_shared<OpenValue>(std::move(open)));
} catch (const Error& error) {
  unmeasured_ = error.message();
}

// Returns the error with a ratio of 1, if the size of the terms is not measured.
double OwnDtypeJudge::least_base(const OpenValue& open) const {
  const MeasuredPrecision& measured = open.measured;
  const double unit = unit_of(is_below_f64(measured.dtype) ? measured.dtype : measured.narrowest);
  return std::max(largest_error(open.device, open.device, open.exact),
                  unit * largest_element(open.exact));
}

void OwnDtypeJudge::finish(const OpenValue& open, std::vector<MeasuredPrecision>& into) try {
  MeasuredPrecision measured = open.measured;
  const ReferenceRun& line = open.line;
  const double largest = largest_element(open.exact), loss = least_loss(measured.narrowest),
               unit = unit_of(is_below_f64(measured.dtype) ? measured.dtype : measured.narrowest);
  double error = open.error, base = least_base(open);
  if (error >= loss * base) {
    std::vector<double> reach = reach_of(open.judged_line());
    error = largest_error(open.held, open.device, open.exact, reach);
    if (error >= loss * base && is_over_in_few(open.held, open.exact, loss * base)) {
      const std::vector<double> losses = losses_on_one_device(open.judged_line());
      for (size_t i = 0; i < reach.size(); ++i) reach[i] = std::max(reach[i], losses[i]);
      error = largest_error(open.held, open.device, open.exact, reach);
    }
  }
  if (error >= std::min(loss, least_note(measured.dtype)) * base && std::isfinite(error))
    base = std::max(base, unit * size_of_terms(open));
  if (error >= loss * base && std::isfinite(error) &&
      is_nothing_but_rounding(measured.global, line, options_.lifted(), open.exact))
    base = std::max(base, unit_of(measured.narrowest) * largest_line_input(line));
  ValuePrecision& told = measured.precision;
  const double lost = largest_error(open.device, open.device, open.exact);
  told.ratio = error == 0 ? 0 : base == 0 ? kInfinity : error / base;
  told.error = largest > 0 ? error / largest : error;
  told.device_error = largest > 0 ? lost / largest : lost;
  if (told.ratio >= least_note(measured.dtype) || is_lost(measured) || options_.measures_all)
    into.push_back(std::move(measured));
} catch (const Error& error) {
  unmeasured_ = error.message();
}

void OwnDtypeJudge::measure_open_values(const std::set<std::string>& settled) {
  std::vector<MeasuredPrecision> all;
  auto next = precision_.begin();
  for (const std::shared_ptr<const OpenValue>& open : std::exchange(open_, {})) {
    const auto place = precision_.begin() + static_cast<std::ptrdiff_t>(open->place);
    all.insert(all.end(), next, place);
    next = place;
    if (!settled.contains(open->measured.key)) finish(*open, all);
  }
  all.insert(all.end(), next, precision_.end());
  precision_ = std::move(all);
  open_elements_ = 0;
}

}  // namespace shardproof
