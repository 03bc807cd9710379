// Implements reduction_gradients.h. The formulas are those of torch: a norm of 0 and a standard
// deviation of 0 give 0, and a product counts the zeros.
#include "shardproof/ops/reduction/reduction_gradients.h"

#include <algorithm>
#include <cmath>

#include "shardproof/ops/reduction/reduce_kernel.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

DimMask mask_of(Gradient& g) { return reduced_dims("gradient", g.call); }

// Reduces x over the dims of the call, which stay with size 1.
F over_reduced(Gradient& g, const char* op, const F& x) {
  return g.op(op, {x}, reduction_attrs(mask_of(g), true));
}

// Returns the number of elements of the input that one element of the result depends on. Inside
// `as` it differs by rank, so each rank counts its own.
Operand gradient_count(Gradient& g) {
  if (g.has_known_sizes()) return static_cast<double>(reduced_count(g[0].shape(), mask_of(g)));
  const DType dtype = compute_dtype(component_dtype(g[0].dtype()));
  return over_reduced(g, "sum", g.op("ones", {g[0]}, {{"dtype", dtype}}));
}
// Returns the divisor of a variance: that number less the correction, at least 0.
Operand degrees_of_freedom(Gradient& g) {
  const double correction = g.given("correction") ? g.number("correction").real() : 1;
  const Operand count = gradient_count(g);
  if (count.is_number) return std::max(0.0, count.number.real() - correction);
  return max_of(count.term - correction, 0.0);
}
Operand twice_over(const Operand& divisor) {
  return divisor.is_number ? Operand(2 / divisor.number.real()) : Operand(2 / divisor.term);
}
// Returns the sign of x, x / |x| if it is complex.
F direction_of(Gradient& g) { return g.op(is_complex(g[0].dtype()) ? "sgn" : "sign", {g[0]}); }
F equal_to(Gradient& g, const F& x, const Operand& y) { return g.op("eq", {x, y}); }

// Elements whose size is the infinity norm share dy.
F extreme_norm_gradient(Gradient& g, const F& y, const F& dy) {
  const F hits = g.to(y.dtype(), equal_to(g, g.op("abs", {g[0]}), y));
  return direction_of(g) * hits * (dy / over_reduced(g, "sum", hits));
}

// dy sign(x) (|x| / norm)^(p - 1). If p is negative, one element of 0 makes the norm 0, so all
// elements get 0. If p is below 2, the power of 0 has no derivative, so an x of 0 gets 0.
F power_norm_gradient(Gradient& g, double p, const F& y, const F& dy) {
  const F zero = equal_to(g, y, 0);
  const F share = g.op("abs", {g[0]}) / g.where(zero, 1.0, y);
  const F flat = p > 0 && p < 2 ? equal_to(g, g[0], 0) : zero;
  const F power = g.op("pow", {g.where(flat, 1.0, share), p - 1});
  return g.where(flat, 0.0, direction_of(g) * power * dy);
}

}  // namespace

F with_reduced_dims(Gradient& g, const F& reduced) {
  if (has_keepdim(g.call) || reduced.dims() == 0) return reduced;
  const DimMask mask = mask_of(g);
  F x = reduced;
  for (size_t d = 0; d < mask.size(); ++d)
    if (mask[d]) x = g.op("unsqueeze", {x}, {{"dim", static_cast<int64_t>(d)}});
  return x;
}

F sum_gradient(Gradient& g) { return g.expanded(with_reduced_dims(g, g.dy())); }

F prod_gradient(Gradient& g) {
  const DimMask mask = mask_of(g);
  IntegerList dims;
  for (size_t d = 0; d < mask.size(); ++d)
    if (mask[d]) dims.push_back(static_cast<int64_t>(d));
  if (dims.empty()) return g.dy();
  return g.op("prod_grad", {with_reduced_dims(g, g.dy()), g[0]}, {{"dim", dims}});
}

F mean_gradient(Gradient& g) {
  const Operand count = g.given("count") ? Operand(g.number("count").real()) : gradient_count(g);
  return g.expanded(with_reduced_dims(g, g.dy()) / count);
}

F var_gradient(Gradient& g) {
  const F apart = g[0] - over_reduced(g, "mean", g[0]);
  return with_reduced_dims(g, g.dy()) * twice_over(degrees_of_freedom(g)) * apart;
}

F std_gradient(Gradient& g) {
  const F y = with_reduced_dims(g, g.y()), zero = equal_to(g, y, 0);
  const F divisor = g.where(zero, 1.0, y) * degrees_of_freedom(g);
  const F slope = g.where(zero, 0.0, with_reduced_dims(g, g.dy()) / divisor);
  return slope * (g[0] - over_reduced(g, "mean", g[0]));
}

F norm_gradient(Gradient& g) {
  const double p = g.given("p") ? g.number("p").real() : 2;
  const F y = with_reduced_dims(g, g.y()), dy = with_reduced_dims(g, g.dy());
  if (p == 0) return g.none();
  if (p == 1) return direction_of(g) * dy;
  if (std::isinf(p)) return extreme_norm_gradient(g, y, dy);
  if (p != 2) return power_norm_gradient(g, p, y, dy);
  const F zero = equal_to(g, y, 0);
  return g[0] * g.where(zero, 0.0, dy / g.where(zero, 1.0, y));
}

F logsumexp_gradient(Gradient& g) {
  const F y = with_reduced_dims(g, g.y());
  if (is_complex(y.dtype())) return with_reduced_dims(g, g.dy()) * g.conj(g.op("exp", {g[0] - y}));
  const F finite = g.where(equal_to(g, y, -params::kInfinity), 0.0, y);
  return with_reduced_dims(g, g.dy()) * g.op("exp", {g[0] - finite});
}

F split_among_equal(Gradient& g) {
  const F hits = g.to(g[0].dtype(), equal_to(g, g[0], with_reduced_dims(g, g.y())));
  return hits * (with_reduced_dims(g, g.dy()) / over_reduced(g, "sum", hits));
}

F scattered_to(Gradient& g, const F& dy, const F& indices, int dim) {
  return g.op("scatter_along_dim", {g.op("zeros", {g[0]}), indices, dy},
              {{"dim", int64_t{dim}}, {"reduce", std::string("add")}});
}

// Returns with_reduced_dims with the one dim of a vector, too.
F with_dims_of_input(Gradient& g, const F& reduced) {
  const F x = with_reduced_dims(g, reduced);
  if (x.dims() > 0 || g[0].dims() == 0) return x;
  return g.op("unsqueeze", {x}, {{"dim", int64_t{0}}});
}

F extreme_gradient(Gradient& g, const char* argument) {
  const DimMask mask = mask_of(g);
  const auto dim = std::find(mask.begin(), mask.end(), true) - mask.begin();
  if (!g.given("dim") || std::count(mask.begin(), mask.end(), true) != 1)
    return split_among_equal(g);
  const F index = g.call.wanted == 2 ? g.y(1) : g.op(argument, {g[0]}, g.over());
  return scattered_to(g, with_dims_of_input(g, g.dy()), with_dims_of_input(g, index),
                      static_cast<int>(dim));
}

}  // namespace shardproof
