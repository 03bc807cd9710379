#include "shardproof/ops/cuda/elementwise_body.h"
#include "shardproof/ops/step_loops.h"

namespace shardproof {

template <>
void KernelFamilies<Target>::add_steps(ElementwiseTable& table) {
  add_loop<SgdLoop>(table);
  add_loop<MomentumLoop>(table);
  add_loop<AdamLoop<false>>(table);
  add_loop<AdamLoop<true>>(table);
}

}  // namespace shardproof
