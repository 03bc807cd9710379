#include "shardproof/engine/part_bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "shardproof/ops/run_once.h"

namespace shardproof {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

bool adds(const Placement& placement) {
  if (!placement.is_partial()) return false;
  const ReduceOp op = placement.partial().reduction.op;
  return op == ReduceOp::sum || op == ReduceOp::avg;
}

// How partial sums and an op meet, from its strategies.
struct Passing {
  bool takes = false;      // parts in, parts out
  bool makes = false;      // shards in, parts out
  bool mixes = false;      // parts and what is whole in, parts of a sum out
  std::vector<bool> from;  // by input: whether it may be parts then
};

Passing passing_of(const OpRecord& op, const BoundCall& call) {
  Passing passing;
  passing.from.resize(call.inputs.size(), false);
  if (!op.rule.strategies) return passing;
  for (const Strategy& s : op.rule.strategies(*call.call, op.infer(*call.call), 2)) {
    if (s.outputs.empty() || !adds(s.outputs[0])) continue;
    const bool takes = std::any_of(s.inputs.begin(), s.inputs.end(), adds);
    passing.takes = passing.takes || takes;
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      passing.from[i] = passing.from[i] || adds(s.inputs[i]);
      const bool number =
          call.inputs[i] && (is_floating(call.inputs[i]->dtype) || call.call->inputs[i].weak);
      const bool whole = number && !adds(s.inputs[i]);
      passing.mixes = passing.mixes || (takes && whole && s.outputs[0] == P(ReduceOp::sum));
    }
    passing.makes = passing.makes || !takes;
  }
  return passing;
}

// An op's inputs with the reach of each in place of its value, of those that may be parts; others
// are whole when the op sees them.
struct Probe {
  OpCall call;
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> inputs;
  std::vector<Bound> bounds;
  std::vector<const Bound*> input_bounds;
};

bool replaced(const BoundCall& call, size_t i) {
  return call.inputs[i] && is_floating(call.inputs[i]->dtype) && !call.call->inputs[i].weak;
}

// Not below `values`, whatever the dtype.
Tensor rounded_up(DType dtype, const Dims& shape, std::vector<double> values) {
  const Tensor nearest = tensor_of(dtype, shape, values);
  const std::vector<double> kept = values_of(nearest);
  for (size_t i = 0; i < values.size(); ++i)
    if (std::fabs(kept[i]) < std::fabs(values[i])) values[i] *= 1 + 2 * unit_roundoff(dtype);
  return tensor_of(dtype, shape, values);
}

int grid_of(const std::vector<double>& reach) {
  const auto count = static_cast<int64_t>(reach.size());
  return Bound::exact_of(tensor_of(DType::f64, Dims{count}, reach)).grid;
}

// How far: a quotient may be exact because the divisor happens to divide the reach. What divides
// two odd multiples of the last bit that are next to each other is a power of two, and divides all.
enum class Far { reach, two_bits_less, finite };

double two_bits_less(double reach, int grid) {
  const double less = reach - std::ldexp(2.0, grid);
  return less > 0 ? less : reach;
}

// `sign`: of every input but the first, so that sums and differences both reach as far as they can.
Probe probe_of(const BoundCall& call, const Passing& passing, std::optional<DType> dtype,
               double sign, Far far = Far::reach) {
  Probe probe;
  probe.call = *call.call;
  probe.tensors.reserve(call.inputs.size());
  probe.bounds.reserve(call.inputs.size());
  bool first = true;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    probe.inputs.push_back(call.inputs[i]);
    probe.input_bounds.push_back(call.input_bounds[i]);
    if (!replaced(call, i)) continue;
    const Bound& bound = *call.input_bounds[i];
    std::vector<double> values = values_of(*call.inputs[i]);
    const bool parts = passing.from[i];
    const bool less = parts && far == Far::two_bits_less && bound.exact && !bound.reach.empty();
    const int grid = less ? grid_of(bound.reach) : 0;
    for (size_t e = 0; e < values.size(); ++e) {
      values[e] = std::fabs(values[e]);
      if (parts) values[e] += error_of(bound, static_cast<int64_t>(e));
      if (parts && !bound.reach.empty()) values[e] = std::max(values[e], bound.reach[e]);
      if (parts && far == Far::finite && !std::isfinite(values[e])) values[e] = 1;
      if (less) values[e] = two_bits_less(values[e], grid);
      if (!first) values[e] *= sign;
    }
    first = false;
    const DType kept = dtype.value_or(call.inputs[i]->dtype);
    probe.call.inputs[i].dtype = kept;
    probe.tensors.push_back(rounded_up(kept, call.inputs[i]->shape, std::move(values)));
    probe.inputs[i] = &probe.tensors.back();
    Bound own = Bound::exact_of(probe.tensors.back());
    own.exact = bound.exact;
    own.error = bound.error;
    probe.bounds.push_back(std::move(own));
    probe.input_bounds[i] = &probe.bounds.back();
  }
  return probe;
}

std::vector<Bound> bounds_at(const OpRecord& op, const BoundCall& call, const Probe& probe) {
  const std::vector<Tensor> outputs = run_once(op, probe.call, probe.inputs);
  BoundCall at{&probe.call, probe.inputs, probe.input_bounds, {}, call.parts, call.matmul};
  for (const Tensor& output : outputs) at.outputs.push_back(&output);
  return op.bound(at);
}

// The finest bit that parts of the results can have.
int finest_grid(const BoundCall& call, const Bound& value, const Bound& probed) {
  int least = std::min(value.grid, probed.grid), sum = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.input_bounds[i] || !call.input_bounds[i]->exact || !replaced(call, i)) continue;
    const std::vector<double>& reach = call.input_bounds[i]->reach;
    int grid = call.input_bounds[i]->grid;
    if (!reach.empty()) grid = std::min(grid, grid_of(reach));
    least = std::min(least, grid);
    sum += grid;
  }
  return std::min(least, sum);
}

// Of each result the greater bound, element by element.
void take_greater(const std::vector<Bound>& more, std::vector<Bound>& bounds) {
  for (size_t o = 0; o < bounds.size(); ++o) {
    bounds[o].grid = std::min(bounds[o].grid, more[o].grid);
    std::vector<double> errors(std::max(bounds[o].error.size(), more[o].error.size()));
    for (size_t i = 0; i < errors.size(); ++i)
      errors[i] = std::max(error_of(bounds[o], static_cast<int64_t>(i)),
                           error_of(more[o], static_cast<int64_t>(i)));
    bounds[o].exact = bounds[o].exact && more[o].exact;
    if (!bounds[o].exact) bounds[o].error = std::move(errors);
  }
}

// Finite parts that become infinite may become infinities of both signs, which add up to NaN: what
// is divided by 0, not what is hidden by -inf.
std::vector<bool> torn_results(const OpRecord& op, const BoundCall& call, const Passing& passing,
                               size_t output, const std::vector<double>& reach) {
  std::vector<bool> torn(reach.size(), false);
  const bool finite =
      std::all_of(reach.begin(), reach.end(), [](double size) { return std::isfinite(size); });
  if (finite || !passing.mixes) return torn;
  const Probe probe = probe_of(call, passing, DType::f64, 1, Far::finite);
  const std::vector<double> sizes = values_of(run_once(op, probe.call, probe.inputs)[output]);
  for (size_t i = 0; i < torn.size(); ++i) torn[i] = !std::isfinite(sizes[i]);
  return torn;
}

void widen(const BoundCall& call, const std::vector<double>& reach, const std::vector<bool>& torn,
           const Bound& probed, bool carries, const Tensor& result, Bound& bound) {
  bound.reach = reach;
  const bool whole = std::none_of(torn.begin(), torn.end(), [](bool is) { return is; });
  if (bound.exact && (!carries || (probed.exact && whole))) {
    keep_grid_visible(bound.reach, finest_grid(call, bound, probed));
    return;
  }
  if (!carries) return;  // what the op itself adds up is in its own bound
  const double lost = gamma(2 * std::max<int64_t>(1, call.parts), unit_roundoff(result.dtype));
  const std::vector<double> values = values_of(result);
  std::vector<double> errors(reach.size());
  for (size_t i = 0; i < errors.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const double own = std::max(error_of(bound, at), error_of(probed, at));
    // Of what may be anything, nothing is known about the parts either.
    if (!std::isfinite(own) || torn[i]) bound.reach[i] = kUnknown;
    const bool adds_nothing = bound.reach[i] == 0 || (std::isinf(values[i]) && !torn[i]);
    errors[i] = own + (adds_nothing ? 0 : lost * bound.reach[i]);
    if (std::isnan(errors[i])) errors[i] = kUnknown;
  }
  bound.exact = false;
  bound.error = std::move(errors);
}

}  // namespace

void keep_grid_visible(std::vector<double>& reach, int grid) {
  if (grid < -1000 || grid > 1000) return;
  const double step = std::ldexp(1.0, grid);
  for (double& r : reach) {
    const double steps = r / step;
    if (steps < 0x1p52 && std::fmod(steps, 2.0) == 0) r += step;
  }
}

bool scales_inexactly(const Spec& spec, int axis) {
  const Placement& placement = spec.placement(axis);
  return placement.is_partial() && placement.partial().reduction.op == ReduceOp::avg &&
         is_floating(spec.dtype()) &&
         !std::has_single_bit(static_cast<uint64_t>(spec.mesh().axis_size(axis)));
}

ValuesInParts values_in_parts(const GlobalProgram& program, const Partitioned& parts) {
  std::vector<bool> in_parts(program.values.size(), false), scaled = in_parts;
  for (size_t id = 0; id < program.values.size(); ++id) {
    if (parts.placed[id] == kNoValue) continue;
    const auto& spec = parts.program.values[static_cast<size_t>(parts.placed[id])].spec;
    for (int axis = 0; spec && axis < spec->mesh().axis_count(); ++axis)
      scaled[id] = scaled[id] || scales_inexactly(*spec, axis);
    in_parts[id] = spec && std::any_of(spec->placements().begin(), spec->placements().end(), adds);
  }
  for (size_t i = program.instrs.size(); i-- > 0;) {
    const GlobalInstr& instr = program.instrs[i];
    if (instr.kind != GlobalKind::claim && !instr.local) continue;
    for (const ValueId out : instr.outputs)
      for (const ValueId in : instr.inputs)
        if (in != kNoValue && in_parts[static_cast<size_t>(out)])
          in_parts[static_cast<size_t>(in)] = true;
  }
  return {std::move(in_parts), std::move(scaled)};
}

void widen_for_scaling(const Tensor& value, int64_t parts, Bound& bound) {
  const double lost = gamma(2 * std::max<int64_t>(1, parts), unit_roundoff(value.dtype));
  const std::vector<double> values = values_of(value);
  std::vector<double> errors(values.size());
  for (size_t i = 0; i < errors.size(); ++i) {
    const double own = error_of(bound, static_cast<int64_t>(i));
    const double reach = bound.reach.empty() ? 0 : bound.reach[i];
    const double size = std::max(std::fabs(values[i]) + own, reach);
    errors[i] = std::isfinite(values[i]) ? own + lost * size : own;
    if (std::isnan(errors[i])) errors[i] = kUnknown;
  }
  bound.exact = false;
  bound.error = std::move(errors);
}

void widen_for_parts(const OpRecord& op, const BoundCall& call, const std::vector<bool>& in_parts,
                     std::vector<Bound>& bounds) {
  bool concerns = false, carries = false;
  for (size_t o = 0; o < bounds.size(); ++o)
    concerns = concerns || (in_parts[o] && is_floating(call.outputs[o]->dtype));
  for (const Bound* bound : call.input_bounds)
    carries = carries || (bound && !bound->reach.empty());
  if (!concerns) return;
  const Passing passing = passing_of(op, call);
  carries = carries && passing.takes;
  // Of an op that parts do not pass, shards make parts of one sign: none is larger than the sum.
  if (!carries && !(passing.makes && passing.takes)) return;
  std::vector<std::vector<double>> reach(bounds.size());
  std::vector<Bound> probed = bounds;
  for (const double sign : {1.0, -1.0}) {
    const Probe wide = probe_of(call, passing, DType::f64, sign);
    const std::vector<Tensor> results = run_once(op, wide.call, wide.inputs);
    for (size_t o = 0; o < bounds.size(); ++o) {
      std::vector<double> sizes = values_of(results[o]);
      reach[o].resize(sizes.size(), 0);
      for (size_t i = 0; i < sizes.size(); ++i)
        reach[o][i] = std::max(reach[o][i], std::isnan(sizes[i]) ? kUnknown : std::fabs(sizes[i]));
    }
    if (!carries) continue;
    for (const Far far : {Far::reach, Far::two_bits_less})
      take_greater(bounds_at(op, call, probe_of(call, passing, std::nullopt, sign, far)), probed);
  }
  for (size_t o = 0; o < bounds.size(); ++o)
    if (in_parts[o] && is_floating(call.outputs[o]->dtype))
      widen(call, reach[o], torn_results(op, call, passing, o, reach[o]), probed[o], carries,
            *call.outputs[o], bounds[o]);
}

}  // namespace shardproof
