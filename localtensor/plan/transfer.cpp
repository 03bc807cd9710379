// Implements transfer.h, and transfer_pieces of plan.h: the messages that move a tensor from one
// mesh to another.
//
//   1. replicas_of: group the ranks of the source by the part that they hold.
//   2. whole_boxes: for each receiver and each part, the common indices. A receiver that holds the
//      part copies them from itself. Otherwise the sender is the rank with the least to send so far
//      among those that hold the part (least_loaded). Among equal ones it changes from receiver to
//      receiver.
//   3. share_evenly: if one sender of a part then sends over 1.1 times the mean, cut the boxes so
//      that all holders of the part send the same. The elements of all boxes are numbered in one
//      sequence. Each sender has one range of numbers, rounded to whole rows of a box (McNaughton's
//      wrap-around rule, Management Science 6, 1959).
//
// Example 1: dim of 4, S(0) on "a=2 on 0-1" to R on "b=2 on 2-3". Ranks 0 and 1 each send 2
// elements to ranks 2 and 3: four messages.
// Example 2: f32[600], R on "a=3 on 0-2" to "b=1 on 3". Each of ranks 0, 1 and 2 sends 200
// elements.
#include "shardproof/localtensor/plan/transfer.h"

#include <algorithm>
#include <map>
#include <optional>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/owned_box.h"
#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/localtensor/plan/step_pieces.h"

namespace shardproof {

namespace {

// A shared part of a box has this many bytes or more. A smaller message saves no time: it is less
// than the smallest packet of InfiniBand (MTU 256).
constexpr int64_t kLeastBytesOfShare = 256;

// One part of the source, and the ranks that hold it in mesh order.
struct Replicas {
  std::vector<Runs> owned;
  std::vector<int32_t> ranks;
  bool has(int32_t rank) const {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
};

// A message and the part that it is from.
struct TransferMessage {
  TransferPiece piece;
  size_t part = 0;
  bool is_copy() const { return piece.from_rank == piece.to_rank; }
};

using Loads = std::map<int32_t, int64_t>;  // elements to send, by sender

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

int32_t least_loaded(const std::vector<int32_t>& ranks, int64_t turn, const Loads& loads) {
  const auto load_of = [&](int32_t rank) {
    const auto found = loads.find(rank);
    return found == loads.end() ? 0 : found->second;
  };
  int32_t sender = -1;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int32_t rank = ranks[(static_cast<size_t>(turn) + i) % ranks.size()];
    if (sender < 0 || load_of(rank) < load_of(sender)) sender = rank;
  }
  return sender;
}

// Returns one message for each receiver and part, with senders chosen box by box.
std::vector<TransferMessage> whole_boxes(const Spec& to, const std::vector<Replicas>& parts,
                                         Loads& loads) {
  std::vector<TransferMessage> messages;
  for (int64_t i = 0, n = to.mesh().size(); i < n; ++i) {
    const Dims coordinate = unravel(i, to.mesh().shape());
    const int32_t receiver = to.mesh().rank_at(coordinate);
    const std::vector<Runs> wanted = owned_box(to, coordinate);
    for (size_t part = 0; part < parts.size(); ++part) {
      TransferPiece piece{receiver, receiver, common_box(parts[part].owned, wanted), 0};
      piece.elements = element_count(shape_of_box(piece.runs));
      if (piece.elements == 0) continue;
      if (!parts[part].has(receiver)) {
        piece.from_rank = least_loaded(parts[part].ranks, i, loads);
        loads[piece.from_rank] += piece.elements;
      }
      messages.push_back({std::move(piece), part});
    }
  }
  return messages;
}

// The elements that are sent of a part, and by how many ranks they are to be sent.
struct Share {
  int64_t elements = 0, senders = 1;
  // Returns the sender of the element with this number.
  int64_t sender_at(int64_t at) const { return at * senders / elements; }
  // Returns the end of a sender's range of numbers.
  int64_t end_of(int64_t sender) const { return (sender + 1) * elements / senders; }
};

// Appends the box, whose first element has the number `begin`, cut where the sender changes.
void add_cut(const TransferMessage& box, int64_t begin, const Share& share, const Replicas& part,
             std::vector<TransferMessage>& out) {
  const int64_t side = longest_side(box.piece.runs), row = box.piece.elements / side;
  int64_t done = 0;  // rows
  for (int64_t sender = share.sender_at(begin); done < side; ++sender) {
    const bool is_last = sender + 1 >= share.senders;
    const int64_t end =
        is_last ? side : std::min(side, (share.end_of(sender) - begin + row / 2) / row);
    if (end <= done) continue;
    TransferMessage cut = box;
    cut.piece.from_rank = part.ranks[static_cast<size_t>(sender)];
    cut.piece.runs = rows_of_box(std::move(cut.piece.runs), done, end);
    cut.piece.elements = (end - done) * row;
    out.push_back(std::move(cut));
    done = end;
  }
}

// Returns the messages with the boxes of a part cut, or as they are if no sender gets less to do.
std::vector<TransferMessage> with_shared(const std::vector<TransferMessage>& messages, size_t part,
                                         const Share& share, const Replicas& replicas,
                                         int64_t fullest) {
  std::vector<TransferMessage> out;
  Loads loads;
  int64_t begin = 0;
  for (const TransferMessage& message : messages) {
    if (message.part != part || message.is_copy()) {
      out.push_back(message);
      continue;
    }
    const size_t first = out.size();
    add_cut(message, begin, share, replicas, out);
    for (size_t i = first; i < out.size(); ++i)
      loads[out[i].piece.from_rank] += out[i].piece.elements;
    begin += message.piece.elements;
  }
  const bool is_better = std::all_of(loads.begin(), loads.end(),
                                     [&](const auto& load) { return load.second < fullest; });
  return is_better ? out : messages;
}

// Cuts the boxes of each part whose senders have unequal loads.
std::vector<TransferMessage> share_evenly(const PlanStep& step, const std::vector<Replicas>& parts,
                                          const Loads& loads,
                                          std::vector<TransferMessage> messages) {
  for (size_t part = 0; part < parts.size(); ++part) {
    Share share;
    int64_t fullest = 0;
    for (const int32_t rank : parts[part].ranks) {
      const auto load = loads.find(rank);
      if (load == loads.end()) continue;
      share.elements += load->second;
      fullest = std::max(fullest, load->second);
    }
    const int64_t most = share.elements * size_of(step.from.dtype()) / kLeastBytesOfShare;
    share.senders = std::clamp<int64_t>(most, 1, static_cast<int64_t>(parts[part].ranks.size()));
    if (10 * fullest * share.senders > 11 * share.elements)
      messages = with_shared(messages, part, share, parts[part], fullest);
  }
  return messages;
}

std::vector<int> adding_axes(const Spec& spec) {
  std::vector<int> axes;
  for (int axis : spec.partial_axes())
    if (spec.mesh().axis_size(axis) > 1) axes.push_back(axis);
  return axes;
}

// Returns the reduction of all partials of a spec; nullopt if there are none or several.
std::optional<Reduction> only_reduction(const Spec& spec) {
  std::optional<Reduction> only;
  for (int axis : adding_axes(spec)) {
    const Reduction& reduction = spec.placement(axis).partial().reduction;
    if (only && *only != reduction) return std::nullopt;
    only = reduction;
  }
  return only;
}

// Returns, for each rank, the least rank of those whose partials add up with its own.
std::map<int32_t, int32_t> first_of_sum(const Spec& spec) {
  const Dims shape = spec.mesh().shape();
  std::map<std::vector<int64_t>, int32_t> least;
  std::map<int32_t, std::vector<int64_t>> sums;
  for (int64_t i = 0; i < spec.mesh().size(); ++i) {
    Dims coordinate = unravel(i, shape);
    const int32_t rank = spec.mesh().rank_at(coordinate);
    for (int axis : adding_axes(spec)) coordinate[axis] = 0;
    const std::vector<int64_t> sum(coordinate.begin(), coordinate.end());
    const auto [known, fresh] = least.try_emplace(sum, rank);
    known->second = std::min(known->second, rank);
    sums[rank] = sum;
  }
  std::map<int32_t, int32_t> first;
  for (const auto& [rank, sum] : sums) first[rank] = least.at(sum);
  return first;
}

}  // namespace

bool has_same_partials(const Spec& from, const Spec& to) {
  const Lanes ranks = from.mesh().ranks();
  if (!(ranks == to.mesh().ranks())) return false;
  const std::optional<Reduction> before = only_reduction(from), after = only_reduction(to);
  if (!before || !after || *before != *after) return false;
  if (first_of_sum(from) != first_of_sum(to)) return false;
  for (int64_t i = 0; i < ranks.size(); ++i)
    if (owned_box(from, *from.mesh().coordinate_of(ranks[i])) !=
        owned_box(to, *to.mesh().coordinate_of(ranks[i])))
      return false;
  return true;
}

double least_price_across(const Spec& from, const Spec& to) {
  const auto adds = [&](int axis) { return from.mesh().axis_size(axis) > 1; };
  const std::vector<int> partial = from.partial_axes();
  if (to.has_partial() || std::none_of(partial.begin(), partial.end(), adds)) return 0;
  int64_t elements = 0;
  for (int64_t i = 0; i < to.mesh().size(); ++i)
    elements += element_count(to.local_shape(to.mesh().ranks()[i]));
  const int64_t ranks = std::max(from.mesh().size(), to.mesh().size());
  return static_cast<double>(elements * size_of(to.dtype()) / ranks + kBytesOfCall);
}

std::vector<TransferPiece> transfer_pieces(const PlanStep& step, int64_t piece_number) {
  const bool partial = step.from.has_partial() || step.to.has_partial();
  SP_CHECK(!partial || has_same_partials(step.from, step.to), "a transfer moves whole values");
  const std::vector<Replicas> parts = replicas_of(step.from);
  Loads loads;
  std::vector<TransferMessage> messages = whole_boxes(step.to, parts, loads);
  std::vector<TransferPiece> pieces;
  for (TransferMessage& message : share_evenly(step, parts, loads, std::move(messages))) {
    TransferPiece& piece = message.piece;
    piece.runs = part_of_box(step, piece_number, std::move(piece.runs));
    piece.elements = element_count(shape_of_box(piece.runs));
    if (piece.elements > 0) pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace shardproof
