// Loads and stores one element of any dtype but complex ones: a load gives a compute type, a store
// rounds once. The functions are constexpr, so device kernels give the same bits as the host.
#pragma once

#include "shardproof/localtensor/dtype/convert_element.h"

namespace shardproof {

template <typename C>
inline constexpr DType kStoredAs = std::is_same_v<C, double>    ? DType::f64
                                   : std::is_same_v<C, float>   ? DType::f32
                                   : std::is_same_v<C, int64_t> ? DType::i64
                                                                : DType::boolean;

template <typename C, typename Storage>
constexpr C load_from(const std::byte* at) {
  const Storage x = *reinterpret_cast<const Storage*>(at);
  // The host reads fp8 values from a table, with equal results.
  if constexpr (std::is_same_v<Storage, F8E4M3> || std::is_same_v<Storage, F8E5M2>)
    return element::stored<C>(detail::widen_slowly(x));
  else
    return element::stored<C>(element::loaded<element::ComputeOf<Storage>>(x));
}

// Not inline: with hundreds of kernels, 12 conversions for each operand would be most of their code
// and of its compile time.
template <typename C>
[[gnu::noinline]] constexpr C load_converted(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::f64: return load_from<C, double>(at);
    case DType::f32: return load_from<C, float>(at);
    case DType::f16: return load_from<C, F16>(at);
    case DType::bf16: return load_from<C, BF16>(at);
    case DType::f8e4m3: return load_from<C, F8E4M3>(at);
    case DType::f8e5m2: return load_from<C, F8E5M2>(at);
    case DType::i64: return load_from<C, int64_t>(at);
    case DType::i32: return load_from<C, int32_t>(at);
    case DType::i16: return load_from<C, int16_t>(at);
    case DType::i8: return load_from<C, int8_t>(at);
    case DType::u8: return load_from<C, uint8_t>(at);
    case DType::boolean: return load_from<C, Bool>(at);
    default: return C{};
  }
}

template <typename C>
constexpr C load_as(const std::byte* at, DType dtype) {
  return dtype == kStoredAs<C> ? *reinterpret_cast<const C*>(at) : load_converted<C>(at, dtype);
}

template <typename Storage, typename C>
constexpr void store_to(std::byte* at, C value) {
  *reinterpret_cast<Storage*>(at) = element::stored<Storage>(value);
}

template <typename C>
[[gnu::noinline]] constexpr void store_converted(std::byte* at, DType dtype, C value) {
  switch (dtype) {
    case DType::f64: return store_to<double>(at, value);
    case DType::f32: return store_to<float>(at, value);
    case DType::f16: return store_to<F16>(at, value);
    case DType::bf16: return store_to<BF16>(at, value);
    case DType::f8e4m3: return store_to<F8E4M3>(at, value);
    case DType::f8e5m2: return store_to<F8E5M2>(at, value);
    case DType::i64: return store_to<int64_t>(at, value);
    case DType::i32: return store_to<int32_t>(at, value);
    case DType::i16: return store_to<int16_t>(at, value);
    case DType::i8: return store_to<int8_t>(at, value);
    case DType::u8: return store_to<uint8_t>(at, value);
    case DType::boolean: return store_to<Bool>(at, value);
    default: return;
  }
}

// A value of type uint8_t is a truth value, 0 or 1, as comparisons give it.
template <typename C>
constexpr void store_as(std::byte* at, DType dtype, C value) {
  if (dtype == kStoredAs<C>)
    *reinterpret_cast<C*>(at) = value;
  else if constexpr (std::is_same_v<C, uint8_t>)
    store_converted(at, dtype, static_cast<int64_t>(value));
  else
    store_converted(at, dtype, value);
}

// Calls `use` with a value of the compute type that holds the dtype exactly.
template <typename Use>
constexpr void with_compute(DType dtype, const Use& use) {
  if (dtype == DType::f64) return use(double{});
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
      dtype == DType::f8e4m3 || dtype == DType::f8e5m2)
    return use(float{});
  return use(int64_t{});
}

struct Word16 {
  uint64_t halves[2];
};

constexpr void copy_word(const std::byte* from, std::byte* to, int64_t bytes) {
  switch (bytes) {
    case 1: *to = *from; return;
    case 2: *reinterpret_cast<uint16_t*>(to) = *reinterpret_cast<const uint16_t*>(from); return;
    case 4: *reinterpret_cast<uint32_t*>(to) = *reinterpret_cast<const uint32_t*>(from); return;
    case 8: *reinterpret_cast<uint64_t*>(to) = *reinterpret_cast<const uint64_t*>(from); return;
    default: *reinterpret_cast<Word16*>(to) = *reinterpret_cast<const Word16*>(from); return;
  }
}

// Copies one element; stores zeros if `from` is null.
constexpr void copy_or_clear(const std::byte* from, std::byte* to, int64_t bytes) {
  const Word16 zeros{};
  copy_word(from != nullptr ? from : reinterpret_cast<const std::byte*>(&zeros), to, bytes);
}

}  // namespace shardproof
