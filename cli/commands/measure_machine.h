// Measurement of this machine for `shardproof bench --machine FILE`: the link between processes and
// the rates of their device, as a topology file (scenarios/model/topology.h).
#pragma once

#include <string>

#include "shardproof/engine/job/job.h"

namespace shardproof {

// Returns the text of a topology file. The ranks of the job's backend make all_reduces of 8 B and
// of 16 MiB, a matrix product and an addition. Requires a backend of real processes and at least 2
// ranks (SP_CHECK). Throws Error(io) if a process is lost.
//
//   latency a, bandwidth b    all_reduce of S bytes on n ranks takes 2(n-1)(a + S/(n b))
//   compute, memory           operations and bytes of the two kernels by their least time
std::string measure_machine(const std::string& backend, int64_t ranks,
                            const Registries& registries);
// Takes part in the measurements of the coordinator, in a worker. Returns at the end of the run.
void help_to_measure_machine(const std::string& backend, int64_t ranks,
                             const Registries& registries);

}  // namespace shardproof
