// Implements instructions.h: looks up arithmetic in the tables, and makes loads, stores and moves.
#include "shardproof/tests/gpu/ptx/instructions.h"

#include <unordered_map>

#include "shardproof/tests/gpu/ptx/tables.h"

namespace shardproof::ptx {
namespace {

template <typename T, int kElements>
void load_elements(const Step& step, uint64_t* slots) {
  T values[kElements];
  std::memcpy(values, reinterpret_cast<const std::byte*>(slots[step.at[kElements]]) + step.offset,
              sizeof(values));
  for (int i = 0; i < kElements; ++i) put(slots[step.at[static_cast<size_t>(i)]], values[i]);
}

template <typename T, int kElements>
void store_elements(const Step& step, uint64_t* slots) {
  T values[kElements];
  for (int i = 0; i < kElements; ++i) values[i] = get<T>(slots[step.at[static_cast<size_t>(i)]]);
  std::memcpy(reinterpret_cast<std::byte*>(slots[step.at[kElements]]) + step.offset, values,
              sizeof(values));
}

template <int kBits, int kElements>
void pack_elements(const Step& step, uint64_t* slots) {
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  uint64_t value = 0;
  for (int i = 0; i < kElements; ++i)
    value |= (slots[step.at[static_cast<size_t>(i) + 1]] & kMask) << (i * kBits);
  slots[step.at[0]] = value;
}

template <int kBits, int kElements>
void unpack_elements(const Step& step, uint64_t* slots) {
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  const uint64_t value = slots[step.at[kElements]];
  for (int i = 0; i < kElements; ++i)
    slots[step.at[static_cast<size_t>(i)]] = value >> (i * kBits) & kMask;
}

struct Memory {
  Apply load[3], store[3];
};

template <typename T>
constexpr Memory kMemory{{load_elements<T, 1>, load_elements<T, 2>, load_elements<T, 4>},
                         {store_elements<T, 1>, store_elements<T, 2>, store_elements<T, 4>}};

const Memory* memory_of(const std::string& type) {
  static const std::map<std::string, Memory> types{
      {"b8", kMemory<uint8_t>},   {"u8", kMemory<uint8_t>},   {"s8", kMemory<int8_t>},
      {"b16", kMemory<uint16_t>}, {"u16", kMemory<uint16_t>}, {"s16", kMemory<int16_t>},
      {"b32", kMemory<uint32_t>}, {"u32", kMemory<uint32_t>}, {"s32", kMemory<int32_t>},
      {"b64", kMemory<uint64_t>}, {"u64", kMemory<uint64_t>}, {"s64", kMemory<int64_t>},
      {"f32", kMemory<float>},    {"f64", kMemory<double>}};
  const auto found = types.find(type);
  return found == types.end() ? nullptr : &found->second;
}

size_t log_of(int elements) { return elements == 1 ? 0 : elements == 2 ? 1 : 2; }

}  // namespace

Apply arithmetic(const std::string& name) {
  static const std::unordered_map<std::string, Apply> all = [] {
    std::unordered_map<std::string, Apply> table;
    add_integers(table);
    add_floats(table);
    add_conversions(table);
    return table;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

Apply load(const std::string& type, int elements) {
  const Memory* memory = memory_of(type);
  return memory == nullptr ? nullptr : memory->load[log_of(elements)];
}

Apply store(const std::string& type, int elements) {
  const Memory* memory = memory_of(type);
  return memory == nullptr ? nullptr : memory->store[log_of(elements)];
}

Apply pack(int bits, int elements) {
  if (bits * elements > 64) return nullptr;
  if (elements == 4) return pack_elements<16, 4>;
  return bits == 32 ? pack_elements<32, 2> : bits == 16 ? pack_elements<16, 2> : nullptr;
}

Apply unpack(int bits, int elements) {
  if (bits * elements > 64) return nullptr;
  if (elements == 4) return unpack_elements<16, 4>;
  return bits == 32 ? unpack_elements<32, 2> : bits == 16 ? unpack_elements<16, 2> : nullptr;
}

}  // namespace shardproof::ptx
