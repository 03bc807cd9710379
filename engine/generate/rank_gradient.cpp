// Implements rank_gradient.h. The same sum is differentiated in both listings, because the gradient
// of a value is placed as the value (rank_draft.h).
#include "shardproof/engine/generate/rank_gradient.h"

#include "shardproof/engine/generate/add_gradient.h"
#include "shardproof/engine/generate/forms/draw_placements.h"
#include "shardproof/engine/generate/forms/gradient_line.h"
#include "shardproof/engine/generate/forms/one_device.h"
#include "shardproof/engine/generate/numerical_gradient.h"

namespace shardproof {
namespace {

constexpr size_t kMostRankInputs = 6;
constexpr double kStoppedShare = 0.2;  // of drawn sums that depend on a stopped value

}  // namespace

std::string add_weighted_result(RankDraft& draft) {
  const RankValue* y = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.is_finite && draft.is_result(v.name);
  });
  if (y == nullptr) return "";
  const RankValue from = *y;
  const std::string t = draft.add_finite_tensor(from.shape, from.placements);
  const std::string z = draft.fresh();
  const std::string line = fmt::format("{} = {} * {}", z, from.name, t);
  return draft.add({{line}, {line}, {{z, from.placements}}}) ? z : "";
}

bool add_rank_gradient(ProgramText& text, RankDraft& draft, const std::string& z,
                       const OpRegistry& ops) {
  const GlobalProgram truth = lower_one_device(job_of(text), ops);
  if (depends_on_stop(truth, truth.names.at(z)) && !draft.draw().chance(kStoppedShare))
    return false;
  const std::vector<std::string> inputs =
      draw_gradient_inputs(text, z, kMostRankInputs, draft.draw(), ops);
  if (inputs.empty()) return false;
  GradientLine line = gradient_line(z, inputs);
  text.truth.push_back(to_string(line));
  Lines sums;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const RankValue& tensor = draft.at(inputs[i]);
    text.outputs.emplace_back(line.targets[i], all_axes_text(draft.mesh(), tensor.placements));
    if (tensor.summed_over.empty()) continue;
    const std::string part = "p" + inputs[i];
    sums.push_back(fmt::format("{} = all_reduce({}, sum, group={})", line.targets[i], part,
                               tensor.summed_over));
    line.targets[i] = part;
  }
  text.ranks.push_back(to_string(line));
  text.ranks.insert(text.ranks.end(), sums.begin(), sums.end());
  return true;
}

}  // namespace shardproof
