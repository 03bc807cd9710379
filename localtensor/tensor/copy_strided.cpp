// Implements copy_strided.h.
//
//   1. simplified: drop dims of size 1; join neighbouring dims that are dense in both layouts.
//   2. short_row_bytes: if the innermost rows are dense and of 1 to 64 bytes, a row is an element.
//   3. tile_of: a step of an outer dim may stay within a cache line of the source that a step of
//      the innermost dim leaves. Then copy together as many outer steps as fill the line.
//   4. Loop over all but the innermost dim. Copy an innermost row by memcpy if it is dense in both
//      layouts, else by a loop of constant-size copies.
//
// Example: shape [2, 3, 4], f32, source strides [12, 4, 1], target strides [24, 4, 1]. Dims 1 and 2
// are dense in both, so the box is [2, 12] with rows of 48 bytes: two memcpy calls.
//
// Example of 3: a transposed matrix of f32, shape [R, C], source strides [1, R]. Each cache line
// holds 16 neighbours of dim 0, so 16 rows of the target are written side by side.
#include "shardproof/localtensor/tensor/copy_strided.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/device_memory.h"

namespace shardproof {
namespace {

constexpr int64_t kCacheLine = 64;  // bytes
constexpr int64_t kRowsAhead = 8;   // rows of a tile that are fetched ahead
constexpr size_t kStreams = 8;      // rows that a tile writes side by side, at least

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
// of 16 bytes, a loop of constant-size copies takes a third of the time of one memcpy call for each
// row.
int64_t short_row_bytes(const Box& box, int64_t element_bytes) {
  const int inner = box.shape.size() - 1;
  if (inner < 1 || box.source[inner] != element_bytes || box.target[inner] != element_bytes)
    return 0;
  const int64_t bytes = box.shape[inner] * element_bytes;
  return bytes <= 64 && (bytes & (bytes - 1)) == 0 ? bytes : 0;
}

// Steps of the innermost dim, and of one outer dim that is copied with it; strides in bytes.
struct RowSteps {
  int64_t count = 1, source = 0, target = 0;
};

template <size_t kBytes, size_t kCount>
void copy_full_tiles(const std::byte* source, std::byte* target, const RowSteps& inner,
                     const RowSteps& tile) {
  for (int64_t i = 0; i < inner.count; ++i) {
    const std::byte* ahead = source + std::min(i + kRowsAhead, inner.count - 1) * inner.source;
    for (size_t line = 0; line < kCount * kBytes; line += kCacheLine)
      __builtin_prefetch(ahead + line);
    for (size_t k = 0; k < kCount; ++k)
      std::memcpy(target + i * inner.target + static_cast<int64_t>(k) * tile.target,
                  source + i * inner.source + k * kBytes, kBytes);
  }
}

template <size_t kBytes>
void copy_row(const std::byte* source, std::byte* target, const RowSteps& inner,
              const RowSteps& tile) {
  constexpr size_t kInLine = kCacheLine / kBytes, kInTile = std::max(kInLine, kStreams);
  if (kInLine > 1 && tile.count == kInTile && tile.source == kBytes)
    return copy_full_tiles<kBytes, kInTile>(source, target, inner, tile);
  for (int64_t i = 0; i < inner.count; ++i)
    for (int64_t k = 0; k < tile.count; ++k)
      std::memcpy(target + i * inner.target + k * tile.target,
                  source + i * inner.source + k * tile.source, kBytes);
}

using RowCopy = void (*)(const std::byte*, std::byte*, const RowSteps&, const RowSteps&);

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

// An outer dim of a box, of which `count` steps are copied together; dim -1 if none.
struct Tile {
  int dim = -1;
  int64_t count = 1;
};

Tile tile_of(const Box& box, int inner) {
  if (box.source[inner] < kCacheLine) return {};
  for (int d = inner; d-- > 0;)
    if (const int64_t step = box.source[d]; step > 0 && 2 * step <= kCacheLine)
      return {d, std::min(std::max<int64_t>(kCacheLine / step, kStreams), box.shape[d])};
  return {};
}

// Visits the offsets of all steps of a box before dim `inner`. `tile.dim` advances by tiles.
template <typename Visit>
void for_each_row(const Box& box, int inner, const Tile& tile, const Visit& visit) {
  Dims at = Dims::filled(inner, 0);
  int64_t source = 0, target = 0;
  while (true) {
    const int64_t left = tile.dim < 0 ? 1 : box.shape[tile.dim] - at[tile.dim];
    visit(source, target, std::min(tile.count, left));
    int d = inner - 1;
    for (; d >= 0; --d) {
      const int64_t step = d == tile.dim ? tile.count : 1;
      at[d] += step;
      source += box.source[d] * step;
      target += box.target[d] * step;
      if (at[d] < box.shape[d]) break;
      source -= box.source[d] * at[d];
      target -= box.target[d] * at[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

// CUDA's limit of the distance between rows.
constexpr int64_t kMostPitch = std::numeric_limits<int32_t>::max();

bool is_pitch(int64_t stride, int64_t width) { return stride >= width && stride <= kMostPitch; }

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
  const Tile tile = dense ? Tile{} : tile_of(box, inner);
  const RowSteps rows{box.shape[inner], box.source[inner], box.target[inner]};
  for_each_row(box, inner, tile, [&](int64_t from, int64_t to, int64_t count) {
    if (dense) {
      std::memcpy(target + to, source + from, row_bytes);
    } else {
      const int d = tile.dim < 0 ? inner : tile.dim;
      row(source + from, target + to, rows, {count, box.source[d], box.target[d]});
    }
  });
}

void copy_strided(DeviceMemory& memory, const std::byte* source, const Dims& source_strides,
                  std::byte* target, const Dims& target_strides, const Dims& shape,
                  int64_t element_bytes) {
  for (const int64_t size : shape)
    if (size == 0) return;
  const Box box = simplified(shape, source_strides, target_strides, element_bytes);
  int inner = box.shape.size() - 1;
  int64_t width = element_bytes;
  if (inner >= 0 && box.source[inner] == width && box.target[inner] == width)
    width *= box.shape[inner--];
  if (inner < 0) return memory.copy(target, source, width);
  const int64_t count = box.shape[inner], from_step = box.source[inner],
                to_step = box.target[inner];
  const bool are_rows = is_pitch(from_step, width) && is_pitch(to_step, width);
  for_each_row(box, inner, {}, [&](int64_t from, int64_t to, int64_t) {
    if (are_rows)
      return memory.copy({target + to, to_step, source + from, from_step, width, count});
    for (int64_t i = 0; i < count; ++i)
      memory.copy(target + to + i * to_step, source + from + i * from_step, width);
  });
}

}  // namespace shardproof
