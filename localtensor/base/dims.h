// Dims: a short list of 64-bit integers held inline: shapes, strides, starts, coordinates.
// A tensor has at most 8 dims (kMaxDims); the list can hold two more for internal leading dims.
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
  // Throws Error when there are more than kCapacity values.
  explicit Dims(std::span<const int64_t> values);
  static Dims filled(int count, int64_t value);

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
  void insert(int at, int64_t value);
  void erase(int at);

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (int i = 0; i < a.size_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }
  friend bool operator<(const Dims& a, const Dims& b);  // lexicographic; for ordered maps

 private:
  std::array<int64_t, kCapacity> values_{};
  int8_t size_ = 0;
};

std::string to_string(const Dims& dims);  // "[16, 64]"
// Product of the sizes; 1 for a scalar. Throws Error(limit) when it reaches 2^63, or when a size is
// negative.
int64_t element_count(const Dims& shape);
// Row-major strides in elements: [3, 4] -> [4, 1]; a size of 0 counts as 1.
Dims contiguous_strides(const Dims& shape);
// d < 0 counts from the end. Throws Error(bad_input) naming the dim and the number of dims when out
// of range.
int normalize_dim(int64_t dim, int dims);
// The broadcast of two shapes by NumPy's rule. Throws Error(bad_input) naming both shapes.
Dims broadcast_shapes(const Dims& a, const Dims& b);
// Row-major coordinate of a flat index, and back.
Dims unravel(int64_t index, const Dims& shape);
int64_t ravel(const Dims& coordinate, const Dims& shape);

}  // namespace shardproof
