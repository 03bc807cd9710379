// Implements claims.h.
#include "shardproof/engine/check_ops/claims.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "shardproof/engine/check_ops/run_local.h"
#include "shardproof/engine/check_ops/shard_run.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

bool has_shards(const Strategy& s) {
  const auto shard = [](const Placement& p) { return p.is_shard(); };
  return std::any_of(s.inputs.begin(), s.inputs.end(), shard) ||
         std::any_of(s.outputs.begin(), s.outputs.end(), shard);
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

Spec spec_of(const TensorMeta& meta, const Mesh& mesh, const std::vector<Placement>& placements) {
  return {mesh, placements, meta.absent ? Dims{} : meta.shape, meta.dtype};
}

class ClaimLister {
 public:
  ClaimLister(const OpInstance& instance, const MeshChoice& on)
      : instance_(instance),
        rule_(instance.record->rule),
        on_(on),
        outputs_(instance.record->infer(instance.call())) {}

  std::vector<RuleClaim> list() {
    std::vector<std::vector<Strategy>> rules;
    for (const MeshAxis& axis : on_.mesh.axes()) {
      rules.push_back(rule_.strategies ? rule_.strategies(instance_.call(), outputs_, axis.size)
                                       : std::vector<Strategy>{});
      if (rule_.joint) std::erase_if(rules.back(), has_shards);
    }
    if (instance_.inputs.empty()) return {};
    Chosen chosen(rules.size(), nullptr);
    each_choice(rules, chosen, 0);
    if (rule_.joint) each_placement();
    return std::move(claims_);
  }

 private:
  using Chosen = std::vector<const Strategy*>;  // by axis; null: replicated

  void each_choice(const std::vector<std::vector<Strategy>>& rules, Chosen& chosen, size_t axis) {
    if (axis == rules.size()) return add_strategies(chosen);
    chosen[axis] = nullptr;
    each_choice(rules, chosen, axis + 1);
    for (const Strategy& strategy : rules[axis]) {
      chosen[axis] = &strategy;
      each_choice(rules, chosen, axis + 1);
    }
  }

  void add_strategies(const Chosen& chosen) {
    RuleClaim claim;
    try {
      for (size_t i = 0; i < instance_.inputs.size(); ++i) {
        std::vector<Placement> placements;
        for (size_t axis = 0; axis < chosen.size(); ++axis)
          placements.push_back(with_cut(chosen[axis] ? chosen[axis]->inputs[i] : R(),
                                        on_.cuts[axis], instance_.inputs[i].shape));
        claim.inputs.push_back(spec_of(instance_.inputs[i], on_.mesh, placements));
      }
      const std::optional<Placed> placed = place(outputs_, claim.inputs, chosen);
      if (!placed) return;
      claim.placed = *placed;
    } catch (const Error&) {
      return;  // the strategies give one tensor two different partials
    }
    claims_.push_back(std::move(claim));
  }

  void each_placement() {
    std::vector<std::vector<Placement>> options;  // one list for each (input, axis)
    for (const TensorMeta& meta : instance_.inputs)
      for (const CutChoice& cut : on_.cuts) {
        options.push_back({R()});
        if (meta.absent || meta.weak) continue;
        for (int d = 0; d < meta.shape.size(); ++d)
          options.back().push_back(with_cut(S(d), cut, meta.shape));
        if (is_reduction_allowed(ReduceOp::sum, meta.dtype))
          options.back().push_back(P(ReduceOp::sum));
      }
    std::vector<size_t> pick(options.size(), 0);
    while (true) {
      add_placement(options, pick);
      size_t k = 0;
      for (; k < pick.size(); ++k) {
        if (++pick[k] < options[k].size()) break;
        pick[k] = 0;
      }
      if (k == pick.size()) return;
    }
  }

  void add_placement(const std::vector<std::vector<Placement>>& options,
                     const std::vector<size_t>& pick) {
    RuleClaim claim;
    std::optional<std::vector<Spec>> outputs;
    try {
      const size_t axes = on_.cuts.size();
      for (size_t i = 0; i < instance_.inputs.size(); ++i) {
        std::vector<Placement> placements;
        for (size_t axis = 0; axis < axes; ++axis)
          placements.push_back(options[i * axes + axis][pick[i * axes + axis]]);
        claim.inputs.push_back(spec_of(instance_.inputs[i], on_.mesh, placements));
      }
      outputs = rule_.joint(instance_.call(), outputs_, claim.inputs);
    } catch (const Error&) {
      return;  // two different partials, or sizes that do not fit
    }
    if (!outputs) return;
    claim.placed.outputs = *outputs;
    claim.placed.rank_attrs = rule_.joint_form == LocalExecution::local_attrs;
    claim.placed.shard_info = rule_.joint_form == LocalExecution::needs_shard_index;
    claim.placed.lower = rule_.joint_form == LocalExecution::lower_to_ops;
    claims_.push_back(std::move(claim));
  }

  const OpInstance& instance_;
  const Rule& rule_;
  const MeshChoice& on_;
  std::vector<TensorMeta> outputs_;
  std::vector<RuleClaim> claims_;
};

int axes_that_place(const std::vector<Spec>& inputs) {
  int count = 0;
  for (int axis = 0; axis < inputs.front().mesh().axis_count(); ++axis)
    count += std::any_of(inputs.begin(), inputs.end(),
                         [&](const Spec& spec) { return !spec.placement(axis).is_replicate(); });
  return count;
}

// Runs one claim on one draw.
class ClaimRun {
 public:
  ClaimRun(const RuleClaim& claim, const std::vector<const Slices*>& inputs, const RuleDraw& draw,
           const OpRegistry& ops, ShardCache& cache)
      : claim_(claim), inputs_(inputs), draw_(draw), ops_(ops), cache_(cache) {
    for (size_t i = 0; i < inputs.size(); ++i)
      largest_part_ =
          std::max(largest_part_, cache.contents(draw, i, *inputs[i]).placed.largest_part);
    for (const Spec& output : claim.placed.outputs) outputs_.push_back(&output);
  }

  // Throws Error if a lowering refuses the cuts.
  ShardResults run() {
    const Placed& placed = claim_.placed;
    if (placed.lower) return run_lowered();
    if (!placed.rank_attrs && !placed.shard_info)
      return run_on_shards(draw_, {draw_.computation.get()}, inputs_, cache_);
    LocalCall call;
    call.record = draw_.instance.record;
    call.attrs = &draw_.instance.attrs;
    call.metas = draw_.instance.inputs;
    const std::vector<LocalTensor> values = values_on_ranks();
    call.input_specs = input_specs();
    for (size_t i = 0; i < values.size(); ++i)
      call.inputs.push_back(call.metas[i].absent ? nullptr : &values[i]);
    for (size_t o = 0; o < outputs_.size(); ++o)
      call.output_specs.push_back(outputs_[o]->with_dtype(draw_.outputs[o].dtype));
    call.rank_attrs = placed.rank_attrs;
    call.shard_info = placed.shard_info;
    return results_of(run_local(call), inputs_.front()->ranks());
  }

  Agreement judge_one(size_t output, const ShardResults& results, Disagreement& first) const {
    return judge_output(draw_, output, cache_.slices(*outputs_[output]), results,
                        std::max(largest_part_, largest_result(output, results)), &first);
  }

 private:
  std::vector<Spec> input_specs() const {
    std::vector<Spec> specs;
    for (size_t i = 0; i < claim_.inputs.size(); ++i)
      specs.push_back(claim_.inputs[i].with_dtype(draw_.instance.inputs[i].dtype));
    return specs;
  }
  std::vector<LocalTensor> values_on_ranks() const {
    std::vector<LocalTensor> values;
    for (size_t i = 0; i < inputs_.size(); ++i)
      values.push_back(
          draw_.instance.inputs[i].absent
              ? LocalTensor{}
              : local_tensor_of(cache_.contents(draw_, i, *inputs_[i]).placed, *inputs_[i]));
    return values;
  }

  ShardResults run_lowered() {
    const std::vector<LocalTensor> parts = values_on_ranks();
    const std::vector<Spec> specs = input_specs();
    std::vector<LowerByRules::Value> values;
    for (size_t i = 0; i < parts.size(); ++i)
      values.push_back({draw_.instance.inputs[i], specs[i], parts[i]});
    LowerByRules builder(ops_, specs.front().mesh(), std::move(values));
    const std::vector<int> handles =
        draw_.instance.record->rule.lower(draw_.instance.call(), specs, builder);
    std::vector<LocalTensor> results;
    for (size_t i = 0; i < handles.size(); ++i) {
      const Spec& made = builder.spec(handles[i]);
      if (builder.has_replicated())
        outputs_[i] = &lowered_.emplace_back(made);
      else if (!(made == outputs_[i]->with_dtype(draw_.outputs[i].dtype)))
        throw_bad_input("lowered to {}, the strategy states {}", to_string(made),
                        to_string(outputs_[i]->with_dtype(draw_.outputs[i].dtype)));
      results.push_back(builder.parts(handles[i]));
    }
    return results_of(results, inputs_.front()->ranks());
  }

  // Parts of a result may be larger than the result; their rounding counts.
  double largest_result(size_t output, const ShardResults& results) const {
    const RankResults& ranks = results.outputs[output];
    if (ranks.dtype != DType::f64) return 0;
    double largest = 0;
    for (size_t rank = 0; rank < ranks.data.size(); ++rank)
      for (int64_t i = 0, n = element_count(results.shapes[output][rank]); i < n; ++i) {
        const double x = std::fabs(load_f64(ranks.data[rank] + 8 * i, DType::f64));
        if (std::isfinite(x)) largest = std::max(largest, x);
      }
    return largest;
  }

  const RuleClaim& claim_;
  const std::vector<const Slices*>& inputs_;
  const RuleDraw& draw_;
  const OpRegistry& ops_;
  ShardCache& cache_;
  std::vector<const Spec*> outputs_;  // of any dtype
  std::deque<Spec> lowered_;
  double largest_part_ = 0;
};

// Returns the answer of one draw.
ClaimAnswer answer_of(const RuleClaim& claim, const std::vector<const Slices*>& inputs,
                      const RuleDraw& draw, const OpRegistry& ops, ShardCache& cache) {
  ClaimAnswer answer;
  answer.draw = draw.kind;
  answer.seed = draw.seed;
  ShardResults results;
  ClaimRun run(claim, inputs, draw, ops, cache);
  try {
    results = run.run();
  } catch (const Error& error) {
    results.trouble = error.message();
    // A lowering may reject shardings by other axes.
    if (claim.placed.lower && axes_that_place(claim.inputs) > 1) {
      answer.kind = ClaimAnswer::Kind::refused;
      answer.reason = error.message();
      return answer;
    }
  }
  if (!results.trouble.empty()) {
    answer.kind = ClaimAnswer::Kind::wrong;
    answer.trouble = results.trouble;
    return answer;
  }
  answer.kind = ClaimAnswer::Kind::holds;
  for (size_t o = 0; o < draw.outputs.size(); ++o) {
    Disagreement first;
    const Agreement one = run.judge_one(o, results, first);
    if (one == Agreement::agrees) continue;
    answer.output = o;
    answer.first = first;
    answer.kind =
        one == Agreement::differs ? ClaimAnswer::Kind::wrong : ClaimAnswer::Kind::undecided;
    if (one == Agreement::differs) return answer;
    answer.reason = kNeitherReason;
  }
  return answer;
}

}  // namespace

std::vector<RuleClaim> claims_of(const OpInstance& instance, const MeshChoice& on) {
  return ClaimLister(instance, on).list();
}

std::string unjudged_reason(const std::vector<RuleDraw>& draws) {
  return draws.empty() ? "one device computes the call on no draw"
                       : "no draw applies to these placements";
}

ClaimAnswer check_claim(const RuleClaim& claim, const std::vector<RuleDraw>& draws,
                        const OpRegistry& ops, ShardCache& cache) {
  ClaimAnswer worst;
  worst.reason = unjudged_reason(draws);
  std::vector<const Slices*> inputs;
  for (const Spec& spec : claim.inputs) inputs.push_back(&cache.slices(spec));
  bool any_holds = false;
  for (const RuleDraw& draw : draws) {
    if (!applies(draw, claim.inputs, claim.placed.outputs)) continue;
    ClaimAnswer answer = answer_of(claim, inputs, draw, ops, cache);
    if (answer.kind == ClaimAnswer::Kind::wrong || answer.kind == ClaimAnswer::Kind::refused)
      return answer;
    if (answer.kind == ClaimAnswer::Kind::holds)
      any_holds = true;
    else
      worst = std::move(answer);
  }
  if (any_holds) worst.kind = ClaimAnswer::Kind::holds;
  return worst;
}

}  // namespace shardproof
