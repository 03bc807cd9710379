// FakeGpu: GPUs made of host memory, behind CudaApi. What is asked of a stream is queued and runs
// as late as CUDA allows: when somebody synchronizes, waits or polls for it, and of other streams
// only what that depends on; now and then one runs ahead of all others. So a wait that was
// forgotten shows as wrong contents on a machine without a GPU. Device memory cannot be touched but
// by queued work of its own device: host code that follows a device address, or a kernel that
// follows one of another GPU, dies at once. Memory is poisoned when a
// stream comes to where it is allocated, and to where it is released. Any number of threads may use
// one FakeGpu.
#pragma once

#include <functional>
#include <memory>

#include "shardproof/backends/cuda/cuda_api.h"

namespace shardproof {

struct FakeGpuOptions {
  int devices = 1;
  int driver_version = 13000;  // 0: no driver
  int capability = 90;
  int64_t device_bytes = int64_t{1} << 30;
  uint64_t seed = 1;         // of how far streams come when somebody polls, and which run ahead
  int runs_ahead = 8;        // each so many times that something is asked for, one does; 0: none
  int patience_seconds = 0;  // work may wait for other processes so long
  bool waits = true;         // streams for events; a machine on which they do not is a broken one
  // A file for a line on each thing that streams are asked for, as profilers show it; empty: none.
  std::string trace;
};

// What the environment says of it: FAKE_GPU_GPUS, FAKE_GPU_DRIVER, FAKE_GPU_SEED, FAKE_GPU_WAITS,
// FAKE_GPU_MEBIBYTES of each, and FAKE_GPU_STREAMS, the file of the trace.
FakeGpuOptions machine_in_environment();

class FakeGpu {
 public:
  explicit FakeGpu(const FakeGpuOptions& options = {});
  CudaApi api() const;  // keeps the devices alive

  // For the stand-ins of kernels and of NCCL: asks one of these streams for more work. It may touch
  // device memory. False: it cannot go on yet and is tried again, nothing behind it runs.
  using Work = std::function<bool()>;
  static void enqueue(void* stream, Work work);
  // The same of NCCL, once `until` is true, which touches nothing; asking that costs less.
  static void enqueue_when(void* stream, Work until, Work work);
  // The ordinal of the device that a stream belongs to, and of the one that this thread has
  // selected of the same machine.
  static int device_of(void* stream);
  static int selected_beside(void* stream);
  // The start and the end of what was allocated on a stream's device and holds an address; nulls:
  // nothing does.
  static std::pair<const std::byte*, const std::byte*> allocation_at(void* stream,
                                                                     const void* memory);

  int64_t bytes_in_use() const;         // not released, all devices
  int64_t products() const;             // of matrices that its library was asked for
  int64_t products_of_8_bits() const;   // among them
  int64_t products_of_widened() const;  // and those of 8 bits as f16

  struct Machine;

 private:
  std::shared_ptr<Machine> machine_;
};

}  // namespace shardproof
