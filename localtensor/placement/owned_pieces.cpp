// Implements owned_pieces.h. Plain cuts follow the chunk rule, whose pieces nest. For other cuts,
// the runs of all owners are listed and sorted.
#include "shardproof/localtensor/placement/owned_pieces.h"

#include <algorithm>

namespace shardproof {

namespace {

// Appends the pieces of the indices [start, start + extent).
void add_chunks(std::span<const ChunkCut> cuts, int64_t start, int64_t extent, uint64_t owner,
                const CoordinateBits& bits, OwnedPieces& pieces) {
  if (cuts.empty()) return add_piece(pieces, start + extent, owner);
  const ChunkCut& cut = cuts.front();
  const int64_t length = ceil_div(extent, cut.parts), end = start + extent;
  for (int64_t i = 0; start < end; ++i, start += length)
    add_chunks(cuts.subspan(1), start, std::min(length, end - start),
               cut.axis < 0 ? owner : owner | bits.packed(cut.axis, i), bits, pieces);
}

}  // namespace

OwnedPieces owned_pieces(std::span<const ChunkCut> cuts, int64_t extent,
                         const CoordinateBits& bits) {
  OwnedPieces pieces;
  int64_t parts = 1;
  for (const ChunkCut& cut : cuts) parts = std::min(parts * cut.parts, extent);
  pieces.reserve(static_cast<size_t>(parts));
  if (extent > 0) add_chunks(cuts, 0, extent, 0, bits, pieces);
  return pieces;
}

OwnedPieces owned_pieces(const CutList& cuts, int64_t extent, const CoordinateBits& bits) {
  const bool plain = std::all_of(cuts.begin(), cuts.end(), [](const DimCut& cut) {
    return cut.shard.sizes.empty() && cut.shard.split == 1;
  });
  if (plain) {
    std::vector<ChunkCut> chunks;
    for (const DimCut& cut : cuts) chunks.push_back({cut.axis, cut.ranks});
    return owned_pieces(chunks, extent, bits);
  }
  OwnedPieces pieces;
  const std::vector<Runs> runs = owned_runs(cuts, extent);
  for (size_t number = 0; number < runs.size(); ++number) {
    uint64_t owner = 0;
    size_t rest = number;
    for (size_t i = cuts.size(); i-- > 0;) {
      const auto ranks = static_cast<size_t>(cuts[i].ranks);
      owner |= bits.packed(cuts[i].axis, static_cast<int64_t>(rest % ranks));
      rest /= ranks;
    }
    for (const Run& run : runs[number]) pieces.push_back({run.start + run.length, owner});
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const OwnedPiece& a, const OwnedPiece& b) { return a.end < b.end; });
  OwnedPieces joined;
  for (const OwnedPiece& piece : pieces) add_piece(joined, piece.end, piece.owner);
  return joined;
}

}  // namespace shardproof
