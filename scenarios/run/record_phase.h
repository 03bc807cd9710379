// Conversion of the result of a phase to a RecordedRun.
#pragma once

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

// Moves values, program, records and times out of `phase`. Leaves file, case, backend, order and
// status of the run empty.
RecordedRun make_recorded_run(const Job& job, PhaseResult& phase);

}  // namespace shardproof
