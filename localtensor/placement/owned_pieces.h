// The pieces into which cuts divide one dim, in the order of their indices, each with its owner.
//
// Example: dim of 8, a=2 and b=2, S(0) by a, then S(0, split=2) by b. Pieces end at 1, 2, 3, 4, ..;
// the owners (a, b) are (0, 0) (0, 1) (0, 0) (0, 1) (1, 0) (1, 1) (1, 0) (1, 1).
#pragma once

#include <bit>
#include <span>

#include "shardproof/localtensor/placement/shard_cut_list.h"

namespace shardproof {

// Packs coordinates on the axes of a mesh into one number, each into bits of its own.
class CoordinateBits {
 public:
  explicit CoordinateBits(const std::vector<int64_t>& axis_sizes) {
    int first = 0;
    for (const int64_t size : axis_sizes) {
      const int bits = std::bit_width(static_cast<uint64_t>(size - 1));
      fields_.push_back({first, (uint64_t{1} << bits) - 1});
      first += bits;
    }
  }
  uint64_t packed(int axis, int64_t coordinate) const {
    return static_cast<uint64_t>(coordinate) << field(axis).first;
  }
  int64_t coordinate(uint64_t packed, int axis) const {
    return static_cast<int64_t>(packed >> field(axis).first & field(axis).mask);
  }
  // Returns the bits of the coordinates on a set of axes.
  uint64_t bits_of(uint64_t axes) const {
    uint64_t bits = 0;
    for (; axes != 0; axes &= axes - 1) {
      const Field& one = field(std::countr_zero(axes));
      bits |= one.mask << one.first;
    }
    return bits;
  }

 private:
  struct Field {
    int first;
    uint64_t mask;
  };
  const Field& field(int axis) const { return fields_[static_cast<size_t>(axis)]; }
  std::vector<Field> fields_;  // by axis
};

struct OwnedPiece {
  int64_t end = 0;     // of its indices, which begin where the piece before it ends
  uint64_t owner = 0;  // coordinates on the axes that cut the dim; 0 on others
  bool operator==(const OwnedPiece&) const = default;
};
// Neighbours have different owners, and no piece is empty.
using OwnedPieces = std::vector<OwnedPiece>;

// Appends a piece up to `end`; joins it to the last one if both have one owner.
inline void add_piece(OwnedPieces& pieces, int64_t end, uint64_t owner) {
  if (!pieces.empty() && pieces.back().owner == owner)
    pieces.back().end = end;
  else
    pieces.push_back({end, owner});
}

// Calls each(length, before, after) for each stretch of a dim with one owner in both lists.
template <typename Each>
void for_each_overlap(const OwnedPieces& before, const OwnedPieces& after, const Each& each) {
  int64_t at = 0;
  auto second = after.begin();
  for (const OwnedPiece& first : before) {
    while (at < first.end) {
      const int64_t end = std::min(first.end, second->end);
      each(end - at, first.owner, second->owner);
      at = end;
      if (second->end == end) ++second;
    }
  }
}

// Returns the pieces of the cuts.
OwnedPieces owned_pieces(const CutList& cuts, int64_t extent, const CoordinateBits& bits);

// A cut by the chunk rule of each piece of those before it. `axis` is -1 if all ranks have all its
// parts.
struct ChunkCut {
  int axis = -1;
  int64_t parts = 1;
};
OwnedPieces owned_pieces(std::span<const ChunkCut> cuts, int64_t extent,
                         const CoordinateBits& bits);

}  // namespace shardproof
