// What ranks hold under a name in the end, for who asks for its elements.
#pragma once

#include "shardproof/engine/job/outcome.h"

namespace shardproof {

// The whole value where a spec says how ranks make it up and replicas agree; else what each of them
// holds, of replicas that differ as the whole value that each would make. Copies are added to those
// that are known.
void store_output(const LocalTensor& value, const std::optional<Spec>& spec, ValueInfo& info);

}  // namespace shardproof
