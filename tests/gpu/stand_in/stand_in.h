// StandIn: GPUs made of host memory, behind CudaApi. What is asked of a stream is queued and runs
// as late as CUDA allows: when somebody synchronizes, waits or polls; so a wait that was forgotten
// shows as wrong contents on a machine without a GPU. Device memory cannot be touched but by queued
// work: host code that follows a device address dies at once. Released memory is poisoned. Any
// number of threads may use one StandIn.
#pragma once

#include <functional>
#include <memory>

#include "shardproof/backends/cuda/cuda_api.h"

namespace shardproof {

struct StandInOptions {
  int devices = 1;
  int driver_version = 13000;  // 0: no driver
  int capability = 90;
  int64_t device_bytes = int64_t{1} << 30;
  uint64_t seed = 1;         // of how far streams come when somebody polls
  int patience_seconds = 0;  // work may wait for other processes so long
};

// What the environment says of it: STAND_IN_GPUS, STAND_IN_DRIVER.
StandInOptions machine_in_environment();

class StandIn {
 public:
  explicit StandIn(const StandInOptions& options = {});
  CudaApi api() const;  // keeps the devices alive

  // For the stand-ins of kernels and of NCCL: asks one of these streams for more work. It may touch
  // device memory. False: it cannot go on yet and is tried again, nothing behind it runs.
  using Work = std::function<bool()>;
  static void enqueue(void* stream, Work work);
  // The ordinal of the device that a stream belongs to.
  static int device_of(void* stream);

  int64_t bytes_in_use() const;  // not released, all devices

  struct Machine;

 private:
  std::shared_ptr<Machine> machine_;
};

}  // namespace shardproof
