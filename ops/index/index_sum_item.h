// Item of index_sum: one column of the result, to which the entries are added in their order.
#pragma once

#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/item_kernel.h"

namespace shardproof {

// The source is [outer, count, row], the result [outer, held, row]; the lane holds the rows from
// `start` on, of `size` in all.
template <typename T>
struct SumRowsItem {
  static constexpr bool kChecks = true;
  int64_t size, start, held, count, row;
  bool from_end, ignores;  // from_end: -1 is the last row; ignores: `ignored` adds nothing
  int64_t ignored;

  constexpr bool skips(int64_t named) const { return ignores && named == ignored; }
  constexpr int64_t row_of(int64_t named) const {
    return from_end && named < 0 ? named + size : named;
  }
  constexpr void operator()(int64_t item, const LaneCall& lane) const {
    T* to = lane.out<T>(0) + item / row * held * row + item % row;
    const T* from = lane.in<T>(0) + item / row * count * row + item % row;
    for (int64_t r = 0; r < held; ++r) to[r * row] = T{0};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t named = lane.in<int64_t>(1)[i], found = row_of(named);
      if (skips(named)) continue;
      if (found < 0 || found >= size) {
        *lane.error_flag = 1;
        return;
      }
      if (found >= start && found < start + held) add(to[(found - start) * row], from[i * row]);
    }
  }
  // Adds the entries of a run of rows to the rows from `at` on of the result.
  void add_run(const int64_t* index, const Run& rows, int64_t at, int64_t outer,
               const LaneCall& lane) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < count; ++i) {
        const int64_t found = row_of(index[i]) - rows.start;
        if (skips(index[i]) || found < 0 || found >= rows.length) continue;
        T* to = lane.out<T>(0) + (o * held + at + found) * row;
        const T* from = lane.in<T>(0) + (o * count + i) * row;
        for (int64_t c = 0; c < row; ++c) add(to[c], from[c]);
      }
  }
  static constexpr void add(T& to, const T& x) {
    if constexpr (std::is_same_v<T, int64_t>)
      to = static_cast<int64_t>(static_cast<uint64_t>(to) + static_cast<uint64_t>(x));
    else
      to += x;
  }
};

// Returns the entries of x at an index of any number of dims, which replace dim. `attrs` are those
// of index_select.
FormulaTerm taken_at(Gradient& g, const FormulaTerm& x, const FormulaTerm& index, Attrs attrs);

}  // namespace shardproof
