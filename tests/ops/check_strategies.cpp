// Implements check_strategies.h.
#include "shardproof/tests/ops/check_strategies.h"

#include <algorithm>
#include <cmath>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/ops/core/run_single_device.h"
#include "shardproof/tests/ops/agreement.h"

namespace shardproof::testing {
namespace {

bool is_whole(const Tensor& tensor) {
  if (!tensor.buffer) return true;
  const std::vector<double> numbers = numbers_of(tensor);
  return std::all_of(numbers.begin(), numbers.end(), [](double x) { return x == std::trunc(x); });
}

OneDeviceRun run_on_one_device(const OpInstance& instance) {
  OneDeviceRun whole{instance, {}, {}, false};
  whole.metas = instance.record->infer(whole.instance.call());
  whole.outputs = run_once(*instance.record, whole.instance.call(), instance.pointers());
  whole.whole_numbers = std::all_of(instance.tensors.begin(), instance.tensors.end(), is_whole) &&
                        std::all_of(whole.outputs.begin(), whole.outputs.end(), is_whole);
  return whole;
}

bool has_shards(const Strategy& s) {
  const auto shard = [](const Placement& p) { return p.is_shard(); };
  return std::any_of(s.inputs.begin(), s.inputs.end(), shard) ||
         std::any_of(s.outputs.begin(), s.outputs.end(), shard);
}

bool has_partials(const std::vector<Spec>& specs) {
  return std::any_of(specs.begin(), specs.end(),
                     [](const Spec& spec) { return spec.has_partial(); });
}

int axes_that_place(const std::vector<Spec>& inputs) {
  int count = 0;
  for (int axis = 0; axis < inputs.front().mesh().axis_count(); ++axis)
    count += std::any_of(inputs.begin(), inputs.end(),
                         [&](const Spec& spec) { return !spec.placement(axis).is_replicate(); });
  return count;
}

// Returns the placement with the axis's layout of shards, the same on every tensor.
Placement with_cut(const Placement& placement, const CutChoice& cut, const Dims& shape) {
  if (!placement.is_shard()) return placement;
  Shard shard{placement.shard().dim, cut.split, {}};
  if (cut.shares.empty()) return shard;
  int64_t rest = shape[shard.dim];
  for (const int64_t share : cut.shares) {
    shard.sizes.push_back(std::min(rest, share));
    rest -= shard.sizes.back();
  }
  shard.sizes.front() += rest;
  return shard;
}

bool rounds(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

// True if whole numbers of this size, one from each rank, add up without rounding.
bool adds_exactly(double largest, int64_t ranks, DType dtype) {
  return !rounds(dtype) ||
         largest * static_cast<double>(ranks) <= std::ldexp(1.0, precision_bits(dtype));
}

Spec spec_of(const TensorMeta& meta, const Mesh& mesh, const std::vector<Placement>& placements) {
  return {mesh, placements, meta.absent ? Dims{} : meta.shape, meta.dtype};
}

}  // namespace

void StrategyChecker::check(const OpInstance& instance, const Mesh& mesh,
                            const std::vector<CutChoice>& cuts) {
  const OneDeviceRun whole = run_on_one_device(instance);
  const OpCall call = whole.instance.call();
  std::vector<std::vector<Strategy>> rules;
  for (const MeshAxis& axis : mesh.axes()) {
    rules.push_back(record_.rule.strategies ? record_.rule.strategies(call, whole.metas, axis.size)
                                            : std::vector<Strategy>{});
    if (record_.rule.joint) std::erase_if(rules.back(), has_shards);
  }
  Chosen chosen(rules.size(), nullptr);
  const Grid grid{whole, mesh, cuts};
  each_choice(grid, rules, chosen, 0);
  if (record_.rule.joint) each_placement(grid);
}

void StrategyChecker::each_choice(const Grid& grid, const std::vector<std::vector<Strategy>>& rules,
                                  Chosen& chosen, size_t axis) {
  if (axis == rules.size()) return try_strategies(grid, chosen);
  chosen[axis] = nullptr;
  each_choice(grid, rules, chosen, axis + 1);
  for (const Strategy& strategy : rules[axis]) {
    chosen[axis] = &strategy;
    each_choice(grid, rules, chosen, axis + 1);
  }
}

void StrategyChecker::try_strategies(const Grid& grid, const Chosen& chosen) {
  const std::vector<TensorMeta>& metas = grid.whole.instance.inputs;
  std::vector<Spec> inputs;
  std::optional<Placed> placed;
  try {
    for (size_t i = 0; i < metas.size(); ++i) {
      std::vector<Placement> placements;
      for (size_t axis = 0; axis < chosen.size(); ++axis)
        placements.push_back(with_cut(chosen[axis] ? chosen[axis]->inputs[i] : R(), grid.cuts[axis],
                                      metas[i].shape));
      inputs.push_back(spec_of(metas[i], grid.mesh, placements));
    }
    if (inputs.empty()) return;
    placed = place(grid.whole.metas, inputs, chosen);
  } catch (const Error&) {
    return;  // the strategies give one tensor two different partials
  }
  if (placed) verify(grid.whole, inputs, *placed);
}

void StrategyChecker::each_placement(const Grid& grid) {
  std::vector<std::vector<Placement>> options;  // one list for each (input, axis)
  const std::vector<TensorMeta>& metas = grid.whole.instance.inputs;
  for (const TensorMeta& meta : metas)
    for (const CutChoice& cut : grid.cuts) {
      options.push_back({R()});
      if (meta.absent || meta.weak) continue;
      for (int d = 0; d < meta.shape.size(); ++d)
        options.back().push_back(with_cut(S(d), cut, meta.shape));
      if (is_reduction_allowed(ReduceOp::sum, meta.dtype))
        options.back().push_back(P(ReduceOp::sum));
    }
  std::vector<size_t> pick(options.size(), 0);
  while (true) {
    std::vector<std::vector<Placement>> placements(metas.size());
    for (size_t k = 0; k < pick.size(); ++k)
      placements[k / grid.cuts.size()].push_back(options[k][pick[k]]);
    try_placement(grid, placements);
    size_t k = 0;
    for (; k < pick.size(); ++k) {
      if (++pick[k] < options[k].size()) break;
      pick[k] = 0;
    }
    if (k == pick.size()) return;
  }
}

void StrategyChecker::try_placement(const Grid& grid,
                                    const std::vector<std::vector<Placement>>& placements) {
  const OpInstance& instance = grid.whole.instance;
  std::vector<Spec> inputs;
  std::optional<std::vector<Spec>> outputs;
  try {
    for (size_t i = 0; i < placements.size(); ++i)
      inputs.push_back(spec_of(instance.inputs[i], grid.mesh, placements[i]));
    outputs = record_.rule.joint(instance.call(), grid.whole.metas, inputs);
  } catch (const Error&) {
    return;
  }
  if (!outputs) return;
  const LocalExecution form = record_.rule.joint_form;
  verify(grid.whole, inputs,
         {*outputs, form == LocalExecution::local_attrs, form == LocalExecution::needs_shard_index,
          form == LocalExecution::lower_to_ops});
}

void StrategyChecker::verify(const OneDeviceRun& whole, const std::vector<Spec>& inputs,
                             const Placed& placed) {
  ++combos_;
  std::vector<LocalTensor> parts;
  for (size_t i = 0; i < inputs.size(); ++i)
    parts.push_back(whole.instance.inputs[i].absent
                        ? LocalTensor{}
                        : split(whole.instance.tensors[i], inputs[i], PartialFill::exact, 5 + i));
  std::vector<LocalTensor> results;
  try {
    results = placed.lower ? run_lowered(whole, inputs, parts, placed.outputs)
                           : run_directly(whole, inputs, parts, placed);
  } catch (const Error& error) {
    // A lowering may reject shardings by other axes.
    if (placed.lower && axes_that_place(inputs) > 1) {
      ++refused_;
      return;
    }
    return fail(whole, inputs, placed.outputs, error.message());
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string trouble = compare(whole, i, inputs, parts, placed, results[i]);
    if (!trouble.empty()) return fail(whole, inputs, placed.outputs, trouble);
  }
}

std::string StrategyChecker::compare(const OneDeviceRun& whole, size_t output,
                                     const std::vector<Spec>& inputs,
                                     const std::vector<LocalTensor>& parts, const Placed& placed,
                                     const LocalTensor& result) const {
  const Tensor got = assemble(result, placed.outputs[output]);
  const Tensor& want = whole.outputs[output];
  if (got.dtype != want.dtype) return "the dtype differs";
  double terms = std::max(largest_number(want), largest_number(result)), room = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].has_partial()) continue;
    // Partial sums are themselves rounded to their dtype.
    terms = std::max(terms, largest_number(parts[i]));
    if (rounds(want.dtype)) room = std::max(room, room_in(inputs[i].dtype(), terms));
  }
  room = std::max(room, room_in(want.dtype, terms));
  const bool combined = placed.lower || has_partials(inputs) || has_partials(placed.outputs);
  // A reduction folds contiguous runs in another order than other elements.
  const bool in_one_order = !combined && record_.family != "reduction";
  const bool never_rounds =
      whole.whole_numbers && adds_exactly(terms, inputs.front().mesh().size(), want.dtype);
  if (in_one_order || never_rounds) return difference_in_bits(got, want);
  return difference(got, want, [room](size_t) { return room; });
}

std::vector<LocalTensor> StrategyChecker::run_directly(const OneDeviceRun& whole,
                                                       const std::vector<Spec>& inputs,
                                                       const std::vector<LocalTensor>& parts,
                                                       const Placed& placed) const {
  LocalCall call;
  call.record = &record_;
  call.attrs = &whole.instance.attrs;
  call.metas = whole.instance.inputs;
  for (size_t i = 0; i < parts.size(); ++i)
    call.inputs.push_back(call.metas[i].absent ? nullptr : &parts[i]);
  call.input_specs = inputs;
  call.output_specs = placed.outputs;
  call.rank_attrs = placed.rank_attrs;
  call.shard_info = placed.shard_info;
  return run_local(call);
}

std::vector<LocalTensor> StrategyChecker::run_lowered(const OneDeviceRun& whole,
                                                      const std::vector<Spec>& inputs,
                                                      const std::vector<LocalTensor>& parts,
                                                      const std::vector<Spec>& outputs) const {
  std::vector<LowerByRules::Value> values;
  for (size_t i = 0; i < parts.size(); ++i)
    values.push_back({whole.instance.inputs[i], inputs[i], parts[i]});
  LowerByRules builder(ops_, inputs.front().mesh(), std::move(values));
  const std::vector<int> handles = record_.rule.lower(whole.instance.call(), inputs, builder);
  std::vector<LocalTensor> results;
  for (size_t i = 0; i < handles.size(); ++i) {
    if (!(builder.spec(handles[i]) == outputs[i]))
      throw_bad_input("lowered to {}, the strategy says {}", to_string(builder.spec(handles[i])),
                      to_string(outputs[i]));
    results.push_back(builder.parts(handles[i]));
  }
  return results;
}

void StrategyChecker::fail(const OneDeviceRun& whole, const std::vector<Spec>& inputs,
                           const std::vector<Spec>& outputs, const std::string& why) {
  std::string text = record_.name + "(" + to_string(whole.instance.attrs) + ")";
  for (const Spec& spec : inputs) text += "\n    in  " + to_string(spec);
  for (const Spec& spec : outputs) text += "\n    out " + to_string(spec);
  failures_.push_back(text + "\n    " + why);
}

}  // namespace shardproof::testing
