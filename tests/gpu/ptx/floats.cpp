// Implements add_floats of tables.h. Arithmetic is IEEE 754's, as on a device. Approximations of a
// device are computed by other means here: functions built on them agree within some units in the
// last place.
#include <bit>
#include <cfenv>
#include <cmath>

#include "shardproof/tests/gpu/ptx/tables.h"

namespace shardproof::ptx {
namespace {

// Returns a * b + c, rounded once, in the rounding mode of <cfenv>.
template <typename T, int kRounding>
T fused(T a, T b, T c) {
  const int before = std::fegetround();
  std::fesetround(kRounding);
  volatile T x = a, y = b, z = c;
  volatile T result = std::fma(x, y, z);
  std::fesetround(before);
  return result;
}

// If one operand is NaN, the result is the other; -0 is less than 0.
template <typename T>
T lesser(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <typename T>
T greater(T a, T b) {
  return -lesser(-a, -b);
}

template <typename T>
void add_float_type(Table& table, const std::string& type) {
  for (const std::string round : {".", ".rn."}) {
    table["add" + round + type] = binary<T, ([](T a, T b) { return a + b; })>;
    table["sub" + round + type] = binary<T, ([](T a, T b) { return a - b; })>;
    table["mul" + round + type] = binary<T, ([](T a, T b) { return a * b; })>;
  }
  table["div.rn." + type] = binary<T, ([](T a, T b) { return a / b; })>;
  table["rcp.rn." + type] = unary<T, [](T a) { return 1 / a; }>;
  table["sqrt.rn." + type] = unary<T, [](T a) { return std::sqrt(a); }>;
  table["fma.rn." + type] = ternary<T, [](T a, T b, T c) { return std::fma(a, b, c); }>;
  table["fma.rz." + type] = ternary<T, fused<T, FE_TOWARDZERO>>;
  table["fma.rm." + type] = ternary<T, fused<T, FE_DOWNWARD>>;
  table["fma.rp." + type] = ternary<T, fused<T, FE_UPWARD>>;
  table["neg." + type] = unary<T, [](T a) { return -a; }>;
  table["abs." + type] = unary<T, [](T a) { return std::fabs(a); }>;
  table["min." + type] = binary<T, lesser<T>>;
  table["max." + type] = binary<T, greater<T>>;
  table["copysign." + type] = binary<T, [](T sign, T a) { return std::copysign(a, sign); }>;
  table["mov." + type] = unary<T, [](T a) { return a; }>;
  table["selp." + type] = [](const Step& step, uint64_t* slots) {
    slots[step.at[0]] = slots[step.at[get<bool>(slots[step.at[3]]) ? 1 : 2]];
  };
}

template <typename T>
void add_float_comparisons(Table& table, const std::string& type) {
  const auto name = [&](const char* what) { return "setp." + std::string(what) + "." + type; };
  table[name("eq")] = binary<T, ([](T a, T b) { return a == b; })>;
  table[name("ne")] = binary<T, ([](T a, T b) { return a < b || b < a; })>;
  table[name("lt")] = binary<T, ([](T a, T b) { return a < b; })>;
  table[name("le")] = binary<T, ([](T a, T b) { return a <= b; })>;
  table[name("gt")] = binary<T, ([](T a, T b) { return a > b; })>;
  table[name("ge")] = binary<T, ([](T a, T b) { return a >= b; })>;
  table[name("equ")] = binary<T, ([](T a, T b) { return !(a < b || b < a); })>;
  table[name("neu")] = binary<T, ([](T a, T b) { return a != b; })>;
  table[name("ltu")] = binary<T, ([](T a, T b) { return !(a >= b); })>;
  table[name("leu")] = binary<T, ([](T a, T b) { return !(a > b); })>;
  table[name("gtu")] = binary<T, ([](T a, T b) { return !(a <= b); })>;
  table[name("geu")] = binary<T, ([](T a, T b) { return !(a < b); })>;
  table[name("num")] = binary<T, ([](T a, T b) { return a == a && b == b; })>;
  table[name("nan")] = binary<T, ([](T a, T b) { return a != a || b != b; })>;
}

float flushed(float a) { return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0F, a) : a; }

// Returns the upper word of a result, with a lower word of zero.
double upper_word(double a) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(a) >> 32 << 32);
}

}  // namespace

void add_floats(Table& table) {
  add_float_type<float>(table, "f32");
  add_float_type<double>(table, "f64");
  add_float_comparisons<float>(table, "f32");
  add_float_comparisons<double>(table, "f64");
  table["ex2.approx.f32"] = unary<float, [](float a) { return std::exp2(a); }>;
  table["ex2.approx.ftz.f32"] =
      unary<float, [](float a) { return flushed(std::exp2(flushed(a))); }>;
  table["lg2.approx.f32"] = unary<float, [](float a) { return std::log2(a); }>;
  table["lg2.approx.ftz.f32"] = unary<float, [](float a) { return std::log2(flushed(a)); }>;
  table["rcp.approx.ftz.f32"] = unary<float, [](float a) { return flushed(1 / flushed(a)); }>;
  table["div.approx.f32"] = binary<float, [](float a, float b) { return a / b; }>;
  table["div.full.f32"] = binary<float, [](float a, float b) { return a / b; }>;
  table["rsqrt.approx.ftz.f32"] = unary<float, [](float a) { return 1 / std::sqrt(flushed(a)); }>;
  table["rcp.approx.ftz.f64"] = unary<double, [](double a) { return upper_word(1 / a); }>;
  table["rsqrt.approx.ftz.f64"] =
      unary<double, [](double a) { return upper_word(1 / std::sqrt(a)); }>;
}

}  // namespace shardproof::ptx
