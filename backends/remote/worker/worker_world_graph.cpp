// Implements the repetitions of worker_world.h as one CUDA graph.
//
// 1. The process runs one iteration and counts copies between host and device. A graph can hold
//    neither these, nor work of the host, nor puts.
// 2. The processes vote: NCCL requires that all ranks capture a call, or none does.
// 3. The process captures one more iteration into a graph. The processes vote whether it worked.
// 4. Each repetition restores the inputs at their addresses in the graph, waits for all processes
//    in a barrier, and launches the graph. Its time is that between two events of the device.
// 5. The results are compared with those of the first iteration. They may differ without an error:
//    NCCL may choose another algorithm, and so another order of additions, in a graph.
#include <algorithm>
#include <utility>

#include "shardproof/backends/cuda/device_graph.h"
#include "shardproof/backends/remote/worker/worker_world.h"

namespace shardproof {
namespace {

bool is_put(const ExchangeOperation& one) {
  return one.exchange.kind == CollectiveKind::put ||
         one.exchange.kind == CollectiveKind::wait_signal || one.parts.empty();
}

int line_of(const CallSequence::Step& step) {
  for (const ExchangeOperation& one : step.moving)
    if (!one.parts.empty()) return one.parts.front().submitted->terms->site.line;
  return step.line;
}

// Returns why a step that copied `copies` times between host and device cannot be part of a graph.
std::string why_not_in_graph(const CallSequence::Step& step, int64_t copies) {
  const auto goes_through_host = [](const ExchangeOperation& one) {
    return one.exchange.side == Side::host;
  };
  const int line = line_of(step);
  if (std::any_of(step.moving.begin(), step.moving.end(), is_put))
    return fmt::format("line {} puts into the memory of another rank", line);
  if (std::any_of(step.moving.begin(), step.moving.end(), goes_through_host))
    return fmt::format("the call of line {} goes through the host", line);
  return copies == 0 ? "" : fmt::format("line {} copies between host and GPU", line);
}

}  // namespace

int64_t WorkerWorld::host_copies() const {
  int64_t copies = 0;
  for (const std::shared_ptr<Device>& device : launched_.devices()) copies += device->host_copies();
  return copies;
}

std::string WorkerWorld::why_not_captured() {
  std::string why;
  restore_inputs_at_barrier();
  for (CallSequence::Step& step : sequence_->steps()) {
    const int64_t before = host_copies();
    repeat_step(step);
    if (why.empty()) why = why_not_in_graph(step, host_copies() - before);
  }
  await_idle();
  return why;
}

bool WorkerWorld::all_can_capture(bool own) {
  Transport& transport = link_.transport();
  const int32_t refused = own ? 0 : 1;
  std::vector<int32_t> any(static_cast<size_t>(transport.endpoints_each()), 0);
  Exchange vote = exchange_of_all();
  vote.kind = CollectiveKind::all_reduce;
  vote.reduction = {ReduceOp::max};
  vote.part = FoldPart::whole;
  vote.dtype = DType::i32;
  vote.count = 1;
  vote.send = reinterpret_cast<const std::byte*>(&refused);
  std::vector<Exchange> all(any.size(), vote);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].self = transport.first_endpoint() + static_cast<int>(i);
    all[i].recv = reinterpret_cast<std::byte*>(&any[i]);
  }
  transport.run(all);
  return any.front() == 0;
}

// Launches the steps without events of their own: captured work has no time.
void WorkerWorld::capture_iteration() {
  for (CallSequence::Step& step : sequence_->steps()) {
    for (const std::function<void()>& part : step.local) part();
    if (!step.moving.empty()) {
      std::vector<Exchange> exchanges;
      for (ExchangeOperation& moving : step.moving) {
        enter_stream(moving);
        load(moving);
        exchanges.push_back(moving.exchange);
      }
      link_.transport().launch(exchanges);
      write_results(step.moving);
    }
    end_step(step);
  }
}

double WorkerWorld::launch_graph(DeviceGraph& graph,
                                 const std::vector<CallSequence::InputCopy>& inputs) {
  link_.set_activity(HeartbeatActivity::computes);
  for (const CallSequence::InputCopy& input : inputs)
    input.memory->copy(input.to, input.from, input.bytes);
  for (const std::shared_ptr<Device>& device : launched_.devices()) device->synchronize();
  run_barrier();
  const auto [begin, end] = graph.launch();
  graph.first().synchronize();
  const double seconds = graph.first().between(begin, end).time * 1e-6;
  for (const int64_t event : {begin, end}) graph.first().forget(event);
  return seconds;
}

std::optional<BenchmarkResult> WorkerWorld::time_graph(const Repetitions& repetitions,
                                                       std::string& why_not) {
  why_not = why_not_captured();
  if (!repetitions.not_captured.empty()) why_not = repetitions.not_captured;
  if (!all_can_capture(why_not.empty())) return std::nullopt;
  const std::vector<uint64_t> results = sequence_->hash_results();
  restore_inputs_at_barrier();
  const std::vector<CallSequence::InputCopy> inputs = sequence_->copies_to_restore();
  std::unique_ptr<DeviceGraph> graph;
  try {
    graph = std::make_unique<DeviceGraph>(launched_.devices(), [this] { capture_iteration(); });
  } catch (const Error& error) {
    why_not = error.message();
  }
  launched_.drop_marks();
  if (!all_can_capture(graph != nullptr)) return std::nullopt;
  BenchmarkResult result;
  result.clock = TimedBy::device;
  Record record;
  record.ranks = local_ranks();
  record.kind = kGraphRecord;
  record.state = RecordState::done;
  record.clock = TimedBy::device;
  for (int i = 0; i < repetitions.warmup + repetitions.iterations; ++i) {
    const double seconds = launch_graph(*graph, inputs);
    if (i < repetitions.warmup) continue;
    result.seconds += seconds / repetitions.iterations;
    record.end = duration_of_seconds(seconds);
    publish(std::vector<Record>{record});
  }
  const std::vector<uint64_t> own = sequence_->hash_results();
  SP_CHECK(own.size() == results.size(), "{} results of {}", own.size(), results.size());
  for (size_t i = 0; i < own.size(); ++i) result.other_bits += own[i] != results[i];
  return result;
}

}  // namespace shardproof
