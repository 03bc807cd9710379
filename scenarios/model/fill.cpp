// Implements fill.h. Element i of a tensor is drawn from a counter-based random stream named by the
// tensor, at index i of the global tensor. So neither sharding nor the order of drawing changes a
// value.
#include "shardproof/scenarios/model/fill.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof {
namespace {

struct FillName {
  const char* name;
  FillKind kind;
  size_t least, most;  // numbers of arguments
  const char* usage;
};
constexpr std::array<FillName, 7> kFillNames = {{
    {"ints", FillKind::ints, 0, 2, "ints or ints(lo, hi)"},
    {"iota", FillKind::iota, 0, 0, "iota"},
    {"ones", FillKind::constant, 0, 0, "ones"},
    {"zeros", FillKind::constant, 0, 0, "zeros"},
    {"const", FillKind::constant, 1, 1, "const(c)"},
    {"uniform", FillKind::uniform, 2, 2, "uniform(lo, hi)"},
    {"normal", FillKind::normal, 2, 2, "normal(mean, std)"},
}};

const FillName& find_fill(const std::string& name) {
  NearestName nearest(name);
  for (const FillName& fill : kFillNames) {
    if (name == fill.name) return fill;
    nearest.offer(fill.name);
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kTorchFills = {{
      {"randn", "normal(0, 1)"},
      {"rand", "uniform(0, 1)"},
      {"randint", "ints(lo, hi)"},
      {"random", "uniform(0, 1)"},
      {"arange", "iota"},
      {"range", "iota"},
      {"full", "const(c)"},
      {"one", "ones"},
      {"zero", "zeros"},
  }};
  for (const auto& [word, here] : kTorchFills)
    if (word == name) throw_bad_input("unknown fill {}; write {}", name, here);
  throw_bad_input("unknown fill {}{}; expected ints, iota, ones, zeros, const, uniform or normal",
                  name, nearest.hint());
}

struct IntegerRange {
  int64_t low, high;  // both inclusive
};
IntegerRange integer_range(DType dtype) {
  switch (dtype) {
    case DType::boolean: return {0, 1};
    case DType::u8: return {0, 255};
    case DType::i8: return {INT8_MIN, INT8_MAX};
    case DType::i16: return {INT16_MIN, INT16_MAX};
    case DType::i32: return {INT32_MIN, INT32_MAX};
    default: return {INT64_MIN, INT64_MAX};
  }
}

bool holds_integers_only(DType dtype) { return is_integral(dtype) || dtype == DType::boolean; }

void check_integer(int64_t value, DType dtype) {
  const IntegerRange range = integer_range(dtype);
  if (!holds_integers_only(dtype)) return;
  if (value < range.low || value > range.high)
    throw_bad_input("{} does not fit {}, which holds {} .. {}", value, name(dtype), range.low,
                    range.high);
}

// Refuses a finite number that the dtype would hold as an infinity or NaN.
void check_float(double value, DType dtype) {
  const DType part = component_dtype(dtype);
  if (holds_integers_only(dtype) || !std::isfinite(value)) return;
  std::array<std::byte, 8> held{};
  store_f64(held.data(), part, value);
  if (!std::isfinite(load_f64(held.data(), part)))
    throw_bad_input("{} does not fit {}, whose largest number is {}", value, name(dtype),
                    max_finite(part));
}

void check_real_fill(const Fill& fill, DType dtype, const char* usage) {
  check_float(fill.a, dtype);
  if (fill.kind == FillKind::uniform) check_float(fill.b, dtype);
  if (!holds_integers_only(dtype)) return;
  if (fill.kind == FillKind::uniform || fill.kind == FillKind::normal)
    throw_bad_input("{} needs a floating dtype, found {}", usage, name(dtype));
  check_element(Number(fill.a), dtype);
}

Fill fill_of(const FillName& known, const std::vector<Number>& args, DType dtype) {
  if (args.size() < known.least || args.size() > known.most ||
      (known.kind == FillKind::ints && args.size() == 1))
    throw_bad_input("expected {}, found {} argument{}", known.usage, args.size(),
                    args.size() == 1 ? "" : "s");
  Fill fill = default_fill(dtype);
  fill.kind = known.kind;
  if (known.kind == FillKind::ints && args.size() == 2) {
    fill.low = args[0].integer();
    fill.high = args[1].integer();
    if (fill.low >= fill.high)
      throw_bad_input(
          "expected ints(lo, hi) with lo < hi, found ints({0}, {1}); hi is excluded: write "
          "ints({0}, {2})",
          fill.low, fill.high, fill.low + 1);
    check_integer(fill.low, dtype);
    check_integer(fill.high - 1, dtype);
    return fill;
  }
  if (known.kind == FillKind::ints || known.kind == FillKind::iota) return fill;
  if (!args.empty()) fill.a = args[0].real();
  if (args.size() > 1) fill.b = args[1].real();
  if (std::string(known.name) == "ones") fill.a = 1;
  if (known.kind == FillKind::uniform && !(fill.a <= fill.b))
    throw_bad_input("uniform({}, {}) is an empty range: lo must not be above hi", fill.a, fill.b);
  if (known.kind == FillKind::normal && !(fill.b >= 0))
    throw_bad_input("normal({}, {}) has a negative standard deviation: std must be 0 or more",
                    fill.a, fill.b);
  check_real_fill(fill, dtype, known.usage);
  return fill;
}

void store_number(std::byte* at, DType dtype, const Number& value) {
  if (value.is_integer()) {
    store_i64(at, dtype, value.integer());
  } else if (value.is_bool()) {
    store_i64(at, dtype, value.truth() ? 1 : 0);
  } else {
    store_f64(at, dtype, value.real());
  }
}

double draw_real(const Fill& fill, const Rng& rng, uint64_t index) {
  if (fill.kind == FillKind::uniform) return fill.a + (fill.b - fill.a) * rng.uniform(index);
  if (fill.kind == FillKind::normal) return fill.a + fill.b * rng.normal(index);
  return fill.a;
}

void store_drawn(std::byte* at, DType dtype, const Fill& fill, const Rng& rng, uint64_t index) {
  if (fill.kind == FillKind::ints) {
    store_i64(at, dtype, rng.integer(index, fill.low, fill.high));
  } else if (fill.kind == FillKind::iota) {
    store_i64(at, dtype, static_cast<int64_t>(index));
  } else {
    store_f64(at, dtype, draw_real(fill, rng, index));
  }
}

}  // namespace

Fill default_fill(DType dtype) {
  Fill fill;
  if (dtype == DType::u8) fill = {FillKind::ints, 0, 9, 0, 0, {}};
  if (dtype == DType::boolean) fill = {FillKind::ints, 0, 2, 0, 0, {}};
  return fill;
}

Fill parse_fill(const std::string& text, DType dtype, const NumberScope& scope) {
  const Expr expr = parse_expression(text);
  if (expr.kind == ExprKind::name && expr.name.plain())
    return fill_of(find_fill(expr.name.texts[0]), {}, dtype);
  if (expr.kind != ExprKind::call)
    throw_bad_input("expected a fill such as ints(0, 8), found {}", text);
  const FillName& known = find_fill(expr.symbol);
  std::vector<Number> args;
  for (size_t i = 0; i < expr.args.size(); ++i) {
    if (!expr.keys[i].empty())
      throw_bad_input("expected {}, found the key {}{}", known.usage, expr.keys[i],
                      expr.keys[i] == "seed" ? "; the option --seed of run sets the seed"
                                             : "; arguments have no keys here");
    args.push_back(evaluate(expr.args[i], scope));
  }
  return fill_of(known, args, dtype);
}

void check_element(const Number& value, DType dtype) {
  if (value.is_text() || value.is_list())
    throw_bad_input("expected a number, found {}", to_string(value));
  if (value.is_integer() || value.is_double()) check_float(value.real(), dtype);
  if (value.is_integer()) return check_integer(value.integer(), dtype);
  if (value.is_double() && holds_integers_only(dtype)) {
    if (value.real() != std::floor(value.real()) || std::abs(value.real()) > 9e15)
      throw_bad_input("expected a whole number for {}, found {}", name(dtype), to_string(value));
    check_integer(static_cast<int64_t>(value.real()), dtype);
  }
}

Tensor fill_tensor(const Fill& fill, const std::string& name, DType dtype, const Dims& shape,
                   uint64_t seed) {
  Tensor tensor = Tensor::empty(dtype, shape);
  const Rng rng(seed, hash_text(name));
  const DType part = component_dtype(dtype);
  const int64_t parts = is_complex(dtype) ? 2 : 1;
  const int64_t size = size_of(part);
  const int64_t count = tensor.elements();
  if (count == 0) return tensor;
  std::byte* at = tensor.mutate();
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < parts; ++k, at += size) {
      if (fill.kind == FillKind::values) {
        const auto at_element = static_cast<size_t>(i);
        const double imaginary = fill.imaginary.empty() ? 0 : fill.imaginary[at_element];
        store_number(at, part, k == 0 ? fill.values[at_element] : Number(imaginary));
      } else if (k == 0 || fill.kind != FillKind::iota) {
        // Imaginary parts use the upper half of the indices of the random stream.
        const uint64_t index = static_cast<uint64_t>(i) + (k == 0 ? 0 : uint64_t{1} << 63);
        if (k == 1 && fill.kind == FillKind::constant) {
          store_f64(at, part, 0);
        } else {
          store_drawn(at, part, fill, rng, index);
        }
      } else {
        store_f64(at, part, 0);
      }
    }
  }
  return tensor;
}

double rounded_to(double value, DType dtype) {
  std::array<std::byte, 16> element{};
  store_f64(element.data(), dtype, value);
  return load_f64(element.data(), dtype);
}

}  // namespace shardproof
