// Implements draw_placements.h. Placements are drawn axis by axis. If the result is not legal, it
// is drawn again; after kPlacementAttempts the tensor is replicated.
#include "shardproof/engine/generate/forms/draw_placements.h"

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kPlacementAttempts = 6;  // draws that do not fit, then R
// Shares of a tensor's axes. Few tensors are partial on most axes.
constexpr double kPartialAxes = 0.15, kMorePartialAxes = 0.7, kCutAxes = 0.55;
constexpr double kMorePartialTensors = 0.15;

Placement draw_cut(Draw& draw, const Dims& shape, int64_t ranks, bool any) {
  const int dim = static_cast<int>(draw.below(static_cast<int64_t>(shape.size())));
  const int64_t kind = any ? draw.below(6) : 5;
  if (kind == 0) return S(dim, 2);
  if (kind > 1) return S(dim);
  Shard shard{dim, 1, {}};
  int64_t rest = shape[static_cast<size_t>(dim)];
  for (int64_t i = 0; i + 1 < ranks; ++i) {
    shard.sizes.push_back(draw.below(rest + 1));
    rest -= shard.sizes.back();
  }
  shard.sizes.push_back(rest);
  return shard;
}

Placement draw_partial(Draw& draw, DType dtype) {
  const ReduceOp op = draw.from({ReduceOp::sum, ReduceOp::sum, ReduceOp::avg, ReduceOp::max});
  if (op == ReduceOp::avg && !is_floating(dtype)) return P();  // an average of integers rounds
  if (op == ReduceOp::max && is_complex(dtype)) return P();
  return P(op);
}

}  // namespace

std::string draw_mesh(Draw& draw) {
  return draw.from({"tp=2", "tp=2", "tp=3", "tp=4", "tp=5", "tp=8", "tp=12", "dp=2, tp=2",
                    "dp=2, tp=2", "dp=2, tp=3", "dp=3, tp=2", "dp=2, tp=4", "dp=3, tp=4",
                    "dp=1, tp=4", "dp=2, cp=2, tp=2", "dp=2, cp=1, tp=3", "dp=2, cp=2, tp=3"});
}

std::string all_axes_text(const Mesh& mesh, const std::vector<Placement>& placements) {
  std::string text;
  for (size_t i = 0; i < placements.size(); ++i)
    text +=
        fmt::format("{}{}:{}", i == 0 ? "" : " ", mesh.axes()[i].name, to_string(placements[i]));
  return text;
}

std::optional<Spec> legal_spec(const Mesh& mesh, const std::vector<Placement>& placements,
                               const Dims& shape, DType dtype) {
  try {
    return Spec(mesh, placements, shape, dtype);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<Placement> draw_placements(Draw& draw, const Mesh& mesh, const Dims& shape, DType dtype,
                                       PlacementChoice choice) {
  const bool may_be_partial = choice == PlacementChoice::any && dtype != DType::boolean;
  const bool may_be_cut = shape.size() > 0;
  const bool more = may_be_partial && draw.uniform() < kMorePartialTensors;
  const double partial = more ? kMorePartialAxes : kPartialAxes;
  for (int attempt = 0; attempt < kPlacementAttempts; ++attempt) {
    std::vector<Placement> placements;
    for (const MeshAxis& axis : mesh.axes()) {
      const double kind = draw.uniform();
      if (may_be_partial && kind < partial)
        placements.push_back(draw_partial(draw, dtype));
      else if (may_be_cut && kind < partial + kCutAxes)
        placements.push_back(draw_cut(draw, shape, axis.size, choice != PlacementChoice::cut));
      else
        placements.push_back(R());
    }
    if (legal_spec(mesh, placements, shape, dtype)) return placements;
  }
  return std::vector<Placement>(mesh.axes().size(), R());
}

}  // namespace shardproof
