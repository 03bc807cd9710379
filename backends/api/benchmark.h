// CollectiveBenchmark: one collective over all ranks, repeated for timing. In real processes, the
// repetitions are those of WorldProcesses::repeat (worker_pool.h). In simulation, the simulator
// itself is timed. Not thread-safe.
#pragma once

#include "shardproof/backends/api/execution_context.h"

namespace shardproof {

// in_place: the output overwrites the input, as in NCCL's in-place calls.
enum class OutputBuffer : uint8_t { out_of_place, in_place };
// reference: one more, untimed call is compared with `reference`.
enum class ResultCheck : uint8_t { none, reference };
// False for an in-place send: its output would overwrite elements that are not sent yet.
bool can_be_checked(CollectiveKind kind, OutputBuffer output_buffer);

struct CollectiveBenchmark {
  // Over Group::world. A `send` means that each rank sends to the next one, in a ring.
  Collective collective;
  OutputBuffer output_buffer = OutputBuffer::out_of_place;
  int warmup = 1, times = 20;
  ResultCheck checking = ResultCheck::reference;
};

// The measurement of one process.
struct BenchmarkResult {
  double seconds = 0;                      // mean time of one repetition
  int64_t wrong = 0;                       // output elements that are wrong
  TimedBy clock = TimedBy::world;          // the clock that measured `seconds`
  std::optional<double> expected_seconds;  // predicted by the library; nullopt: no prediction
  // The reason why this process could not capture its repetitions into a CUDA graph. Empty: it has
  // none. If one process has a reason, no process captures.
  std::string not_captured = {};
  // Results of the CUDA graph that differ in bits from those of the same calls without it.
  int64_t other_bits = 0;
};

// Runs the benchmark for all ranks, if the backend runs them in this process. Otherwise it runs for
// the ranks of this worker, and the coordinator and every other worker must call it too. Returns
// the result of each process; in a worker its own. Throws Error(io) if a process is lost.
std::vector<BenchmarkResult> run_benchmark(Backend& backend, const CollectiveBenchmark& benchmark);

// Return the elements of a member's input, and of its output.
int64_t input_elements(const Collective& collective);
int64_t output_elements(const Collective& collective, int64_t member);

}  // namespace shardproof
