// RankForm: a form of one step of a rank program, such as "column-parallel product". A generator
// draws forms by weight. Each table add_rank_*_forms holds one family of steps and is in
// rank_forms_*.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/rank_draft.h"

namespace shardproof {

struct RankForm {
  std::string name;
  bool whole = false;  // keeps small whole numbers exact
  double weight = 1;
  std::function<RankStep(RankDraft&)> write;  // returns a step; without lines if no value fits
  bool for_gradients = false;                 // in programs that end with gradients only
};

// Each appends the forms of one table.
void add_rank_move_forms(std::vector<RankForm>& forms);
void add_rank_product_forms(std::vector<RankForm>& forms);
void add_rank_norm_forms(std::vector<RankForm>& forms);
void add_rank_training_forms(std::vector<RankForm>& forms);

const std::vector<RankForm>& all_rank_forms();

using Placements = std::vector<Placement>;

// Returns the placements with another one on an axis.
inline Placements with_placement(Placements placements, int axis, const Placement& placement) {
  placements[static_cast<size_t>(axis)] = placement;
  return placements;
}

}  // namespace shardproof
