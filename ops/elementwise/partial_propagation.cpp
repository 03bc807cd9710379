// Implements ops/elementwise/partial_propagation.h.
#include "shardproof/ops/elementwise/partial_propagation.h"

#include <cmath>
#include <optional>

#include "shardproof/ops/core/type_promotion.h"

namespace shardproof {
namespace {

std::optional<ReduceOp> none() { return std::nullopt; }
constexpr ReduceOp kSum = ReduceOp::sum, kAvg = ReduceOp::avg, kProd = ReduceOp::prod,
                   kMax = ReduceOp::max, kMin = ReduceOp::min, kBand = ReduceOp::band,
                   kBor = ReduceOp::bor, kBxor = ReduceOp::bxor;

// An integer sum that wraps is not monotone.
bool keeps_order(const OpCall& call) {
  const DType common = result_dtype(call);
  return !is_integral(common) && common != DType::boolean;
}
// For bool, min is `and` and max is `or`. Other dtypes are converted to bool first, which is not
// monotone.
bool both_bool(const OpCall& call) {
  return call.inputs[0].dtype == DType::boolean && call.inputs[1].dtype == DType::boolean;
}

// Returns the number that an input is in the program, if it is finite and not 0.
std::optional<double> factor_of(const OpCall& call, size_t input) {
  if (input >= call.numbers.size() || !call.numbers[input]) return std::nullopt;
  const Number& number = *call.numbers[input];
  if (!number.is_double() && !number.is_integer()) return std::nullopt;
  const double factor = number.real();
  return std::isfinite(factor) && factor != 0 ? std::optional<double>(factor) : std::nullopt;
}

// Adds the rules of a product or quotient whose other operand is a number. A positive factor
// preserves the order of the parts, a negative factor reverses it.
void add_scaled_extremes(const OpCall& call, size_t scaled, size_t by,
                         std::vector<PartialPropagation>& passes) {
  const std::optional<double> factor = factor_of(call, by);
  if (!factor || !keeps_order(call)) return;
  for (const ReduceOp op : {kMax, kMin}) {
    std::vector<std::optional<ReduceOp>> inputs(2);
    inputs[scaled] = op;
    passes.push_back({std::move(inputs), *factor > 0 ? op : op == kMax ? kMin : kMax});
  }
}

}  // namespace

std::vector<PartialPropagation> no_passes(const OpCall&) { return {}; }
std::vector<PartialPropagation> add_passes(const OpCall& call) {
  std::vector<PartialPropagation> passes = {
      {{kSum, kSum}, kSum}, {{kAvg, kAvg}, kAvg}, {{kAvg, none()}, kAvg}, {{none(), kAvg}, kAvg}};
  if (!keeps_order(call)) return passes;
  for (const ReduceOp op : {kMax, kMin}) {
    passes.push_back({{op, none()}, op});
    passes.push_back({{none(), op}, op});
  }
  return passes;
}
std::vector<PartialPropagation> mul_passes(const OpCall& call) {
  std::vector<PartialPropagation> passes = {{{kSum, none()}, kSum},
                                            {{none(), kSum}, kSum},
                                            {{kAvg, none()}, kAvg},
                                            {{none(), kAvg}, kAvg},
                                            {{kProd, kProd}, kProd}};
  add_scaled_extremes(call, 0, 1, passes);
  add_scaled_extremes(call, 1, 0, passes);
  return passes;
}
// Only a divisor that is a number of the program lets partials pass. If an element of a divisor is
// 0, the parts of a sum are infinite and add up to NaN, where one device has infinity. The caller
// passes the number 0 as a tensor.
std::vector<PartialPropagation> div_passes(const OpCall& call) {
  if (!is_floating(call.inputs[0].dtype) && !is_complex(call.inputs[0].dtype)) return {};
  if (!call.inputs[1].weak) return {};
  std::vector<PartialPropagation> passes = {{{kSum, none()}, kSum}, {{kAvg, none()}, kAvg}};
  add_scaled_extremes(call, 0, 1, passes);
  return passes;
}
// Grows with both operands.
std::vector<PartialPropagation> growing_passes(const OpCall&) {
  return {{{kMax, none()}, kMax},
          {{none(), kMax}, kMax},
          {{kMin, none()}, kMin},
          {{none(), kMin}, kMin}};
}
std::vector<PartialPropagation> sub_passes(const OpCall& call) {
  std::vector<PartialPropagation> passes = {
      {{kSum, kSum}, kSum}, {{kAvg, kAvg}, kAvg}, {{kAvg, none()}, kAvg}, {{none(), kAvg}, kAvg}};
  if (!keeps_order(call)) return passes;
  for (const ReduceOp op : {kMax, kMin}) {
    passes.push_back({{op, none()}, op});
    passes.push_back({{none(), op}, op == kMax ? kMin : kMax});
  }
  return passes;
}
std::vector<PartialPropagation> maximum_passes(const OpCall&) {
  return {{{kMax, kMax}, kMax},
          {{kMax, none()}, kMax},
          {{none(), kMax}, kMax},
          {{kMin, none()}, kMin},
          {{none(), kMin}, kMin}};
}
std::vector<PartialPropagation> minimum_passes(const OpCall&) {
  return {{{kMin, kMin}, kMin},
          {{kMin, none()}, kMin},
          {{none(), kMin}, kMin},
          {{kMax, none()}, kMax},
          {{none(), kMax}, kMax}};
}
std::vector<PartialPropagation> band_passes(const OpCall&) {
  return {{{kBand, kBand}, kBand}, {{kBand, none()}, kBand}, {{none(), kBand}, kBand},
          {{kBor, none()}, kBor},  {{none(), kBor}, kBor},   {{kBxor, none()}, kBxor},
          {{none(), kBxor}, kBxor}};
}
std::vector<PartialPropagation> bor_passes(const OpCall&) {
  return {{{kBor, kBor}, kBor},
          {{kBor, none()}, kBor},
          {{none(), kBor}, kBor},
          {{kBand, none()}, kBand},
          {{none(), kBand}, kBand}};
}
std::vector<PartialPropagation> bxor_passes(const OpCall&) { return {{{kBxor, kBxor}, kBxor}}; }
// Linear modulo 2^bits.
std::vector<PartialPropagation> left_shift_passes(const OpCall&) {
  return {{{kSum, none()}, kSum}};
}
std::vector<PartialPropagation> right_shift_passes(const OpCall&) {
  return {{{kMax, none()}, kMax}, {{kMin, none()}, kMin}};
}
std::vector<PartialPropagation> and_passes(const OpCall& call) {
  if (!both_bool(call)) return {};
  return {{{kMin, kMin}, kMin},
          {{kMin, none()}, kMin},
          {{none(), kMin}, kMin},
          {{kMax, none()}, kMax},
          {{none(), kMax}, kMax}};
}
std::vector<PartialPropagation> or_passes(const OpCall& call) {
  if (!both_bool(call)) return {};
  return {{{kMax, kMax}, kMax},
          {{kMax, none()}, kMax},
          {{none(), kMax}, kMax},
          {{kMin, none()}, kMin},
          {{none(), kMin}, kMin}};
}

}  // namespace shardproof
