// Device: one GPU as memory, streams and events. Streams are numbered from 0 and are made on first
// use. Operations go to the current stream. Events are numbers counted from 1.
//
// Not thread-safe: every thread that runs a case opens its own Device. Owns its streams and events.
// Functions throw Error(unsupported) if CUDA reports a failure, Error(limit) if memory runs out.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/backends/cuda/cuda_api.h"
#include "shardproof/localtensor/tensor/device_memory.h"

namespace shardproof {

class DeviceGraph;  // device_graph.h

// The time between two events, by the clock of their device.
struct DeviceSpan {
  double start = 0, time = 0;  // microseconds; `start` counts from start_clock()
};

class Device final : public DeviceMemory {
 public:
  Device(const CudaApi& api, int ordinal, CudaDeviceFacts facts);  // made by open_device
  ~Device() override;

  // Returns the name, memory and capability: "NVIDIA H200, 141 GB, compute capability 9.0".
  std::string description() const;
  int ordinal() const { return ordinal_; }
  void select() const;  // makes it the current CUDA device of this thread

  void use(int stream);  // makes it the current stream
  int current() const override { return current_; }
  void* native_stream();  // cudaStream_t of the current stream; counts as an operation
  // Call after a kernel launch: throws Error if CUDA refused it.
  void check_launch();
  int64_t launches() const { return launches_; }  // kernels launched so far
  // Returns how many operations the current stream was given, without recorded events.
  int64_t operations_enqueued() const;
  // Returns the number of copies between host and device so far, uploads included.
  int64_t host_copies() const { return host_copies_; }
  Gemm* gemm();  // library for matrix products; null: kernels multiply
  MatmulPrecision matmul() const { return api_.matmul; }

  int64_t record();          // records an event in the current stream
  void wait(int64_t event);  // the current stream waits for it
  bool event_completed(int64_t event);
  // Starts the clock of between(); waits for all streams. CUDA measures in floats of milliseconds:
  // after `renewed_after`, later events are measured from a newer reference event.
  void start_clock(std::chrono::nanoseconds renewed_after = std::chrono::seconds(4));
  // Requires that the clock was started and both events are reached.
  DeviceSpan between(int64_t from, int64_t to);
  void forget(int64_t event);  // frees its number for reuse
  void synchronize();          // waits for all streams
  // Returns freed memory to the driver so that libraries such as NCCL can allocate it. Waits for
  // all streams first.
  void trim_memory_pool();
  // Sets a function that is called repeatedly, with the time waited so far, while the host waits
  // for a stream. `after` is called after the wait. The wait may depend on other processes.
  using DuringWait = std::function<void(std::chrono::nanoseconds)>;
  void call_while_waiting(DuringWait during, std::function<void()> after = {}) {
    during_wait_ = std::move(during);
    after_wait_ = std::move(after);
  }

  std::byte* allocate(int64_t bytes) override;
  void release(std::byte* memory, int64_t bytes) noexcept override;
  void release(std::byte* memory, int64_t bytes, std::span<const int> streams) noexcept override;
  std::byte* upload(const std::byte* host, int64_t bytes) override;
  void to_device(std::byte* device, const std::byte* host, int64_t bytes) override;
  void to_host(std::byte* host, const std::byte* device, int64_t bytes) override;
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override;
  void copy(const MatrixCopy& rows) override;
  void clear(std::byte* to, int64_t bytes) override;
  void follow(std::span<const int> streams) override;

 private:
  friend class DeviceGraph;
  struct OneStream {
    void* handle = nullptr;
    int64_t operations_enqueued = 0;
  };
  struct Event {
    void* handle;
    size_t epoch;   // index of the reference event that was newest when this one was recorded
    double at = 0;  // reference events only: milliseconds since the clock was started
  };
  void check(int status, std::string_view doing) const;
  OneStream& stream_numbered(int stream);
  void* begin_operation();  // returns the handle of the current stream and counts an operation
  std::byte* allocate_in(void* stream, int64_t bytes);
  void* upload_stream();
  std::byte* allocate_for_upload(int64_t bytes);
  void finish_upload();
  void copy_with_host(void* to, const void* from, int64_t bytes, CudaCopy way);
  int try_to_allocate(void** memory, int64_t bytes, void* stream);
  void* new_event();
  const Event& event(int64_t number) const;
  void renew_clock();
  void wait_for_stream(void* stream, int other);
  void finish(void* stream);

  CudaApi api_;
  int ordinal_;
  CudaDeviceFacts facts_;
  std::map<int, OneStream> streams_;
  int current_ = 0;
  OneStream* current_stream_ = nullptr;
  void* release_stream_ = nullptr;  // frees memory that several streams have used
  void* upload_stream_ = nullptr;
  DeviceGraph* recording_ = nullptr;  // records the work of all streams; null: streams run it
  void *join_event_ = nullptr, *finish_event_ = nullptr;
  DuringWait during_wait_;
  std::function<void()> after_wait_;
  std::map<int64_t, Event> events_;
  std::vector<void*> idle_events_;
  int64_t last_event_ = 0, launches_ = 0, host_copies_ = 0;
  std::vector<Event> epochs_;
  void* next_epoch_ = nullptr;  // recorded, perhaps not reached
  std::chrono::steady_clock::time_point renewed_;
  std::chrono::nanoseconds renewed_after_{};
  std::shared_ptr<Gemm> gemm_;
};

// Returns why no GPU can be used: no CUDA in this build, no driver, an older driver, no GPU.
// Nullopt if one can.
std::optional<std::string> why_no_device(const CudaApi& api);
// Opens a GPU. Throws Error(unsupported) with the reason if it cannot be used.
std::shared_ptr<Device> open_device(const CudaApi& api, int ordinal);

}  // namespace shardproof
