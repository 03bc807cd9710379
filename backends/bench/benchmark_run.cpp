// Implements run_benchmark of benchmark.h: a world of its own in which the ranks make the call
// once.
//
// Ranks of this process are one cohort, which submits the call again and again. In real processes,
// each rank is a cohort; after the first call, the world repeats it (WorldProcesses::repeat).
#include <chrono>
#include <deque>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/bench/exact_inputs.h"

namespace shardproof {
namespace {

// The call of some ranks, which are one cohort.
class BenchmarkedCall {
 public:
  BenchmarkedCall(World& world, const CollectiveBenchmark& benchmark, const Lanes& lanes)
      : c_(benchmark.collective),
        lanes_(lanes),
        context_(world.open(lanes)),
        tensors_(exact_tensors(benchmark, lanes)) {
    context_.provide(tensors_.input);
  }

  void submit() {
    std::vector<Call> calls;
    if (c_.kind == CollectiveKind::send) {
      for (const CollectiveKind kind : {CollectiveKind::send, CollectiveKind::recv})
        calls.push_back(one_end(kind));
    } else {
      calls.push_back(call(c_.kind));
      calls.back().input = &tensors_.input;
      if (!tensors_.output.empty()) calls.back().output = &tensors_.output;
    }
    ticket_ = context_.submit(calls, kMainStream);
  }
  void finish() { context_.finish(); }
  bool has_ended() { return context_.poll(ticket_) != TicketState::pending; }
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
    const int64_t ranks = c_.group.size();
    Call end = call(kind);
    for (int64_t i = 0; i < lanes_.size(); ++i)
      end.peers.push_back((lanes_[i] + (sends ? 1 : ranks - 1)) % ranks);
    if (sends)
      end.input = &tensors_.input;
    else
      end.output = &tensors_.output;
    return end;
  }

  const Collective& c_;
  Lanes lanes_;
  ExecutionContext& context_;
  BenchmarkTensors tensors_;
  Ticket ticket_ = kDone;
};

WorldOptions options_of(const CollectiveBenchmark& benchmark) {
  WorldOptions options;
  options.ranks = benchmark.collective.group.size();
  return options;
}

class LocalBenchmark {
 public:
  LocalBenchmark(Backend& backend, const CollectiveBenchmark& benchmark)
      : c_(benchmark.collective),
        world_(backend.start(options_of(benchmark))),
        call_(*world_, benchmark, Lanes::range(0, c_.group.size())) {}
  void once() {
    call_.submit();
    while (!call_.has_ended()) SP_CHECK(world_->progress(), "{} does not end", to_string(c_));
  }
  int64_t count_wrong() const { return call_.count_wrong(); }

 private:
  const Collective& c_;
  std::unique_ptr<World> world_;
  BenchmarkedCall call_;
};

BenchmarkResult run_local(Backend& backend, const CollectiveBenchmark& benchmark) {
  using Clock = std::chrono::steady_clock;
  BenchmarkResult result;
  {
    LocalBenchmark context(backend, benchmark);
    for (int i = 0; i < benchmark.warmup; ++i) context.once();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < benchmark.times; ++i) context.once();
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count() / benchmark.times;
  }
  if (benchmark.checking == ResultCheck::none) return result;
  LocalBenchmark context(backend, benchmark);
  context.once();
  result.wrong = context.count_wrong();
  return result;
}

std::string text_of(const Finding& finding) {
  std::string text = finding.headline;
  for (const std::string& detail : finding.details) text += "; " + detail;
  return text;
}

std::vector<BenchmarkResult> run_processes(Backend& backend, const CollectiveBenchmark& benchmark) {
  WorldOptions options = options_of(benchmark);
  options.measures = options.repeats = true;
  const std::unique_ptr<World> world = backend.start(options);
  WorldProcesses& processes = *world->processes();
  std::deque<BenchmarkedCall> calls;
  const Lanes here = processes.local_ranks();
  for (int64_t i = 0; i < here.size(); ++i)
    calls.emplace_back(*world, benchmark, Lanes::one(here[i])).submit();
  while (world->progress()) {
  }
  for (BenchmarkedCall& call : calls) call.finish();
  processes.conclude({});
  Repetitions repetitions;
  repetitions.warmup = benchmark.warmup;
  repetitions.iterations = benchmark.times;
  repetitions.mode = Repetitions::Mode::back_to_back;
  if (benchmark.checking == ResultCheck::reference)
    repetitions.count_wrong = [&calls] {
      int64_t wrong = 0;
      for (const BenchmarkedCall& call : calls) wrong += call.count_wrong();
      return wrong;
    };
  std::vector<BenchmarkResult> results = processes.repeat(repetitions);
  const WorldReport report = world->close();
  if (!report.findings.empty()) throw Error(ErrorKind::io, text_of(report.findings.front()));
  return results;
}

}  // namespace

std::vector<BenchmarkResult> run_benchmark(Backend& backend, const CollectiveBenchmark& benchmark) {
  if (backend.pool() != nullptr) return run_processes(backend, benchmark);
  return {run_local(backend, benchmark)};
}

}  // namespace shardproof
