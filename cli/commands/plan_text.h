// Plans, bytes and times as people read them.
#pragma once

#include <string>

#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {

// "192 KiB", "36 B", "160/3 B": exact below a KiB, else two digits after the point where needed.
std::string bytes_text(Fraction bytes);
// "  1  all_to_all   over tp   S(0) -> S(1)   sends 192 KiB a rank   peak 512 KiB   11.3 us"; the
// time only with a machine.
std::string step_text(const PlanStep& step, int number, const CostModel* machine);
Duration step_time(const PlanStep& step, const CostModel& machine);

}  // namespace shardproof
