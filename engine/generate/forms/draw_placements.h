// Draws random meshes and placements: replicated, partial, and cut evenly, unevenly, with empty
// shards or strided.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/draw.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

// Returns a mesh of 1 to 3 axes and 2 to 12 ranks: "dp=2, tp=3".
std::string draw_mesh(Draw& draw);

// Returns the text with every axis by name: "dp:S(0) tp:R". Requires one placement for each axis.
std::string all_axes_text(const Mesh& mesh, const std::vector<Placement>& placements);

// The placements that an axis may get.
enum class PlacementChoice : uint8_t {
  cut,      // R or S by the chunk rule
  any_cut,  // R or S, with explicit sizes and strided cuts
  any,      // also P
};
// Returns placements that are legal for a tensor of this shape and dtype.
std::vector<Placement> draw_placements(Draw& draw, const Mesh& mesh, const Dims& shape, DType dtype,
                                       PlacementChoice choice);
// Returns the spec; nullopt if it is not legal.
std::optional<Spec> legal_spec(const Mesh& mesh, const std::vector<Placement>& placements,
                               const Dims& shape, DType dtype);

}  // namespace shardproof
