// Implements lower, pack, unpack and replay of plan.h: a plan step as a collective call.
//
//   step            pack                     call            unpack
//   local           nothing                  none            slices, or makes partials
//   all_gather      the part, padded         all_gather      each member's part to its indices
//   all_to_all      a piece for each member  all_to_all      each member's piece to its indices
//   exchange        a box for each receiver  exchange        each sender's box to its indices
//   reduce_scatter  a piece for each member  reduce_scatter  drops padding, finishes the reduction
//   all_reduce      the part, padded         all_reduce      drops padding, finishes the reduction
//
// The message from member a to member b is the set of indices that a owns before and b owns after
// the step. Fast paths return views: a part that needs no padding is sent in place, and even parts
// of dim 0 are gathered in place. A step in pieces packs a part of each message, and unpack writes
// it to its place in the result (step_pieces.h).
//
// Example: dim of 5 over 2 ranks, S(0) to R. Parts of 3 and 2 are padded to 3. The all_gather
// returns 6 elements, and unpack copies 3 from position 0 and 2 from position 3.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/copy_segments.h"
#include "shardproof/localtensor/placement/owned_box.h"
#include "shardproof/localtensor/placement/shard_cut_list.h"
#include "shardproof/localtensor/plan/exchange_schedule.h"
#include "shardproof/localtensor/plan/remap_lanes.h"
#include "shardproof/localtensor/plan/step_groups.h"
#include "shardproof/localtensor/plan/step_pieces.h"
#include "shardproof/localtensor/plan/wire_reduction.h"
#include "shardproof/localtensor/split/decompose_partial.h"

namespace shardproof {

namespace {

// Copies the indices in both lists; each side is dense over its own indices.
void copy_common(const CopyPlace& place, const std::byte* source, const std::vector<Runs>& from,
                 std::byte* target, const std::vector<Runs>& to, int64_t bytes) {
  std::vector<Segments> segments;
  for (size_t d = 0; d < from.size(); ++d) segments.push_back(common_segments(from[d], to[d]));
  copy_segments(place, source, contiguous_strides(shape_of_box(from)), target,
                contiguous_strides(shape_of_box(to)), segments, bytes);
}

// Returns the value under another shape, or nullopt if a block has another number of elements.
std::optional<LocalTensor> reshaped(const LocalTensor& input, const Dims& shape) {
  std::vector<Block> blocks = input.blocks();
  for (Block& block : blocks) {
    if (block.tensor.elements() != element_count(shape)) return std::nullopt;
    if (!block.tensor.contiguous()) block.tensor = contiguous_copy(block.tensor);
    block.tensor.shape = shape;
    block.tensor.strides = contiguous_strides(shape);
  }
  return LocalTensor(std::move(blocks));
}

RemapKind kind_of_packing(const WireReduction& reduction) {
  return reduction.changes_input() ? RemapKind::computes : RemapKind::moves;
}

// Returns the count of the groups of these lanes; nullopt if they have several.
std::optional<int64_t> common_count(const PaddedCounts& counts, const Mesh& mesh,
                                    const Lanes& lanes) {
  if (counts.axes().empty()) return counts.at(Dims::filled(mesh.axis_count(), 0));
  const int64_t first = counts.at(*mesh.coordinate_of(lanes[0]));
  for (int64_t i = 1; i < lanes.size(); ++i)
    if (counts.at(*mesh.coordinate_of(lanes[i])) != first) return std::nullopt;
  return first;
}

// Packs the whole local part, padded to the elements of `messages` messages.
LocalTensor pack_whole(const PlanStep& step, const LocalTensor& input, int64_t messages,
                       const PaddedCounts& counts) {
  const WireReduction reduction(step);
  if (!reduction.changes_input())
    if (const auto count = common_count(counts, step.from.mesh(), input.lanes()))
      if (auto flat = reshaped(input, {messages * *count})) return *flat;
  const int64_t bytes = size_of(input.dtype());
  return remap_lanes(
      input, step.from.mesh(), counts.axes(),
      [&](const Dims& coordinate) { return Dims{messages * counts.at(coordinate)}; },
      [&](const LaneRemap& from, const Dims& shape, std::byte* out) {
        const int64_t count = shape[0];
        const int64_t elements = from.tensor->elements();
        from.place.copy(out, from.data(), elements * bytes);
        from.place.clear(out + elements * bytes, (count - elements) * bytes);
        reduction.before(out, input.dtype(), elements);
      },
      kind_of_packing(reduction));
}

// Returns the axes of both lists.
std::vector<int> united(std::vector<int> axes, const std::vector<int>& more) {
  for (const int axis : more)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  return axes;
}

// Packs padded messages: for each member, the indices that it will own, or one message of all
// indices.
LocalTensor pack_messages(const PlanStep& step, const LocalTensor& input, int64_t messages,
                          const PaddedCounts& counts, int64_t piece) {
  const StepMembers members(step);
  const WireReduction reduction(step);
  const int64_t bytes = size_of(input.dtype());
  return remap_lanes(
      input, step.from.mesh(), united(step.from.shard_axes(), counts.axes()),
      [&](const Dims& coordinate) { return Dims{messages * counts.at(coordinate)}; },
      [&](const LaneRemap& from, const Dims& shape, std::byte* out) {
        const int64_t total = shape[0], count = total / messages;
        const std::vector<Runs> mine = owned_box(step.from, from.coordinate);
        from.place.clear(out, total * bytes);
        for (int64_t i = 0; i < messages; ++i) {
          std::vector<Runs> sent = mine;
          if (messages > 1)
            sent = common_box(mine, owned_box(step.to, members.of(from.coordinate, i)));
          copy_common(from.place, from.data(), mine, out + i * count * bytes,
                      part_of_box(step, piece, std::move(sent)), bytes);
        }
        reduction.before(out, input.dtype(), total);
      },
      kind_of_packing(reduction));
}

// Returns the axes that decide what a rank sends and receives in an exchange.
std::vector<int> axes_of_exchange(const PlanStep& step) {
  return united(united(step.from.shard_axes(), step.to.shard_axes()), step.axes);
}

// The messages that one rank sends or receives in a piece of an exchange.
class ExchangedBoxes {
 public:
  ExchangedBoxes(const PlanStep& step, int64_t piece, bool sent)
      : step_(step), piece_(piece), sent_(sent), members_(step) {}

  // Calls visit(member, box, elements) for each message of the rank that is not empty.
  template <typename Visit>
  void for_each(const Dims& coordinate, Visit visit) const {
    const std::vector<int64_t>& counts = sent_ ? schedule_->sent : schedule_->received;
    const int64_t first = ravel(coordinate, step_.from.mesh().shape()) * members_.count();
    const std::vector<Runs> mine = owned_box(sent_ ? step_.from : step_.to, coordinate);
    for (int64_t i = 0; i < members_.count(); ++i) {
      if (counts[static_cast<size_t>(first + i)] == 0) continue;
      const Dims other = members_.of(coordinate, i);
      const std::vector<Runs> box = part_of_box(
          step_, piece_, common_box(mine, owned_box(sent_ ? step_.to : step_.from, other)));
      if (const int64_t elements = element_count(shape_of_box(box)); elements > 0)
        visit(i, box, elements);
    }
  }
  // Returns the elements for each member.
  std::vector<int64_t> counts(const Dims& coordinate) const {
    if (step_.pieces == 1) {
      const std::vector<int64_t>& all = sent_ ? schedule_->sent : schedule_->received;
      const auto first =
          all.begin() + ravel(coordinate, step_.from.mesh().shape()) * members_.count();
      return {first, first + members_.count()};
    }
    std::vector<int64_t> counts(static_cast<size_t>(members_.count()), 0);
    for_each(coordinate, [&](int64_t member, const std::vector<Runs>&, int64_t elements) {
      counts[static_cast<size_t>(member)] = elements;
    });
    return counts;
  }
  int64_t elements(const Dims& coordinate) const {
    const std::vector<int64_t> all = counts(coordinate);
    return std::accumulate(all.begin(), all.end(), int64_t{0});
  }

 private:
  const PlanStep& step_;
  int64_t piece_;
  bool sent_;
  StepMembers members_;
  std::shared_ptr<const ExchangeSchedule> schedule_ = exchange_schedule(step_);
};

LocalTensor pack_exchange(const PlanStep& step, const LocalTensor& input, int64_t piece) {
  const ExchangedBoxes boxes(step, piece, true);
  const int64_t bytes = size_of(input.dtype());
  return remap_lanes(
      input, step.from.mesh(), axes_of_exchange(step),
      [&](const Dims& coordinate) { return Dims{boxes.elements(coordinate)}; },
      [&](const LaneRemap& from, const Dims&, std::byte* out) {
        const std::vector<Runs> mine = owned_box(step.from, from.coordinate);
        boxes.for_each(from.coordinate,
                       [&](int64_t, const std::vector<Runs>& box, int64_t elements) {
                         copy_common(from.place, from.data(), mine, out, box, bytes);
                         out += elements * bytes;
                       });
      });
}

// Writes what a rank receives in one piece to its indices in the rank's part of the result.
class PieceWriter {
 public:
  PieceWriter(const PlanStep& step, int64_t piece, DType dtype)
      : step_(step), piece_(piece), dtype_(dtype), bytes_(size_of(dtype)), members_(step) {
    const bool gathers = step.kind == StepKind::all_gather || step.kind == StepKind::all_to_all;
    if (gathers) counts_.emplace(step);
  }

  // Returns the axes that decide where the elements are written.
  std::vector<int> axes() const {
    return step_.kind == StepKind::exchange ? axes_of_exchange(step_) : step_.to.shard_axes();
  }
  RemapKind kind() const {
    return reduction_.changes_result() ? RemapKind::computes : RemapKind::moves;
  }
  // Both addresses are in `place`: that of the host if it computes.
  void write(const CopyPlace& place, const std::byte* received, const Dims& coordinate,
             std::byte* out) const {
    const std::vector<Runs> mine = owned_box(step_.to, coordinate);
    switch (step_.kind) {
      case StepKind::exchange: return write_exchanged(place, received, coordinate, mine, out);
      case StepKind::all_gather:
      case StepKind::all_to_all: return write_gathered(place, received, coordinate, mine, out);
      default: return write_reduced(place, received, mine, out);
    }
  }

 private:
  void write_exchanged(const CopyPlace& place, const std::byte* received, const Dims& coordinate,
                       const std::vector<Runs>& mine, std::byte* out) const {
    ExchangedBoxes(step_, piece_, false)
        .for_each(coordinate, [&](int64_t, const std::vector<Runs>& box, int64_t elements) {
          copy_common(place, received, box, out, mine, bytes_);
          received += elements * bytes_;
        });
  }
  // all_gather: a message is the part that the member owned; all_to_all: its common indices with
  // the receiver.
  void write_gathered(const CopyPlace& place, const std::byte* received, const Dims& coordinate,
                      const std::vector<Runs>& mine, std::byte* out) const {
    const int64_t count = counts_->at(coordinate);
    for (int64_t i = 0; i < members_.count(); ++i) {
      std::vector<Runs> sent = owned_box(step_.from, members_.of(coordinate, i));
      if (step_.kind == StepKind::all_to_all) sent = common_box(sent, mine);
      copy_common(place, received + i * count * bytes_, part_of_box(step_, piece_, std::move(sent)),
                  out, mine, bytes_);
    }
  }
  // Drops the padding, and finishes the reduction.
  void write_reduced(const CopyPlace& place, const std::byte* received,
                     const std::vector<Runs>& mine, std::byte* out) const {
    const std::vector<Runs> box = part_of_box(step_, piece_, mine);
    const int64_t elements = element_count(shape_of_box(box));
    if (!reduction_.changes_result()) return copy_common(place, received, box, out, mine, bytes_);
    std::vector<std::byte> finished(received, received + elements * bytes_);
    reduction_.after(finished.data(), dtype_, elements);
    copy_common(place, finished.data(), box, out, mine, bytes_);
  }

  const PlanStep& step_;
  int64_t piece_;
  DType dtype_;
  int64_t bytes_;
  StepMembers members_;
  WireReduction reduction_{step_};
  std::optional<PaddedCounts> counts_;  // of a call that gathers
};

// Returns the output of the call if it is the result: even parts of dim 0 that were gathered, or a
// reduced part without padding.
std::optional<LocalTensor> unpack_view(const PlanStep& step, const LocalTensor& received) {
  if (!unpacks_a_view(step)) return std::nullopt;
  return reshaped(received, step.to.local_shape_at(Dims::filled(step.to.mesh().axis_count(), 0)));
}

// The axes that become partial, and the ranks that keep the value. For min, max, band, bor and avg
// every rank of an R axis keeps it. For other reductions only the first rank does, and the others
// hold the identity. An S axis becomes P by filling the missing indices with the identity.
struct NewPartials {
  std::vector<int> axes, first_keeps;
  bool fills = false;
  Reduction reduction;

  explicit NewPartials(const PlanStep& step) {
    for (int axis = 0; axis < step.to.mesh().axis_count(); ++axis) {
      const Placement &from = step.from.placement(axis), &to = step.to.placement(axis);
      if (!to.is_partial() || from.is_partial() || step.to.mesh().axis_size(axis) == 1) continue;
      const ReduceOp op = to.partial().reduction.op;
      const bool every_rank_keeps = op == ReduceOp::avg || op == ReduceOp::min ||
                                    op == ReduceOp::max || op == ReduceOp::band ||
                                    op == ReduceOp::bor;
      axes.push_back(axis);
      if (from.is_shard() || !every_rank_keeps) reduction = to.partial().reduction;
      if (from.is_shard())
        fills = true;
      else if (!every_rank_keeps)
        first_keeps.push_back(axis);
    }
  }
  bool is_filled_with_zeros() const { return reduction.op == ReduceOp::sum; }
  bool keeps(const Dims& coordinate) const {
    return std::all_of(first_keeps.begin(), first_keeps.end(),
                       [&](int axis) { return coordinate[axis] == 0; });
  }
};

bool same_cuts(Spec from, Spec to) {
  for (Spec* spec : {&from, &to})
    for (int axis : spec->partial_axes()) *spec = spec->with_placement(axis, R());
  return from.same_ownership(to);
}

// Executes a local step: slices the part, or fills it with the identity where partials are made.
LocalTensor run_locally(const PlanStep& step, const LocalTensor& input) {
  const NewPartials partials(step);
  if (partials.first_keeps.empty() && same_cuts(step.from, step.to)) return input;
  std::vector<int> axes = step.to.shard_axes();
  for (int axis : partials.axes) axes.push_back(axis);
  const int64_t bytes = size_of(input.dtype());
  return remap_lanes(
      input, step.to.mesh(), axes,
      [&](const Dims& coordinate) { return step.to.local_shape_at(coordinate); },
      [&](const LaneRemap& from, const Dims& shape, std::byte* out) {
        const bool keeps = partials.keeps(from.coordinate);
        if (partials.is_filled_with_zeros() && (!keeps || partials.fills)) {
          from.place.clear(out, element_count(shape) * bytes);
        } else if (!keeps || partials.fills) {
          Tensor like = *from.tensor;
          like.shape = shape;
          const Tensor neutral = identity_like(like, partials.reduction);
          if (neutral.elements() > 0)
            std::memcpy(out, neutral.data(), static_cast<size_t>(neutral.elements() * bytes));
        }
        if (keeps)
          copy_common(from.place, from.data(), owned_box(step.from, from.coordinate), out,
                      owned_box(step.to, from.coordinate), bytes);
      },
      partials.is_filled_with_zeros() ? RemapKind::moves : RemapKind::computes);
}

// Sets the counts of an exchange for each rank of the mesh, in ascending order.
void set_counts(const PlanStep& step, int64_t piece, Collective& call) {
  const ExchangedBoxes sent(step, piece, true), received(step, piece, false);
  const Lanes lanes = step.from.mesh().ranks();
  const auto append = [](const std::vector<int64_t>& counts, std::vector<int64_t>& into) {
    into.insert(into.end(), counts.begin(), counts.end());
  };
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const Dims coordinate = *step.from.mesh().coordinate_of(lanes[i]);
    append(sent.counts(coordinate), call.send_counts);
    append(received.counts(coordinate), call.recv_counts);
  }
}

CollectiveKind collective_kind_of(StepKind kind) {
  switch (kind) {
    case StepKind::all_gather: return CollectiveKind::all_gather;
    case StepKind::all_to_all: return CollectiveKind::all_to_all;
    case StepKind::exchange: return CollectiveKind::exchange;
    case StepKind::reduce_scatter: return CollectiveKind::reduce_scatter;
    default: return CollectiveKind::all_reduce;
  }
}

// Returns the number of the block that holds a rank's copy, and the number of the copy.
std::pair<int64_t, int64_t> copy_of(const LocalTensor& value, int64_t rank) {
  for (size_t b = 0; b < value.blocks().size(); ++b) {
    const Block& block = value.blocks()[b];
    if (const int64_t lane = block.lanes.index_of(rank); lane >= 0)
      return {static_cast<int64_t>(b), block.slot(lane)};
  }
  SP_UNREACHABLE("rank {} has received nothing", rank);
}

}  // namespace

std::optional<Collective> largest_call(const PlanStep& step, int64_t piece) {
  if (step.kind == StepKind::local || step.kind == StepKind::transfer) return std::nullopt;
  Collective call;
  call.kind = collective_kind_of(step.kind);
  call.dtype = step.from.dtype();
  call.group = Group::of_axes(step.from.mesh(), step.axes);
  if (step.kind == StepKind::exchange)
    set_counts(step, piece, call);
  else
    call.count = largest_padded_elements(step);
  if (step.kind == StepKind::all_to_all) call.count *= call.group.size();
  if (reduces(call.kind)) call.reduction = WireReduction(step).wire;
  return call;
}

std::vector<StepCall> lower(const PlanStep& step, int64_t piece) {
  const std::optional<Collective> largest = largest_call(step, piece);
  if (!largest) return {};
  const Mesh& mesh = step.from.mesh();
  const Lanes ranks = mesh.ranks();
  if (step.kind == StepKind::exchange) return {{ranks, *largest}};
  const PaddedCounts counts(step);
  std::map<int64_t, std::vector<int32_t>> by_count;
  for (int64_t i = 0; !counts.axes().empty() && i < ranks.size(); ++i)
    by_count[counts.at(*mesh.coordinate_of(ranks[i]))].push_back(ranks[i]);
  std::vector<StepCall> calls;
  const auto add = [&](Lanes lanes, int64_t count) {
    Collective call = *largest;
    call.count = step.kind == StepKind::all_to_all ? count * call.group.size() : count;
    calls.push_back({std::move(lanes), std::move(call)});
  };
  if (by_count.empty()) add(ranks, counts.at(Dims::filled(mesh.axis_count(), 0)));
  for (auto& [count, list] : by_count) add(Lanes::of(std::move(list)), count);
  std::sort(calls.begin(), calls.end(),
            [](const StepCall& a, const StepCall& b) { return a.lanes[0] < b.lanes[0]; });
  return calls;
}

LocalTensor pack(const PlanStep& step, const LocalTensor& input, int64_t piece) {
  SP_CHECK(step.kind != StepKind::transfer, "a transfer is packed piece by piece");
  if (step.kind == StepKind::local) return input;
  if (step.kind == StepKind::exchange) return pack_exchange(step, input, piece);
  const bool scatters = step.kind == StepKind::all_to_all || step.kind == StepKind::reduce_scatter;
  const int64_t messages = scatters ? StepMembers(step).count() : 1;
  const PaddedCounts counts(step);
  const bool one_message =
      !scatters || (step.kind == StepKind::reduce_scatter && packs_a_view(step));
  if (step.pieces == 1 && one_message) return pack_whole(step, input, messages, counts);
  return pack_messages(step, input, messages, counts, piece);
}

LocalTensor unpack(const PlanStep& step, const LocalTensor& received) {
  SP_CHECK(step.kind != StepKind::transfer, "a transfer is unpacked piece by piece");
  if (step.kind == StepKind::local) return run_locally(step, received);
  if (auto view = unpack_view(step, received)) return *view;
  const PieceWriter writer(step, 0, received.dtype());
  return remap_lanes(
      received, step.to.mesh(), writer.axes(),
      [&](const Dims& coordinate) { return step.to.local_shape_at(coordinate); },
      [&](const LaneRemap& from, const Dims&, std::byte* out) {
        writer.write(from.place, from.data(), from.coordinate, out);
      },
      writer.kind());
}

// Writes a further piece into the result. Lanes that share a copy of the result keep sharing it if
// they receive the same piece.
void unpack_more(const PlanStep& step, int64_t piece, const LocalTensor& received,
                 LocalTensor& result) {
  const PieceWriter writer(step, piece, received.dtype());
  const std::vector<int> axes = writer.axes();
  const Mesh& mesh = step.to.mesh();
  for (Block& block : result.blocks()) {
    // For each copy of the result, the copy and the coordinates that decide its contents.
    std::map<int64_t, std::vector<int64_t>> sources;
    bool shares = true;
    for (int64_t lane = 0; lane < block.lanes.size(); ++lane) {
      const auto [from, slot] = copy_of(received, block.lanes[lane]);
      std::vector<int64_t> source = {from, slot};
      for (const int axis : axes) source.push_back((*mesh.coordinate_of(block.lanes[lane]))[axis]);
      shares = shares && sources.try_emplace(block.slot(lane), source).first->second == source;
    }
    if (!shares) separate(*block.tensor.buffer, block.lanes);
    std::set<int64_t> written;
    for (int64_t lane = 0; lane < block.lanes.size(); ++lane) {
      if (!written.insert(block.slot(lane)).second) continue;
      const auto [from, slot] = copy_of(received, block.lanes[lane]);
      const Tensor& source = received.blocks()[static_cast<size_t>(from)].tensor;
      const CopyPlace place =
          writer.kind() == RemapKind::moves ? CopyPlace::of(source) : CopyPlace();
      std::byte* const out = place.write(block.tensor, block.slot(lane));
      writer.write(place, place.read(source, slot), *mesh.coordinate_of(block.lanes[lane]), out);
    }
  }
}

LocalTensor reference(const PlanStep& step, const LocalTensor& packed, int64_t piece) {
  const std::vector<StepCall> calls = lower(step, piece);
  if (calls.empty()) return packed;
  LocalTensor result;
  for (const StepCall& part : calls) {
    LocalTensor given = reference(part.call, packed.restrict_to(part.lanes));
    result = result.empty() ? std::move(given) : result.merged_with(given);
  }
  return result;
}

LocalTensor replay(const Plan& plan, const LocalTensor& input) {
  LocalTensor value = input;
  for (const PlanStep& step : plan.steps) {
    if (step.kind == StepKind::transfer) {
      LocalTensor output = empty_locals(step.to, step.to.mesh().ranks());
      for (int64_t number = 0; number < step.pieces; ++number)
        for (const TransferPiece& piece : transfer_pieces(step, number))
          unpack_piece(step, piece, pack_piece(step, piece, value), output);
      value = std::move(output);
      continue;
    }
    LocalTensor result;
    for (int64_t piece = 0; piece < step.pieces; ++piece) {
      const LocalTensor moved = reference(step, pack(step, value, piece), piece);
      if (piece == 0)
        result = unpack(step, moved);
      else
        unpack_more(step, piece, moved, result);
    }
    value = std::move(result);
  }
  return value;
}

}  // namespace shardproof
