// NcclTransport: exchanges of processes over NCCL. Their endpoints are GPUs, one or several in
// each, and NCCL's ranks. A call of the program is a call of NCCL where every GPU brings one
// member: on device memory, in NCCL's own order and with its own roundings. Where a GPU holds
// several ranks, NCCL joins what they have folded. Contents on the host are staged. What starts
// together, on all GPUs of a process, is one group of NCCL's.
#pragma once

#include <functional>
#include <memory>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/backends/nccl/nccl_api.h"
#include "shardproof/backends/remote/exchange/transport.h"

namespace shardproof {

// How this process gets at what it needs. Both throw Error(unsupported) with the reason.
struct NcclHardware {
  std::function<NcclApi()> open_nccl;
  std::function<std::shared_ptr<Device>(int own)> open_device;  // of those of this process
};
struct NcclRankConfig {
  int process = 0, processes = 1;
  int gpus = 1;                  // in each
  ReductionSchedule order = {};  // whose algorithms NCCL is told to take
};
std::unique_ptr<Transport> nccl_transport(const NcclHardware& machine,
                                          const NcclRankConfig& rank_config);

}  // namespace shardproof
