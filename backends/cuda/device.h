// Device: one GPU as memory, streams and events. Streams are small numbers, made when first used;
// what is asked for goes to the current one. Events are numbers too, counted from 1.
// Not thread-safe; every thread that runs a case opens a Device of its own.
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

// Between two events, on the clock of their device.
struct DeviceSpan {
  double start = 0, time = 0;  // microseconds; the first since the clock was started
};

class Device final : public DeviceMemory {
 public:
  Device(const CudaApi& api, int ordinal, CudaDeviceFacts facts);  // made by open_device
  ~Device() override;

  std::string description() const;  // "NVIDIA H200, 141 GB, sm_90"
  int ordinal() const { return ordinal_; }
  void select() const;  // as the device of this thread

  void use(int stream);
  int current() const override { return current_; }
  void* native_stream();  // of the current stream; a launch of a kernel goes there
  // After a launch: throws Error when CUDA refused it.
  void check_launch();
  int64_t launches() const { return launches_; }  // so far
  // How often the current stream was asked for anything but to record an event.
  int64_t operations_enqueued() const;
  Gemm* gemm();  // null: kernels multiply matrices themselves
  MatmulPrecision matmul() const { return api_.matmul; }

  int64_t record();  // in the current stream
  void wait(int64_t event);
  bool event_completed(int64_t event);
  // When all that was asked for is done. What times are measured from is renewed after so long:
  // CUDA's are floats of milliseconds.
  void start_clock(std::chrono::nanoseconds renewed_after = std::chrono::seconds(4));
  DeviceSpan between(int64_t from, int64_t to);  // both reached
  void forget(int64_t event);
  void synchronize();  // all streams
  // What nobody has any more is there for who else allocates on the device, such as libraries. When
  // all streams have run dry.
  void trim_memory_pool();
  // Looks around while the host waits for a stream, which may take as long as others like; it is
  // told for how long that has been. When it has looked, and waits no more, `behind` is called.
  using Look = std::function<void(std::chrono::nanoseconds)>;
  void while_waiting(Look look, std::function<void()> behind = {}) {
    look_ = std::move(look);
    behind_waiting_ = std::move(behind);
  }

  std::byte* allocate(int64_t bytes) override;
  void release(std::byte* memory, int64_t bytes) noexcept override;
  void release(std::byte* memory, int64_t bytes, std::span<const int> streams) noexcept override;
  std::byte* upload(const std::byte* host, int64_t bytes) override;
  void to_device(std::byte* device, const std::byte* host, int64_t bytes) override;
  void to_host(std::byte* host, const std::byte* device, int64_t bytes) override;
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override;
  void follow(std::span<const int> streams) override;

 private:
  struct OneStream {
    void* handle = nullptr;
    int64_t operations_enqueued = 0;
  };
  struct Event {
    void* handle;
    size_t epoch;   // the last one when it was recorded
    double at = 0;  // of an epoch: milliseconds since the clock was started
  };
  void check(int status, std::string_view doing) const;
  OneStream& stream_numbered(int stream);
  void* ask();  // the current stream, for something
  std::byte* allocate_in(void* stream, int64_t bytes);
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
  void* release_stream_ = nullptr;  // for memory that several streams have used
  void* upload_stream_ = nullptr;
  void *join_event_ = nullptr, *finish_event_ = nullptr;
  Look look_;
  std::function<void()> behind_waiting_;
  std::map<int64_t, Event> events_;
  std::vector<void*> idle_events_;
  int64_t last_event_ = 0, launches_ = 0;
  std::vector<Event> epochs_;
  void* next_epoch_ = nullptr;  // recorded, and maybe not reached
  std::chrono::steady_clock::time_point renewed_;
  std::chrono::nanoseconds renewed_after_{};
  std::shared_ptr<Gemm> gemm_;
};

// The reason in plain words: no CUDA in this build, no driver, one that is too old, no GPU.
std::optional<std::string> why_no_device(const CudaApi& api);
// Throws Error(unsupported) with that reason.
std::shared_ptr<Device> open_device(const CudaApi& api, int ordinal);

}  // namespace shardproof
