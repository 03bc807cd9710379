// Contents whose reductions are exact in any order, in every dtype, and what has to come of them.
// Internal to repetitions.
#pragma once

#include "shardproof/backends/api/benchmark.h"

namespace shardproof {

class Transport;  // remote/transport.h

// What the ranks of `lanes` bring, filled, and where they get their answers.
struct RepeatedTensors {
  LocalTensor input, output;
};
RepeatedTensors crafted_tensors(const Repetition& repetition, const Lanes& lanes);

// Elements `from`, ... of what a member brings.
void craft(const Collective& collective, int64_t member, int64_t from, int64_t count,
           std::byte* to);
// Elements of all answers that differ from what `reference` says.
int64_t count_wrong(const Collective& collective, const LocalTensor& answers);

// Of this process's ranks; its crew's transport carries them.
Repeated repeat_exchange(Transport& transport, const Repetition& repetition);

}  // namespace shardproof
