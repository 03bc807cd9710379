// Topology: the text form of a cost model: "ideal", flat(latency='5 us', bandwidth='50 GB/s'), or a
// .json file {"latency": "5 us", "bandwidth": "50 GB/s"}. With the keys compute ('50 GFLOP/s') and
// memory ('20 GB/s') it prices work too: ideal(compute=.., memory=..).
#pragma once

#include <memory>
#include <string>

#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {

// Returns the cost model. A relative file is opened below `folder`. Throws Error(bad_input) for a
// malformed text, Error(unsupported) for a preset and Error(io) for a missing file.
std::shared_ptr<const CostModel> parse_topology(const std::string& text, const std::string& folder);

}  // namespace shardproof
