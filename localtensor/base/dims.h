// Dims: a short list of 64-bit integers, held inline. Used for shapes, strides, starts,
// coordinates. A tensor has at most 8 dims (kMaxDims); the list can hold two more for internal
// leading dims.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace shardproof {

inline constexpr int kMaxDims = 8;

class Dims {
 public:
  static constexpr int kCapacity = 10;
  Dims() = default;
  Dims(std::initializer_list<int64_t> values)
      : Dims(std::span<const int64_t>(values.begin(), values.size())) {}
  // Throws Error(limit) if there are more than kCapacity values; push_back and insert do as well.
  explicit Dims(std::span<const int64_t> values);
  static Dims filled(int count, int64_t value);  // `count` copies of `value`

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  int64_t back() const { return values_[static_cast<size_t>(size_ - 1)]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + size_; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + size_; }
  void push_back(int64_t value);
  void insert(int at, int64_t value);  // before position `at`; requires 0 <= at <= size()
  void erase(int at);                  // requires 0 <= at < size()

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (int i = 0; i < a.size_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }
  friend bool operator<(const Dims& a, const Dims& b);  // lexicographic; for ordered maps

 private:
  int8_t size_ = 0;  // first: short lists are one cache line
  std::array<int64_t, kCapacity> values_{};
};

std::string to_string(const Dims& dims);  // "[16, 64]"
// Returns the product of the sizes; 1 for a scalar (no dims). Throws Error(limit) if the product is
// 2^63 or more, or if a size is negative.
int64_t element_count(const Dims& shape);
// Returns row-major strides in elements: [3, 4] -> [4, 1]. A size of 0 counts as 1.
Dims contiguous_strides(const Dims& shape);
// Returns the dim counted from 0; a negative `dim` counts from the end (-1: the last one). Throws
// Error(bad_input) that names the dim and the number of dims if it is out of range.
int normalize_dim(int64_t dim, int dims);
// Returns the broadcast of two shapes by NumPy's rule. Throws Error(bad_input) naming both shapes.
Dims broadcast_shapes(const Dims& a, const Dims& b);
// Returns the row-major coordinate of a flat index. Requires 0 <= index < element_count(shape).
Dims unravel(int64_t index, const Dims& shape);
// Returns the flat row-major index of a coordinate; the inverse of unravel.
int64_t ravel(const Dims& coordinate, const Dims& shape);

}  // namespace shardproof
