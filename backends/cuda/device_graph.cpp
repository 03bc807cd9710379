// Implements device_graph.h. The recording begins in a stream of the first device. Every other
// stream of every device waits for an event of that stream, which makes it part of the recording.
// At the end the first stream waits for an event of every other stream.
#include "shardproof/backends/cuda/device_graph.h"

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kGraphStream = -2;  // number of the stream in which a device launches graphs

}  // namespace

DeviceGraph::DeviceGraph(std::vector<std::shared_ptr<Device>> devices,
                         const std::function<void()>& issue)
    : devices_(std::move(devices)) {
  SP_CHECK(!devices_.empty(), "a graph of no device");
  std::vector<int> current;
  for (const std::shared_ptr<Device>& device : devices_) current.push_back(device->current());
  try {
    begin();
    issue();
    end();
  } catch (...) {
    abandon(current);
    throw;
  }
  for (size_t at = 0; at < devices_.size(); ++at) devices_[at]->use(current[at]);
}

DeviceGraph::~DeviceGraph() {
  Device& device = first();
  device.api_.set_device(device.ordinal_);
  if (graph_ != nullptr) device.api_.drop_graph(graph_);
  if (fork_event_ != nullptr) device.idle_events_.push_back(fork_event_);
  drop_memory();
}

void DeviceGraph::begin() {
  Device& device = first();
  fork_event_ = device.new_event();
  device.use(kGraphStream);
  void* const origin = device.begin_operation();
  device.check(device.api_.begin_capture(origin), "beginning a graph");
  is_open_ = true;
  device.check(device.api_.record_event(fork_event_, origin), "recording an event");
  for (const std::shared_ptr<Device>& each : devices_) {
    each->recording_ = this;
    each->select();
    for (const auto& [number, stream] : each->streams_)
      if (stream.handle != origin) include(*each, stream.handle);
  }
}

void DeviceGraph::include(const Device& device, void* stream) {
  device.check(device.api_.wait_event(stream, fork_event_), "waiting for an event");
}

void DeviceGraph::join_streams() {
  Device& device = first();
  device.use(kGraphStream);
  void* const origin = device.begin_operation();
  for (const std::shared_ptr<Device>& each : devices_)
    for (const auto& [number, stream] : each->streams_) {
      if (stream.handle == origin) continue;
      each->select();
      each->check(each->api_.record_event(each->join_event_, stream.handle), "recording an event");
      device.select();
      device.check(device.api_.wait_event(origin, each->join_event_), "waiting for an event");
    }
}

void DeviceGraph::end() {
  join_streams();
  // allocate() used the upload stream, which is not part of the graph: its allocations must end
  // before the first launch.
  for (const std::shared_ptr<Device>& each : devices_) {
    each->finish_upload();
    each->recording_ = nullptr;
  }
  Device& device = first();
  is_open_ = false;
  device.check(device.api_.end_capture(device.begin_operation(), &graph_), "ending a graph");
}

// Ends a recording that has failed. CUDA drops it, and the streams run their work again.
void DeviceGraph::abandon(const std::vector<int>& current) noexcept {
  for (const std::shared_ptr<Device>& each : devices_) each->recording_ = nullptr;
  Device& device = first();
  device.api_.set_device(device.ordinal_);
  if (is_open_) device.api_.end_capture(device.streams_.at(kGraphStream).handle, &graph_);
  device.api_.last_error();
  if (graph_ != nullptr) device.api_.drop_graph(graph_);
  graph_ = nullptr;
  if (fork_event_ != nullptr) device.idle_events_.push_back(fork_event_);
  drop_memory();
  for (size_t at = 0; at < devices_.size(); ++at) devices_[at]->use(current[at]);
}

void DeviceGraph::drop_memory() {
  for (const auto& [key, memory] : free_) kept_.emplace_back(std::get<Device*>(key), memory);
  free_.clear();
  for (const auto& [device, memory] : kept_) device->release(memory, 0);
  kept_.clear();
}

DeviceGraph::Launched DeviceGraph::launch() {
  Device& device = first();
  const int current = device.current();
  device.use(kGraphStream);
  Launched launched;
  launched.begin = device.record();
  device.check(device.api_.launch_graph(graph_, device.begin_operation()), "launching a graph");
  launched.end = device.record();
  device.use(current);
  return launched;
}

std::byte* DeviceGraph::allocate(Device& device, int64_t bytes) {
  if (const auto found = free_.find({&device, device.current(), bytes}); found != free_.end()) {
    std::byte* const memory = found->second;
    free_.erase(found);
    return memory;
  }
  std::byte* const memory = device.allocate_for_upload(bytes);
  allocated_.insert(memory);
  return memory;
}

void DeviceGraph::release(Device& device, std::byte* memory, int64_t bytes,
                          std::span<const int> streams) {
  if (streams.size() == 1 && allocated_.contains(memory))
    free_.emplace(Free{&device, streams.front(), bytes}, memory);
  else
    kept_.emplace_back(&device, memory);
}

}  // namespace shardproof
