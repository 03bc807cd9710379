// What the parts of a partial input may lose when the ranks reduce them: parts are made to reduce
// to the value exactly where operator, dtype and axis size allow; where they do not, the loss is no
// error of the user's program and belongs into the bound of the input.
#pragma once

#include <vector>

#include "shardproof/engine/job.h"

namespace shardproof {

// Of a value that lies as these parts.
Bound bound_of_parts(const Tensor& value, const Spec& spec, const LocalTensor& parts);

// One a job input; exact when the reduction of its parts provably is.
std::vector<Bound> input_bounds(const Job& job);

}  // namespace shardproof
