// Implements enumerate.h.
#include "shardproof/engine/check_ops/enumerate.h"

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

std::vector<Placement> of_one_axis(const TensorMeta& meta, const EnumerateOptions& options) {
  std::vector<Placement> list = {R()};
  if (meta.absent || meta.weak) return list;
  for (int dim = 0; dim < meta.shape.size(); ++dim) {
    list.push_back(S(dim));
    // A strided cut of fewer than 3 elements is a plain one.
    if (options.strided && meta.shape[dim] > 2) list.push_back(S(dim, 2));
  }
  if (!options.partials) return list;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::min,
                            ReduceOp::max, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor})
    if (is_reduction_allowed(op, meta.dtype)) list.push_back(P(op));
  return list;
}

}  // namespace

std::vector<Spec> all_placements(const TensorMeta& meta, const Mesh& mesh,
                                 const EnumerateOptions& options) {
  const std::vector<Placement> choices = of_one_axis(meta, options);
  const Dims shape = meta.absent ? Dims{} : meta.shape;
  std::vector<Spec> specs;
  std::vector<size_t> pick(static_cast<size_t>(mesh.axis_count()), 0);
  while (true) {
    std::vector<Placement> placements;
    for (const size_t choice : pick) placements.push_back(choices[choice]);
    try {
      specs.emplace_back(mesh, std::move(placements), shape, meta.dtype);
    } catch (const Error&) {
      // Two kinds of partials.
    }
    size_t axis = 0;
    for (; axis < pick.size(); ++axis) {
      if (++pick[axis] < choices.size()) break;
      pick[axis] = 0;
    }
    if (axis == pick.size()) return specs;
  }
}

}  // namespace shardproof
