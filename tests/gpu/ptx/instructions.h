// Effects of PTX instructions on slots. A slot holds a value in its low bits.
#pragma once

#include <cstring>
#include <string>

#include "shardproof/tests/gpu/ptx/ptx.h"

namespace shardproof::ptx {

// Returns the effect of an instruction without its vector, such as "add.s64"; null: unknown.
Apply arithmetic(const std::string& name);
// Return moves of `elements` of `type` between memory and slots; the address is in the slot after
// theirs. Null: unknown type.
Apply load(const std::string& type, int elements);
Apply store(const std::string& type, int elements);
// Return mov of a wide slot from, or to, several slots of `bits` each.
Apply pack(int bits, int elements);
Apply unpack(int bits, int elements);

template <typename T>
T get(uint64_t slot) {
  T value;
  std::memcpy(&value, &slot, sizeof(T));
  return value;
}
template <>
inline bool get<bool>(uint64_t slot) {
  return slot != 0;
}

// Narrow signed integers fill the slot with their sign, as PTX fills a wider register.
template <typename T>
void put(uint64_t& slot, T value) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    slot = static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    slot = 0;
    std::memcpy(&slot, &value, sizeof(T));
  }
}

}  // namespace shardproof::ptx
