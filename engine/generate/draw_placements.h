// Random meshes and placements: replicated, cut evenly, unevenly or with empty shards, strided, and
// partial.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/draw.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

// 1 to 3 axes, 2 to 12 ranks: "dp=2, tp=3".
std::string draw_mesh(Draw& draw);

// Every axis by name: "dp:S(0) tp:R". One placement an axis.
std::string all_axes_text(const Mesh& mesh, const std::vector<Placement>& placements);

// Which placements an axis may get.
enum class PlacementChoice : uint8_t {
  cut,      // R or S by the chunk rule
  any_cut,  // R or S, with explicit sizes and strided cuts
  any,      // P too
};
// Placements that are legal for a tensor of this shape and dtype.
std::vector<Placement> draw_placements(Draw& draw, const Mesh& mesh, const Dims& shape, DType dtype,
                                       PlacementChoice choice);
// The spec, if it is legal.
std::optional<Spec> legal_spec(const Mesh& mesh, const std::vector<Placement>& placements,
                               const Dims& shape, DType dtype);

}  // namespace shardproof
