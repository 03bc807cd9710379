// The transport over NCCL. Its endpoints are GPUs, one or several in each process, and are the
// ranks of NCCL.
//
// If every GPU holds one member of a group, a collective of the program is one NCCL collective on
// device memory. Its order of additions and its roundings are NCCL's. If a GPU holds several, NCCL
// joins their partial results. Contents on the host are staged through the device. Exchanges that
// start together, on all GPUs of a process, are one NCCL group.
#pragma once

#include <functional>
#include <memory>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/backends/nccl/nccl_api.h"
#include "shardproof/backends/remote/exchange/transport.h"

namespace shardproof {

// Opens NCCL, the devices and the communicator of a process. Both throw Error(unsupported) with the
// reason.
struct NcclHardware {
  std::function<NcclApi()> open_nccl;
  std::function<std::shared_ptr<Device>(int own)> open_device;  // index among this process's GPUs
};
struct NcclRankConfig {
  int process = 0, processes = 1;
  int gpus = 1;                  // in each process
  ReductionSchedule order = {};  // algorithms to which NCCL is set
};
std::unique_ptr<Transport> nccl_transport(const NcclHardware& machine,
                                          const NcclRankConfig& rank_config);

}  // namespace shardproof
