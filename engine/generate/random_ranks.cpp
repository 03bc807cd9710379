// Implements random_ranks.h: draws a mesh and some input tensors; adds steps until the truth has
// the drawn number of lines; declares outputs; adds gradients if requested.
#include "shardproof/engine/generate/random_ranks.h"

#include "shardproof/engine/generate/rank_forms.h"
#include "shardproof/engine/generate/rank_gradient.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

std::string draw_rank_mesh(Draw& draw) {
  return draw.from({"tp=2", "tp=2", "tp=3", "tp=4", "tp=5", "tp=8", "dp=2, tp=2", "dp=2, tp=2",
                    "dp=2, tp=3", "dp=3, tp=2", "dp=2, tp=4", "dp=1, tp=3", "dp=2, cp=2, tp=2"});
}

const RankForm& draw_form(Draw& draw, bool has_gradients) {
  std::vector<const RankForm*> forms;
  double sum = 0;
  for (const RankForm& form : all_rank_forms())
    if (has_gradients || !form.for_gradients) {
      forms.push_back(&form);
      sum += form.weight;
    }
  double at = draw.uniform() * sum;
  for (const RankForm* form : forms)
    if ((at -= form->weight) < 0) return *form;
  return *forms.back();
}

// Returns the size of a dim; if `even`, one that every axis can cut evenly.
int64_t draw_size(Draw& draw, int64_t ranks, bool even) {
  if (!even) return draw.between(2, 13);
  return ranks * draw.between(1, ranks > 4 ? 2 : 3);
}

// Adds matrices of one shape, with placements in which no two axes cut one dim.
void add_inputs(RankDraft& draft, Draw& draw) {
  const bool even = draw.chance(0.75);
  const int64_t rows = draw_size(draw, draft.mesh().size(), even);
  const int64_t columns = draw_size(draw, draft.mesh().size(), even);
  for (int64_t i = draw.between(2, 4); i > 0; --i) {
    std::vector<Placement> placements = draft.replicated();
    const int first = draft.draw_axis();
    const int dim = static_cast<int>(draw.below(2));
    if (draw.chance(0.8)) placements[static_cast<size_t>(first)] = S(dim);
    const int second = draft.draw_axis();
    if (second != first && draw.chance(0.5)) placements[static_cast<size_t>(second)] = S(1 - dim);
    draft.add_tensor(Dims{rows, columns}, draft.dtype(), placements);
  }
}

}  // namespace

bool draw_rank_program(RandomProgram& program, int64_t max_lines, int attempt,
                       const OpRegistry& ops) {
  program.sites.clear();
  program.forms.clear();
  Draw draw(program.seed, fmt::format("ranks {}", attempt));
  RankDraft draft(draw, draw_rank_mesh(draw), program.text.dtype, program.conditioning,
                  program.has_gradients, ops);
  add_inputs(draft, draw);
  const double share = draw.uniform();
  const int64_t limit = share < 0.5 ? 6 : share < 0.85 ? 25 : 120;
  const int64_t lines = draw.between(1, std::min(limit, max_lines));
  // A form may find no value that fits, and a step may be refused.
  for (int64_t tries = 40 * lines; tries > 0 && draft.line_count() < lines; --tries) {
    const RankForm& form = draw_form(draw, program.has_gradients);
    if (draft.is_whole() && !form.whole) continue;
    if (draft.add(form.write(draft))) program.forms.push_back(form.name);
  }
  if (draft.line_count() == 0) return false;
  const std::string sum = program.has_gradients ? add_weighted_result(draft) : "";
  draft.finish(program);
  if (!program.has_gradients) return true;
  return !sum.empty() && add_rank_gradient(program.text, draft, sum, ops);
}

}  // namespace shardproof
