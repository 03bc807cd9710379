// Implements decompose_partial.h: parts that reduce to a value, without rounding where possible.
//
// Sums: prefix sums have drawn signs and end at the value; the last one before it lies beyond it
// for two of three elements. Parts are their differences, so that they vary in sign. The first two
// change places for half of the elements, which changes no prefix sum but the first.
//
// Example: 5 over 4 ranks. Prefix sums are 3, -2, 9 and 5. The parts are 3, -5, 11 and -4.
//
// Averages are sums of n values. Those of integers differ from the value by parts of a sum of 0.
//
// If the value has few bits, prefix sums are multiples of its lowest set bit. The sizes of all
// parts together are within the significand. So no sum rounds, in any order. Otherwise they are
// multiples of a coarser grid, and at most twice the value: then a left fold does not round. Its
// last step is the exact difference of two numbers of which one is at most twice the other
// (Sterbenz 1974).
//
// min and max: one part is the value; the others do not change the result. prod: signs and powers
// of two, undone by the first part. norm: shares of the power, whose norm rounds. Bitwise: each bit
// is right in one part; the others have random bits that do not matter.
#include <algorithm>
#include <cmath>
#include <limits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/decompose_partial.h"

namespace shardproof {

namespace {

uint64_t mix(uint64_t seed, uint64_t element, uint64_t draw) {
  uint64_t x = seed + (element + 1) * 0x9e3779b97f4a7c15u + draw * 0xd1b54a32d192ed03u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Returns a number in 1..limit.
int64_t draw_up_to(uint64_t bits, int64_t limit) {
  return 1 + static_cast<int64_t>(bits % static_cast<uint64_t>(limit));
}

// Returns the step of the parts of an average over n ranks that is not split again. Multiples of
// the largest odd factor of n keep their value where a backend multiplies parts by 1 / n before it
// adds them. Dtypes of few bits and integers have no room for that.
int64_t odd_factor(DType dtype, int64_t n) {
  if (!is_floating(dtype) || precision_bits(dtype) <= 4) return 1;
  while (n % 2 == 0) n /= 2;
  return n;
}

// Makes the parts of one element, in doubles or integers that hold them exactly.
class Decomposer {
 public:
  Decomposer(DType dtype, const Reduction& reduction, int64_t count, PartialFill fill,
             uint64_t seed, int64_t unit, int64_t shares)
      : dtype_(dtype),
        op_(reduction.op),
        n_(count),
        fill_(fill),
        seed_(seed),
        unit_(unit),
        shares_(shares),
        step_(reduction.op != ReduceOp::avg ? unit
              : shares == count             ? odd_factor(dtype, count)
                                            : unit * count),
        wholes_(reduction.op == ReduceOp::avg && shares == count ? count / step_ : 1),
        exponent_(reduction.scalar) {}

  // Writes the element of part i to parts[i].
  void element(const std::byte* whole, uint64_t index, std::vector<std::byte*>& parts) const {
    if (dtype_ == DType::boolean || op_ == ReduceOp::band || op_ == ReduceOp::bor ||
        op_ == ReduceOp::bxor)
      return bits(load_i64(whole, dtype_), index, parts);
    if (!is_floating(dtype_)) return integer(load_i64(whole, dtype_), index, parts);
    const double x = load_f64(whole, dtype_);
    if (op_ == ReduceOp::prod) return product(x, index, parts);
    if (op_ == ReduceOp::min || op_ == ReduceOp::max) return extreme(x, index, parts);
    if (op_ == ReduceOp::norm) return norm(x, index, parts);
    sum(x, index, parts);
  }

 private:
  void put(std::byte* at, double value) const { store_f64(at, dtype_, value); }
  void put(std::byte* at, int64_t value) const { store_i64(at, dtype_, value); }

  void own(double x, std::vector<std::byte*>& parts) const {
    const bool average = op_ == ReduceOp::avg;
    put(parts[0], average ? x * static_cast<double>(n_) : x);
    for (size_t i = 1; i < parts.size(); ++i) put(parts[i], std::signbit(x) && x == 0 ? x : 0.0);
  }

  // True for two of three elements: the last part has the sign that the value does not have.
  // Otherwise a count of parts above 0 would be right for a positive value.
  bool last_is_beyond(uint64_t index) const {
    return fill_ == PartialFill::exact && mix(seed_, index, 1001) % 3 != 0;
  }

  // True if prefix sum `i` is above 0. The last one before the value has the value's sign.
  bool is_above(int64_t i, bool value_is_above, uint64_t index) const {
    return i + 2 == n_ ? value_is_above
                       : mix(seed_, index, 1003 + static_cast<uint64_t>(i)) % 2 == 0;
  }

  // The part that gets the difference of prefix sums `i` and `i - 1`.
  size_t place(int64_t i, uint64_t index) const {
    const bool swaps = i < 2 && mix(seed_, index, 999) % 2 == 0;
    return static_cast<size_t>(swaps ? 1 - i : i);
  }

  // Draws prefix sums in [-limit, limit] that end at `total`; each part is the difference of two of
  // them. The last one before the total has its sign, and may be beyond it.
  template <typename Put>
  void walk(int64_t total, int64_t limit, uint64_t index, Put put_part) const {
    int64_t prefix = 0, last_part = 0;
    for (int64_t i = 0; i + 1 < n_; ++i) {
      const bool up = is_above(i, total >= 0, index);
      const bool is_beyond = i + 2 == n_ && last_is_beyond(index);
      int64_t next = prefix;
      for (uint64_t attempt = 0; attempt < 8; ++attempt) {
        const auto draw = static_cast<uint64_t>(i) * 8 + attempt;
        next = (is_beyond ? std::abs(total) : 0) + draw_up_to(mix(seed_, index, draw), limit);
        if (!up) next = -next;
        const int64_t part = next - prefix;
        if (part * wholes_ != total && part != last_part && next != total && total - next != part)
          break;
      }
      last_part = next - prefix;
      put_part(place(i, index), last_part);
      prefix = next;
    }
    put_part(place(n_ - 1, index), total - prefix);
  }

  int64_t limit_for(int64_t total, int64_t largest) const {
    if (fill_ == PartialFill::adversarial) return largest;
    return std::min(largest, std::abs(total) + 2 * n_ + 6);
  }

  void sum(double x, uint64_t index, std::vector<std::byte*>& parts) const {
    if (!std::isfinite(x) || (x == 0 && std::signbit(x))) return own(x, parts);
    if (!sum_on_grid(x, index, parts) && !sum_by_left_fold(x, index, parts)) own(x, parts);
  }

  // False if the value has too many bits.
  bool sum_on_grid(double x, uint64_t index, std::vector<std::byte*>& parts) const {
    const int precision = precision_bits(dtype_);
    const auto largest = int64_t{1} << (precision - 1);
    int grid = 0;
    if (x != 0) {
      int exponent = 0;
      const auto significand =
          static_cast<int64_t>(std::ldexp(std::frexp(x, &exponent), precision));
      grid = exponent - precision + __builtin_ctzll(static_cast<uint64_t>(std::abs(significand)));
      // Integers get integer parts while those fit.
      if (grid > 0 && std::fabs(x) < static_cast<double>(largest)) grid = 0;
    }
    const double total =
        std::ldexp(x, -grid) * static_cast<double>(wholes_) / static_cast<double>(unit_);
    const double scale = std::ldexp(static_cast<double>(step_), grid);
    const int64_t most = largest / step_;
    const bool is_exact = fill_ == PartialFill::exact;
    // Whole numbers are added without rounding as long as possible. Other numbers use one bit less,
    // so that their parts are not small.
    const int times_most = is_exact && x != std::trunc(x) ? 1 : 2;
    const bool fits = most > 0 && std::fabs(total) < times_most * static_cast<double>(most) &&
                      total == std::trunc(total) &&
                      2 * static_cast<double>(most) * scale <= max_finite(dtype_);
    if (!fits) return false;
    const auto steps = static_cast<int64_t>(total);
    int64_t limit = limit_for(steps, most);
    if (is_exact) {
      // With limit L the sizes of n parts add up to 2 (n - 1) L + |total| at most. So all parts
      // together fit the significand. Without room, each part fits.
      constexpr int64_t kLeast = 4;
      const int64_t room = 2 * most - std::abs(steps);
      limit = std::min({limit, std::max(kLeast, room / (2 * shares_)), room / 2});
      if (limit < 1) return false;
    }
    walk(steps, limit, index,
         [&](size_t i, int64_t part) { put(parts[i], static_cast<double>(part) * scale); });
    return true;
  }

  // False if the parts would leave the range of the dtype.
  bool sum_by_left_fold(double x, uint64_t index, std::vector<std::byte*>& parts) const {
    constexpr int kLostBits = 3;  // of a prefix below those of the value: a part has one bit more
    std::byte rounded[sizeof(double)];
    put(rounded, op_ == ReduceOp::avg ? x * static_cast<double>(n_) : x);
    const double total = load_f64(rounded, dtype_), size = std::fabs(total);
    const int bits = precision_bits(dtype_) - kLostBits;
    int exponent = 0;
    std::frexp(size, &exponent);
    if (bits < 2 || !(4 * size <= max_finite(dtype_)) ||
        exponent - bits < smallest_exponent(dtype_))
      return false;
    const double grid = std::ldexp(1.0, exponent - bits);
    const auto units = static_cast<int64_t>(size / grid);  // 2^(bits - 1) or more, rounded down
    double prefix = 0;
    for (int64_t i = 0; i + 1 < n_; ++i) {
      const uint64_t draw = mix(seed_, index, static_cast<uint64_t>(i) * 8);
      const bool is_last = i + 2 == n_;
      int64_t step = draw_up_to(draw, 2 * units);
      if (is_last && last_is_beyond(index)) step = units + draw_up_to(draw, units);
      // At least half of the value.
      if (is_last && !last_is_beyond(index)) step = units / 2 + draw_up_to(draw, (units + 1) / 2);
      const bool up = is_above(i, total > 0, index);
      const double next = (up ? 1 : -1) * static_cast<double>(step) * grid;
      put(parts[place(i, index)], next - prefix);
      prefix = next;
    }
    put(parts[place(n_ - 1, index)], total - prefix);
    return true;
  }

  void integer(int64_t x, uint64_t index, std::vector<std::byte*>& parts) const {
    if (op_ == ReduceOp::prod) {
      for (int64_t i = n_ - 1; i > 0; --i) {
        const bool negative = is_negative_factor(i, mix(seed_, index, static_cast<uint64_t>(i)));
        put(parts[static_cast<size_t>(i)], int64_t{negative ? -1 : 1});
        if (negative) x = static_cast<int64_t>(-static_cast<uint64_t>(x));
      }
      return put(parts[0], x);
    }
    if (op_ == ReduceOp::min || op_ == ReduceOp::max) return integer_extreme(x, index, parts);
    const bool average = op_ == ReduceOp::avg;
    if (average && !is_signed(dtype_)) return unsigned_average(x, index, parts);
    if (average && wholes_ > 1) return signed_average(x, index, parts);
    // Sums may wrap, averages may not: their parts leave room for the sum over another axis.
    const int64_t room = int64_t{1} << (std::min(precision_bits(dtype_), 40) - 1);
    const int64_t largest = step_ > 1 ? std::max<int64_t>(1, room / (8 * n_ * step_)) : room;
    const int64_t total = x / unit_;
    const int64_t limit = limit_for(std::clamp<int64_t>(total, -1000, 1000), largest);
    const int64_t reached = std::clamp<int64_t>(total, -limit, limit);
    const size_t last = place(n_ - 1, index);
    walk(reached, limit, index, [&](size_t i, int64_t part) {
      // The parts of walk() add up to `reached`; the last one also gets the rest of `total`.
      put(parts[i], (i == last ? part + total - reached : part) * step_);
    });
  }

  void signed_average(int64_t x, uint64_t index, std::vector<std::byte*>& parts) const {
    const auto top = static_cast<int64_t>(std::min(max_finite(dtype_), std::ldexp(1, 40)));
    const int64_t room = (top - std::abs(std::clamp(x, -top, top))) / 2;  // of half a part
    const int64_t limit = limit_for(std::clamp<int64_t>(x, -1000, 1000), room);
    if (limit > 0)
      return walk(0, limit, index, [&](size_t i, int64_t part) { put(parts[i], x + part); });
    for (std::byte* part : parts) put(part, x);
  }

  // Parts come in pairs, one below the value and one as far above it. Nothing is below 0.
  void unsigned_average(int64_t x, uint64_t index, std::vector<std::byte*>& parts) const {
    const auto first = static_cast<int64_t>(mix(seed_, index, 1000) % static_cast<uint64_t>(n_));
    const bool is_split_again = wholes_ == 1;  // then all parts are the value
    const int64_t room =
        is_split_again ? 0 : std::min(x, static_cast<int64_t>(max_finite(dtype_)) - x);
    int64_t step = 0;
    for (int64_t i = 0; i < n_; ++i) {
      const bool opens = i % 2 == 0;
      if (opens && i + 1 < n_ && room > 0)
        step = draw_up_to(mix(seed_, index, static_cast<uint64_t>(i)), room);
      else
        step = opens ? 0 : -step;
      put(parts[static_cast<size_t>((first + i) % n_)], x + step);
    }
  }

  int64_t exact_part(uint64_t index) const {
    return static_cast<int64_t>(mix(seed_, index, 1000) % static_cast<uint64_t>(n_));
  }

  // The last factor is below 0 for three of four elements, so that 2 ranks have both signs.
  bool is_negative_factor(int64_t i, uint64_t draw) const {
    return i == n_ - 1 ? draw / 8 % 4 != 0 : draw % 2 == 0;
  }

  void integer_extreme(int64_t x, uint64_t index, std::vector<std::byte*>& parts) const {
    const int64_t top = dtype_ == DType::i64 ? std::numeric_limits<int64_t>::max()
                                             : static_cast<int64_t>(max_finite(dtype_));
    // One above the least value, so that no difference of two values overflows.
    const int64_t bottom = is_signed(dtype_) ? -top : 0;
    const int64_t above = top - std::max(x, int64_t{0});
    const int64_t below = (is_signed(dtype_) ? std::min(x, int64_t{0}) : x) - bottom;
    const int64_t room = std::max<int64_t>(0, op_ == ReduceOp::min ? above : below);
    for (int64_t i = 0; i < n_; ++i) {
      const auto draw = mix(seed_, index, static_cast<uint64_t>(i));
      const int64_t step =
          i == exact_part(index) || room == 0 ? 0 : draw_up_to(draw, std::min<int64_t>(room, 9));
      put(parts[static_cast<size_t>(i)], op_ == ReduceOp::min ? x + step : x - step);
    }
  }

  // Half of the elements have parts on the same side of 0 as the value.
  void extreme(double x, uint64_t index, std::vector<std::byte*>& parts) const {
    const double direction = op_ == ReduceOp::min ? 1 : -1;
    const bool is_near = mix(seed_, index, 1002) % 2 == 0 && x != 0;
    const double step = is_near ? std::fabs(x) / 8 : std::max(1.0, std::fabs(x));
    for (int64_t i = 0; i < n_; ++i) {
      const auto draw = mix(seed_, index, static_cast<uint64_t>(i));
      double part = x + direction * step * static_cast<double>(draw_up_to(draw, 6));
      if (i == exact_part(index) || !std::isfinite(x) || std::fabs(part) > max_finite(dtype_))
        part = x;
      put(parts[static_cast<size_t>(i)], part);
    }
  }

  // Each part has a share of |x|^p, and a sign. Their norm is |x| apart from rounding.
  void norm(double x, uint64_t index, std::vector<std::byte*>& parts) const {
    if (!std::isfinite(x) || !(exponent_ > 0) || std::isinf(exponent_)) return own(x, parts);
    double all = 0;
    std::vector<double> shares;
    for (int64_t i = 0; i < n_; ++i) {
      const auto draw = mix(seed_, index, static_cast<uint64_t>(i));
      shares.push_back(static_cast<double>(draw_up_to(draw / 2, 6)) * (draw % 2 == 0 ? 1 : -1));
      all += std::fabs(shares.back());
    }
    for (size_t i = 0; i < shares.size(); ++i)
      put(parts[i],
          std::copysign(std::fabs(x) * std::pow(std::fabs(shares[i]) / all, 1 / exponent_),
                        shares[i]));
  }

  // Parts 1.. are signs and powers of two, which are exact; part 0 undoes them.
  void product(double x, uint64_t index, std::vector<std::byte*>& parts) const {
    int exponent = 0;
    const double small = std::ldexp(1.0, 4) / max_finite(dtype_);
    const bool scales =
        std::isfinite(x) && std::fabs(x) > small && std::fabs(x) < max_finite(dtype_) / 16;
    for (int64_t i = n_ - 1; i > 0; --i) {
      const uint64_t draw = mix(seed_, index, static_cast<uint64_t>(i));
      const bool negative = is_negative_factor(i, draw);
      int power = scales ? static_cast<int>(draw / 2 % 3) - 1 : 0;
      if (std::abs(exponent + power) > 1) power = 0;
      exponent += power;
      put(parts[static_cast<size_t>(i)], std::ldexp(negative ? -1.0 : 1.0, power));
      if (negative) x = -x;
    }
    put(parts[0], std::ldexp(x, -exponent));
  }

  void bits(int64_t x, uint64_t index, std::vector<std::byte*>& parts) const {
    const int64_t mask = dtype_ == DType::boolean ? 1 : 15;
    int64_t all = 0;
    for (int64_t i = 0; i < n_; ++i) {
      const auto draw = static_cast<int64_t>(mix(seed_, index, static_cast<uint64_t>(i))) & mask;
      int64_t keep = 0;  // bits that must be right in this part
      for (int64_t bit = 1; bit <= mask; bit *= 2)
        if (exact_part(index * 16 + static_cast<uint64_t>(bit)) == i) keep |= bit;
      int64_t part = 0;
      const bool is_and = op_ == ReduceOp::band || op_ == ReduceOp::min;
      if (is_and)
        part = x | (draw & ~keep);
      else if (op_ == ReduceOp::bxor)
        part = i + 1 < n_ ? draw : x ^ all;
      else
        part = i == 0 ? x & ~(draw & ~keep & mask) : x & (draw | keep) & mask;
      all ^= part;
      put(parts[static_cast<size_t>(i)], part);
    }
  }

  DType dtype_;
  ReduceOp op_;
  int64_t n_;
  PartialFill fill_;
  uint64_t seed_;
  int64_t unit_;     // the whole is a multiple of it
  int64_t shares_;   // number of parts that share the significand
  int64_t step_;     // parts are multiples of it; of averages that are split again, of n * unit
  int64_t wholes_;   // the steps of the parts add up to that many wholes
  double exponent_;  // of a norm
};

template <typename Number>
void fill_all(Tensor& tensor, Number value) {
  const int64_t bytes = size_of(tensor.dtype);
  std::byte* at = tensor.mutate();
  for (int64_t i = 0, n = tensor.elements(); i < n; ++i, at += bytes)
    if constexpr (std::is_integral_v<Number>)
      store_i64(at, tensor.dtype, value);
    else
      store_f64(at, tensor.dtype, value);
}

std::vector<Tensor> owned_by_first(const Tensor& whole, const Reduction& reduction, int64_t count) {
  if (reduction.op == ReduceOp::avg) return std::vector<Tensor>(static_cast<size_t>(count), whole);
  std::vector<Tensor> parts(static_cast<size_t>(count), identity_like(whole, reduction));
  parts[0] = whole;
  return parts;
}

}  // namespace

Tensor identity_like(const Tensor& whole, const Reduction& reduction) {
  const DType dtype = whole.dtype;
  Tensor out = Tensor::empty(dtype, whole.shape);
  const bool infinite = is_floating(dtype) && dtype != DType::f8e4m3;
  const double largest = infinite ? std::numeric_limits<double>::infinity() : max_finite(dtype);
  switch (reduction.op) {
    case ReduceOp::prod: fill_all(out, 1.0); break;
    case ReduceOp::band: fill_all(out, int64_t{-1}); break;
    case ReduceOp::min:
      if (dtype == DType::i64)
        fill_all(out, std::numeric_limits<int64_t>::max());
      else
        fill_all(out, dtype == DType::boolean ? 1.0 : largest);
      break;
    case ReduceOp::max:
      if (dtype == DType::i64)
        fill_all(out, std::numeric_limits<int64_t>::min());
      else if (is_floating(dtype))
        fill_all(out, -largest);
      else
        fill_all(out, is_signed(dtype) ? -max_finite(dtype) - 1 : 0.0);
      break;
    default: fill_all(out, 0.0);
  }
  return out;
}

std::vector<Tensor> decompose(const Tensor& whole, const Reduction& reduction, int64_t count,
                              PartialFill fill, uint64_t seed, int64_t unit, int64_t shares) {
  const Tensor dense = whole.contiguous() ? whole : contiguous_copy(whole);
  if (count == 1) return {dense};
  const bool is_norm = reduction.op == ReduceOp::norm;
  if (fill == PartialFill::owner || (is_norm && !is_floating(whole.dtype)))
    return owned_by_first(dense, reduction, count);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(Tensor::empty(whole.dtype, whole.shape));
  const bool complex = is_complex(whole.dtype);
  const DType part_dtype = component_dtype(whole.dtype);
  const int64_t bytes = size_of(part_dtype);
  // Real and imaginary parts are independent, except in a product.
  if (complex && reduction.op == ReduceOp::prod) return owned_by_first(dense, reduction, count);
  const int64_t values = whole.elements() * (complex ? 2 : 1);
  const Decomposer decomposer(part_dtype, reduction, count, fill, seed, unit, shares);
  std::vector<std::byte*> at;
  for (Tensor& part : parts) at.push_back(part.mutate());
  const std::byte* source = dense.data();
  for (int64_t i = 0; i < values; ++i) {
    decomposer.element(source + i * bytes, static_cast<uint64_t>(i), at);
    for (std::byte*& pointer : at) pointer += bytes;
  }
  return parts;
}

}  // namespace shardproof
