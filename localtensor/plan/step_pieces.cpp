// Implements step_pieces.h, and most_pieces, peak_bytes and peak_of of plan.h.
//
// A rank packs a copy of what it sends, unless the call can read it in place. It receives into a
// copy, unless that is the result. In k pieces, a message with sides of l >= s, .. packs ceil(l /
// k) * s * .. elements. So the peak falls with k until k is the longest side. Bisection finds the
// least k.
#include "shardproof/localtensor/plan/step_pieces.h"

#include <algorithm>
#include <map>

#include "shardproof/localtensor/placement/owned_box.h"
#include "shardproof/localtensor/plan/dim_layout.h"
#include "shardproof/localtensor/plan/exchange_schedule.h"
#include "shardproof/localtensor/plan/step_groups.h"
#include "shardproof/localtensor/plan/wire_reduction.h"

namespace shardproof {

namespace {

// The longest side of a message, and the elements of one row along it.
struct Message {
  int64_t longest = 1, row = 1;
  int64_t elements(int64_t pieces) const { return row * ((longest + pieces - 1) / pieces); }
};

Message message_of(const Dims& sides) {
  Message message;
  int64_t all = 1;
  for (const int64_t side : sides) {
    message.longest = std::max(message.longest, side);
    all *= side;
  }
  message.row = all / message.longest;
  return message;
}

Dims common_sides(const std::vector<Runs>& a, const std::vector<Runs>& b) {
  Dims sides;
  for (size_t d = 0; d < a.size(); ++d) sides.push_back(common_length(a[d], b[d]));
  return sides;
}

Dims largest_shard(const Spec& spec) {
  Dims sides;
  for (int dim = 0; dim < spec.shape().size(); ++dim)
    sides.push_back(max_extent(cuts_of_dim(spec, dim), spec.shape()[dim]));
  return sides;
}

Message largest_message(const PlanStep& step) {
  if (step.kind == StepKind::all_to_all) return message_of(largest_common_part(step));
  return message_of(largest_shard(step.kind == StepKind::reduce_scatter ? step.to : step.from));
}

// True if the members' parts, one after another, are the part of `whole` in its order in memory:
// even parts of dim 0, cut last.
bool lies_as_gathered(const PlanStep& step, const Spec& parts, const Spec& whole) {
  if (parts.shape().empty() || !is_even_everywhere(parts)) return false;
  Spec appended = whole;
  for (int axis : step.axes) {
    if (!whole.placement(axis).is_replicate() && !whole.placement(axis).is_partial()) return false;
    appended = appended.with_placement(axis, S(0));
  }
  return appended == parts;
}

// The elements of the packed copies of a step, for the rank that has most of them.
class PackedCopies {
 public:
  explicit PackedCopies(PlanStep step) {
    step.pieces = 1;
    if (step.kind == StepKind::transfer) add_transfer(step);
    if (step.kind == StepKind::exchange) add_exchange(step);
    if (is_padded(step.kind)) add_padded(step);
    most_pieces_ = std::min(most_pieces_, kMaxPieces);
  }

  int64_t most_pieces() const { return most_pieces_; }
  int64_t elements(int64_t pieces) const {
    if (pieces == 1) return whole_;
    int64_t most = copies_ * message_.elements(pieces);
    for (const std::vector<Message>& messages : ranks_) {
      int64_t sum = 0;
      for (const Message& message : messages) sum += message.elements(pieces);
      most = std::max(most, sum);
    }
    return most;
  }

 private:
  static bool is_padded(StepKind kind) {
    return kind != StepKind::local && kind != StepKind::transfer && kind != StepKind::exchange;
  }

  void add_padded(const PlanStep& step) {
    const int64_t members = StepMembers(step).count();
    const bool reduces = step.kind == StepKind::reduce_scatter || step.kind == StepKind::all_reduce;
    const bool scatters =
        step.kind == StepKind::reduce_scatter || step.kind == StepKind::all_to_all;
    const int64_t sent = scatters ? members : 1, received = reduces ? 1 : members;
    message_ = largest_message(step);
    whole_ = ((packs_a_view(step) ? 0 : sent) + (unpacks_a_view(step) ? 0 : received)) *
             message_.elements(1);
    // A piece whose values change after the call is copied once more.
    copies_ = sent + received + (reduces && WireReduction(step).changes_result() ? 1 : 0);
    if (members > 1) most_pieces_ = message_.longest;
  }

  void add_exchange(const PlanStep& step) {
    const auto schedule = exchange_schedule(step);
    const StepMembers members(step);
    const Dims shape = step.from.mesh().shape();
    std::vector<std::vector<Runs>> before, after;  // by position on the mesh
    for (int64_t rank = 0; rank < element_count(shape); ++rank) {
      before.push_back(owned_box(step.from, unravel(rank, shape)));
      after.push_back(owned_box(step.to, unravel(rank, shape)));
    }
    ranks_.resize(before.size());
    for (size_t rank = 0; rank < before.size(); ++rank) {
      const Dims coordinate = unravel(static_cast<int64_t>(rank), shape);
      int64_t packed = 0;
      for (int64_t i = 0; i < members.count(); ++i) {
        const size_t at = rank * static_cast<size_t>(members.count()) + static_cast<size_t>(i);
        const int64_t sent = schedule->sent[at], received = schedule->received[at];
        if (sent == 0 && received == 0) continue;
        const auto other = static_cast<size_t>(ravel(members.of(coordinate, i), shape));
        if (sent > 0) add_message(common_sides(before[rank], after[other]), ranks_[rank]);
        if (received > 0) add_message(common_sides(before[other], after[rank]), ranks_[rank]);
        packed += sent + received;
      }
      whole_ = std::max(whole_, packed);
    }
  }

  void add_message(const Dims& sides, std::vector<Message>& messages) {
    messages.push_back(message_of(sides));
    most_pieces_ = std::max(most_pieces_, messages.back().longest);
  }

  void add_transfer(const PlanStep& step) {
    std::map<int32_t, std::vector<Message>> packed;
    for (const TransferPiece& piece : transfer_pieces(step)) {
      add_message(shape_of_box(piece.runs), packed[piece.from_rank]);
      if (piece.to_rank != piece.from_rank)
        add_message(shape_of_box(piece.runs), packed[piece.to_rank]);
    }
    for (auto& [rank, messages] : packed) {
      int64_t elements = 0;
      for (const Message& message : messages) elements += message.elements(1);
      whole_ = std::max(whole_, elements);
      ranks_.push_back(std::move(messages));
    }
  }

  int64_t copies_ = 0;  // messages that a rank packs and receives, all as large as `message_`
  Message message_;
  std::vector<std::vector<Message>> ranks_;  // exchange, transfer: the messages of each rank
  int64_t whole_ = 0;                        // elements if the step is not cut
  int64_t most_pieces_ = 1;
};

// Returns the bytes of source and target on a rank.
int64_t kept_bytes(const PlanStep& step) {
  const int64_t before = step.from.max_local_elements(), after = step.to.max_local_elements();
  const bool apart = step.kind == StepKind::transfer &&
                     step.from.mesh().ranks().intersect(step.to.mesh().ranks()).empty();
  return (apart ? std::max(before, after) : before + after) * size_of(step.from.dtype());
}

}  // namespace

// Different axes cut different dims, so the largest piece has the largest extent of each dim.
Dims largest_common_part(const PlanStep& step) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : step.from.mesh().axes()) sizes.push_back(axis.size);
  Dims sides;
  for (int dim = 0; dim < step.from.shape().size(); ++dim) {
    DimLayouts layouts(dim, step.from.shape()[dim], sizes);
    const int from = layouts.of_spec(step.from);
    sides.push_back(layouts.piece_extent(from, layouts.of_spec(step.to), mask_of(step.axes)));
  }
  return sides;
}

bool is_even_everywhere(const Spec& spec) {
  for (int dim = 0; dim < spec.shape().size(); ++dim)
    if (!is_even(cuts_of_dim(spec, dim), spec.shape()[dim])) return false;
  return true;
}

bool packs_a_view(const PlanStep& step) {
  if (step.pieces > 1) return false;
  if (step.kind == StepKind::all_gather) return is_even_everywhere(step.from);
  if (WireReduction(step).changes_input()) return false;
  if (step.kind == StepKind::all_reduce) return is_even_everywhere(step.from);
  return step.kind == StepKind::reduce_scatter && lies_as_gathered(step, step.to, step.from);
}

bool unpacks_a_view(const PlanStep& step) {
  if (step.pieces > 1) return false;
  if (step.kind == StepKind::all_gather) return lies_as_gathered(step, step.from, step.to);
  const bool reduces = step.kind == StepKind::reduce_scatter || step.kind == StepKind::all_reduce;
  return reduces && !WireReduction(step).changes_result() && is_even_everywhere(step.to);
}

int64_t longest_side(const std::vector<Runs>& box) {
  int64_t longest = 1;
  for (const Runs& runs : box) longest = std::max(longest, length(runs));
  return longest;
}

std::vector<Runs> rows_of_box(std::vector<Runs> box, int64_t first, int64_t end) {
  const int64_t side = longest_side(box);
  const auto longest =
      std::find_if(box.begin(), box.end(), [&](const Runs& runs) { return length(runs) == side; });
  if (longest == box.end()) return box;
  Runs part;
  int64_t at = 0;  // rows before the run
  for (const Run& run : *longest) {
    const int64_t from = std::max(first - at, int64_t{0}), to = std::min(end - at, run.length);
    if (from < to) part.push_back({run.start + from, to - from});
    at += run.length;
  }
  *longest = std::move(part);
  return box;
}

std::vector<Runs> part_of_box(const PlanStep& step, int64_t piece, std::vector<Runs> box) {
  if (step.pieces == 1) return box;
  const int64_t side = longest_side(box);
  return rows_of_box(std::move(box), piece * side / step.pieces, (piece + 1) * side / step.pieces);
}

int64_t elements_of_fullest_piece(const Dims& sides, int64_t pieces) {
  return message_of(sides).elements(pieces);
}

int64_t largest_padded_elements(const PlanStep& step) {
  return largest_message(step).elements(step.pieces);
}

int64_t most_pieces(const PlanStep& step) { return PackedCopies(step).most_pieces(); }

int64_t peak_bytes(const PlanStep& step) {
  return kept_bytes(step) + PackedCopies(step).elements(step.pieces) * size_of(step.from.dtype());
}

int64_t retained_source_bytes(const Plan& plan, size_t step) {
  const PlanStep& now = plan.steps[step];
  const Lanes here = now.from.mesh().ranks().unite(now.to.mesh().ranks());
  if (step == 0 || here.intersect(plan.from.mesh().ranks()).empty()) return 0;
  return plan.from.max_local_elements() * size_of(plan.from.dtype());
}

int64_t peak_of(const Plan& plan) {
  int64_t peak = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i)
    peak = std::max(peak, peak_bytes(plan.steps[i]) + retained_source_bytes(plan, i));
  return peak;
}

bool cut_to_limit(PlanStep& step, int64_t limit) {
  const int64_t left = limit - kept_bytes(step);
  if (left < 0) return false;
  const PackedCopies copies(step);
  const auto fits = [&](int64_t pieces) {
    return copies.elements(pieces) * size_of(step.from.dtype()) <= left;
  };
  step.pieces = 1;
  if (fits(1)) return true;
  int64_t last = copies.most_pieces();
  if (last == 1 || !fits(last)) return false;
  for (int64_t first = 2; first < last;) {
    const int64_t middle = (first + last) / 2;
    if (fits(middle))
      last = middle;
    else
      first = middle + 1;
  }
  step.pieces = last;
  return true;
}

int64_t least_peak_bytes(const PlanStep& step) {
  const PackedCopies copies(step);
  return kept_bytes(step) + std::min(copies.elements(1), copies.elements(copies.most_pieces())) *
                                size_of(step.from.dtype());
}

}  // namespace shardproof
