// Tables of PTX instructions, by their names with types.
#pragma once

#include <string>
#include <unordered_map>

#include "shardproof/tests/gpu/ptx/instructions.h"

namespace shardproof::ptx {

using Table = std::unordered_map<std::string, Apply>;

void add_integers(Table& table);  // integers, bits and predicates
void add_floats(Table& table);
void add_conversions(Table& table);  // cvt, and cvta, which leaves addresses as they are

// Apply f(a), f(a, b) and f(a, b, c) to operands of type T.
template <typename T, auto f>
void unary(const Step& step, uint64_t* slots) {
  put(slots[step.at[0]], f(get<T>(slots[step.at[1]])));
}
template <typename T, auto f>
void binary(const Step& step, uint64_t* slots) {
  put(slots[step.at[0]], f(get<T>(slots[step.at[1]]), get<T>(slots[step.at[2]])));
}
template <typename T, auto f>
void ternary(const Step& step, uint64_t* slots) {
  put(slots[step.at[0]],
      f(get<T>(slots[step.at[1]]), get<T>(slots[step.at[2]]), get<T>(slots[step.at[3]])));
}

}  // namespace shardproof::ptx
