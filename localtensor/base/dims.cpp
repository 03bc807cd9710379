// Implements dims.h.
#include "shardproof/localtensor/base/dims.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

int64_t multiplied(int64_t a, int64_t b, const Dims& shape) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw Error(ErrorKind::limit,
                fmt::format("shape {} has 2^63 elements or more", to_string(shape)));
  return product;
}

void refuse_length(size_t count) {
  if (count > static_cast<size_t>(Dims::kCapacity))
    throw Error(ErrorKind::limit,
                fmt::format("expected at most {} dims, found {}", kMaxDims, count));
}

}  // namespace

Dims::Dims(std::span<const int64_t> values) {
  refuse_length(values.size());
  std::copy(values.begin(), values.end(), values_.begin());
  size_ = static_cast<int8_t>(values.size());
}

Dims Dims::filled(int count, int64_t value) {
  Dims dims;
  for (int i = 0; i < count; ++i) dims.push_back(value);
  return dims;
}

void Dims::push_back(int64_t value) {
  refuse_length(static_cast<size_t>(size_) + 1);
  values_[static_cast<size_t>(size_++)] = value;
}

void Dims::insert(int at, int64_t value) {
  SP_CHECK(at >= 0 && at <= size_, "insert at {} of {} dims", at, size());
  push_back(value);
  std::rotate(begin() + at, end() - 1, end());
}

void Dims::erase(int at) {
  SP_CHECK(at >= 0 && at < size_, "erase at {} of {} dims", at, size());
  std::copy(begin() + at + 1, end(), begin() + at);
  --size_;
}

bool operator<(const Dims& a, const Dims& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (const int64_t value : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  text += ']';
  return text;
}

int64_t element_count(const Dims& shape) {
  if (shape.size() == 1 && shape[0] >= 0) return shape[0];  // fast path: calls move flat tensors
  // A size of 0 is looked for before any product is made: [2^62, 4, 0] is empty, not too large.
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0)
      throw Error(ErrorKind::limit, fmt::format("shape {} has a negative size", to_string(shape)));
    empty = empty || size == 0;
  }
  if (empty) return 0;
  int64_t count = 1;
  for (const int64_t size : shape) count = multiplied(count, size, shape);
  return count;
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides = shape;
  if (shape.size() == 1) {
    strides[0] = 1;
    return strides;
  }
  int64_t stride = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    strides[d] = stride;
    if (d > 0) stride = multiplied(stride, std::max<int64_t>(shape[d], 1), shape);
  }
  return strides;
}

int normalize_dim(int64_t dim, int dims) {
  if (dim < -dims || dim >= dims) {
    const std::string hint =
        dims == 0 ? "" : fmt::format("; write a dim from {} to {}", -dims, dims - 1);
    throw_bad_input("dim {} is out of range for a tensor of {} {}{}", dim, dims,
                    dims == 1 ? "dim" : "dims", hint);
  }
  return static_cast<int>(dim < 0 ? dim + dims : dim);
}

Dims broadcast_shapes(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims result = longer;
  const int lead = longer.size() - shorter.size();
  for (int d = 0; d < shorter.size(); ++d) {
    int64_t& size = result[lead + d];
    if (size == shorter[d] || shorter[d] == 1) continue;
    if (size != 1)
      throw_bad_input("shapes {} and {} do not broadcast: sizes {} and {} differ", to_string(a),
                      to_string(b), a[a.size() - shorter.size() + d],
                      b[b.size() - shorter.size() + d]);
    size = shorter[d];
  }
  return result;
}

Dims unravel(int64_t index, const Dims& shape) {
  Dims coordinate = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    SP_CHECK(shape[d] > 0, "no element {} in shape {}", index, to_string(shape));
    coordinate[d] = index % shape[d];
    index /= shape[d];
  }
  SP_CHECK(index == 0, "flat index outside of shape {}", to_string(shape));
  return coordinate;
}

int64_t ravel(const Dims& coordinate, const Dims& shape) {
  SP_CHECK(coordinate.size() == shape.size(), "coordinate {} in shape {}", to_string(coordinate),
           to_string(shape));
  int64_t index = 0;
  for (int d = 0; d < shape.size(); ++d) index = index * shape[d] + coordinate[d];
  return index;
}

}  // namespace shardproof
