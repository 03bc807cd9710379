// Implements the graphs of machine.h. A recorded item is a function that queues its work again, on
// the stream on which it was recorded. A launch calls all of them in order. So the work in a graph
// runs as late, and in as many orders, as other work.
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/fake_gpu/machine.h"

namespace shardproof {
namespace {

constexpr int kUnjoined = 904;

// True if the first stream waits for the last item of every other.
bool is_joined(const FakeGpuGraph& graph) {
  for (const auto& [stream, last] : graph.last_item) {
    const auto joined = graph.joined.find(stream);
    if (stream != graph.origin && (joined == graph.joined.end() || joined->second != last))
      return false;
  }
  return true;
}

}  // namespace

bool FakeGpu::Machine::record(FakeGpuStream& stream, std::function<void()> again) {
  if (stream.recorded_by == nullptr) return false;
  FakeGpuGraph& graph = *stream.recorded_by;
  graph.last_item[&stream] = graph.items.size();
  graph.items.emplace_back(stream.device, std::move(again));
  return true;
}

bool FakeGpu::records(void* stream, std::function<void()> again) {
  FakeGpuStream& target = stream_of(stream);
  const std::lock_guard guard(target.machine->lock);
  return target.machine->record(target, std::move(again));
}

void record_graphs(CudaApi& api, const std::shared_ptr<FakeGpu::Machine>& m) {
  api.begin_capture = [m](void* stream) {
    const std::lock_guard guard(m->lock);
    SP_CHECK(stream_of(stream).recorded_by == nullptr, "a stream is recorded twice");
    FakeGpuGraph& graph = *m->graphs.emplace_back(std::make_unique<FakeGpuGraph>());
    graph.origin = &stream_of(stream);
    stream_of(stream).recorded_by = &graph;
    return 0;
  };
  api.end_capture = [m](void* stream, void** graph) {
    const std::lock_guard guard(m->lock);
    FakeGpuGraph* const recorded = stream_of(stream).recorded_by;
    SP_CHECK(recorded != nullptr && recorded->origin == stream, "no recording ends here");
    for (const auto& each : m->streams)
      if (each->recorded_by == recorded) each->recorded_by = nullptr;
    if (!is_joined(*recorded)) return kUnjoined;
    *graph = recorded;
    return 0;
  };
  api.launch_graph = [m](void* graph, void* stream) {
    const std::lock_guard guard(m->lock);
    m->write_trace(stream_of(stream), "graph");
    int& selected = m->selected[std::this_thread::get_id()];
    const int before = selected;
    for (const auto& [device, again] : static_cast<FakeGpuGraph*>(graph)->items) {
      selected = device;
      again();
    }
    selected = before;
    return 0;
  };
  // Queued work may still name its events, so the machine keeps them.
  api.drop_graph = [m](void* graph) {
    const std::lock_guard guard(m->lock);
    static_cast<FakeGpuGraph*>(graph)->items.clear();
    return 0;
  };
}

}  // namespace shardproof
