// Registers halo_windows: the input windows of a convolution over a sharded dim. Each rank needs
// its own entries and some of its neighbours'. The neighbours' entries come as `strips`, the
// entries `index` of the dim. The op builds one window per rank from both.
//
// Example: 8 entries on 2 ranks, kernel of 3, no padding: 6 outputs, 3 per rank. Rank 0 reads
// entries 0-4 and rank 1 reads 3-7, so `starts` is [0, 3], `length` 5, and `index` [3, 4].
#include <algorithm>
#include <cstring>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

// Windows of one length along dim; entries outside the dim are 0. `from` is the global index of the
// first local entry, `size` the number of entries in all.
struct Halo {
  int dim = 0;
  int64_t from = 0, size = 0, length = 0;
  std::vector<int64_t> starts, index;
};

Halo halo_of(const OpCall& call) {
  const Attrs& attrs = *call.attrs;
  Halo halo;
  halo.dim = dim_of("halo_windows", call, attrs.integer("dim"));
  halo.from = attrs.integer("from");
  halo.length = attrs.integer("length");
  halo.starts = integer_list(attrs, "starts");
  halo.index = integer_list(attrs, "index");
  const int64_t here = input_shape(call, 0)[halo.dim];
  halo.size = attrs.has("size") ? attrs.integer("size") : here;
  return halo;
}

// Throws Error(bad_input) if a window needs an entry that is neither local nor in a strip.
void check_halo_windows(const OpCall& call, const std::vector<const Number*>&) {
  const Halo halo = halo_of(call);
  const int64_t here = input_shape(call, 0)[halo.dim], most = int64_t{1} << 40;
  if (halo.length < 0 || halo.length > most || halo.from < 0 || halo.from > most)
    refuse("halo_windows", call, "length and from must be from 0 to 2^40");
  for (const int64_t start : halo.starts) {
    if (start > most || start < -most)
      refuse("halo_windows", call, "starts must be from -2^40 to 2^40, found {}", start);
    const int64_t end = std::min(start + halo.length, halo.size);
    for (int64_t at = std::max<int64_t>(start, 0); at < end; ++at) {
      if (at >= halo.from && at < halo.from + here) at = halo.from + here;
      if (at < end && !std::binary_search(halo.index.begin(), halo.index.end(), at))
        refuse("halo_windows", call,
               "a window needs entry {}, which is neither in the input nor in the strips", at);
    }
  }
}

std::vector<TensorMeta> infer_halo_windows(const OpCall& call) {
  const Halo halo = halo_of(call);
  const DType dtype = same_dtype("halo_windows", call, {0, 1});
  Dims strips = input_shape(call, 0), shape = strips;
  strips[halo.dim] = static_cast<int64_t>(halo.index.size());
  if (!(input_shape(call, 1) == strips))
    refuse("halo_windows", call, "the strips must have shape {}", to_string(strips));
  shape[halo.dim] = halo.length;
  shape.insert(0, static_cast<int64_t>(halo.starts.size()));
  return {{dtype, shape}};
}

// Layout of the sharded dim: `outer` slices, each with `bytes` for one index of the dim. `here` is
// the number of indices that this rank holds.
struct SliceRows {
  int64_t outer = 1, bytes = 0, here = 0;
};

void put_window(const Halo& halo, const SliceRows& rows, int64_t start, const LaneCall& lane,
                std::byte* out) {
  const auto strips = static_cast<int64_t>(halo.index.size());
  for (int64_t o = 0; o < rows.outer; ++o)
    for (int64_t i = 0; i < halo.length; ++i, out += rows.bytes) {
      const int64_t at = start + i, own = at - halo.from;
      if (at < 0 || at >= halo.size) {
        std::memset(out, 0, static_cast<size_t>(rows.bytes));
        continue;
      }
      const std::byte* source = nullptr;
      if (own >= 0 && own < rows.here) {
        source = lane.inputs[0] + (o * rows.here + own) * rows.bytes;
      } else {
        const auto found = std::lower_bound(halo.index.begin(), halo.index.end(), at);
        source = lane.inputs[1] + (o * strips + (found - halo.index.begin())) * rows.bytes;
      }
      std::memcpy(out, source, static_cast<size_t>(rows.bytes));
    }
}

Kernel prepare_halo_windows(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const Halo halo = halo_of(call);
  const Dims& shape = input_shape(call, 0);
  const DType dtype = outputs[0].dtype;
  SliceRows rows{1, size_of(dtype), shape[halo.dim]};
  for (int d = 0; d < halo.dim; ++d) rows.outer *= shape[d];
  for (int d = halo.dim + 1; d < shape.size(); ++d) rows.bytes *= shape[d];
  LanePlan plan{{dtype, dtype}, {dtype}, 0, {}};
  plan.body = [halo, rows](const LaneCall& lane) {
    std::byte* out = lane.outputs[0];
    for (const int64_t start : halo.starts) {
      put_window(halo, rows, start, lane, out);
      out += rows.outer * halo.length * rows.bytes;
    }
  };
  return lane_kernel(plan, call, outputs);
}

// Returns the axis that shards dim with one run per rank; -1 if none does, -2 for any other
// sharding.
int cutting_axis(const Spec& spec, int dim) {
  const std::vector<int> axes = spec.axes_of_dim(dim);
  if (axes.empty()) return -1;
  const Shard& cut = spec.placement(axes[0]).shard();
  return axes.size() == 1 && cut.split == 1 ? axes[0] : -2;
}

std::optional<std::vector<Spec>> halo_windows_joint(const OpCall& call,
                                                    const std::vector<TensorMeta>& outputs,
                                                    const std::vector<Spec>& inputs) {
  const Halo halo = halo_of(call);
  const Spec &x = inputs[0], &strips = inputs[1];
  const int axis = cutting_axis(x, halo.dim);
  if (axis == -2) return std::nullopt;
  if (axis >= 0 && x.mesh().axis_size(axis) != static_cast<int64_t>(halo.starts.size()))
    return std::nullopt;
  std::vector<Placement> placements;
  for (int a = 0; a < x.mesh().axis_count(); ++a) {
    const Placement& here = x.placement(a);
    // Every rank adds the zeros outside the dim, so they must reduce to themselves.
    const bool passes = !here.is_partial() || here == P(ReduceOp::sum) || here == P(ReduceOp::avg);
    if (!passes || !(strips.placement(a) == (a == axis ? R() : here))) return std::nullopt;
    placements.push_back(here);
    if (a == axis)
      placements.back() = S(0);
    else if (here.is_shard())
      placements.back() = Shard{here.shard().dim + 1, here.shard().split, here.shard().sizes};
  }
  return std::vector<Spec>{
      Spec(x.mesh(), placements, outputs[0].shape, outputs[0].dtype, x.order())};
}

Attrs halo_windows_local_attrs(const OpCall& call, const std::vector<Spec>& inputs, int64_t rank) {
  const Halo halo = halo_of(call);
  Attrs attrs = *call.attrs;
  attrs.set("size", inputs[0].shape()[halo.dim]);
  const int axis = cutting_axis(inputs[0], halo.dim);
  if (axis < 0) return attrs;
  const auto at = static_cast<size_t>((*inputs[0].mesh().coordinate_of(rank))[axis]);
  const Runs own = inputs[0].owned(rank, halo.dim);
  attrs.set("from", own.empty() ? 0 : own.front().start);
  attrs.set("starts", std::vector<int64_t>{halo.starts[at]});
  return attrs;
}

}  // namespace

void add_halo_ops(OpRegistry& ops) {
  OpRecord halo;
  halo.name = "halo_windows";
  halo.differentiable = Differentiable::no;
  halo.family = "conv";
  halo.summary = "windows of a dim that begin at starts, with the entries `index` in strips";
  halo.params = {params::tensor("input"),    params::tensor("strips"),
                 params::integer("dim"),     params::integers("starts"),
                 params::integer("length"),  params::integers("index"),
                 params::integer("from", 0), params::optional("size", ParamKind::integer)};
  halo.check = check_halo_windows;
  halo.infer = infer_halo_windows;
  halo.prepare = prepare_halo_windows;
  halo.rule.strategies = [](const OpCall&, const std::vector<TensorMeta>&, int64_t) {
    return std::vector<Strategy>{};
  };
  halo.rule.joint = halo_windows_joint;
  halo.rule.joint_form = LocalExecution::local_attrs;
  halo.rule.local_attrs = [](const OpCall& call, const std::vector<Spec>& inputs,
                             const std::vector<Spec>&,
                             int64_t rank) { return halo_windows_local_attrs(call, inputs, rank); };
  // On one device no strip is read, so any values would do; sharded runs need the entries
  // themselves.
  halo.samples = [] {
    const Attrs all{{"dim", int64_t{1}},
                    {"starts", std::vector<int64_t>{-1, 2}},
                    {"length", int64_t{4}},
                    {"index", std::vector<int64_t>{0, 1, 2, 3, 4}}};
    return std::vector<Sample>{
        sample_of({{{3, 5, 2}, {3, 5, 2}}, DType::f32, {"iota", "iota"}}, all)};
  };
  ops.add(std::move(halo));
}

}  // namespace shardproof
