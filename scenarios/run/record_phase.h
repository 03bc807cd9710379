// What a run leaves to be recorded or compared.
#pragma once

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

// Values, program, records and times of one phase; which run it was is not known here.
RecordedRun keep_run(const Job& job, PhaseResult& phase);

}  // namespace shardproof
