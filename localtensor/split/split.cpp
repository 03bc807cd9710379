// Implements split.h.
//
// split:
//   1. partial_parts: decompose the value over the P axes (decompose_partial.h); one part for each
//      coordinate of these axes.
//   2. PieceTable: group the ranks by local shape. Ranks of one shape whose coordinates on S and P
//      axes agree share a stored copy.
//   3. make_piece: copy each stored copy from its part by segments. If the copies in order are the
//      contents in their order, the piece shares the contents instead.
//
// Two usual cases are faster: replicas on all axes share the contents, and equal parts of one dim
// over one axis are one strided copy.
//
// assemble reverses this: assemble_where collects the pieces of one coordinate of the P axes, then
// reduce_all folds over each P axis, in mesh order.
//
// Example of 3: f32[4] as S(0) over 2 ranks: copies 0-1 and 2-3 follow each other in memory, so
// split copies nothing.
#include <algorithm>
#include <cmath>
#include <map>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/localtensor/placement/copy_segments.h"
#include "shardproof/localtensor/split/decompose_partial.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/localtensor/tensor/copy_strided.h"

namespace shardproof {

namespace {

// Numbers the coordinates on some axes, row-major.
class AxisNumber {
 public:
  AxisNumber(const Mesh& mesh, std::vector<int> axes) : axes_(std::move(axes)) {
    for (int axis : axes_) {
      sizes_.push_back(mesh.axis_size(axis));
      count_ *= sizes_.back();
    }
  }
  int64_t count() const { return count_; }
  int64_t of(const Dims& coordinate) const {
    int64_t number = 0;
    for (size_t i = 0; i < axes_.size(); ++i) number = number * sizes_[i] + coordinate[axes_[i]];
    return number;
  }

 private:
  std::vector<int> axes_;
  std::vector<int64_t> sizes_;
  int64_t count_ = 1;
};

std::vector<Segments> segments_of(const Spec& spec, const Dims& coordinate,
                                  Segments (*convert)(const Runs&)) {
  std::vector<Segments> by_dim;
  by_dim.reserve(static_cast<size_t>(spec.shape().size()));
  for (int dim = 0; dim < spec.shape().size(); ++dim) {
    const int64_t size = spec.shape()[dim];
    const bool is_cut = std::any_of(spec.placements().begin(), spec.placements().end(),
                                    [&](const Placement& p) { return p.is_shard(dim); });
    if (is_cut || size == 0)
      by_dim.push_back(convert(spec.owned_at(coordinate, dim)));
    else
      by_dim.push_back({{0, 0, size}});
  }
  return by_dim;
}

// Returns the parts reduced over each partial axis, in mesh order.
Tensor reduce_partials(std::vector<Tensor> parts, const Spec& spec) {
  for (const int axis : spec.partial_axes()) {
    const auto n = static_cast<size_t>(spec.mesh().axis_size(axis));
    const size_t rest = parts.size() / n;
    std::vector<Tensor> fewer;
    for (size_t i = 0; i < rest; ++i) {
      std::vector<Tensor> inputs;
      for (size_t j = 0; j < n; ++j) inputs.push_back(parts[j * rest + i]);
      fewer.push_back(n == 1 ? inputs[0]
                             : reduce_all(spec.placement(axis).partial().reduction, inputs));
    }
    parts = std::move(fewer);
  }
  return parts[0];
}

// Returns x without the bits of its significand beyond the first `bits`.
double leading_bits(double x, int bits) {
  int exponent = 0;
  const double significand = std::frexp(x, &exponent);
  return std::ldexp(std::trunc(std::ldexp(significand, bits)), exponent - bits);
}

// The parts of one element by coordinate of the partial axes, so that no sum over an axis rounds.
// The last axis, which is reduced last, holds pieces with few bits, whose sum is the value (times
// its size for an average). Along each other axis the ranks hold copies of a piece (average), or
// one rank holds it (sum).
//
// Example: 0.3 in bf16 (154 * 2^-9) over a=3, c=3, both averages: 3 * 154 is 462. The pieces of c
// are 448, 14 and 0, each of 6 bits at most. The three copies of 448 over a add up to 1344 exactly.
class FewBits {
 public:
  FewBits(const Spec& spec, DType dtype) : spec_(spec), dtype_(dtype), axes_(spec.partial_axes()) {
    for (size_t k = 0; k + 1 < axes_.size(); ++k) {
      if (!is_average(k)) continue;
      int bits = 0;
      while (int64_t{1} << bits < size(k)) ++bits;
      spare_bits_ = std::max(spare_bits_, bits);
    }
  }

  void write(double x, const std::vector<std::byte*>& parts) const {
    const size_t last = axes_.size() - 1;
    const int64_t n = size(last);
    std::byte sum[sizeof(double)];
    store_f64(sum, dtype_, is_average(last) ? x * static_cast<double>(n) : x);
    double rest = load_f64(sum, dtype_);
    const int bits = std::max(1, precision_bits(dtype_) - spare_bits_);
    for (int64_t j = 0; j < n; ++j) {
      const double piece = j + 1 == n ? rest : leading_bits(rest, bits);
      rest -= piece;
      for (size_t i = static_cast<size_t>(j); i < parts.size(); i += static_cast<size_t>(n))
        store_f64(parts[i], dtype_, is_counted(i / static_cast<size_t>(n)) ? piece : 0);
    }
  }

 private:
  int64_t size(size_t k) const { return spec_.mesh().axis_size(axes_[k]); }
  bool is_average(size_t k) const {
    return spec_.placement(axes_[k]).partial().reduction.op == ReduceOp::avg;
  }
  // True if the coordinate on all axes but the last, given by its number, is 0 on axes that add.
  bool is_counted(size_t number) const {
    for (size_t k = axes_.size() - 1; k-- > 0;) {
      const auto n = static_cast<size_t>(size(k));
      if (!is_average(k) && number % n != 0) return false;
      number /= n;
    }
    return true;
  }

  const Spec& spec_;
  DType dtype_;
  std::vector<int> axes_;
  int spare_bits_ = 0;  // bits that a sum of copies over one axis needs
};

// Replaces the parts of the elements that do not reduce to their value exactly. An average over 3
// in the dtype itself does not reach every value; such an element gets the nearest one.
void replace_inexact_parts(const Tensor& global, const Spec& spec, std::vector<Tensor>& parts) {
  const Tensor whole = global.contiguous() ? global : contiguous_copy(global);
  std::vector<Tensor> orders = {contiguous_copy(reduce_partials(parts, spec))};
  const std::vector<int> axes = spec.partial_axes();
  const auto averages = [&](int axis) {
    return spec.placement(axis).partial().reduction.op == ReduceOp::avg;
  };
  if (std::all_of(axes.begin(), axes.end(), averages))  // one call over all axes
    orders.push_back(contiguous_copy(reduce_all(Reduction{ReduceOp::avg}, parts)));
  const DType dtype = component_dtype(spec.dtype());
  const int64_t bytes = size_of(dtype), count = whole.elements() * (size_of(spec.dtype()) / bytes);
  const FewBits few_bits(spec, dtype);
  for (int64_t i = 0; i < count; ++i) {
    const double wanted = load_f64(whole.data() + i * bytes, dtype);
    const bool exact = std::all_of(orders.begin(), orders.end(), [&](const Tensor& made) {
      return load_f64(made.data() + i * bytes, dtype) == wanted;
    });
    if (exact || !std::isfinite(wanted)) continue;
    std::vector<std::byte*> at;
    for (Tensor& part : parts) at.push_back(part.mutate() + i * bytes);
    few_bits.write(wanted, at);
  }
}

// Returns the parts for all coordinates of the partial axes, row-major in mesh order. Assembling
// reduces the first axis first, so it is decomposed last.
std::vector<Tensor> partial_parts(const Tensor& global, const Spec& spec, PartialFill fill,
                                  uint64_t seed) {
  std::vector<Tensor> parts = {global.contiguous() ? global : contiguous_copy(global)};
  const std::vector<int> axes = spec.partial_axes();
  int64_t unit = 1, shares = 1;
  for (const int axis : axes) shares *= spec.mesh().axis_size(axis);
  if (axes.size() > 1) shares *= 2 * static_cast<int64_t>(axes.size());  // parts are split again
  for (size_t k = axes.size(); k-- > 0;) {
    const int64_t n = spec.mesh().axis_size(axes[k]);
    const Reduction& reduction = spec.placement(axes[k]).partial().reduction;
    std::vector<Tensor> finer(parts.size() * static_cast<size_t>(n));
    for (size_t i = 0; i < parts.size(); ++i) {
      const uint64_t own_seed = seed * 0x9e3779b97f4a7c15u + k * 1000003u + i;
      std::vector<Tensor> cut = decompose(parts[i], reduction, n, fill, own_seed, unit, shares);
      for (size_t j = 0; j < cut.size(); ++j) finer[j * parts.size() + i] = std::move(cut[j]);
    }
    parts = std::move(finer);
    if (reduction.op == ReduceOp::avg && n > 1) unit *= n;
  }
  if (unit > 1 && axes.size() > 1 && (is_floating(spec.dtype()) || is_complex(spec.dtype())))
    replace_inexact_parts(global, spec, parts);
  return parts;
}

// The lanes of one local shape and, for each stored copy, the coordinate of a rank that reads it.
struct Piece {
  std::vector<int32_t> ranks, slot_of_lane;
  std::vector<Dims> coordinate_of_slot;
};

class PieceTable {
 public:
  explicit PieceTable(const Spec& spec)
      : spec_(spec),
        shards_(spec.mesh(), spec.shard_axes()),
        partials_(spec.mesh(), spec.partial_axes()),
        copies_(static_cast<size_t>(shards_.count() * partials_.count())) {}

  void add(int32_t rank) {
    const Dims coordinate = *spec_.mesh().coordinate_of(rank);
    const int64_t number = shards_.of(coordinate) * partials_.count() + partials_.of(coordinate);
    StoredCopy& copy = copies_[static_cast<size_t>(number)];
    if (copy.piece == nullptr) {
      copy.piece = &pieces_[spec_.local_shape_at(coordinate)];
      copy.slot = static_cast<int32_t>(copy.piece->coordinate_of_slot.size());
      copy.piece->coordinate_of_slot.push_back(coordinate);
    }
    copy.piece->ranks.push_back(rank);
    copy.piece->slot_of_lane.push_back(copy.slot);
  }

  std::map<Dims, Piece>& pieces() { return pieces_; }
  const AxisNumber& partials() const { return partials_; }

 private:
  struct StoredCopy {
    Piece* piece = nullptr;
    int32_t slot = 0;
  };
  const Spec& spec_;
  AxisNumber shards_, partials_;
  std::vector<StoredCopy> copies_;  // by number on the S and P axes
  std::map<Dims, Piece> pieces_;
};

// Returns the first element of a part in the dense global tensor if it is one run there, else -1.
int64_t start_of_run(const std::vector<Segments>& by_dim, const Tensor& global) {
  int64_t start = 0;
  bool inner_is_whole = true;
  for (int dim = global.shape.size(); dim-- > 0;) {
    const Segments& segments = by_dim[static_cast<size_t>(dim)];
    if (segments.size() != 1) return -1;
    if (!inner_is_whole && segments[0].length != 1) return -1;
    inner_is_whole = inner_is_whole && segments[0].length == global.shape[dim];
    start += segments[0].from * global.strides[dim];
  }
  return start;
}

// True if the buffer holds the elements in their order and nothing else.
bool is_buffer(const Tensor& tensor) {
  return tensor.contiguous() && tensor.offset == 0 &&
         tensor.buffer->bytes.size() == tensor.elements() * size_of(tensor.dtype);
}

// True if the copies, one after the other, are the contents in their order in memory.
bool lies_as_cut(const std::vector<std::vector<Segments>>& copies, const Tensor& global,
                 int64_t elements) {
  if (static_cast<int64_t>(copies.size()) * elements != global.elements() || !is_buffer(global))
    return false;
  for (size_t i = 0; i < copies.size(); ++i)
    if (start_of_run(copies[i], global) != static_cast<int64_t>(i) * elements) return false;
  return true;
}

// Returns the axis that cuts a dim into equal parts, one for each coordinate, if all others are R;
// -1 for other specs.
int evenly_cutting_axis(const Spec& spec) {
  const std::vector<int> axes = spec.shard_axes();
  if (axes.size() != 1 || spec.has_partial()) return -1;
  const Shard& cut = spec.placement(axes[0]).shard();
  const int64_t size = spec.shape()[cut.dim], parts = spec.mesh().axis_size(axes[0]);
  return cut.split == 1 && cut.sizes.empty() && size > 0 && parts > 1 && size % parts == 0 ? axes[0]
                                                                                           : -1;
}

// Returns the bytes of equal parts along `dim`, one after the other. If the parts lie so in the
// tensor, returns its bytes, else a copy with the parts as a dim of their own.
Bytes equal_parts(const Tensor& global, int dim, int64_t parts) {
  const bool is_first = std::all_of(global.shape.begin(), global.shape.begin() + dim,
                                    [](int64_t size) { return size == 1; });
  if (is_first && is_buffer(global)) return global.buffer->bytes;
  Dims shape = global.shape, from = global.strides;
  shape[dim] /= parts;
  Dims to = contiguous_strides(shape);
  const int64_t elements = element_count(shape);
  from.insert(0, shape[dim] * from[dim]);
  shape.insert(0, parts);
  to.insert(0, elements);
  Bytes bytes = Bytes::uninitialized(global.elements() * size_of(global.dtype));
  copy_strided(global.data(), from, bytes.mutate(), to, shape, size_of(global.dtype));
  return bytes;
}

Tensor make_piece(const Spec& spec, const std::vector<Tensor>& parts, const AxisNumber& partials,
                  const Dims& shape, Piece& piece) {
  Slots slots = Slots::shared(static_cast<int64_t>(piece.ranks.size()));
  if (piece.coordinate_of_slot.size() > 1) slots = Slots::table(std::move(piece.slot_of_lane));
  Tensor out = Tensor::without_contents(spec.dtype(), shape, Lanes::of(std::move(piece.ranks)));
  Buffer& buffer = *out.buffer;
  buffer.slots = slots;
  std::vector<std::vector<Segments>> copies;
  for (const Dims& coordinate : piece.coordinate_of_slot)
    copies.push_back(segments_of(spec, coordinate, gather_segments));
  if (parts.size() == 1 && lies_as_cut(copies, parts[0], out.elements())) {
    buffer.bytes = parts[0].buffer->bytes;
    return out;
  }
  buffer.bytes = Bytes::uninitialized(slots.count() * buffer.bytes_per_lane);
  for (size_t slot = 0; slot < copies.size(); ++slot) {
    const Tensor& part = parts[static_cast<size_t>(partials.of(piece.coordinate_of_slot[slot]))];
    copy_segments(CopyPlace(), part.data(), part.strides, out.mutate(static_cast<int64_t>(slot)),
                  out.strides, copies[slot], size_of(spec.dtype()));
  }
  return out;
}

// Returns the tensor that all ranks of the mesh hold, with the contents of the global one.
LocalTensor replicas(const Tensor& global, const Spec& spec) {
  const Lanes lanes = spec.mesh().ranks();
  Tensor out = Tensor::without_contents(spec.dtype(), global.shape, lanes);
  out.buffer->slots = Slots::shared(lanes.size());
  out.buffer->bytes = (is_buffer(global) ? global : contiguous_copy(global)).buffer->bytes;
  return LocalTensor(Block{lanes, std::move(out)});
}

LocalTensor split_evenly(const Tensor& global, const Spec& spec, int axis) {
  const Mesh& mesh = spec.mesh();
  const Lanes lanes = mesh.ranks();
  const int dim = spec.placement(axis).shard().dim;
  Dims shape = global.shape;
  shape[dim] /= mesh.axis_size(axis);
  std::vector<int32_t> part_of_lane(static_cast<size_t>(lanes.size()));
  for (int64_t i = 0; i < lanes.size(); ++i)
    part_of_lane[static_cast<size_t>(i)] =
        static_cast<int32_t>((*mesh.coordinate_of(lanes[i]))[axis]);
  Tensor out = Tensor::without_contents(spec.dtype(), shape, lanes);
  out.buffer->slots = Slots::table(std::move(part_of_lane));
  out.buffer->bytes = equal_parts(global, dim, mesh.axis_size(axis));
  return LocalTensor(Block{lanes, std::move(out)});
}

Tensor assemble_where(const LocalTensor& locals, const Spec& spec, const AxisNumber& partials,
                      int64_t part) {
  Tensor out = Tensor::empty(spec.dtype(), spec.shape());
  const AxisNumber shards(spec.mesh(), spec.shard_axes());
  std::vector<bool> done(static_cast<size_t>(shards.count()), false);
  std::byte* const target = out.mutate();
  int64_t covered = 0;
  for (const Block& block : locals.blocks()) {
    for (int64_t lane = 0; lane < block.lanes.size(); ++lane) {
      const auto coordinate = spec.mesh().coordinate_of(block.lanes[lane]);
      if (!coordinate || partials.of(*coordinate) != part) continue;
      const auto number = static_cast<size_t>(shards.of(*coordinate));
      if (done[number]) continue;
      done[number] = true;
      const Dims local = spec.local_shape_at(*coordinate);
      SP_CHECK(local == block.tensor.shape, "rank {} holds {}, {} needs {}", block.lanes[lane],
               to_string(block.tensor.shape), to_string(spec), to_string(local));
      covered += element_count(local);
      copy_segments(CopyPlace(), block.tensor.data(block.slot(lane)), block.tensor.strides, target,
                    out.strides, segments_of(spec, *coordinate, scatter_segments),
                    size_of(spec.dtype()));
    }
  }
  SP_CHECK(covered == out.elements(), "only {} of {} elements of {} are covered", covered,
           out.elements(), to_string(spec));
  return out;
}

}  // namespace

LocalTensor split(const Tensor& global, const Spec& spec, PartialFill fill, uint64_t seed) {
  SP_CHECK(global.shape == spec.shape() && global.dtype == spec.dtype(), "{} is cut as {}",
           to_string(global.shape), to_string(spec));
  if (spec.shard_axes().empty() && !spec.has_partial()) return replicas(global, spec);
  if (const int axis = evenly_cutting_axis(spec); axis >= 0)
    return split_evenly(global, spec, axis);
  const std::vector<Tensor> parts = partial_parts(global, spec, fill, seed);
  PieceTable table(spec);
  const Lanes lanes = spec.mesh().ranks();
  for (int64_t i = 0; i < lanes.size(); ++i) table.add(lanes[i]);
  std::vector<Block> blocks;
  for (auto& [shape, piece] : table.pieces()) {
    Tensor tensor = make_piece(spec, parts, table.partials(), shape, piece);
    blocks.push_back({tensor.buffer->lanes, std::move(tensor)});
  }
  return LocalTensor(std::move(blocks));
}

Tensor assemble(const LocalTensor& locals, const Spec& spec) {
  const std::vector<int> axes = spec.partial_axes();
  const AxisNumber partials(spec.mesh(), axes);
  std::vector<Tensor> parts;
  for (int64_t part = 0; part < partials.count(); ++part)
    parts.push_back(assemble_where(locals, spec, partials, part));
  return reduce_partials(std::move(parts), spec);
}

}  // namespace shardproof
