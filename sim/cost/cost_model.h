// CostModel: the time of collectives and kernels on a machine. Implementations have no state, so
// one model may price many worlds, from any thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string name() const = 0;
  // Returns the time from the arrival of the last member to the end, the same for all members.
  // `whole_bytes` is S, the bytes of the group's whole tensor with padding (send, recv, put: of the
  // message). all_to_all_v and exchange: the time if all messages are equal; else see
  // time_of_counts.
  virtual Duration collective(const Collective& collective, int64_t whole_bytes) const = 0;
  // Returns the time in which a rank sends, or receives, this many messages one after another;
  // `bytes` is their sum.
  virtual Duration messages(int64_t count, int64_t bytes) const = 0;
  // Returns the time of a kernel; zero (no prediction) if the machine has no rates.
  virtual Duration kernel(double flops, double bytes) const = 0;
  virtual bool has_rates() const = 0;
};

// The rates of a device: a kernel takes the longer of its arithmetic and its memory traffic (the
// roofline model: Williams, Waterman, Patterson, CACM 2009). Both are above 0.
struct Roofline {
  double flops_per_second = 0;
  double bytes_per_second = 0;
};
Duration roofline_time(const Roofline& device, double flops, double bytes);

// A machine on which communication takes no time. Both machines price kernels by the roofline of
// `device`, and throw Error(bad_input) if a rate is not above 0.
std::shared_ptr<const CostModel> ideal_machine(std::optional<Roofline> device = {});

// A machine with one latency a and bandwidth b between any two ranks; collectives use a ring of the
// n members. S is whole_bytes.
//
// | kind                                        | time                 |
// |---------------------------------------------|----------------------|
// | all_reduce                                  | 2(n-1)(a + S/(n b))  |
// | all_gather, reduce_scatter, gather, scatter | (n-1)(a + S/(n b))   |
// | all_to_all                                  | (n-1)(a + S/(n n b)) |
// | broadcast, reduce                           | (n-1) a + S/b        |
// | barrier                                     | 2(n-1) a             |
// | send, recv, put                             | a + S/b              |
// | k messages                                  | k a + S/b            |
// | signal                                      | a                    |
//
// flat_machine throws Error(bad_input) if the bandwidth is not above 0 or the latency is negative.
struct Link {
  Duration latency;
  double bytes_per_second = 0;
};
std::shared_ptr<const CostModel> flat_machine(Link link, std::optional<Roofline> device = {});

// Returns the time in which member `self` of an all_to_all_v or exchange sends, or receives,
// counts[i] elements to, or from, each other member i. Empty messages take no time. The call takes
// the longest such time of all members.
Duration time_of_counts(const CostModel& model, std::span<const int64_t> counts, int64_t self,
                        int64_t element_bytes);
// Returns the time of a call, from its counts. An all_to_all_v or exchange has the counts of all
// lanes of its group, in ascending order.
Duration time_of_call(const CostModel& model, const Collective& call);

}  // namespace shardproof
