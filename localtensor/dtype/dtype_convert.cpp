// Implements the conversions of dtype.h over packed elements. Each storage type has one compute
// type that holds it exactly (f32, f64 or i64). A pair of types is a load loop into a tile of the
// compute type and a store loop out of it. That makes 14 + 3 x 14 loops instead of 14 x 14. A loop
// is skipped if its storage type is the compute type. Complex pairs that use the imaginary part
// have loops of their own.
#include <cstring>
#include <type_traits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/dtype/convert_element.h"
#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {
namespace {

constexpr int64_t kConvertTile = 1024;

template <typename T>
struct Type {
  using type = T;
};

using namespace element;

// Element access by memcpy, because packed elements of a file or a message may not be aligned.
template <typename T>
T read(const std::byte* from, int64_t i) {
  T value;
  std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void write(std::byte* to, int64_t i, T value) {
  std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

template <typename Storage>
void load_loop(const std::byte* __restrict from, std::byte* __restrict to, int64_t count) {
  using Compute = ComputeOf<Storage>;
  for (int64_t i = 0; i < count; ++i) write(to, i, loaded<Compute>(read<Storage>(from, i)));
}

template <typename Compute, typename Storage>
void store_loop(const std::byte* __restrict from, std::byte* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) write(to, i, stored<Storage>(read<Compute>(from, i)));
}

template <typename From, typename To>
void complex_loop(const std::byte* __restrict from, std::byte* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const From x = read<From>(from, i);
    if constexpr (std::is_same_v<To, Bool>) {
      write(to, i, Bool{static_cast<uint8_t>(x != From{})});
    } else {
      write(to, i, To(x));
    }
  }
}

// Calls f(Type<Storage>{}) for the storage type of a dtype.
template <typename F>
auto with_storage(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f(Type<double>{});
    case DType::f32: return f(Type<float>{});
    case DType::f16: return f(Type<F16>{});
    case DType::bf16: return f(Type<BF16>{});
    case DType::f8e4m3: return f(Type<F8E4M3>{});
    case DType::f8e5m2: return f(Type<F8E5M2>{});
    case DType::i64: return f(Type<int64_t>{});
    case DType::i32: return f(Type<int32_t>{});
    case DType::i16: return f(Type<int16_t>{});
    case DType::i8: return f(Type<int8_t>{});
    case DType::u8: return f(Type<uint8_t>{});
    case DType::boolean: return f(Type<Bool>{});
    case DType::c64: return f(Type<C64>{});
    case DType::c128: return f(Type<C128>{});
  }
  SP_UNREACHABLE("dtype {}", static_cast<int>(dtype));
}

using Loop = void (*)(const std::byte*, std::byte*, int64_t);

enum class Compute : uint8_t { f32, f64, i64 };

// One half of a conversion. `loop` is null if the storage type is the compute type.
struct Half {
  Loop loop;
  Compute compute;
  int64_t compute_bytes;
};

Half load_half(DType from) {
  return with_storage(from, [](auto type) -> Half {
    using Storage = typename decltype(type)::type;
    using C = ComputeOf<Storage>;
    const Compute compute = std::is_same_v<C, float>    ? Compute::f32
                            : std::is_same_v<C, double> ? Compute::f64
                                                        : Compute::i64;
    return {std::is_same_v<Storage, C> ? nullptr : load_loop<Storage>, compute, sizeof(C)};
  });
}

template <typename C>
Loop store_loop_from(DType to) {
  return with_storage(to, [](auto type) -> Loop {
    using Storage = typename decltype(type)::type;
    return std::is_same_v<Storage, C> ? nullptr : store_loop<C, Storage>;
  });
}

Loop store_half(Compute from, DType to) {
  switch (from) {
    case Compute::f32: return store_loop_from<float>(to);
    case Compute::f64: return store_loop_from<double>(to);
    case Compute::i64: return store_loop_from<int64_t>(to);
  }
  SP_UNREACHABLE("compute type {}", static_cast<int>(from));
}

// Returns the loop of a pair that uses the imaginary part, else null.
Loop complex_pair(DType from, DType to) {
  if (!is_complex(from)) return nullptr;
  const bool single = from == DType::c64;
  if (to == DType::boolean) return single ? complex_loop<C64, Bool> : complex_loop<C128, Bool>;
  if (!is_complex(to)) return nullptr;
  return single ? complex_loop<C64, C128> : complex_loop<C128, C64>;
}

}  // namespace

void convert(const std::byte* source, DType from, std::byte* target, DType to, int64_t count) {
  if (count == 0) return;
  if (from == to) {
    if (source != target) std::memcpy(target, source, static_cast<size_t>(count * size_of(from)));
    return;
  }
  if (const Loop whole = complex_pair(from, to)) return whole(source, target, count);
  const Half load = load_half(from);
  const Loop store = store_half(load.compute, to);
  if (!load.loop) return store(source, target, count);
  if (!store) return load.loop(source, target, count);
  alignas(64) std::byte tile[kConvertTile * sizeof(double)];
  const int64_t source_bytes = size_of(from), target_bytes = size_of(to);
  for (int64_t done = 0; done < count; done += kConvertTile) {
    const int64_t part = std::min(kConvertTile, count - done);
    load.loop(source + done * source_bytes, tile, part);
    store(tile, target + done * target_bytes, part);
  }
}

double load_f64(const std::byte* element, DType dtype) {
  return with_storage(dtype, [&](auto type) -> double {
    using Storage = typename decltype(type)::type;
    return static_cast<double>(loaded<ComputeOf<Storage>>(read<Storage>(element, 0)));
  });
}

int64_t load_i64(const std::byte* element, DType dtype) {
  return with_storage(dtype, [&](auto type) -> int64_t {
    using Storage = typename decltype(type)::type;
    return stored<int64_t>(loaded<ComputeOf<Storage>>(read<Storage>(element, 0)));
  });
}

void store_f64(std::byte* element, DType dtype, double value) {
  with_storage(dtype,
               [&](auto type) { write(element, 0, stored<typename decltype(type)::type>(value)); });
}

void store_i64(std::byte* element, DType dtype, int64_t value) {
  with_storage(dtype,
               [&](auto type) { write(element, 0, stored<typename decltype(type)::type>(value)); });
}

}  // namespace shardproof
