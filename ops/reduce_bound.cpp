#include "shardproof/ops/reduce_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardproof/ops/elementwise_bound.h"

namespace shardproof {

std::vector<Folded> fold_errors(const BoundCall& call, const DimMask& mask, DType compute) {
  const Tensor& x = *call.inputs[0];
  const std::vector<double> values = values_as(x, compute);
  const std::vector<int64_t> places = reduced_places(x.shape, mask);
  std::vector<Folded> folded(
      static_cast<size_t>(element_count(reduced_shape(x.shape, mask, true))));
  for (size_t i = 0; i < places.size(); ++i) {
    Folded& f = folded[static_cast<size_t>(places[i])];
    const double error = error_of(*call.input_bounds[0], static_cast<int64_t>(i));
    // An infinity either makes the result infinite, which needs no bound, or (-inf in softmax,
    // amax) nothing.
    const double size = std::isfinite(values[i]) ? std::fabs(values[i]) + 2 * error : 0;
    ++f.count;
    f.absolute += size;
    f.largest = std::max(f.largest, size);
    f.error += error;
    f.worst = std::max(f.worst, error);
  }
  return folded;
}

int grid_of(const BoundCall& call) {
  return call.input_bounds[0]->exact ? Bound::exact_of(*call.inputs[0]).grid : kNoGrid;
}

Bound folded_bound(const BoundCall& call, const std::vector<Folded>& folded,
                   std::vector<double> errors) {
  const Tensor& result = *call.outputs.front();
  const std::vector<double> sizes = sizes_of(result);
  for (size_t i = 0; i < errors.size(); ++i) {
    if (std::isfinite(sizes[i]) || std::isinf(errors[i])) continue;
    errors[i] = folded[i].error == 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  return bound_from_errors(result, std::move(errors));
}

}  // namespace shardproof
