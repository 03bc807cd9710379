// Implements judge.h. One loop for words (integers, bool) and one for doubles; i64 and f64 are read
// in place, other dtypes are converted first.
#include "shardproof/engine/check_ops/judge.h"

#include <cmath>
#include <complex>
#include <type_traits>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

int64_t fold_words(ReduceOp op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case ReduceOp::sum: return static_cast<int64_t>(x + y);
    case ReduceOp::prod: return static_cast<int64_t>(x * y);
    case ReduceOp::min: return std::min(a, b);
    case ReduceOp::max: return std::max(a, b);
    case ReduceOp::band: return a & b;
    case ReduceOp::bor: return a | b;
    case ReduceOp::bxor: return a ^ b;
    default: SP_UNREACHABLE("no fold of integers under {}", name(op));
  }
}

double fold_reals(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::norm: return a + b;
    case ReduceOp::prod: return a * b;
    case ReduceOp::min: return std::isnan(a) || a < b ? a : b;
    case ReduceOp::max: return std::isnan(a) || a > b ? a : b;
    default: SP_UNREACHABLE("no fold of floats under {}", name(op));
  }
}

// The numbers of all ranks. Reads in place, so that judging allocates nothing.
template <class Number>
struct Numbers {
  const std::byte* const* by_rank;
  const Number* of_rank(int32_t rank) const {
    return reinterpret_cast<const Number*>(by_rank[rank]);
  }
  Number operator()(int32_t rank, size_t i) const { return of_rank(rank)[i]; }
};

// Arithmetic of integers and bool.
struct WordRules {
  using Number = int64_t;
  const Slices& slices;
  uint64_t mask;

  Number reduced(Numbers<Number> data, const std::vector<int32_t>& group, size_t i) const {
    Number value = data(group[0], i);
    for (size_t k = 1; k < group.size(); ++k)
      value = fold_words(slices.reduction.op, value, data(group[k], i));
    return value;
  }
  // An average of words is compared as a sum, because words have no quotient.
  std::string text_of(Number got) const {
    return slices.divisor == 1 ? fmt::format("{}", got)
                               : fmt::format("{} / {}", got, slices.divisor);
  }
  Agreement compare(Number got, Number want) const {
    const uint64_t whole = static_cast<uint64_t>(want) * static_cast<uint64_t>(slices.divisor);
    return ((static_cast<uint64_t>(got) ^ whole) & mask) == 0 ? Agreement::agrees
                                                              : Agreement::differs;
  }
};

struct RealRules {
  using Number = double;
  const Slices& slices;
  const Limits& limits;
  bool is_complex = false;  // numbers are the two parts of complex numbers

  Number reduced(Numbers<Number> data, const std::vector<int32_t>& group, size_t i) const {
    const Reduction& reduction = slices.reduction;
    const bool is_norm = slices.is_partial && reduction.op == ReduceOp::norm;
    const auto term = [&](int32_t rank) {
      const double x = data(rank, i);
      return is_norm ? std::pow(std::fabs(x), reduction.scalar) : x;
    };
    if (is_complex && reduction.op == ReduceOp::prod) return complex_product(data, group, i);
    double value = term(group[0]);
    for (size_t k = 1; k < group.size(); ++k)
      value = fold_reals(reduction.op, value, term(group[k]));
    return is_norm ? std::pow(value, 1 / reduction.scalar)
                   : value / static_cast<double>(slices.divisor);
  }
  static std::string text_of(Number got) { return fmt::format("{}", got); }
  static Number complex_product(Numbers<Number> data, const std::vector<int32_t>& group, size_t i) {
    std::complex<double> product = 1;
    const size_t first = i / 2 * 2;
    for (const int32_t rank : group)
      product *= std::complex<double>(data(rank, first), data(rank, first + 1));
    return i == first ? product.real() : product.imag();
  }
  Agreement compare(Number got, Number want) const {
    if (got == want || (std::isnan(got) && std::isnan(want))) return Agreement::agrees;
    const double error = std::fabs(got - want);
    if (error <= limits.agree) return Agreement::agrees;
    return error <= limits.differ ? Agreement::unclear : Agreement::differs;
  }
};

template <class Rules>
void describe(const Rules& rules, Numbers<typename Rules::Number> data,
              const std::vector<int32_t>& group, size_t i, typename Rules::Number want,
              Disagreement& first) {
  first.ranks = group;
  for (const int32_t rank : group)
    first.parts += fmt::format("{}{}", first.parts.empty() ? "" : ", ", data(rank, i));
  first.got = rules.text_of(rules.reduced(data, group, i));
  first.want = fmt::format("{}", want);
}

// True if all ranks of each group have the same contents, and min, max, band or bor reduces these
// to themselves. Compares pointers: searches give ranks with equal contents one pointer.
bool reduces_to_itself(const Slices& slices, const std::byte* const* by_rank) {
  const ReduceOp op = slices.reduction.op;
  if (op != ReduceOp::min && op != ReduceOp::max && op != ReduceOp::band && op != ReduceOp::bor)
    return false;
  for (const std::vector<int32_t>& group : slices.groups)
    for (const int32_t rank : group)
      if (by_rank[rank] != by_rank[group[0]]) return false;
  return true;
}

// `width` is the number of reals of one element: 2 for complex dtypes.
template <class Rules>
Agreement compare_all(const Rules& rules, Numbers<typename Rules::Number> data,
                      const typename Rules::Number* whole, size_t width, Disagreement* first) {
  Agreement worst = Agreement::agrees;
  const bool reduces = rules.slices.is_partial && !reduces_to_itself(rules.slices, data.by_rank);
  for (const std::vector<int32_t>& group : rules.slices.groups) {
    const std::vector<int32_t>& at = rules.slices.positions[static_cast<size_t>(group[0])];
    const auto* const own = data.of_rank(group[0]);
    const size_t count = at.size() * width;
    for (size_t i = 0; i < count; ++i) {
      // Judged often, so that the usual width needs no division.
      const size_t position = width == 1 ? static_cast<size_t>(at[i])
                                         : static_cast<size_t>(at[i / width]) * width + i % width;
      const auto got = reduces ? rules.reduced(data, group, i) : own[i];
      const Agreement one = rules.compare(got, whole[position]);
      if (one == Agreement::agrees || one < worst) continue;
      if (first && (worst == Agreement::agrees || one == Agreement::differs)) {
        *first = {};
        first->position = at[i / width];
        describe(rules, data, group, i, whole[position], *first);
      }
      worst = one;
      if (worst == Agreement::differs) return worst;
    }
  }
  return worst;
}

template <class Number>
std::vector<Number> loaded(const std::byte* data, DType dtype, size_t count) {
  std::vector<Number> numbers(count);
  const int64_t bytes = size_of(dtype);
  for (size_t i = 0; i < count; ++i) {
    const std::byte* at = data + static_cast<int64_t>(i) * bytes;
    if constexpr (std::is_same_v<Number, double>)
      numbers[i] = load_f64(at, dtype);
    else
      numbers[i] = load_i64(at, dtype);
  }
  return numbers;
}

template <class Rules>
Agreement judge_as(const Rules& rules, const RankResults& results, const Tensor& whole,
                   DType stored, Disagreement* first) {
  using Number = typename Rules::Number;
  const size_t width = is_complex(results.dtype) ? 2 : 1;
  const DType native = std::is_same_v<Number, double> ? DType::f64 : DType::i64;
  if (stored == native)
    return compare_all(rules, Numbers<Number>{results.data.data()},
                       reinterpret_cast<const Number*>(whole.data()), width, first);
  std::vector<std::vector<Number>> numbers;
  for (size_t rank = 0; rank < results.data.size(); ++rank) {
    const size_t count = rules.slices.positions[rank].size() * width;
    numbers.push_back(loaded<Number>(results.data[rank], stored, count));
  }
  std::vector<const std::byte*> data;
  for (const std::vector<Number>& of_rank : numbers)
    data.push_back(reinterpret_cast<const std::byte*>(of_rank.data()));
  const std::vector<Number> all =
      loaded<Number>(whole.data(), stored, static_cast<size_t>(whole.elements()) * width);
  return compare_all(rules, Numbers<Number>{data.data()}, all.data(), width, first);
}

}  // namespace

Agreement judge(const Slices& slices, const RankResults& results, const Tensor& whole,
                const Limits& limits, Disagreement* first) {
  const DType dtype = component_dtype(results.dtype);
  if (is_floating(dtype))
    return judge_as(RealRules{slices, limits, is_complex(results.dtype)}, results, whole, dtype,
                    first);
  const int64_t bits = 8 * size_of(dtype);
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return judge_as(WordRules{slices, mask}, results, whole, dtype, first);
}

}  // namespace shardproof
