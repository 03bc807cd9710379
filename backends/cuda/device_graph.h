// DeviceGraph: a CUDA graph. It records work in several streams of one or more devices once, and
// launches all of it repeatedly. A launch costs the host a few microseconds, however much work the
// graph holds.
//
// Memory: addresses in a graph are fixed. An allocation during the recording happens at once.
// Memory that is released during the recording stays allocated as long as the graph exists. Only
// memory that was both allocated and released during the recording, in one stream, is used again in
// that stream.
//
// One thread. Shares the devices.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "shardproof/backends/cuda/device.h"

namespace shardproof {

class DeviceGraph {
 public:
  // Calls `issue` and records the work that it gives to streams of these devices, instead of
  // running it. Requires that all streams are idle. Throws Error(unsupported) if CUDA refuses, or
  // if `issue` waits for a stream or copies between host and device.
  DeviceGraph(std::vector<std::shared_ptr<Device>> devices, const std::function<void()>& issue);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  // Launches everything and returns the events of the first device before and after it. Requires
  // that all streams are idle, and that the launch before has ended.
  struct Launched {
    int64_t begin = 0, end = 0;
  };
  Launched launch();
  Device& first() const { return *devices_.front(); }

 private:
  friend class Device;
  // Called by a device during the recording.
  std::byte* allocate(Device& device, int64_t bytes);
  void release(Device& device, std::byte* memory, int64_t bytes, std::span<const int> streams);
  void include(const Device& device, void* stream);  // makes a stream part of the recording

  void begin();
  void end();
  void join_streams();
  void abandon(const std::vector<int>& current) noexcept;
  void drop_memory();

  std::vector<std::shared_ptr<Device>> devices_;
  void* fork_event_ = nullptr;
  void* graph_ = nullptr;
  bool is_open_ = false;                           // between begin_capture and end_capture
  using Free = std::tuple<Device*, int, int64_t>;  // device, stream, bytes
  std::multimap<Free, std::byte*> free_;
  std::set<std::byte*> allocated_;
  std::vector<std::pair<Device*, std::byte*>> kept_;  // released, not to be used again
};

}  // namespace shardproof
