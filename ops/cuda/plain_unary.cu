#include "shardproof/ops/cuda/elementwise_body.h"
#include "shardproof/ops/functor_lists.h"

namespace shardproof {
namespace {

template <typename... F>
void add_all(ElementwiseTable& table, functor::List<F...>) {
  (add_loop<Unary<F>>(table), ...);
}

}  // namespace

template <>
void KernelFamilies<Target>::add_plain_unary(ElementwiseTable& table) {
  add_all(table, functor::PlainUnary());
}

}  // namespace shardproof
