// CostModel: what a collective and a kernel cost on a machine. The clock asks it; planners and
// reports may. Implementations are values without state: one model may price many worlds.
#pragma once

#include <memory>
#include <string>

#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string name() const = 0;
  // From the moment the last member has come to the end, for all members alike. `whole_bytes` is S,
  // the bytes of the whole tensor of the group (of send, recv and put: of the message).
  virtual Duration collective(const Collective& collective, int64_t whole_bytes) const = 0;
  virtual Duration kernel(double flops, double bytes) const = 0;
};

// A device's roofline. The default is one H100 SXM: 989.4 TFLOP/s dense bf16 and 3.35 TB/s HBM3,
// from NVIDIA's H100 datasheet. A kernel takes the longer of its arithmetic and its memory traffic.
struct Roofline {
  double flops_per_second = 989.4e12;
  double bytes_per_second = 3.35e12;
};
Duration roofline_time(const Roofline& device, double flops, double bytes);

// Communication costs nothing; kernels by the roofline.
std::shared_ptr<const CostModel> ideal_machine(Roofline device = {});

// Latency and bandwidth of one link between any two ranks; collectives go round a ring. With n
// members, latency a, bytes S and bandwidth b: all_reduce 2(n-1)(a + S/(n b)); all_gather,
// reduce_scatter, gather and scatter (n-1)(a + S/(n b)); all_to_all (n-1)(a + S/(n n b)); broadcast
// and reduce (n-1) a + S/b; barrier 2(n-1) a; send, recv, put a + S/b; signal a.
struct Link {
  Duration latency;
  double bytes_per_second = 0;
};
std::shared_ptr<const CostModel> flat_machine(Link link, Roofline device = {});

// S when the call does not say it: from what each member brings.
int64_t whole_bytes_of(const Collective& collective);

}  // namespace shardproof
