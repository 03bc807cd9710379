// Device: one GPU as memory, streams and events. Streams are small numbers, made when first used;
// what is asked for goes to the current one. Events are numbers too, counted from 1.
// Not thread-safe; every thread that runs a case opens a Device of its own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/backends/cuda/cuda_api.h"
#include "shardproof/localtensor/device_memory.h"

namespace shardproof {

class Device final : public DeviceMemory {
 public:
  Device(const CudaApi& api, int ordinal, CudaDeviceFacts facts);  // made by open_device
  ~Device() override;

  std::string description() const;  // "NVIDIA H200, 141 GB, sm_90"
  int ordinal() const { return ordinal_; }

  void use(int stream);
  int current() const { return current_; }
  void* native_stream();  // of the current stream; a launch of a kernel goes there
  // After a launch: throws Error when CUDA refused it.
  void check_launch();

  int64_t record();  // in the current stream
  void wait(int64_t event);
  bool reached(int64_t event);
  double microseconds_between(int64_t from, int64_t to);  // both reached
  void forget(int64_t event);
  void synchronize();  // all streams

  std::byte* allocate(int64_t bytes) override;
  void release(std::byte* memory, int64_t bytes) noexcept override;
  void to_device(std::byte* device, const std::byte* host, int64_t bytes) override;
  void to_host(std::byte* host, const std::byte* device, int64_t bytes) override;
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override;

 private:
  void check(int status, std::string_view doing) const;
  void select() const;  // as the device of this thread
  void* stream_numbered(int stream);
  void* new_event();
  void* event(int64_t number) const;
  void await_all(void* stream);  // what the other streams have been asked for so far

  CudaApi api_;
  int ordinal_;
  CudaDeviceFacts facts_;
  std::map<int, void*> streams_;
  int current_ = 0;
  void* current_stream_ = nullptr;
  void* release_stream_ = nullptr;  // once there are several: memory is given back after all
  void* join_event_ = nullptr;
  std::map<int64_t, void*> events_;
  std::vector<void*> idle_events_;
  int64_t last_event_ = 0;
};

// The reason in plain words: no CUDA in this build, no driver, one that is too old, no GPU.
std::optional<std::string> why_no_device(const CudaApi& api);
// Throws Error(unsupported) with that reason.
std::shared_ptr<Device> open_device(const CudaApi& api, int ordinal);

}  // namespace shardproof
