// Implements step_items.h. Example: an all_gather over a of [3, 4] as "a:S(1) b:S(0)" on a=2, b=2.
// It has two items: count 4 on ranks 0 and 2, and count 2 on ranks 1 and 3.
#include "shardproof/engine/lower/step_items.h"

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Drops the rows of other ranks from counts with `n` entries for each rank of a mesh.
void keep_rows_of(const Lanes& lanes, const Lanes& mesh, int64_t n, std::vector<int64_t>& counts) {
  if (lanes == mesh) return;
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const auto row = counts.begin() + mesh.index_of(lanes[i]) * n;
    kept.insert(kept.end(), row, row + n);
  }
  counts = std::move(kept);
}

}  // namespace

std::vector<CallItem> items_of_step(const PlanStep& step, const Lanes& on, ValueId input,
                                    ValueId output) {
  const auto shared = std::make_shared<const PlanStep>(step);
  const Lanes ranks = step.from.mesh().ranks();
  std::vector<CallItem> items;
  for (StepCall& part : lower(step)) {
    const Lanes lanes = part.lanes.intersect(on);
    if (lanes.empty()) continue;
    CallItem& item = items.emplace_back();
    item.lanes = lanes;
    item.input = input;
    item.output = output;
    item.step = shared;
    item.collective = std::move(part.call);
    if (step.kind != StepKind::exchange) continue;
    const int64_t members = item.collective.group.size();
    keep_rows_of(lanes, ranks, members, item.collective.send_counts);
    keep_rows_of(lanes, ranks, members, item.collective.recv_counts);
  }
  SP_CHECK(!items.empty(), "a {} makes no call", name(step.kind));
  return items;
}

}  // namespace shardproof
