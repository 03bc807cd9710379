// The flight recorder: writes down every call of every cohort, and every named work, in a ring
// buffer, on whatever backend. Its records do not depend on how ranks are grouped into cohorts:
// ranks whose call is alike in everything share a record. A mismatch is told with the first point
// where its ranks parted.
#pragma once

#include <memory>

#include "shardproof/backends/api/execution_context.h"

namespace shardproof {

// Where hosts run in several processes and each is recorded by itself, the records go to the one
// that judges before the world closes.
//
// Keeps the newest `max_records` calls and works of cohorts.
std::unique_ptr<World> recorded(std::unique_ptr<World> world, int64_t max_records);

}  // namespace shardproof
