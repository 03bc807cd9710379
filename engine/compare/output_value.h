// Stores the value that a name has at the end of a run, for callers that read its elements.
#pragma once

#include "shardproof/engine/job/outcome.h"

namespace shardproof {

// Stores ValueInfo::value if the spec is known and replicas agree. If replicas differ, appends the
// whole value that each of them would make to ValueInfo::copies; without a spec, each stored copy.
// Stores nothing if no part has contents.
void store_output(const LocalTensor& value, const std::optional<Spec>& spec, ValueInfo& info);

}  // namespace shardproof
