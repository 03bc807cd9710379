// Implements call_packing.h.
//
// A call that splits a tensor on dim d sends its pieces one after another, so packing moves the
// pieces to the front. Example: [2, 6] split on dim 1 over 3 ranks is read as (pieces 3, 2, 2). A
// call that gathers on dim d receives one piece after another, and unpacking joins them on d.
// Example: 3 pieces of [2, 2] become [2, 6]. On dim 0 both orders are the same and nothing moves.
// Steps of a plan are packed by the planner's own pack() and unpack().
#include "shardproof/engine/execute/call_packing.h"

#include <map>
#include <numeric>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns the rows of these lanes, of counts with a row for each rank of a mesh.
std::vector<int64_t> rows_of(const Lanes& lanes, const Lanes& mesh, int64_t n,
                             const std::vector<int64_t>& counts) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const auto row = counts.begin() + mesh.index_of(lanes[i]) * n;
    rows.insert(rows.end(), row, row + n);
  }
  return rows;
}

// Returns the collective of an item. The pieces of a step differ only in the counts of an exchange.
Collective collective_of_piece(const CallItem& item, int64_t piece) {
  if (!item.step || item.step->kind != StepKind::exchange || item.step->pieces == 1)
    return item.collective;
  Collective call = *largest_call(*item.step, piece);
  call.schedule = item.collective.schedule;
  const Lanes ranks = item.step->from.mesh().ranks();
  const int64_t n = call.group.size();
  call.send_counts = rows_of(item.lanes, ranks, n, call.send_counts);
  call.recv_counts = rows_of(item.lanes, ranks, n, call.recv_counts);
  return call;
}

// Returns a view in which dim `dim` is (pieces, size / pieces), with the pieces as the first dim.
Tensor pieces_first(Tensor tensor, int dim, int64_t pieces) {
  const int64_t stride = tensor.strides[dim];
  tensor.shape[dim] /= pieces;
  tensor.shape.insert(0, pieces);
  tensor.strides.insert(0, stride * tensor.shape[dim + 1]);
  return tensor;
}

// Returns a view of flat pieces, each of shape `piece`, that are joined on `dim`.
Tensor join_pieces(Tensor flat, const Dims& piece, int dim, int64_t pieces) {
  Dims shape = piece;
  Dims strides = contiguous_strides(piece);
  shape.insert(dim, pieces);
  strides.insert(dim, element_count(piece));
  flat.shape = shape;
  flat.strides = strides;
  return flat;
}

bool splits_input(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scatter ||
         kind == CollectiveKind::all_to_all;
}

// Returns the elements of one row of the rank's tensor.
int64_t rows_size(const LocalTensor& input, int64_t rank) {
  const Block* block = input.find(rank);
  SP_CHECK(block, "rank {} holds no rows", rank);
  int64_t size = 1;
  for (int d = 1; d < block->tensor.shape.size(); ++d) size *= block->tensor.shape[d];
  return size;
}

Lanes root_lanes(const Collective& c, const Lanes& on) {
  std::vector<int32_t> roots;
  for (int64_t i = 0; i < on.size(); ++i)
    if (c.group.index_of(on[i]) == c.root) roots.push_back(on[i]);
  return Lanes::of(std::move(roots));
}

// Returns the counts of one rank in an exchange step, one for each member.
std::vector<int64_t> counts_of_rank(const CallItem& item, const std::vector<int64_t>& counts,
                                    int64_t rank) {
  const int64_t n = item.collective.group.size();
  const auto first = counts.begin() + item.lanes.index_of(rank) * n;
  return {first, first + n};
}

// Groups ranks by the elements that they send or receive in an exchange step.
std::vector<FlatOutput> flat_of_exchange(const CallItem& item, const std::vector<int64_t>& counts,
                                         const Lanes& on) {
  std::map<int64_t, std::vector<int32_t>> by_count;
  for (int64_t i = 0; i < on.size(); ++i) {
    const std::vector<int64_t> row = counts_of_rank(item, counts, on[i]);
    by_count[std::accumulate(row.begin(), row.end(), int64_t{0})].push_back(on[i]);
  }
  std::vector<FlatOutput> flat;
  for (auto& [count, ranks] : by_count) flat.push_back({Lanes::of(std::move(ranks)), count});
  return flat;
}

std::vector<FlatOutput> exchange_outputs(const CallItem& item, const LocalTensor& input,
                                         const Lanes& on) {
  std::map<int64_t, std::vector<int32_t>> by_count;
  for (int64_t i = 0; i < on.size(); ++i) {
    int64_t rows = 0;
    for (int64_t r : item.recv_counts[static_cast<size_t>(item.lanes.index_of(on[i]))]) rows += r;
    by_count[rows * rows_size(input, on[i])].push_back(on[i]);
  }
  std::vector<FlatOutput> outputs;
  for (auto& [count, ranks] : by_count) outputs.push_back({Lanes::of(std::move(ranks)), count});
  return outputs;
}

}  // namespace

std::vector<FlatOutput> flat_outputs(const CallItem& item, const LocalTensor& input,
                                     const Lanes& on, int64_t piece) {
  const Collective c = collective_of_piece(item, piece);
  const int64_t n = c.group.size();
  switch (c.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
    case CollectiveKind::all_to_all:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::scatter:
    case CollectiveKind::recv: return {{on, c.count}};
    case CollectiveKind::all_gather: return {{on, n * c.count}};
    case CollectiveKind::reduce:
    case CollectiveKind::gather: {
      const Lanes roots = root_lanes(c, on);
      if (roots.empty()) return {};
      return {{roots, c.kind == CollectiveKind::reduce ? c.count : n * c.count}};
    }
    case CollectiveKind::exchange: return flat_of_exchange(item, c.recv_counts, on);
    case CollectiveKind::all_to_all_v: return exchange_outputs(item, input, on);
    default: return {};
  }
}

Call context_call(const CallItem& item, const LocalTensor& input, const Lanes& on, int64_t piece) {
  Call call;
  call.lanes = on;
  call.collective = collective_of_piece(item, piece);
  const bool exchanges = item.step && item.step->kind == StepKind::exchange;
  if (item.peers.empty() && item.send_counts.empty() && !exchanges) return call;
  for (int64_t i = 0; i < on.size(); ++i) {
    const size_t lane = static_cast<size_t>(item.lanes.index_of(on[i]));
    if (!item.peers.empty()) call.peers.push_back(item.peers[lane]);
    if (exchanges) {
      call.send_counts.push_back(counts_of_rank(item, call.collective.send_counts, on[i]));
      call.recv_counts.push_back(counts_of_rank(item, call.collective.recv_counts, on[i]));
    }
    if (item.send_counts.empty()) continue;
    const int64_t row = rows_size(input, on[i]);
    call.row_elements = i == 0 || row == call.row_elements ? row : 0;
    std::vector<int64_t> send = item.send_counts[lane], recv = item.recv_counts[lane];
    for (int64_t& c : send) c *= row;
    for (int64_t& c : recv) c *= row;
    call.send_counts.push_back(std::move(send));
    call.recv_counts.push_back(std::move(recv));
  }
  return call;
}

LocalTensor flat_input_without_contents(const CallItem& item, const LocalTensor& input,
                                        int64_t piece) {
  std::vector<Block> blocks;
  const Collective c = collective_of_piece(item, piece);
  if (item.step && c.kind == CollectiveKind::exchange) {
    for (const FlatOutput& flat : flat_of_exchange(item, c.send_counts, input.lanes()))
      blocks.push_back(block_without_contents(c.dtype, Dims{flat.count}, flat.lanes));
    return LocalTensor(std::move(blocks));
  }
  for (const Block& block : input.blocks()) {
    int64_t count = block.tensor.elements();
    if (item.step)
      count = c.kind == CollectiveKind::reduce_scatter ? c.group.size() * c.count : c.count;
    blocks.push_back(block_without_contents(block.tensor.dtype, Dims{count}, block.lanes));
  }
  // An execution context expects ranks with equal counts in one block. Padded counts all agree.
  if (item.step && blocks.size() > 1) {
    Block joined =
        block_without_contents(blocks[0].tensor.dtype, blocks[0].tensor.shape, input.lanes());
    blocks.assign(1, std::move(joined));
  }
  return LocalTensor(std::move(blocks));
}

void pack_item(const CallItem& item, const LocalTensor& input, LocalTensor& flat, int64_t piece) {
  for (const Block& block : input.blocks())
    if (!has_contents(block.tensor)) poison(*block.tensor.buffer, block.tensor.dtype);
  if (item.step) return adopt(flat, pack(*item.step, input, piece));
  std::vector<Block> blocks;
  for (const Block& block : input.blocks()) {
    Tensor tensor = block.tensor;
    if (splits_input(item.collective.kind) && item.dim != 0)
      tensor = pieces_first(tensor, item.dim, item.collective.group.size());
    if (!tensor.contiguous()) tensor = contiguous_copy(tensor);
    blocks.push_back({block.lanes, std::move(tensor)});
  }
  adopt(flat, LocalTensor(std::move(blocks)));
}

LocalTensor unpack_item(const CallItem& item, const LocalTensor& flat, const LocalTensor& target) {
  if (item.step) return unpack(*item.step, flat);
  const CollectiveKind kind = item.collective.kind;
  const bool gathers = kind == CollectiveKind::all_gather || kind == CollectiveKind::gather;
  const int dim = gathers ? item.dim : item.dim2;
  if (!(gathers || kind == CollectiveKind::all_to_all) || dim == 0) return flat;
  const int64_t n = item.collective.group.size();
  std::vector<Block> blocks;
  for (const Block& block : target.blocks()) {
    Dims piece = block.tensor.shape;
    piece[dim] /= n;
    const LocalTensor here = flat.restrict_to(block.lanes);
    for (const Block& part : here.blocks())
      blocks.push_back({part.lanes, contiguous_copy(join_pieces(part.tensor, piece, dim, n))});
  }
  return LocalTensor(std::move(blocks));
}

LocalTensor reshaped_as(const LocalTensor& target, const LocalTensor& flat) {
  std::vector<Block> blocks;
  for (const Block& block : target.blocks()) {
    const LocalTensor here = flat.restrict_to(block.lanes);
    for (Block part : here.blocks()) {
      SP_CHECK(part.tensor.elements() == block.tensor.elements(),
               "a call in place returned {} elements for a target of {}", part.tensor.elements(),
               block.tensor.elements());
      part.tensor.shape = block.tensor.shape;
      part.tensor.strides = contiguous_strides(block.tensor.shape);
      blocks.push_back(std::move(part));
    }
  }
  return LocalTensor(std::move(blocks));
}

}  // namespace shardproof
