// Device kernels of elementwise ops and optimizer steps. Loops that share a kernel need similar
// numbers of registers: in one kernel with an exponential, a plain loop would lose occupancy.
#include "shardproof/ops/cuda/elementwise_body.h"
#include "shardproof/ops/elementwise/functor_lists.h"
#include "shardproof/ops/elementwise/threshold_loops.h"
#include "shardproof/ops/optimizer/optimizer_loops.h"

namespace shardproof {
namespace {

template <template <typename> typename L, typename... F>
void add_all(ElementwiseTable& table, functor::List<F...>) {
  add_loops<L<F>...>(table);
}

}  // namespace

template <>
void KernelFamilies<Target>::add_elementwise(ElementwiseTable& table) {
  add_all<Unary>(table, functor::PlainUnary());
  add_all<Unary>(table, functor::CurvedUnary());
  add_all<Binary>(table, functor::PlainPairs());
  add_all<Binary>(table, functor::CurvedPairs());
  add_loops<HardshrinkLoop, ThresholdLoop>(table);
  add_loops<SgdLoop>(table);
  add_loops<MomentumLoop>(table);
  add_loops<AdamLoop<false>, AdamLoop<true>>(table);
}

}  // namespace shardproof
