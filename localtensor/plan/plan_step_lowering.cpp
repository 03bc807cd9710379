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
// The piece from member a to member b is the set of indices that a owns before and b owns after the
// step. Fast paths return views: a part that needs no padding is packed as it lies, and even parts
// of dim 0 are gathered as they lie.
//
// Example: dim of 5 over 2 ranks, S(0) to R. Parts of 3 and 2 are padded to 3; the all_gather
// returns 6 elements, and unpack copies 3 from position 0 and 2 from position 3.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/copy_segments.h"
#include "shardproof/localtensor/plan/dim_layout.h"
#include "shardproof/localtensor/plan/exchange_schedule.h"
#include "shardproof/localtensor/plan/owned_box.h"
#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/localtensor/plan/remap_lanes.h"
#include "shardproof/localtensor/plan/step_members.h"
#include "shardproof/localtensor/split/decompose_partial.h"

namespace shardproof {

namespace {

std::vector<int> cutting_axes(const Spec& spec) {
  std::vector<int> axes;
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (spec.placement(axis).is_shard() && spec.mesh().axis_size(axis) > 1) axes.push_back(axis);
  return axes;
}

// Copies the indices in both lists; each side is dense over its own indices.
void copy_common(const std::byte* source, const std::vector<Runs>& from, std::byte* target,
                 const std::vector<Runs>& to, int64_t bytes) {
  std::vector<Segments> segments;
  for (size_t d = 0; d < from.size(); ++d) segments.push_back(common_segments(from[d], to[d]));
  copy_segments(source, contiguous_strides(shape_of_box(from)), target,
                contiguous_strides(shape_of_box(to)), segments, bytes);
}

// Returns the elements of the largest piece that one member sends to another. Different axes cut
// different dims, so the dims multiply.
int64_t piece_elements(const PlanStep& step) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : step.from.mesh().axes()) sizes.push_back(axis.size);
  int64_t piece = 1;
  for (int dim = 0; dim < step.from.shape().size(); ++dim) {
    DimLayouts layouts(dim, step.from.shape()[dim], sizes);
    const int from = layouts.of_spec(step.from);
    piece *= layouts.piece_extent(from, layouts.of_spec(step.to), mask_of(step.axes));
  }
  return piece;
}

int64_t joint_elements(const Spec& spec, const std::vector<int>& axes) {
  int64_t elements = 1;
  for (int dim = 0; dim < spec.shape().size(); ++dim)
    elements *= max_joint_extent(cuts_of_dim(spec, dim), spec.shape()[dim], mask_of(axes));
  return elements;
}

bool is_even_everywhere(const Spec& spec) {
  for (int dim = 0; dim < spec.shape().size(); ++dim)
    if (!is_even(cuts_of_dim(spec, dim), spec.shape()[dim])) return false;
  return true;
}

// True if the members' parts, one after another, are the part of `whole` as it lies in memory: even
// parts of dim 0, cut last.
bool lies_as_gathered(const PlanStep& step, const Spec& parts, const Spec& whole) {
  if (parts.shape().empty() || !is_even_everywhere(parts)) return false;
  Spec appended = whole;
  for (int axis : step.axes) {
    if (!whole.placement(axis).is_replicate() && !whole.placement(axis).is_partial()) return false;
    appended = appended.with_placement(axis, S(0));
  }
  return appended == parts;
}

// Replaces each element x by |x|^exponent: before and, with the inverse exponent, after a norm's
// sum.
void raise_all(std::byte* data, DType dtype, int64_t count, double exponent) {
  const int64_t bytes = size_of(dtype);
  for (int64_t i = 0; i < count; ++i, data += bytes) {
    double size = std::fabs(load_f64(data, dtype));
    if (is_complex(dtype))
      size = std::hypot(size,
                        load_f64(data + bytes / 2, dtype == DType::c64 ? DType::f32 : DType::f64));
    store_f64(data, dtype, std::pow(size, exponent));
  }
}

void divide_all(std::byte* data, DType dtype, int64_t count, int64_t by) {
  if (is_complex(dtype)) {
    dtype = dtype == DType::c64 ? DType::f32 : DType::f64;
    count *= 2;
  }
  const int64_t bytes = size_of(dtype);
  for (int64_t i = 0; i < count; ++i, data += bytes) {
    if (is_integral(dtype))
      store_i64(data, dtype, load_i64(data, dtype) / by);
    else
      store_f64(data, dtype, load_f64(data, dtype) / static_cast<double>(by));
  }
}

// The reduction of the call, and the work before and after it. If sum and avg axes are reduced
// together, the call is a sum, and the result is divided by the sizes of the avg axes.
struct WireReduction {
  Reduction wire;
  double exponent = 0;  // of a norm; 0: no norm
  int64_t divisor = 1;  // product of the sizes of the avg axes, if sum axes take part too

  explicit WireReduction(const PlanStep& step) {
    bool sums = false;
    int64_t averaged = 1;
    for (int axis : step.axes) {
      if (!step.from.placement(axis).is_partial()) continue;
      wire = step.from.placement(axis).partial().reduction;
      if (wire.op == ReduceOp::avg)
        averaged *= step.from.mesh().axis_size(axis);
      else
        sums = true;
    }
    if (sums && averaged > 1) {
      wire = {ReduceOp::sum, 0};
      divisor = averaged;
    } else if (wire.op == ReduceOp::norm) {
      exponent = wire.scalar;
      wire = {ReduceOp::sum, 0};
    }
  }
  bool changes_values() const { return exponent != 0 || divisor != 1; }
  void before(std::byte* data, DType dtype, int64_t count) const {
    if (exponent != 0) raise_all(data, dtype, count, exponent);
  }
  void after(std::byte* data, DType dtype, int64_t count) const {
    if (exponent != 0) raise_all(data, dtype, count, 1 / exponent);
    if (divisor != 1) divide_all(data, dtype, count, divisor);
  }
};

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

void clear_tail(std::byte* data, int64_t from, int64_t to) {
  if (to > from) std::memset(data + from, 0, static_cast<size_t>(to - from));
}

// Packs the whole local part, padded to `count` elements.
LocalTensor pack_whole(const PlanStep& step, const LocalTensor& input, int64_t count) {
  const WireReduction reduction(step);
  if (reduction.exponent == 0)
    if (auto flat = reshaped(input, {count})) return *flat;
  const int64_t bytes = size_of(input.dtype());
  return remap_lanes(
      input, step.from.mesh(), {}, [&](const Dims&) { return Dims{count}; },
      [&](const LaneRemap& from, const Dims&, std::byte* out) {
        const int64_t elements = from.tensor->elements();
        if (elements > 0) std::memcpy(out, from.data(), static_cast<size_t>(elements * bytes));
        clear_tail(out, elements * bytes, count * bytes);
        reduction.before(out, input.dtype(), elements);
      });
}

// Packs, for each member, the indices that it will own, padded to `piece` elements.
LocalTensor pack_pieces(const PlanStep& step, const LocalTensor& input, int64_t piece) {
  const StepMembers members(step);
  const WireReduction reduction(step);
  const int64_t bytes = size_of(input.dtype());
  const int64_t total = members.count() * piece;
  return remap_lanes(
      input, step.from.mesh(), cutting_axes(step.from), [&](const Dims&) { return Dims{total}; },
      [&](const LaneRemap& from, const Dims&, std::byte* out) {
        const std::vector<Runs> mine = owned_box(step.from, from.coordinate);
        clear_tail(out, 0, total * bytes);
        for (int64_t i = 0; i < members.count(); ++i) {
          const std::vector<Runs> theirs = owned_box(step.to, members.of(from.coordinate, i));
          copy_common(from.data(), mine, out + i * piece * bytes, common_box(mine, theirs), bytes);
        }
        reduction.before(out, input.dtype(), total);
      });
}

// Copies each member's piece to its indices. all_gather: a piece is the part that the member owned;
// all_to_all: its common indices with the receiver.
LocalTensor unpack_pieces(const PlanStep& step, const LocalTensor& received, int64_t piece) {
  const StepMembers members(step);
  const int64_t bytes = size_of(received.dtype());
  return remap_lanes(
      received, step.from.mesh(), cutting_axes(step.to),
      [&](const Dims& coordinate) { return step.to.local_shape_at(coordinate); },
      [&](const LaneRemap& from, const Dims&, std::byte* out) {
        const std::vector<Runs> mine = owned_box(step.to, from.coordinate);
        for (int64_t i = 0; i < members.count(); ++i) {
          std::vector<Runs> sent = owned_box(step.from, members.of(from.coordinate, i));
          if (step.kind == StepKind::all_to_all) sent = common_box(sent, mine);
          copy_common(from.data() + i * piece * bytes, sent, out, mine, bytes);
        }
      });
}

// Returns the axes that decide what a rank sends and receives in an exchange.
std::vector<int> axes_of_exchange(const PlanStep& step) {
  std::vector<int> axes = cutting_axes(step.from);
  for (const auto& more : {cutting_axes(step.to), step.axes})
    for (int axis : more)
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  return axes;
}

// Packs the boxes that a rank sends, one after another by member, or unpacks those it receives.
LocalTensor remap_exchange(const PlanStep& step, const LocalTensor& input, bool packs) {
  const auto schedule = exchange_schedule(step);
  const StepMembers members(step);
  const int64_t bytes = size_of(input.dtype()), n = members.count();
  const Mesh& mesh = step.from.mesh();
  const std::vector<int64_t>& counts = packs ? schedule->sent : schedule->received;
  const auto first_count = [&](const Dims& coordinate) {
    return counts.data() + ravel(coordinate, mesh.shape()) * n;
  };
  return remap_lanes(
      input, mesh, axes_of_exchange(step),
      [&](const Dims& coordinate) {
        const int64_t* count = first_count(coordinate);
        return packs ? Dims{std::accumulate(count, count + n, int64_t{0})}
                     : step.to.local_shape_at(coordinate);
      },
      [&](const LaneRemap& from, const Dims&, std::byte* out) {
        const std::byte* data = from.data();
        const int64_t* count = first_count(from.coordinate);
        const std::vector<Runs> mine = owned_box(packs ? step.from : step.to, from.coordinate);
        for (int64_t i = 0; i < n; ++i) {
          if (count[i] == 0) continue;
          const Dims other = members.of(from.coordinate, i);
          const std::vector<Runs> box =
              common_box(mine, owned_box(packs ? step.to : step.from, other));
          copy_common(data, packs ? mine : box, out, packs ? box : mine, bytes);
          if (packs)
            out += count[i] * bytes;
          else
            data += count[i] * bytes;
        }
      });
}

// Drops the padding of a reduced part and finishes the reduction.
LocalTensor unpack_reduced(const PlanStep& step, const LocalTensor& received) {
  const WireReduction reduction(step);
  const Dims first = step.to.local_shape_at(Dims::filled(step.to.mesh().axis_count(), 0));
  if (!reduction.changes_values() && is_even_everywhere(step.to))
    if (auto shaped = reshaped(received, first)) return *shaped;
  const int64_t bytes = size_of(received.dtype());
  return remap_lanes(
      received, step.to.mesh(), cutting_axes(step.to),
      [&](const Dims& coordinate) { return step.to.local_shape_at(coordinate); },
      [&](const LaneRemap& from, const Dims& shape, std::byte* out) {
        const int64_t elements = element_count(shape);
        if (elements > 0) std::memcpy(out, from.data(), static_cast<size_t>(elements * bytes));
        reduction.after(out, received.dtype(), elements);
      });
}

// The axes that become partial, and the ranks that keep the value. For min, max, band, bor and avg
// every rank of an R axis keeps it; for others only the first, and the rest hold the identity. An S
// axis becomes P by filling the missing indices with the identity.
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
  std::vector<int> axes = cutting_axes(step.to);
  for (int axis : partials.axes) axes.push_back(axis);
  const int64_t bytes = size_of(input.dtype());
  return remap_lanes(
      input, step.to.mesh(), axes,
      [&](const Dims& coordinate) { return step.to.local_shape_at(coordinate); },
      [&](const LaneRemap& from, const Dims& shape, std::byte* out) {
        const bool keeps = partials.keeps(from.coordinate);
        if (!keeps || partials.fills) {
          Tensor like = *from.tensor;
          like.shape = shape;
          const Tensor neutral = identity_like(like, partials.reduction);
          if (neutral.elements() > 0)
            std::memcpy(out, neutral.data(), static_cast<size_t>(neutral.elements() * bytes));
        }
        if (keeps)
          copy_common(from.data(), owned_box(step.from, from.coordinate), out,
                      owned_box(step.to, from.coordinate), bytes);
      });
}

// Sets the counts of an exchange for each rank of the mesh, in ascending order. Returns the
// elements that the members of one group receive together, at most.
int64_t set_counts(const PlanStep& step, Collective& call) {
  const auto schedule = exchange_schedule(step);
  const Mesh& mesh = step.from.mesh();
  const Lanes lanes = mesh.ranks();
  const int64_t n = schedule->members;
  std::vector<int64_t> of_group(static_cast<size_t>(call.group.count()), 0);
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const int64_t at = ravel(*mesh.coordinate_of(lanes[i]), mesh.shape()) * n;
    const auto append = [&](const std::vector<int64_t>& counts, std::vector<int64_t>& into) {
      into.insert(into.end(), counts.begin() + at, counts.begin() + at + n);
    };
    append(schedule->sent, call.send_counts);
    append(schedule->received, call.recv_counts);
    of_group[static_cast<size_t>(call.group.sibling_of(lanes[i]))] +=
        std::accumulate(call.recv_counts.end() - n, call.recv_counts.end(), int64_t{0});
  }
  return *std::max_element(of_group.begin(), of_group.end());
}

}  // namespace

LoweredStep lower(const PlanStep& step) {
  LoweredStep lowered;
  if (step.kind == StepKind::local || step.kind == StepKind::transfer) return lowered;
  Collective call;
  call.dtype = step.from.dtype();
  call.group = Group::of_axes(step.from.mesh(), step.axes);
  int64_t whole = 0;
  switch (step.kind) {
    case StepKind::all_gather:
      call.kind = CollectiveKind::all_gather;
      call.count = step.from.max_local_elements();
      whole = joint_elements(step.from, step.axes);
      break;
    case StepKind::all_to_all:
      call.kind = CollectiveKind::all_to_all;
      call.count = piece_elements(step) * call.group.size();
      whole = joint_elements(step.from, step.axes);
      break;
    case StepKind::exchange:
      call.kind = CollectiveKind::exchange;
      whole = set_counts(step, call);
      break;
    case StepKind::reduce_scatter:
      call.kind = CollectiveKind::reduce_scatter;
      call.count = step.to.max_local_elements();
      whole = step.from.max_local_elements();
      break;
    default:
      call.kind = CollectiveKind::all_reduce;
      call.count = step.from.max_local_elements();
      whole = call.count;
  }
  if (reduces(call.kind)) call.reduction = WireReduction(step).wire;
  lowered.whole_bytes = whole * size_of(step.from.dtype());
  lowered.call = std::move(call);
  return lowered;
}

LocalTensor pack(const PlanStep& step, const LocalTensor& input) {
  SP_CHECK(step.kind != StepKind::transfer, "a transfer is packed piece by piece");
  if (step.kind == StepKind::local) return input;
  const StepMembers members(step);
  switch (step.kind) {
    case StepKind::exchange: return remap_exchange(step, input, true);
    case StepKind::all_to_all: return pack_pieces(step, input, piece_elements(step));
    case StepKind::reduce_scatter: {
      const int64_t piece = step.to.max_local_elements();
      if (lies_as_gathered(step, step.to, step.from))
        return pack_whole(step, input, members.count() * piece);
      return pack_pieces(step, input, piece);
    }
    default: return pack_whole(step, input, step.from.max_local_elements());
  }
}

LocalTensor unpack(const PlanStep& step, const LocalTensor& received) {
  SP_CHECK(step.kind != StepKind::transfer, "a transfer is unpacked piece by piece");
  switch (step.kind) {
    case StepKind::local: return run_locally(step, received);
    case StepKind::exchange: return remap_exchange(step, received, false);
    case StepKind::all_to_all: return unpack_pieces(step, received, piece_elements(step));
    case StepKind::all_gather: {
      const Dims first = step.to.local_shape_at(Dims::filled(step.to.mesh().axis_count(), 0));
      if (lies_as_gathered(step, step.from, step.to))
        if (auto shaped = reshaped(received, first)) return *shaped;
      return unpack_pieces(step, received, step.from.max_local_elements());
    }
    default: return unpack_reduced(step, received);
  }
}

LocalTensor replay(const Plan& plan, const LocalTensor& input) {
  LocalTensor value = input;
  for (const PlanStep& step : plan.steps) {
    if (step.kind == StepKind::transfer) {
      LocalTensor output = empty_locals(step.to);
      for (const TransferPiece& piece : transfer_pieces(step))
        unpack_piece(step, piece, pack_piece(step, piece, value), output);
      value = std::move(output);
      continue;
    }
    LocalTensor packed = pack(step, value);
    const LoweredStep lowered = lower(step);
    value = unpack(step, lowered.call ? reference(*lowered.call, packed) : packed);
  }
  return value;
}

}  // namespace shardproof
