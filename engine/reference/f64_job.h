// The same job on simulated ranks, and with its inputs in f64.
#pragma once

#include "shardproof/engine/job/job.h"

namespace shardproof {

// On simulated ranks of this process that compute on the host, without times, with nothing kept,
// every line compared.
Job on_simulated_ranks(const Job& job);
// The same, with inputs in f64 and c128; what lines make is lifted when they are
// lowered (widen_program.h).
Job with_wider_floats(const Job& job);

}  // namespace shardproof
