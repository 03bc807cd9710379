// NcclTransport: exchanges of processes that hold one GPU each, over NCCL. A call of the program is
// a call of NCCL where every process brings one member: on device memory, in NCCL's own order and
// with its own roundings. Where a process holds several ranks, NCCL joins what they have folded.
// Contents on the host are staged.
#pragma once

#include <functional>
#include <memory>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/backends/nccl/nccl_api.h"
#include "shardproof/backends/remote/transport.h"

namespace shardproof {

// How this process gets at what it needs. Both throw Error(unsupported) with the reason.
struct NcclMachine {
  std::function<NcclApi()> open_nccl;
  std::function<std::shared_ptr<Device>()> open_device;
};
struct NcclSeat {
  int process = 0, processes = 1;
};
// One exchange that has ended, on the device's own clock.
struct ExchangeTime {
  CollectiveKind kind = CollectiveKind::barrier;
  int members = 1;
  int64_t bytes = 0;  // that nccl-tests counts: of the larger side, in all
  double microseconds = 0;
};

class NcclTransport : public Transport {
 public:
  // The time of the last exchange that has ended, if any has.
  virtual std::optional<ExchangeTime> last_time() const = 0;
  // NCCL's own estimate for one, in microseconds; nothing where it has none.
  virtual std::optional<double> estimate(const Exchange& exchange) = 0;
};
std::unique_ptr<NcclTransport> nccl_transport(const NcclMachine& machine, const NcclSeat& seat);

}  // namespace shardproof
