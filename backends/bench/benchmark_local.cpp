// Implements repeat of benchmark.h for backends whose ranks run in this process: submits the
// collective to a world of its own.
#include <chrono>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/bench/exact_inputs.h"

namespace shardproof {
namespace {

class LocalBenchmark {
 public:
  LocalBenchmark(Backend& backend, const CollectiveBenchmark& repetition)
      : c_(repetition.collective), lanes_(Lanes::range(0, c_.group.size())) {
    WorldOptions options;
    options.ranks = lanes_.size();
    world_ = backend.start(options);
    context_ = &world_->open(lanes_);
    tensors_ = exact_tensors(repetition, lanes_);
  }

  void once() {
    std::vector<Call> calls;
    if (c_.kind == CollectiveKind::send) {
      for (const CollectiveKind kind : {CollectiveKind::send, CollectiveKind::recv})
        calls.push_back(one_end(kind));
    } else {
      calls.push_back(call(c_.kind));
      calls.back().input = &tensors_.input;
      if (!tensors_.output.empty()) calls.back().output = &tensors_.output;
    }
    const Ticket ticket = context_->submit(calls, kMainStream);
    while (context_->poll(ticket) == TicketState::pending)
      SP_CHECK(world_->progress(), "{} does not end", to_string(c_));
  }

  int64_t count_wrong() const { return shardproof::count_wrong(c_, tensors_.output); }

 private:
  Call call(CollectiveKind kind) const {
    Call call;
    call.collective = c_;
    call.collective.kind = kind;
    call.lanes = lanes_;
    return call;
  }
  Call one_end(CollectiveKind kind) {
    const bool sends = kind == CollectiveKind::send;
    Call end = call(kind);
    for (int64_t rank = 0; rank < lanes_.size(); ++rank)
      end.peers.push_back((rank + (sends ? 1 : lanes_.size() - 1)) % lanes_.size());
    if (sends)
      end.input = &tensors_.input;
    else
      end.output = &tensors_.output;
    return end;
  }

  const Collective& c_;
  Lanes lanes_;
  std::unique_ptr<World> world_;
  ExecutionContext* context_ = nullptr;
  BenchmarkTensors tensors_;
};

BenchmarkResult measure_local(Backend& backend, const CollectiveBenchmark& repetition) {
  using Clock = std::chrono::steady_clock;
  BenchmarkResult result;
  {
    LocalBenchmark context(backend, repetition);
    for (int i = 0; i < repetition.warmup; ++i) context.once();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < repetition.times; ++i) context.once();
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count() / repetition.times;
  }
  if (repetition.checking == Checking::none) return result;
  LocalBenchmark context(backend, repetition);
  context.once();
  result.wrong = context.count_wrong();
  return result;
}

}  // namespace

BenchmarkResult repeat(Backend& backend, const CollectiveBenchmark& repetition) {
  WorkerPool* const pool = backend.pool();
  if (pool == nullptr) return measure_local(backend, repetition);
  return run_process_benchmark(pool->transport(), repetition);
}

}  // namespace shardproof
