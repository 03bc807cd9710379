// Implements draws.h.
#include "shardproof/engine/check_ops/draws.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof {
namespace {

constexpr double kAgreeShare = 0x1p-40;    // of the size of the terms, in f64
constexpr double kDifferFactor = 1024;     // between agreement and difference
constexpr double kMoved = 0x1p-44;         // relative movement of inputs
constexpr double kWholeDiffers = 0x1p-20;  // of the terms, in draws whose movement is not measured
constexpr int64_t kMostRepeats = 24;       // draws of one kind for small tensors
constexpr int64_t kMostOfSmallInput = 8;   // the same if only one of the inputs is small
constexpr int64_t kTiedElements = 4096;    // of the draws of ties for small tensors
constexpr int kTriesOfFinite = 8;          // draws of reals until all results are finite

// False for indices, masks and fills with a relation to other inputs (iota, ones, zeros).
bool is_data(const OpInstance& instance, size_t input) {
  const TensorMeta& meta = instance.inputs[input];
  const std::string& fill = instance.fills[input];
  if (meta.absent || meta.dtype == DType::boolean) return false;
  if (is_integral(meta.dtype)) return fill == "ints" || fill.empty();
  return fill != "iota" && fill != "ones" && fill != "zeros";
}

bool is_float_data(const OpInstance& instance, size_t input) {
  return is_data(instance, input) && !is_integral(instance.inputs[input].dtype);
}

// Patterns of ties and of bools. With few numbers that are not 0, or few that are, the shards of a
// tensor differ in what `any` and `all` give.
enum class TiePattern : uint64_t {
  small_numbers,
  half_zeros,
  one_true,
  one_false,
  all_false,
  all_true,
  few_true,
  few_false
};
constexpr int64_t kFewOf = 8;           // elements, of which few_true has one
constexpr uint64_t kOtherPatterns = 7;  // than small_numbers

// Seeds of draws are multiples of kSeedStep apart; the next one has the next pattern. Draws of one
// kind are kRepeatSteps steps apart, which is no multiple of the number of patterns.
constexpr uint64_t kSeedStep = 1000, kRepeatSteps = 303, kRepeatStep = kRepeatSteps * kSeedStep;

// The number of the draw whose reals are larger than those of others.
constexpr uint64_t kWideNumber = 160;
bool is_wide_draw(uint64_t draw_seed) {
  return draw_seed / kSeedStep % kRepeatSteps == kWideNumber;
}

// Every second draw has small numbers; the others have the other patterns in turn. Inputs after the
// first have random patterns.
TiePattern pattern_of(uint64_t seed, size_t input) {
  uint64_t number = seed / kSeedStep;
  if (input > 0) number = Rng(seed, hash_text("pattern")).bits(input) % (2 * kOtherPatterns);
  return number % 2 == 0 ? TiePattern::small_numbers
                         : static_cast<TiePattern>(1 + number / 2 % kOtherPatterns);
}

// Returns a landmark of the call or a number 1 from it, for a quarter of the elements; else
// `number`.
double at_landmark(const std::vector<double>& landmarks, const Rng& rng, uint64_t i,
                   double number) {
  const uint64_t place = (uint64_t{1} << 32) + 3 * i;
  if (landmarks.empty() || rng.integer(place, 0, 4) != 0) return number;
  const int64_t which = rng.integer(place + 1, 0, static_cast<int64_t>(landmarks.size()));
  return landmarks[static_cast<size_t>(which)] + static_cast<double>(rng.integer(place + 2, -1, 2));
}

int64_t tied_number(TiePattern pattern, const Rng& rng, uint64_t i, uint64_t count) {
  const bool chosen = i == rng.bits(~uint64_t{1}) % count;
  switch (pattern) {
    case TiePattern::small_numbers: return rng.integer(i, -1, 3);
    case TiePattern::half_zeros: return rng.integer(i, 0, 2);
    case TiePattern::one_true: return chosen ? 1 : 0;
    case TiePattern::one_false: return chosen ? 0 : 1;
    case TiePattern::all_false: return 0;
    case TiePattern::all_true: return 1;
    case TiePattern::few_true: return rng.integer(i, 0, kFewOf) == 0 ? 1 : 0;
    case TiePattern::few_false: return rng.integer(i, 0, kFewOf) == 0 ? 0 : 1;
  }
  SP_UNREACHABLE("pattern {}", static_cast<uint64_t>(pattern));
}

// Returns number `i` of an integer draw: random bits for `words`. For `ordered` the numbers are
// distinct: a permutation of 21-bit numbers by an odd factor.
int64_t drawn_integer(DrawKind kind, const Rng& rng, uint64_t i) {
  if (kind == DrawKind::words) return static_cast<int64_t>(rng.bits(i));
  constexpr uint64_t kCount = uint64_t{1} << 21;
  const uint64_t start = rng.bits(~uint64_t{0});
  const uint64_t mixed = (start + i * 0x9E3779B1u) % kCount;
  return static_cast<int64_t>(mixed) - static_cast<int64_t>(kCount / 2);
}

// Returns numbers of -1..2 and landmarks, or those of another pattern.
Tensor tied_tensor(TiePattern pattern, const std::vector<double>& landmarks, DType dtype,
                   const Dims& shape, uint64_t seed) {
  const Rng rng(seed, hash_text("integers"));
  std::vector<double> numbers(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<double>(tied_number(pattern, rng, i, numbers.size()));
    if (pattern == TiePattern::small_numbers)
      numbers[i] = at_landmark(landmarks, rng, i, numbers[i]);
  }
  return tensor_of(dtype, shape, numbers);
}

Tensor integer_tensor(DrawKind kind, const Dims& shape, uint64_t seed) {
  Tensor tensor = Tensor::empty(DType::i64, shape);
  const Rng rng(seed, hash_text("integers"));
  std::byte* at = tensor.mutate();
  for (int64_t i = 0, n = tensor.elements(); i < n; ++i)
    store_i64(at + 8 * i, DType::i64, drawn_integer(kind, rng, static_cast<uint64_t>(i)));
  return tensor;
}

// Returns the landmarks for a dtype. Sums and products of those of small integers do not wrap.
std::vector<double> landmarks_in(DType dtype, const std::vector<double>& landmarks) {
  const double high = is_integral(dtype) && size_of(dtype) == 1 ? 10 : 1 << 20;
  const double low = dtype == DType::u8 ? 1 : -high;
  std::vector<double> held;
  for (const double x : landmarks)
    if (x >= low && x <= high && (is_floating(dtype) || x == std::floor(x))) held.push_back(x);
  return held;
}

Tensor bool_tensor(TiePattern pattern, const Dims& shape, uint64_t seed) {
  if (pattern == TiePattern::small_numbers) pattern = TiePattern::half_zeros;
  return tied_tensor(pattern, {}, DType::boolean, shape, seed);
}

bool has_no_domain(const std::string& fill) { return fill == "ints" || fill.empty(); }

// Returns numbers inside the domain of a sample: "ints" become fractions of the same range.
std::string real_fill(const std::string& fill, bool wide) {
  if (!has_no_domain(fill)) return fill;
  return wide ? "uniform(-64, 64)" : "uniform(-4, 4)";
}

Tensor complex_tensor(const Dims& shape, uint64_t seed) {
  Tensor tensor = Tensor::empty(DType::c128, shape);
  const Rng rng(seed, hash_text("complex"));
  std::byte* at = tensor.mutate();
  for (int64_t i = 0, n = 2 * tensor.elements(); i < n; ++i)
    store_f64(at + 8 * i, DType::f64, rng.uniform(static_cast<uint64_t>(i)) * 4 - 2);
  return tensor;
}

void put_special(Tensor& tensor, uint64_t seed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double kSpecial[] = {std::nan(""), kInfinity, -kInfinity, -0.0};
  const Rng rng(seed, hash_text("special"));
  std::byte* at = tensor.mutate();
  for (int64_t i = 0, n = tensor.elements(); i < n; ++i)
    if (rng.integer(static_cast<uint64_t>(i), 0, 3) == 0)
      store_f64(at + 8 * i, DType::f64, kSpecial[rng.bits(static_cast<uint64_t>(n + i)) % 4]);
}

Tensor with_landmarks(const Tensor& tensor, const std::vector<double>& landmarks, uint64_t seed) {
  const Rng rng(seed, hash_text("integers"));
  std::vector<double> numbers = values_of(tensor);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = at_landmark(landmarks, rng, i, numbers[i]);
  return tensor_of(tensor.dtype, tensor.shape, numbers);
}

// `draw_seed` is that of all inputs.
Tensor drawn_input(const OpInstance& instance, size_t input, DrawKind kind, uint64_t draw_seed) {
  const TensorMeta& meta = instance.inputs[input];
  const std::string& fill = instance.fills[input];
  const uint64_t seed = draw_seed + 7 * input;
  const TiePattern pattern = pattern_of(draw_seed, input);
  if (fill == "bools" && meta.dtype == DType::boolean)
    return bool_tensor(pattern, meta.shape, seed);
  if (!is_data(instance, input)) return filled_by(fill, meta.dtype, meta.shape, seed);
  const std::vector<double> landmarks = landmarks_in(meta.dtype, instance.landmarks);
  if (kind == DrawKind::ties && meta.dtype == DType::i64)
    return tied_tensor(pattern, landmarks, meta.dtype, meta.shape, seed);
  if (meta.dtype == DType::i64 && is_integer_kind(kind))
    return integer_tensor(kind, meta.shape, seed);
  if (meta.dtype == DType::c128) return complex_tensor(meta.shape, seed);
  if (is_complex(meta.dtype)) {
    Tensor narrow = Tensor::empty(meta.dtype, meta.shape);
    convert(complex_tensor(meta.shape, seed).data(), DType::c128, narrow.mutate(), meta.dtype,
            narrow.elements());
    return narrow;
  }
  if (!is_floating(meta.dtype)) {
    // Half of the draws have other patterns, without negative numbers.
    if (pattern != TiePattern::small_numbers && kind == DrawKind::real)
      return tied_tensor(pattern, {}, meta.dtype, meta.shape, seed);
    const Tensor tensor = filled_by(fill, meta.dtype, meta.shape, seed);
    return landmarks.empty() ? tensor : with_landmarks(tensor, landmarks, seed);
  }
  if (kind == DrawKind::whole && meta.dtype == DType::f64 && has_no_domain(fill))
    return tied_tensor(pattern, landmarks, meta.dtype, meta.shape, seed);
  Tensor tensor = filled_by(real_fill(fill, is_wide_draw(draw_seed)), meta.dtype, meta.shape, seed);
  if (kind == DrawKind::special && meta.dtype == DType::f64) put_special(tensor, seed);
  return tensor;
}

// Returns the instance with i64 in place of all numbers, or nullopt if a result would not be an
// integer where it was a number.
std::optional<OpInstance> in_integers(const OpInstance& instance) {
  OpInstance made = instance;
  bool any = false;
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    if (!is_data(made, i)) continue;
    if (is_complex(made.inputs[i].dtype) || made.inputs[i].dtype == DType::u8) return std::nullopt;
    made.inputs[i].dtype = DType::i64;
    made.fills[i] = "ints";
    any = true;
  }
  return any ? std::optional(made) : std::nullopt;
}

// Returns the instance with f64 and c128 in place of other floats.
OpInstance in_reals(const OpInstance& instance) {
  if (instance.record)
    if (const std::optional<OpInstance> wide = in_f64(instance)) return *wide;
  // in_f64 returns nullopt for an op whose results have the same dtypes.
  OpInstance wide = instance;
  for (size_t i = 0; i < wide.inputs.size(); ++i)
    if (is_float_data(wide, i))
      wide.inputs[i].dtype = is_complex(wide.inputs[i].dtype) ? DType::c128 : DType::f64;
  return wide;
}

double movement_of(const Tensor& a, const Tensor& b) {
  const bool is_pair = is_complex(a.dtype);
  const int64_t count = a.elements() * (is_pair ? 2 : 1), bytes = size_of(a.dtype) / (1 + is_pair);
  const DType number = component_dtype(a.dtype);
  double most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double moved =
        std::fabs(load_f64(a.data() + i * bytes, number) - load_f64(b.data() + i * bytes, number));
    if (std::isfinite(moved)) most = std::max(most, moved);
  }
  return most;
}

// The parts that draws of the same dtypes share.
struct DrawnCall {
  OpInstance instance;
  std::shared_ptr<const Computation> computation;
  LocalProgram program;  // on one device
};

// Returns nullopt if the op does not accept the dtypes.
std::optional<DrawnCall> call_of(const OpInstance& instance,
                                 const ComputationFor& computation_for) {
  try {
    DrawnCall call{instance, std::make_shared<const Computation>(computation_for(instance)), {}};
    call.program = call.computation->compile(instance.inputs);
    return call;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void measure_movement(const LocalProgram& program, RuleDraw& draw) {
  std::vector<Tensor> moved = draw.instance.tensors;
  const Rng rng(draw.seed, hash_text("moved"));
  bool any = false;
  for (size_t i = 0; i < moved.size(); ++i) {
    if (!moved[i].buffer || moved[i].dtype != DType::f64) continue;
    moved[i] = Tensor::empty(DType::f64, moved[i].shape);
    any = true;
    for (int64_t k = 0, n = moved[i].elements(); k < n; ++k) {
      const double x = load_f64(draw.instance.tensors[i].data() + 8 * k, DType::f64);
      const double step = rng.uniform(static_cast<uint64_t>(k)) * 2 - 1;
      store_f64(moved[i].mutate() + 8 * k, DType::f64, x * (1 + kMoved * step));
    }
  }
  if (!any) return;
  try {
    const std::vector<Tensor> outputs =
        Computation::run_whole(program, draw.instance.inputs, moved);
    for (size_t i = 0; i < outputs.size(); ++i)
      draw.movement[i] = movement_of(outputs[i], draw.outputs[i]);
  } catch (const Error&) {
    // The moved inputs leave the domain: the movement is not known, and 0 is the strictest.
  }
}

// Measures what one device loses by rounding on a draw of narrow floats: the largest distance of
// its results from those in f64.
void measure_loss(const DrawnCall& reals, RuleDraw& draw) {
  std::vector<Tensor> inputs = draw.instance.tensors;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].buffer) inputs[i] = as_dtype(inputs[i], reals.instance.inputs[i].dtype);
  try {
    const std::vector<Tensor> exact =
        Computation::run_whole(reals.program, reals.instance.inputs, inputs);
    for (size_t i = 0; i < exact.size(); ++i)
      if (is_floating(draw.outputs[i].dtype))
        draw.loss[i] = movement_of(as_dtype(draw.outputs[i], exact[i].dtype), exact[i]);
  } catch (const Error&) {
    // The call fails in f64: the loss is not known, and 0 is the strictest.
  }
}

// True if one device gives equal results for the integers of a draw and for these numbers as
// floats. 2 ** -1 is 0 in integers, and has other laws there.
bool is_same_in_reals(const RuleDraw& draw, const std::optional<DrawnCall>& reals) {
  if (!reals) return true;
  std::vector<Tensor> inputs = draw.instance.tensors;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].buffer) inputs[i] = as_dtype(inputs[i], reals->instance.inputs[i].dtype);
  try {
    const std::vector<Tensor> outputs =
        Computation::run_whole(reals->program, reals->instance.inputs, inputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (values_of(outputs[i]) != values_of(draw.outputs[i])) return false;
  } catch (const Error&) {
    return false;
  }
  return true;
}

// Returns nullopt if one device fails on the draw, or gives floats for integers.
std::optional<RuleDraw> drawn(const DrawnCall& call, DrawKind kind, uint64_t seed) {
  const OpInstance& instance = call.instance;
  RuleDraw draw;
  draw.kind = kind;
  draw.seed = seed;
  draw.instance = instance;
  try {
    for (size_t i = 0; i < instance.inputs.size(); ++i) {
      if (instance.inputs[i].absent) continue;
      draw.instance.tensors[i] = drawn_input(instance, i, kind, seed);
      draw.largest_input = std::max(draw.largest_input, largest_of(draw.instance.tensors[i]));
    }
    draw.computation = call.computation;
    draw.outputs =
        Computation::run_whole(call.program, draw.instance.inputs, draw.instance.tensors);
  } catch (const Error&) {
    return std::nullopt;
  }
  const bool integers = is_integer_kind(kind);
  for (const Tensor& output : draw.outputs)
    if (integers && (is_floating(output.dtype) || is_complex(output.dtype))) return std::nullopt;
  draw.movement.assign(draw.outputs.size(), 0);
  draw.loss.assign(draw.outputs.size(), 0);
  for (const Tensor& output : draw.outputs) draw.largest_outputs.push_back(largest_of(output));
  // A comparison with a whole number moves with its inputs, however little.
  if (!integers && kind != DrawKind::whole) measure_movement(call.program, draw);
  return draw;
}

bool is_finite(const Tensor& tensor) {
  if (!is_floating(tensor.dtype)) return true;
  const std::vector<double> numbers = values_of(tensor);
  return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
}

bool has_finite_results(const RuleDraw& draw) {
  return std::all_of(draw.outputs.begin(), draw.outputs.end(), is_finite);
}

// Returns `drawn`. Draws of reals are tried again until all results are finite: after a division by
// an integer 0, an infinity would hide or contradict everything.
std::optional<RuleDraw> drawn_finite(const DrawnCall& call, DrawKind kind, uint64_t seed) {
  std::optional<RuleDraw> first = drawn(call, kind, seed);
  if (!first || (kind != DrawKind::real && kind != DrawKind::own)) return first;
  std::optional<RuleDraw> draw = first;
  for (uint64_t k = 1; k < kTriesOfFinite; ++k) {
    if (draw && has_finite_results(*draw)) return draw;
    draw = drawn(call, kind, seed + 77 * k);
  }
  return first;
}

int64_t most_elements(const OpInstance& instance) {
  int64_t most = 1;
  for (const TensorMeta& meta : instance.inputs)
    if (!meta.absent) most = std::max(most, element_count(meta.shape));
  return most;
}

int ties_of(const OpInstance& instance, const DrawCounts& counts) {
  return static_cast<int>(
      std::clamp<int64_t>(kTiedElements / most_elements(instance), counts.ties, counts.most_ties));
}

// Returns the number of draws of one kind: tensors of few elements have few numbers in a draw.
int repeats_of(const OpInstance& instance, int64_t elements) {
  int64_t most = most_elements(instance), least = elements;
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    const TensorMeta& meta = instance.inputs[i];
    if (!meta.absent && is_data(instance, i))
      least = std::min(least, std::max<int64_t>(1, element_count(meta.shape)));
  }
  return static_cast<int>(std::max(std::clamp<int64_t>(elements / most, 1, kMostRepeats),
                                   std::clamp<int64_t>(elements / least, 1, kMostOfSmallInput)));
}

// True if a float input has no domain of its own.
bool takes_whole_numbers(const OpInstance& instance) {
  if (instance.keeps_fills) return false;
  for (size_t i = 0; i < instance.inputs.size(); ++i)
    if (is_float_data(instance, i) && has_no_domain(instance.fills[i]) &&
        !is_complex(instance.inputs[i].dtype))
      return true;
  return false;
}

bool orders(const std::vector<Spec>& specs) {
  for (const Spec& spec : specs)
    for (const Placement& p : spec.placements())
      if (p.is_partial() &&
          (p.partial().reduction.op == ReduceOp::min || p.partial().reduction.op == ReduceOp::max))
        return true;
  return false;
}

bool allowed(const std::vector<Spec>& specs, const std::vector<DType>& dtypes) {
  for (size_t i = 0; i < specs.size(); ++i)
    for (const Placement& p : specs[i].placements())
      if (p.is_partial() && !is_reduction_allowed(p.partial().reduction.op, dtypes[i]))
        return false;
  return true;
}

}  // namespace

bool is_integer_kind(DrawKind kind) {
  return kind == DrawKind::words || kind == DrawKind::ordered || kind == DrawKind::ties;
}

PartRange RuleDraw::part_range() const {
  switch (kind) {
    case DrawKind::words: return PartRange::words;
    case DrawKind::ordered: return PartRange::small;
    case DrawKind::ties: return PartRange::tied;
    case DrawKind::whole: return PartRange::whole;
    default: return PartRange::real;
  }
}

double largest_of(const Tensor& tensor) {
  if (!tensor.buffer) return 0;
  const bool is_pair = is_complex(tensor.dtype);
  if (!is_floating(tensor.dtype) && !is_pair) return 0;
  const DType number = component_dtype(tensor.dtype);
  const std::byte* const data = tensor.data();
  const int64_t count = tensor.elements() * (is_pair ? 2 : 1), bytes = size_of(number);
  double largest = 0;
  const bool is_f64 = number == DType::f64;  // most draws: read in place
  for (int64_t i = 0; i < count; ++i) {
    const double x = std::fabs(is_f64 ? reinterpret_cast<const double*>(data)[i]
                                      : load_f64(data + i * bytes, number));
    if (std::isfinite(x)) largest = std::max(largest, x);
  }
  return largest;
}

std::vector<RuleDraw> draws_of(const OpInstance& instance, const ComputationFor& computation_for,
                               const DrawCounts& counts, uint64_t seed) {
  std::vector<RuleDraw> draws;
  const int repeats = repeats_of(instance, counts.elements);
  const int ties = ties_of(instance, counts);
  const auto add = [&](const std::optional<DrawnCall>& call, DrawKind kind, int count,
                       uint64_t number) {
    if (!call) return;
    for (int k = 0; k < count; ++k)
      if (std::optional<RuleDraw> draw = drawn_finite(
              *call, kind, seed + kSeedStep * number + kRepeatStep * static_cast<uint64_t>(k)))
        draws.push_back(std::move(*draw));
  };
  bool has_floats = false;
  for (size_t i = 0; i < instance.inputs.size(); ++i)
    has_floats = has_floats || is_float_data(instance, i);
  const OpInstance wide = in_reals(instance);
  std::optional<DrawnCall> call;
  if (has_floats) call = call_of(wide, computation_for);
  std::optional<OpInstance> integers;
  if (!instance.keeps_fills) integers = in_integers(instance);
  if (integers) {
    const std::optional<DrawnCall> in_i64 = call_of(*integers, computation_for);
    add(in_i64, DrawKind::ordered, repeats, 1);
    add(in_i64, DrawKind::words, repeats, 2);
    add(in_i64, DrawKind::ties, std::max(repeats, ties), 10);
    const bool differs = std::any_of(draws.begin(), draws.end(), [&](const RuleDraw& draw) {
      return draw.kind == DrawKind::ties && !is_same_in_reals(draw, call);
    });
    if (differs) draws.clear();
  }
  if (!has_floats && !draws.empty()) return draws;
  if (!has_floats) call = call_of(wide, computation_for);
  if (!(wide.inputs == instance.inputs)) {
    const size_t before = draws.size();
    add(call_of(instance, computation_for), DrawKind::own, 1, 200);
    if (call && draws.size() > before) measure_loss(*call, draws.back());
  }
  // Bools have the patterns of ties.
  const int reals = has_floats ? counts.reals : std::max(counts.reals, ties);
  for (int i = 0; i < reals; ++i) add(call, DrawKind::real, 1, 4 + static_cast<uint64_t>(i));
  add(call, DrawKind::real, std::max(0, repeats - reals), 150);
  if (counts.most_ties > 1 && !instance.keeps_fills) {
    add(call, DrawKind::real, 1, kWideNumber);
    if (!draws.empty() && is_wide_draw(draws.back().seed) && !has_finite_results(draws.back()))
      draws.pop_back();
  }
  // If a draw has finite results, those with an infinity are left out, as in drawn_finite().
  const bool is_infinite_call = std::none_of(draws.begin(), draws.end(), has_finite_results);
  for (int i = 0; i < ties && takes_whole_numbers(instance); ++i) {
    add(call, DrawKind::whole, 1, 300 + static_cast<uint64_t>(i));
    if (!draws.empty() && draws.back().kind == DrawKind::whole && !is_infinite_call &&
        !has_finite_results(draws.back()))
      draws.pop_back();
  }
  for (const TensorMeta& meta : wide.inputs) {
    if (meta.absent || meta.dtype != DType::f64 || instance.keeps_fills) continue;
    add(call, DrawKind::special, 1, 100);
    break;
  }
  return draws;
}

bool applies(const RuleDraw& draw, const std::vector<Spec>& inputs,
             const std::vector<Spec>& outputs) {
  std::vector<DType> given, made;
  for (const TensorMeta& meta : draw.instance.inputs) given.push_back(meta.dtype);
  for (const Tensor& output : draw.outputs) made.push_back(output.dtype);
  if (!allowed(inputs, given) || !allowed(outputs, made)) return false;
  if (draw.kind == DrawKind::words) return !orders(inputs) && !orders(outputs);
  if (draw.kind != DrawKind::special) return true;
  return std::none_of(inputs.begin(), inputs.end(),
                      [](const Spec& spec) { return spec.has_partial(); });
}

Limits limits_of(const RuleDraw& draw, size_t output, double parts, double result_parts) {
  const Tensor& whole = draw.outputs[output];
  const double size = std::max({draw.largest_outputs[output], draw.largest_input, parts});
  double unit = std::max(unit_roundoff(whole.dtype), draw.unit_inside);
  for (const TensorMeta& meta : draw.instance.inputs)
    if (!meta.absent) unit = std::max(unit, unit_roundoff(meta.dtype));
  if (unit > unit_roundoff(DType::f64)) {
    // Parts that are larger than the whole lose more.
    const double whole_size = draw.largest_outputs[output];
    const double share = whole_size > 0 ? std::max(1.0, result_parts / whole_size) : 1;
    const double loss = draw.loss[output] * share;
    return {std::max(16 * unit * size, 4 * loss), std::max(64 * unit * size, 16 * loss)};
  }
  const double agree = kAgreeShare * size;
  if (draw.kind == DrawKind::whole) return {agree, kWholeDiffers * size};
  return {agree, kDifferFactor * std::max(agree, draw.movement[output])};
}

}  // namespace shardproof
