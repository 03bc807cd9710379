// Options of `shardproof run`: how cases run, and which values and times a run keeps.
#pragma once

#include <boost/program_options.hpp>

#include "shardproof/cli/processes/process_role.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof {

boost::program_options::options_description run_options();

// Throws Error(bad_input) for a malformed option, and Error(unsupported) for a backend or device
// that is not available; `viability` selects the checks.
RunOptions read_run_options(const boost::program_options::variables_map& given,
                            const Registries& registries, Availability viability);

// Sets which values and times are kept: for a record, and for the table of a single file.
void read_watching(const boost::program_options::variables_map& given, size_t files,
                   RunOptions& options);

}  // namespace shardproof
