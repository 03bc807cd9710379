// FakeGpu: fake GPUs made of host memory, an implementation of CudaApi. Operations of a stream are
// queued and run as late as CUDA allows: when the host synchronizes, waits or polls for them.
// Operations of other streams run only if these depend on them. Now and then one stream runs ahead.
// A missing wait therefore shows as wrong contents on a machine without a GPU.
//
// Device memory can be touched only by queued work of its own device. Host code that uses a device
// address crashes at once, as does a kernel of another GPU. Memory is filled with poison when a
// stream reaches its allocation and its release. Thread-safe.
#pragma once

#include <functional>
#include <memory>

#include "shardproof/backends/cuda/cuda_api.h"

namespace shardproof {

struct FakeGpuOptions {
  int devices = 1;
  int driver_version = 13000;  // 1000 * major; 0: no driver
  int capability = 90;
  int64_t device_bytes = int64_t{1} << 30;
  uint64_t seed = 1;        // decides how far polls advance streams, and which stream runs ahead
  int runs_ahead = 8;       // on average one stream runs ahead in this many operations; 0: none
  int timeout_seconds = 0;  // how long work may wait for other processes
  bool waits = true;        // false: a broken machine whose streams do not wait for events
  // A file for one line on each operation, as profilers show it. Empty: none.
  std::string trace;
};

// Reads the options from FAKE_GPU_GPUS, FAKE_GPU_DRIVER, FAKE_GPU_SEED, FAKE_GPU_WAITS,
// FAKE_GPU_MEBIBYTES (of each GPU) and FAKE_GPU_STREAMS (the file of the trace).
FakeGpuOptions machine_in_environment();

class FakeGpu {
 public:
  explicit FakeGpu(const FakeGpuOptions& options = {});
  CudaApi api() const;  // keeps the devices alive

  // For fake kernels and the fake NCCL: queues work on one of these streams, which may touch device
  // memory. If the work returns false, it is tried again, and nothing after it runs.
  using Work = std::function<bool()>;
  static void enqueue(void* stream, Work work);
  // The same with a condition that touches no memory, which is cheaper to poll.
  static void enqueue_when(void* stream, Work until, Work work);
  // If the stream is recorded into a graph, adds `again`, which queues work again, and returns
  // true.
  static bool records(void* stream, std::function<void()> again);
  // Return the ordinal of the device of a stream, and of the device that this thread has selected
  // on the same machine.
  static int device_of(void* stream);
  static int selected_on_machine_of(void* stream);
  // Returns start and end of the allocation, on a stream's device, that holds an address; nulls:
  // none does.
  static std::pair<const std::byte*, const std::byte*> allocation_at(void* stream,
                                                                     const void* memory);

  int64_t bytes_in_use() const;         // allocated on all devices
  int64_t products() const;             // matrix products of its library
  int64_t products_of_8_bits() const;   // those of 8-bit floats
  int64_t products_of_widened() const;  // those of 8-bit floats widened to f16

  struct Machine;

 private:
  std::shared_ptr<Machine> machine_;
};

}  // namespace shardproof
