// Gradients at the end of a generated rank program and of its truth.
#pragma once

#include "shardproof/engine/generate/rank_draft.h"

namespace shardproof {

// Adds the step "z = y * t", with a drawn result y and a new tensor t, and returns z. Returns "" if
// no result suits.
std::string add_weighted_result(RankDraft& draft);

// Appends "gx, gw = grad(sum(z), [x, w])" to the truth and to the ranks, with the gradients as
// outputs with the placements of their tensors. If the ranks hold parts of a gradient, it appends
//
//   gx, pw = grad(sum(z), [x, w])
//   gw = all_reduce(pw, sum, group=dp)
//
// to the ranks. Requires a finished program. Returns false if z depends on none of the drawn
// tensors. Mostly returns false if z depends on a value that stops gradients, because differences
// do not check it.
bool add_rank_gradient(ProgramText& text, RankDraft& draft, const std::string& z,
                       const OpRegistry& ops);

}  // namespace shardproof
