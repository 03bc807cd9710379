// Implements copy_strided.h.
//
//   1. simplified: drop dims of size 1; join neighbouring dims that are dense in both layouts.
//   2. short_row_bytes: if the innermost rows are dense and of 1 to 64 bytes, a row is an element.
//   3. Loop over all but the innermost dim; copy each innermost row by memcpy if it is dense in
//      both layouts, else by a loop of constant-size copies.
//
// Example: shape [2, 3, 4], f32, source strides [12, 4, 1], target strides [24, 4, 1]. Dims 1 and 2
// are dense in both, so the box is [2, 12] with rows of 48 bytes: two memcpy calls.
#include "shardproof/localtensor/tensor/copy_strided.h"

#include <cstring>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// A box without dims of size 1 and with dims joined where both layouts allow; strides in bytes.
struct Box {
  Dims shape, source, target;
};

Box simplified(const Dims& shape, const Dims& source, const Dims& target, int64_t element_bytes) {
  Box box;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const int64_t from = source[d] * element_bytes, to = target[d] * element_bytes;
    const int last = box.shape.size() - 1;
    if (last >= 0 && box.source[last] == from * shape[d] && box.target[last] == to * shape[d]) {
      box.shape[last] *= shape[d];
      box.source[last] = from;
      box.target[last] = to;
      continue;
    }
    box.shape.push_back(shape[d]);
    box.source.push_back(from);
    box.target.push_back(to);
  }
  return box;
}

// Returns the bytes of the innermost dense row if it can be copied as one element, else 0. For rows
// of 16 bytes, a loop of constant-size copies takes a third of the time of as many memcpy calls.
int64_t short_row_bytes(const Box& box, int64_t element_bytes) {
  const int inner = box.shape.size() - 1;
  if (inner < 1 || box.source[inner] != element_bytes || box.target[inner] != element_bytes)
    return 0;
  const int64_t bytes = box.shape[inner] * element_bytes;
  return bytes <= 64 && (bytes & (bytes - 1)) == 0 ? bytes : 0;
}

template <size_t kBytes>
void copy_row(const std::byte* source, int64_t source_stride, std::byte* target,
              int64_t target_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(target + i * target_stride, source + i * source_stride, kBytes);
}

using RowCopy = void (*)(const std::byte*, int64_t, std::byte*, int64_t, int64_t);

RowCopy row_copy(int64_t element_bytes) {
  switch (element_bytes) {
    case 1: return copy_row<1>;
    case 2: return copy_row<2>;
    case 4: return copy_row<4>;
    case 8: return copy_row<8>;
    case 16: return copy_row<16>;
    case 32: return copy_row<32>;
    case 64: return copy_row<64>;
    default: SP_UNREACHABLE("elements of {} bytes", element_bytes);
  }
}

}  // namespace

void copy_strided(const std::byte* source, const Dims& source_strides, std::byte* target,
                  const Dims& target_strides, const Dims& shape, int64_t element_bytes) {
  for (const int64_t size : shape)
    if (size == 0) return;
  const Box box = simplified(shape, source_strides, target_strides, element_bytes);
  int inner = box.shape.size() - 1;
  if (const int64_t bytes = short_row_bytes(box, element_bytes); bytes > 0) {
    element_bytes = bytes;
    --inner;
  }
  if (inner < 0) {
    std::memcpy(target, source, static_cast<size_t>(element_bytes));
    return;
  }
  const bool dense = box.source[inner] == element_bytes && box.target[inner] == element_bytes;
  const size_t row_bytes = static_cast<size_t>(box.shape[inner] * element_bytes);
  const RowCopy row = row_copy(element_bytes);
  Dims at = Dims::filled(inner, 0);
  while (true) {
    if (dense) {
      std::memcpy(target, source, row_bytes);
    } else {
      row(source, box.source[inner], target, box.target[inner], box.shape[inner]);
    }
    int d = inner - 1;
    for (; d >= 0; --d) {
      source += box.source[d];
      target += box.target[d];
      if (++at[d] < box.shape[d]) break;
      source -= box.source[d] * box.shape[d];
      target -= box.target[d] * box.shape[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace shardproof
