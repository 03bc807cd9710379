// Implements the transfer of plan.h: the messages that move a tensor from one mesh to another.
//
//   1. replicas_of: group the ranks of the source by the part that they hold.
//   2. For each receiver and each part: the common indices are one message. The sender is the
//      receiver itself if it holds the part, else the replica that has the least to send so far;
//      equal ones take turns by receiver.
//
// Example: dim of 4, S(0) on "a=2 on 0-1" to R on "b=2 on 2-3": ranks 0 and 1 each send 2 elements
// to ranks 2 and 3, four messages.
#include <algorithm>
#include <map>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/owned_box.h"
#include "shardproof/localtensor/plan/partial_transfer.h"
#include "shardproof/localtensor/plan/step_pieces.h"

namespace shardproof {

namespace {

// One part of the source, and the ranks that hold it in mesh order.
struct Replicas {
  std::vector<Runs> owned;
  std::vector<int32_t> ranks;
};

std::vector<Replicas> replicas_of(const Spec& spec) {
  std::map<std::vector<int64_t>, size_t> number;
  std::vector<Replicas> all;
  const Dims shape = spec.mesh().shape();
  for (int64_t i = 0, n = spec.mesh().size(); i < n; ++i) {
    const Dims coordinate = unravel(i, shape);
    std::vector<int64_t> key;
    for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
      if (spec.placement(axis).is_shard()) key.push_back(coordinate[axis]);
    const auto [found, fresh] = number.try_emplace(key, all.size());
    if (fresh) all.push_back({owned_box(spec, coordinate), {}});
    all[found->second].ranks.push_back(spec.mesh().rank_at(coordinate));
  }
  return all;
}

// Returns the rank that sends the piece, given the elements that each rank sends so far.
int32_t choose_source(const Replicas& replicas, int32_t receiver, int64_t turn,
                      const std::map<int32_t, int64_t>& sent) {
  const std::vector<int32_t>& ranks = replicas.ranks;
  if (std::find(ranks.begin(), ranks.end(), receiver) != ranks.end()) return receiver;
  const auto sent_by = [&](int32_t rank) {
    const auto found = sent.find(rank);
    return found == sent.end() ? 0 : found->second;
  };
  int32_t sender = -1;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int32_t rank = ranks[(static_cast<size_t>(turn) + i) % ranks.size()];
    if (sender < 0 || sent_by(rank) < sent_by(sender)) sender = rank;
  }
  return sender;
}

void copy_between(const Tensor& source, int64_t slot, const std::vector<Runs>& from,
                  std::byte* target, const Dims& target_strides, const std::vector<Runs>& to) {
  std::vector<Segments> segments;
  for (size_t d = 0; d < from.size(); ++d) segments.push_back(common_segments(from[d], to[d]));
  copy_segments(CopyPlace(), source.data(slot), source.strides, target, target_strides, segments,
                size_of(source.dtype));
}

}  // namespace

std::vector<TransferPiece> transfer_pieces(const PlanStep& step, int64_t piece_number) {
  const bool partial = step.from.has_partial() || step.to.has_partial();
  SP_CHECK(!partial || has_same_partials(step.from, step.to), "a transfer moves whole values");
  const std::vector<Replicas> sources = replicas_of(step.from);
  std::vector<TransferPiece> pieces;
  std::map<int32_t, int64_t> sent;
  const Mesh& mesh = step.to.mesh();
  const Dims shape = mesh.shape();
  for (int64_t i = 0, n = mesh.size(); i < n; ++i) {
    const Dims coordinate = unravel(i, shape);
    const int32_t receiver = mesh.rank_at(coordinate);
    const std::vector<Runs> wanted = owned_box(step.to, coordinate);
    for (const Replicas& source : sources) {
      TransferPiece piece{0, receiver, {}, 1};
      for (size_t d = 0; d < wanted.size(); ++d) {
        piece.runs.push_back(common_runs(source.owned[d], wanted[d]));
        piece.elements *= length(piece.runs.back());
      }
      if (piece.elements == 0) continue;
      piece.from_rank = choose_source(source, receiver, i, sent);
      if (piece.from_rank != receiver) sent[piece.from_rank] += piece.elements;
      piece.runs = part_of_box(step, piece_number, std::move(piece.runs));
      piece.elements = element_count(shape_of_box(piece.runs));
      if (piece.elements > 0) pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

Tensor pack_piece(const PlanStep& step, const TransferPiece& piece, const LocalTensor& input) {
  const Block* block = input.find(piece.from_rank);
  SP_CHECK(block != nullptr, "rank {} has nothing to send", piece.from_rank);
  const std::vector<Runs> mine =
      owned_box(step.from, *step.from.mesh().coordinate_of(piece.from_rank));
  Tensor flat = Tensor::empty(step.from.dtype(), {piece.elements}, Lanes::one(piece.from_rank),
                              Slots::shared(1));
  copy_between(block->tensor, block->slot(block->lanes.index_of(piece.from_rank)), mine,
               flat.mutate(), contiguous_strides(shape_of_box(piece.runs)), piece.runs);
  return flat;
}

LocalTensor empty_locals(const Spec& spec, const Lanes& lanes) {
  std::map<Dims, std::vector<int32_t>> ranks_of_shape;
  for (int64_t i = 0; i < lanes.size(); ++i)
    ranks_of_shape[spec.local_shape(lanes[i])].push_back(lanes[i]);
  std::vector<Block> blocks;
  for (auto& [shape, ranks] : ranks_of_shape) {
    const auto count = static_cast<int64_t>(ranks.size());
    const Lanes of_shape = Lanes::of(std::move(ranks));
    blocks.push_back({of_shape, Tensor::empty(spec.dtype(), shape, of_shape, Slots::each(count))});
  }
  return LocalTensor(std::move(blocks));
}

void unpack_piece(const PlanStep& step, const TransferPiece& piece, const Tensor& flat,
                  LocalTensor& output) {
  for (Block& block : output.blocks()) {
    const int64_t lane = block.lanes.index_of(piece.to_rank);
    if (lane < 0) continue;
    Tensor shaped = flat;
    shaped.shape = shape_of_box(piece.runs);
    shaped.strides = contiguous_strides(shaped.shape);
    copy_between(shaped, 0, piece.runs, block.tensor.mutate(block.slot(lane)), block.tensor.strides,
                 owned_box(step.to, *step.to.mesh().coordinate_of(piece.to_rank)));
    return;
  }
  SP_UNREACHABLE("rank {} has nowhere to put what it gets", piece.to_rank);
}

}  // namespace shardproof
