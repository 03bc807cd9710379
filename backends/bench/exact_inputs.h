// Inputs whose reductions are exact in any order and every dtype, and the check of the results.
// Internal to benchmarks.
#pragma once

#include "shardproof/backends/api/benchmark.h"

namespace shardproof {

// The inputs of the ranks of `lanes`, filled, and space for their outputs.
struct BenchmarkTensors {
  LocalTensor input, output;
};
BenchmarkTensors exact_tensors(const CollectiveBenchmark& repetition, const Lanes& lanes);

// Writes elements `from`, ... of a member's input.
void write_exact_inputs(const Collective& collective, int64_t member, int64_t from, int64_t count,
                        std::byte* to);
// Returns the number of output elements that differ from those of `reference`.
int64_t count_wrong(const Collective& collective, const LocalTensor& results);

}  // namespace shardproof
