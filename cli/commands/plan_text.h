// Text of redistribution steps for `shardproof plan` and `shardproof show`.
#pragma once

#include <string>

#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {

// Returns "192 KiB", "36 B" or "53.33 B": with at most two decimals.
std::string bytes_text(Fraction bytes);
// Returns "12 B a rank"; "up to 16 B a rank, mean 12 B" if ranks differ. Adds "unpadded 10 B" if
// `priced` is less than the mean.
std::string sent_text(const std::vector<SentBytes>& sent, Fraction priced);
// Returns text such as "all_to_all   over tp   S(0) -> S(1)   sends 192 KiB a rank   peak 512 KiB
// 11.3 us", on one line. The time is omitted if `machine` is null.
// `other_bytes`: bytes that the rank holds outside the step (retained_source_bytes).
std::string step_text(const PlanStep& step, const CostModel* machine, int64_t other_bytes = 0);

}  // namespace shardproof
