// Implements ops/reduction/reduction_gradients.h.
#include "shardproof/ops/reduction/reduction_gradients.h"

#include "shardproof/ops/reduction/reduce_kernel.h"

namespace shardproof {

FormulaTerm with_reduced_dims(Gradient& g, const FormulaTerm& reduced) {
  if (has_keepdim(g.call) || reduced.dims() == 0) return reduced;
  const DimMask mask = reduced_dims("gradient", g.call);
  FormulaTerm x = reduced;
  for (int d = 0; d < input_shape(g.call, 0).size(); ++d)
    if (mask[static_cast<size_t>(d)]) x = g.op("unsqueeze", {x}, {{"dim", int64_t{d}}});
  return x;
}

}  // namespace shardproof
