// Implements exact_parts.h, one element at a time.
#include "shardproof/engine/check_ops/exact_parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof {
namespace {

constexpr int64_t kSmallLimit = int64_t{1} << 20;
constexpr int64_t kTiedLimit = 4;  // of summands
constexpr int64_t kTiedStep = 2;   // from the whole
constexpr int64_t kMostFactor = 3;
constexpr uint64_t kLowBits = 7;

// Load and store one element. Most draws have f64 and i64, which need no conversion.
double real_at(const std::byte* at, DType dtype) {
  if (dtype != DType::f64) return load_f64(at, dtype);
  double number;
  std::memcpy(&number, at, sizeof(number));
  return number;
}
int64_t word_at(const std::byte* at, DType dtype) {
  if (dtype != DType::i64) return load_i64(at, dtype);
  int64_t number;
  std::memcpy(&number, at, sizeof(number));
  return number;
}
void put_real(std::byte* at, DType dtype, double number) {
  if (dtype != DType::f64) return store_f64(at, dtype, number);
  std::memcpy(at, &number, sizeof(number));
}
void put_word(std::byte* at, DType dtype, int64_t number) {
  if (dtype != DType::i64) return store_i64(at, dtype, number);
  std::memcpy(at, &number, sizeof(number));
}

// Returns the largest size of a summand: 8 parts of this size stay in the dtype.
int64_t largest_summand(DType dtype) {
  const int64_t bytes = size_of(dtype);
  return bytes == 1 ? 15 : bytes == 2 ? int64_t{1} << 11 : kSmallLimit;
}

// Return the largest and the least integer of a dtype.
int64_t highest_of(DType dtype) {
  if (dtype == DType::u8) return 255;
  return std::numeric_limits<int64_t>::max() >> (64 - 8 * size_of(dtype));
}
int64_t lowest_of(DType dtype) { return dtype == DType::u8 ? 0 : -highest_of(dtype) - 1; }

// Random numbers of one decomposition, in order, by SplitMix64 (Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", OOPSLA'14). Every rule needs other parts, which do
// not depend on positions, so that they need no counter-based generator.
class PartDraw {
 public:
  PartDraw(uint64_t seed, PartRange range, DType dtype)
      : range(range),
        state_(Rng(seed, hash_text("parts")).bits(0)),
        limit_(largest_summand(dtype)) {}
  uint64_t word() {
    uint64_t mixed = state_ += 0x9E3779B97F4A7C15;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
    return mixed ^ mixed >> 31;
  }
  int64_t between(int64_t low, int64_t high) { return Rng::integer_from(word(), low, high); }
  int64_t below(int64_t limit) { return between(0, limit); }
  double unit() { return static_cast<double>(word() >> 11) * 0x1p-53; }
  double sign() { return below(2) == 0 ? -1.0 : 1.0; }
  // Returns a summand of a wrapping sum.
  uint64_t summand() {
    if (range == PartRange::words) return word();
    const bool is_near = range == PartRange::real || (range == PartRange::tied && below(2) == 0);
    const int64_t limit = is_near ? kTiedLimit : limit_;
    return static_cast<uint64_t>(between(-limit, limit));
  }
  // Returns random bits, of which the low ones and all others together are drawn where numbers are
  // near 0: such numbers have parts near 0.
  uint64_t bits() {
    if (range == PartRange::words || range == PartRange::small) return word();
    return (word() & kLowBits) | (below(2) == 0 ? ~kLowBits : 0);
  }
  // Returns the distance of a part from an extremum that another rank holds.
  int64_t step() { return 1 + below(range == PartRange::small ? limit_ : kTiedStep); }

  const PartRange range;

 private:
  uint64_t state_;
  int64_t limit_;
};

using Words = std::vector<uint64_t>;

void sum_words(uint64_t total, bool is_unsigned, PartDraw& draw, Words& parts) {
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    parts[i] = is_unsigned ? static_cast<uint64_t>(draw.below(static_cast<int64_t>(total) + 1))
                           : draw.summand();
    total -= parts[i];
  }
  parts.back() = total;
}

// Signs, and divisors of the whole unless it is a word: others do not divide.
void product_words(uint64_t whole, bool is_unsigned, PartDraw& draw, Words& parts) {
  const auto holder = static_cast<size_t>(draw.below(static_cast<int64_t>(parts.size())));
  auto rest = static_cast<int64_t>(whole);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == holder) continue;
    int64_t factor = draw.range == PartRange::words ? 1 : draw.below(1 + kMostFactor);
    if (factor == 0 && whole != 0) factor = 1;
    if (factor != 0 && rest % factor != 0) factor = 1;
    if (factor != 0) rest /= factor;
    if (!is_unsigned && draw.below(4) > 0) {
      factor = -factor;
      rest = static_cast<int64_t>(-static_cast<uint64_t>(rest));
    }
    parts[i] = static_cast<uint64_t>(factor);
  }
  parts[holder] = static_cast<uint64_t>(rest);
}

void extreme_words(int64_t whole, bool is_max, DType dtype, PartDraw& draw, Words& parts) {
  const int64_t holder = draw.below(static_cast<int64_t>(parts.size()));
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t step = draw.step();
    const int64_t other = is_max ? std::max(lowest_of(dtype), whole - step)
                                 : std::min(highest_of(dtype), whole + step);
    parts[i] = static_cast<uint64_t>(static_cast<int64_t>(i) == holder ? whole : other);
  }
}

// Each bit is right on a drawn rank, so that no rank needs to have the whole.
void bit_words(uint64_t whole, bool is_and, uint64_t mask, PartDraw& draw, Words& parts) {
  const uint64_t present = is_and ? ~whole & mask : whole & mask;  // bits that a rank must change
  uint64_t rest = present;
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint64_t shown =
        i + 1 == parts.size() ? rest | (draw.bits() & present) : draw.bits() & present;
    rest &= ~shown;
    parts[i] = is_and ? (~shown & mask) | (whole & ~mask) : shown;
  }
}

void xor_words(uint64_t whole, uint64_t mask, PartDraw& draw, Words& parts) {
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    parts[i] = draw.bits() & mask;
    whole ^= parts[i];
  }
  parts.back() = whole;
}

void split_word(int64_t whole, DType dtype, const Reduction& reduction, int64_t divisor,
                PartDraw& draw, Words& parts) {
  const auto word = static_cast<uint64_t>(whole);
  const bool is_bool = dtype == DType::boolean, is_unsigned = dtype == DType::u8;
  const uint64_t mask = is_bool ? 1 : ~uint64_t{0};
  switch (reduction.op) {
    case ReduceOp::sum:
      return sum_words(word * static_cast<uint64_t>(divisor), is_unsigned, draw, parts);
    case ReduceOp::prod: return product_words(word, is_unsigned, draw, parts);
    case ReduceOp::min:
    case ReduceOp::max:
      if (is_bool) return bit_words(word, reduction.op == ReduceOp::min, mask, draw, parts);
      return extreme_words(whole, reduction.op == ReduceOp::max, dtype, draw, parts);
    case ReduceOp::band:
    case ReduceOp::bor: return bit_words(word, reduction.op == ReduceOp::band, mask, draw, parts);
    case ReduceOp::bxor: return xor_words(word, mask, draw, parts);
    default: SP_UNREACHABLE("no parts of integers under {}", name(reduction.op));
  }
}

using Reals = std::vector<double>;

double random_factor(PartDraw& draw) {
  if (draw.range == PartRange::whole)
    return draw.sign() * std::ldexp(1.0, static_cast<int>(draw.below(3)) - 1);
  return draw.sign() * (draw.below(2) == 0 ? 0.5 : 1.0) * (1 + draw.unit());
}

void split_real(double whole, const Reduction& reduction, double divisor, PartDraw& draw,
                Reals& parts) {
  const auto count = static_cast<int64_t>(parts.size());
  const bool in_whole_numbers = draw.range == PartRange::whole;
  const double size = std::max(1.0, std::isfinite(whole) ? std::fabs(whole) : 1.0);
  double rest = reduction.op == ReduceOp::sum ? whole * divisor : whole;
  double share = 1;
  const int64_t holder = draw.below(count);
  for (int64_t i = 0; i < count; ++i) {
    double& part = parts[static_cast<size_t>(i)];
    const bool last = i + 1 == count;
    switch (reduction.op) {
      case ReduceOp::sum:
        part = last               ? rest
               : in_whole_numbers ? static_cast<double>(draw.below(5) - 2)
                                  : size * draw.sign() * (0.25 + draw.unit());
        rest -= part;
        break;
      case ReduceOp::prod:
        part = last ? rest : random_factor(draw);
        rest /= part;
        break;
      case ReduceOp::min:
      case ReduceOp::max: {
        const double step =
            in_whole_numbers ? static_cast<double>(draw.below(3)) : size * (0.01 + draw.unit());
        part = i == holder ? whole : reduction.op == ReduceOp::max ? whole - step : whole + step;
        break;
      }
      case ReduceOp::norm: {
        const double taken = last ? share : share * (0.2 + 0.6 * draw.unit());
        part = draw.sign() * std::fabs(whole) * std::pow(taken, 1 / reduction.scalar);
        share -= taken;
        break;
      }
      default: SP_UNREACHABLE("no parts of floats under {}", name(reduction.op));
    }
  }
}

// Real factors, undone by the last part.
void split_complex_product(const std::byte* whole, int64_t at, DType dtype, PartDraw& draw,
                           std::vector<std::byte*>& targets) {
  const int64_t bytes = size_of(dtype);
  double all = 1;
  for (size_t k = 0; k < targets.size(); ++k) {
    const bool last = k + 1 == targets.size();
    const double factor = last ? 1 / all : random_factor(draw);
    all *= factor;
    for (int64_t i = 0; i < 2; ++i) {
      const double number = load_f64(whole + (at + i) * bytes, dtype);
      const double part = last ? number * factor : i == 0 ? factor : 0;
      store_f64(targets[k] + (at + i) * bytes, dtype, part);
    }
  }
}

}  // namespace

std::vector<Tensor> exact_parts(const Tensor& whole, const Reduction& reduction, int64_t count,
                                int64_t divisor, PartRange range, uint64_t seed,
                                std::vector<Tensor> memory) {
  std::vector<Tensor> parts = std::move(memory);
  parts.resize(static_cast<size_t>(count));
  for (Tensor& part : parts)
    if (part.buffer.use_count() != 1 || part.dtype != whole.dtype || !(part.shape == whole.shape))
      part = Tensor::empty(whole.dtype, whole.shape);
  const bool is_complex_dtype = is_complex(whole.dtype);
  const DType dtype = component_dtype(whole.dtype);
  const int64_t bytes = size_of(dtype);
  const int64_t numbers = whole.elements() * (is_complex_dtype ? 2 : 1);
  PartDraw draw(seed, range, dtype);
  const size_t reals_at_once = is_floating(dtype) ? parts.size() : 0;
  Words words(parts.size() - reals_at_once);
  Reals reals(reals_at_once);
  std::vector<std::byte*> targets;
  targets.reserve(parts.size());
  for (Tensor& part : parts) targets.push_back(part.mutate());
  if (is_complex_dtype && reduction.op == ReduceOp::prod) {
    for (int64_t i = 0; i < numbers; i += 2)
      split_complex_product(whole.data(), i, dtype, draw, targets);
    return parts;
  }
  const std::byte* at = whole.data();
  for (int64_t i = 0; i < numbers * bytes; i += bytes) {
    if (is_floating(dtype)) {
      split_real(real_at(at + i, dtype), reduction, static_cast<double>(divisor), draw, reals);
      for (size_t k = 0; k < reals.size(); ++k) put_real(targets[k] + i, dtype, reals[k]);
    } else {
      split_word(word_at(at + i, dtype), dtype, reduction, divisor, draw, words);
      for (size_t k = 0; k < words.size(); ++k)
        put_word(targets[k] + i, dtype, static_cast<int64_t>(words[k]));
    }
  }
  return parts;
}

}  // namespace shardproof
