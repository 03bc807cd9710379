// Implements add_integers of tables.h: integers, bits and predicates.
#include <bit>

#include "shardproof/tests/gpu/ptx/tables.h"

namespace shardproof::ptx {
namespace {

template <typename T>
T wrapped(uint64_t value) {
  return static_cast<T>(value);
}

// Division by zero gives an unspecified value on a device; here all bits are set.
template <typename T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return wrapped<T>(-static_cast<uint64_t>(a));
  return static_cast<T>(a / b);
}
template <typename T>
T remainder_of(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}

__extension__ using Signed128 = __int128;
__extension__ using Unsigned128 = unsigned __int128;

template <typename T>
using Twice = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, Signed128, Unsigned128>>>;

template <typename T>
T high_product(T a, T b) {
  return static_cast<T>((Twice<T>{a} * Twice<T>{b}) >> (8 * sizeof(T)));
}

template <typename T>
void add_integer_type(Table& table, const std::string& type) {
  table["add." + type] = binary<T, [](T a, T b) {
    return wrapped<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }>;
  table["sub." + type] = binary<T, [](T a, T b) {
    return wrapped<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }>;
  table["mul.lo." + type] = binary<T, [](T a, T b) {
    return wrapped<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }>;
  table["mad.lo." + type] = ternary<T, [](T a, T b, T c) {
    return wrapped<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) +
                      static_cast<uint64_t>(c));
  }>;
  table["mul.hi." + type] = binary<T, high_product<T>>;
  table["div." + type] = binary<T, quotient<T>>;
  table["rem." + type] = binary<T, remainder_of<T>>;
  table["min." + type] = binary<T, ([](T a, T b) { return b < a ? b : a; })>;
  table["max." + type] = binary<T, ([](T a, T b) { return a < b ? b : a; })>;
  table["neg." + type] = unary<T, [](T a) { return wrapped<T>(-static_cast<uint64_t>(a)); }>;
  table["abs." + type] =
      unary<T, ([](T a) { return a < 0 ? wrapped<T>(-static_cast<uint64_t>(a)) : a; })>;
  if constexpr (sizeof(T) < 8) {
    table["mul.wide." + type] = binary<T, [](T a, T b) { return Twice<T>{a} * Twice<T>{b}; }>;
    table["mad.wide." + type] = [](const Step& step, uint64_t* slots) {
      const auto product = static_cast<uint64_t>(Twice<T>{get<T>(slots[step.at[1]])} *
                                                 Twice<T>{get<T>(slots[step.at[2]])});
      put(slots[step.at[0]], static_cast<Twice<T>>(product + slots[step.at[3]]));
    };
  }
  // Shifts by more than the width leave only the sign, or zero.
  table["shr." + type] = [](const Step& step, uint64_t* slots) {
    const T a = get<T>(slots[step.at[1]]);
    const auto by = get<uint32_t>(slots[step.at[2]]);
    constexpr uint32_t kWidth = 8 * sizeof(T);
    const T none = a < 0 ? static_cast<T>(-1) : T{0};
    put(slots[step.at[0]], by >= kWidth ? none : static_cast<T>(a >> by));
  };
}

template <typename T>
void add_comparisons(Table& table, const std::string& type) {
  const std::string set = "setp.";
  table[set + "eq." + type] = binary<T, ([](T a, T b) { return a == b; })>;
  table[set + "ne." + type] = binary<T, ([](T a, T b) { return a != b; })>;
  for (const char* name : {"lt.", "lo."})
    table[set + name + type] = binary<T, ([](T a, T b) { return a < b; })>;
  for (const char* name : {"le.", "ls."})
    table[set + name + type] = binary<T, ([](T a, T b) { return a <= b; })>;
  for (const char* name : {"gt.", "hi."})
    table[set + name + type] = binary<T, ([](T a, T b) { return a > b; })>;
  for (const char* name : {"ge.", "hs."})
    table[set + name + type] = binary<T, ([](T a, T b) { return a >= b; })>;
}

template <typename T>
void add_bits(Table& table, const std::string& type) {
  table["and." + type] = binary<T, [](T a, T b) { return static_cast<T>(a & b); }>;
  table["or." + type] = binary<T, [](T a, T b) { return static_cast<T>(a | b); }>;
  table["xor." + type] = binary<T, [](T a, T b) { return static_cast<T>(a ^ b); }>;
  if constexpr (std::is_same_v<T, bool>) {
    table["not." + type] = unary<T, [](T a) { return !a; }>;
    return;
  } else {
    table["not." + type] = unary<T, [](T a) { return static_cast<T>(~a); }>;
    table["clz." + type] = unary<T, [](T a) { return static_cast<uint32_t>(std::countl_zero(a)); }>;
    table["popc." + type] = unary<T, [](T a) { return static_cast<uint32_t>(std::popcount(a)); }>;
    table["shl." + type] = [](const Step& step, uint64_t* slots) {
      const auto by = get<uint32_t>(slots[step.at[2]]);
      const uint64_t a = get<T>(slots[step.at[1]]);
      put(slots[step.at[0]], by >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << by));
    };
  }
}

// Adds mov and selp of a type.
template <typename T>
void add_moves(Table& table, const std::string& type) {
  table["mov." + type] = unary<T, [](T a) { return a; }>;
  table["selp." + type] = [](const Step& step, uint64_t* slots) {
    const bool first = get<bool>(slots[step.at[3]]);
    put(slots[step.at[0]], get<T>(slots[step.at[first ? 1 : 2]]));
  };
}

template <typename T>
void extract_field(const Step& step, uint64_t* slots) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kWidth = 8 * sizeof(T);
  const U value = get<U>(slots[step.at[1]]);
  const uint32_t from = get<uint32_t>(slots[step.at[2]]) & 0xff;
  const uint32_t length = get<uint32_t>(slots[step.at[3]]) & 0xff;
  const uint32_t last = from + length - 1 < kWidth - 1 ? from + length - 1 : kWidth - 1;
  const bool sign = std::is_signed_v<T> && length > 0 && (value >> last & 1) != 0;
  U result = 0;
  for (uint32_t i = 0; i < kWidth; ++i)
    if (i < length && from + i < kWidth ? (value >> (from + i) & 1) != 0 : sign)
      result = static_cast<U>(result | U{1} << i);
  put(slots[step.at[0]], static_cast<T>(result));
}

// Picks bytes of two words by nibbles of a third; a nibble's high bit selects the byte's sign.
void permute(const Step& step, uint64_t* slots) {
  const uint64_t bytes = slots[step.at[1]] << 32 >> 32 | slots[step.at[2]] << 32;
  const auto choice = get<uint32_t>(slots[step.at[3]]);
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t nibble = choice >> (4 * i) & 15;
    auto byte = static_cast<uint32_t>(bytes >> (8 * (nibble & 7)) & 255);
    if (nibble >= 8) byte = byte >= 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  put(slots[step.at[0]], result);
}

template <bool kLeft, bool kWraps>
void shift_funnel(const Step& step, uint64_t* slots) {
  const uint64_t both = slots[step.at[1]] << 32 >> 32 | slots[step.at[2]] << 32;
  auto by = get<uint32_t>(slots[step.at[3]]);
  by = kWraps ? by & 31 : by < 32 ? by : 32;
  put(slots[step.at[0]], static_cast<uint32_t>(kLeft ? both << by >> 32 : both >> by));
}

// Computes a * b (its low or high half, or a alone) plus or minus c, with carry.
enum class Product { none, low, high };
template <Product kProduct, bool kMinus, bool kTakes, bool kLeaves>
void carry_on(const Step& step, uint64_t* slots) {
  uint64_t a = get<uint32_t>(slots[step.at[1]]);
  const uint64_t b = get<uint32_t>(slots[step.at[2]]);
  uint64_t c = b;
  if (kProduct != Product::none) {
    a = kProduct == Product::low ? a * b & 0xffffffff : a * b >> 32;
    c = get<uint32_t>(slots[step.at[3]]);
  }
  const uint64_t carry = kTakes ? slots[kCarry] : 0;
  const uint64_t result = kMinus ? a - c - carry : a + c + carry;
  if (kLeaves) slots[kCarry] = result >> 32 & 1;
  put(slots[step.at[0]], static_cast<uint32_t>(result));
}

template <Product kProduct, bool kMinus>
void add_carrying(Table& table, const std::string& name, const std::string& half) {
  table[name + half + ".cc.u32"] = carry_on<kProduct, kMinus, false, true>;
  table[name + "c" + half + ".u32"] = carry_on<kProduct, kMinus, true, false>;
  table[name + "c" + half + ".cc.u32"] = carry_on<kProduct, kMinus, true, true>;
}

}  // namespace

void add_integers(Table& table) {
  const auto add = [&]<typename U, typename S>(const std::string& bits, U, S) {
    add_integer_type<U>(table, "u" + bits);
    add_integer_type<S>(table, "s" + bits);
    for (const char* type : {"u", "b"}) {
      add_comparisons<U>(table, type + bits);
      add_moves<U>(table, type + bits);
    }
    add_comparisons<S>(table, "s" + bits);
    add_moves<S>(table, "s" + bits);
    add_bits<U>(table, "b" + bits);
    table["shr.b" + bits] = table["shr.u" + bits];
  };
  add("16", uint16_t{}, int16_t{});
  add("32", uint32_t{}, int32_t{});
  add("64", uint64_t{}, int64_t{});
  add_bits<bool>(table, "pred");
  add_moves<bool>(table, "pred");
  table["bfe.u32"] = extract_field<uint32_t>;
  table["bfe.s32"] = extract_field<int32_t>;
  table["bfe.u64"] = extract_field<uint64_t>;
  table["bfe.s64"] = extract_field<int64_t>;
  table["prmt.b32"] = permute;
  table["shf.l.wrap.b32"] = shift_funnel<true, true>;
  table["shf.r.wrap.b32"] = shift_funnel<false, true>;
  table["shf.l.clamp.b32"] = shift_funnel<true, false>;
  table["shf.r.clamp.b32"] = shift_funnel<false, false>;
  add_carrying<Product::none, false>(table, "add", "");
  add_carrying<Product::none, true>(table, "sub", "");
  add_carrying<Product::low, false>(table, "mad", ".lo");
  add_carrying<Product::high, false>(table, "mad", ".hi");
}

}  // namespace shardproof::ptx
