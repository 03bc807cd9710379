// Implements plan_price.h. The groups of a step make their calls at the same time, so a step takes
// as long as its longest call. A transfer takes as long as the rank that sends or receives longest.
#include "shardproof/sim/cost/plan_price.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace shardproof {
namespace {

// Returns the time of one piece of a transfer: of the rank that sends or receives longest.
Duration time_of_messages(const PlanStep& step, int64_t piece_number, const CostModel& cost) {
  std::map<int32_t, Duration> sending, receiving;
  Duration longest;
  for (const TransferPiece& piece : transfer_pieces(step, piece_number)) {
    if (piece.from_rank == piece.to_rank) continue;
    const Duration time = cost.messages(1, piece.elements * size_of(step.from.dtype()));
    longest = std::max(longest, sending[piece.from_rank] += time);
    longest = std::max(longest, receiving[piece.to_rank] += time);
  }
  return longest;
}

Duration time_of_longest(const std::vector<StepCall>& calls, const CostModel& cost) {
  Duration longest;
  for (const StepCall& part : calls) longest = std::max(longest, time_of_call(cost, part.call));
  return longest;
}

// Returns the time of the calls of the groups with the largest count.
Duration priced_time(const PlanStep& step, const CostModel& cost) {
  if (step.kind == StepKind::exchange || step.kind == StepKind::transfer)
    return time_of_calls(step, cost);
  const std::optional<Collective> call = largest_call(step);
  return call ? time_of_call(cost, *call) * step.pieces : Duration{};
}

}  // namespace

Duration time_of_calls(const PlanStep& step, const CostModel& cost) {
  Duration time;
  for (int64_t piece = 0; piece < step.pieces; ++piece)
    if (step.kind == StepKind::transfer)
      time += time_of_messages(step, piece, cost);
    else
      time += time_of_longest(lower(step, piece), cost);
  return time;
}

PriceFunction price_by_time(std::shared_ptr<const CostModel> cost) {
  return [cost](const PlanStep& step) {
    const StepCost bytes = cost_of(step);
    Price price{0, bytes.calls, bytes.peak_bytes};
    price.primary = to_seconds(priced_time(step, *cost));
    return price;
  };
}

}  // namespace shardproof
