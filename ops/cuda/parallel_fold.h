// Folds of long lines with many threads, in the host's order (ops/reduction/fold_order.h). One
// thread folds each of the 16 interleaved partial results of a block, then one thread each block,
// then one thread each line.
#pragma once

#include "shardproof/ops/cuda/launch.h"

namespace shardproof {

inline constexpr int64_t kFoldWays = 16, kFoldBlock = 2048;

// Lines shorter than this are folded by one thread, because three launches would cost more.
inline constexpr int64_t kSharedLine = 128;

// A line consists of runs of elements; a run is folded in pieces, a piece in blocks. The last ones
// may be shorter, or empty.
struct FoldShape {
  int64_t lines, runs, run, piece;

  constexpr int64_t blocks_of_piece() const { return (piece + kFoldBlock - 1) / kFoldBlock; }
  constexpr int64_t pieces_of_run() const { return (run + piece - 1) / piece; }
  constexpr int64_t blocks() const { return runs * pieces_of_run() * blocks_of_piece(); }
  constexpr int64_t ways() const { return lines * blocks() * kFoldWays; }
};

struct FoldBlock {
  int64_t run, start, end;  // run: its number; start, end: elements of the run
  bool ends_piece;

  constexpr bool is_short() const { return end - start < kFoldWays; }
};

constexpr FoldBlock block_of(const FoldShape& shape, int64_t block) {
  const int64_t of_piece = shape.blocks_of_piece(), pieces = shape.pieces_of_run();
  const int64_t piece = block / of_piece % pieces, within = block % of_piece;
  const int64_t start = piece * shape.piece + within * kFoldBlock;
  const int64_t piece_end =
      (piece + 1) * shape.piece < shape.run ? (piece + 1) * shape.piece : shape.run;
  const int64_t end = start + kFoldBlock < piece_end ? start + kFoldBlock : piece_end;
  return {block / of_piece / pieces, start, end < start ? start : end, within + 1 == of_piece};
}

// Folds every kFoldWays-th element of a block, from element `way` on; get(run, i) returns an
// element. Leaves `slot` unchanged if the block ends before `way`.
template <typename V, typename Step, typename Get>
constexpr void fold_way(const FoldBlock& block, int64_t way, Step, const Get& get, V& slot) {
  int64_t i = block.start + way;
  if (i >= block.end) return;
  V value = get(block.run, i);
  for (i += kFoldWays; i < block.end; i += kFoldWays) value = Step::apply(value, get(block.run, i));
  slot = value;
}

// Leaves a block's result in its first slot; a short block stays unchanged.
template <typename V, typename Step>
constexpr void fold_ways(const FoldBlock& block, Step, V* slots) {
  if (block.is_short()) return;
  for (int64_t half = kFoldWays / 2; half > 0; half /= 2)
    for (int64_t j = 0; j < half; ++j) slots[j] = Step::apply(slots[j], slots[j + half]);
}

// Folds all blocks of a line into `target`.
template <typename V, typename Step>
constexpr void fold_blocks(const FoldShape& shape, Step, const V* slots, V& target) {
  const V none = Step::template identity<V>();
  V total = none;
  for (int64_t b = 0; b < shape.blocks(); ++b, slots += kFoldWays) {
    const FoldBlock block = block_of(shape, b);
    const int64_t parts = block.is_short() ? block.end - block.start : 1;
    for (int64_t i = 0; i < parts; ++i) total = Step::apply(total, slots[i]);
    if (!block.ends_piece) continue;
    target = Step::apply(target, total);
    total = none;
  }
}

// Lines of one run each: get(line, i) returns an element. Requires shape.ways() slots.
template <typename V, typename Step, typename Get>
struct LineFold {
  FoldShape shape;
  Get get;
  V *slots, *results;
};

template <typename Fold, typename V, typename Step>
struct FoldWayBody {
  Fold fold;
  constexpr void operator()(int64_t index) const {
    const int64_t at = index / kFoldWays, blocks = fold.shape.blocks();
    const auto get = [&](int64_t, int64_t i) { return fold.get(at / blocks, i); };
    fold_way(block_of(fold.shape, at % blocks), index % kFoldWays, Step(), get, fold.slots[index]);
  }
};
template <typename Fold, typename V, typename Step>
struct FoldWaysBody {
  Fold fold;
  constexpr void operator()(int64_t at) const {
    fold_ways(block_of(fold.shape, at % fold.shape.blocks()), Step(), fold.slots + at * kFoldWays);
  }
};
template <typename Fold, typename V, typename Step>
struct FoldLineBody {
  Fold fold;
  constexpr void operator()(int64_t line) const {
    V result = Step::template identity<V>();
    fold_blocks(fold.shape, Step(), fold.slots + line * fold.shape.blocks() * kFoldWays, result);
    fold.results[line] = result;
  }
};

template <typename Step, typename V, typename Get>
void fold_lines(void* stream, const FoldShape& shape, const Get& get, V* slots, V* results) {
  using Fold = LineFold<V, Step, Get>;
  const Fold fold{shape, get, slots, results};
  launch(stream, shape.ways(), FoldWayBody<Fold, V, Step>{fold});
  launch(stream, shape.ways() / kFoldWays, FoldWaysBody<Fold, V, Step>{fold});
  launch(stream, shape.lines, FoldLineBody<Fold, V, Step>{fold});
}

}  // namespace shardproof
