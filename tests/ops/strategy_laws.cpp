// The law of rules: for every op, every sample and every strategy, and every pair of strategies on
// two axes, the parts that ranks compute from their shards make up what one device computes. Bit
// for bit where the op's bound says exact, else within twice the bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>

#include "shardproof/engine/input_bounds.h"
#include "shardproof/engine/part_bounds.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/split.h"
#include "shardproof/ops/run_once.h"
#include "shardproof/tests/ops/lower_by_rules.h"
#include "shardproof/tests/ops/run_op.h"

namespace shardproof::testing {
namespace {

constexpr size_t kShownFailures = 10;

// How an axis cuts: the chunk rule, strided, or explicit sizes.
struct CutChoice {
  int64_t split = 1;
  std::vector<int64_t> shares;  // of the extent, in order; empty: the chunk rule
};

struct Whole {
  OpInstance instance;
  std::vector<TensorMeta> metas;
  std::vector<Tensor> outputs;
  std::vector<Bound> bounds;
};

Whole whole_of(const OpRecord& record, const Sample& sample, int64_t parts) {
  Whole whole{instance_of(record, sample, 17), {}, {}, {}};
  const OpCall call = whole.instance.call();
  whole.metas = record.infer(call);
  whole.outputs = run_once(record, call, whole.instance.pointers());
  std::vector<Bound> exact;
  BoundCall bounds{&call, whole.instance.pointers(), {}, {}, parts};
  for (const Tensor* input : bounds.inputs)
    exact.push_back(input ? Bound::exact_of(*input) : Bound{});
  for (size_t i = 0; i < exact.size(); ++i)
    bounds.input_bounds.push_back(bounds.inputs[i] ? &exact[i] : nullptr);
  for (const Tensor& output : whole.outputs) bounds.outputs.push_back(&output);
  whole.bounds = record.bound(bounds);
  return whole;
}

class Checker {
 public:
  Checker(const OpRegistry& ops, const OpRecord& record) : ops_(ops), record_(record) {}

  int64_t combos() const { return combos_; }
  int64_t refused() const { return refused_; }
  const std::vector<std::string>& failures() const { return failures_; }

  void check(const Sample& sample, const Mesh& mesh, const std::vector<CutChoice>& cuts) {
    Whole whole = whole_of(record_, sample, mesh.size());
    const OpCall call = whole.instance.call();
    std::vector<std::vector<Strategy>> rules;
    for (const MeshAxis& axis : mesh.axes()) {
      rules.push_back(record_.rule.strategies
                          ? record_.rule.strategies(call, whole.metas, axis.size)
                          : std::vector<Strategy>{});
      if (record_.rule.joint) std::erase_if(rules.back(), has_shards);
    }
    std::vector<const Strategy*> chosen(rules.size(), nullptr);
    each_choice(whole, mesh, cuts, rules, chosen, 0);
    if (record_.rule.joint) each_placement(whole, mesh, cuts);
  }

 private:
  static bool has_shards(const Strategy& s) {
    auto shard = [](const Placement& p) { return p.is_shard(); };
    return std::any_of(s.inputs.begin(), s.inputs.end(), shard) ||
           std::any_of(s.outputs.begin(), s.outputs.end(), shard);
  }

  void each_choice(const Whole& whole, const Mesh& mesh, const std::vector<CutChoice>& cuts,
                   const std::vector<std::vector<Strategy>>& rules,
                   std::vector<const Strategy*>& chosen, size_t axis) {
    if (axis == rules.size()) {
      try_strategies(whole, mesh, cuts, chosen);
      return;
    }
    chosen[axis] = nullptr;
    each_choice(whole, mesh, cuts, rules, chosen, axis + 1);
    for (const Strategy& strategy : rules[axis]) {
      chosen[axis] = &strategy;
      each_choice(whole, mesh, cuts, rules, chosen, axis + 1);
    }
  }

  // The same cut on every tensor; nothing when the extent cannot be shared out so.
  static std::optional<Placement> with_cut(const Placement& placement, const CutChoice& cut,
                                           const Dims& shape) {
    if (!placement.is_shard()) return placement;
    Shard shard{placement.shard().dim, cut.split, {}};
    if (!cut.shares.empty()) {
      int64_t rest = shape[shard.dim];
      for (const int64_t share : cut.shares) {
        shard.sizes.push_back(std::min(rest, share));
        rest -= shard.sizes.back();
      }
      shard.sizes.front() += rest;
    }
    return shard;
  }

  void try_strategies(const Whole& whole, const Mesh& mesh, const std::vector<CutChoice>& cuts,
                      const std::vector<const Strategy*>& chosen) {
    std::vector<Spec> inputs;
    std::optional<Placed> placed;
    try {
      for (size_t i = 0; i < whole.instance.inputs.size(); ++i) {
        const TensorMeta& meta = whole.instance.inputs[i];
        std::vector<Placement> placements;
        for (size_t axis = 0; axis < chosen.size(); ++axis) {
          const Placement at = chosen[axis] ? chosen[axis]->inputs[i] : R();
          placements.push_back(*with_cut(at, cuts[axis], meta.shape));
        }
        inputs.emplace_back(mesh, placements, meta.absent ? Dims{} : meta.shape, meta.dtype);
      }
      if (inputs.empty()) return;
      placed = place(whole.metas, inputs, chosen);
    } catch (const Error&) {
      return;  // two different partials on one tensor
    }
    if (placed) verify(whole, inputs, *placed);
  }

  void each_placement(const Whole& whole, const Mesh& mesh, const std::vector<CutChoice>& cuts) {
    std::vector<std::vector<Placement>> options;  // one list per (input, axis)
    for (const TensorMeta& meta : whole.instance.inputs)
      for (size_t axis = 0; axis < cuts.size(); ++axis) {
        options.push_back({R()});
        if (meta.absent || meta.weak) continue;
        for (int d = 0; d < meta.shape.size(); ++d)
          options.back().push_back(*with_cut(S(d), cuts[axis], meta.shape));
        if (reduction_allowed(ReduceOp::sum, meta.dtype))
          options.back().push_back(P(ReduceOp::sum));
      }
    std::vector<size_t> pick(options.size(), 0);
    while (true) {
      try_placement(whole, mesh, options, pick);
      size_t k = 0;
      for (; k < pick.size(); ++k) {
        if (++pick[k] < options[k].size()) break;
        pick[k] = 0;
      }
      if (k == pick.size()) return;
    }
  }

  void try_placement(const Whole& whole, const Mesh& mesh,
                     const std::vector<std::vector<Placement>>& options,
                     const std::vector<size_t>& pick) {
    std::vector<Spec> inputs;
    const auto axes = static_cast<size_t>(mesh.axis_count());
    std::optional<std::vector<Spec>> outputs;
    try {
      for (size_t i = 0; i < whole.instance.inputs.size(); ++i) {
        std::vector<Placement> placements;
        for (size_t axis = 0; axis < axes; ++axis)
          placements.push_back(options[i * axes + axis][pick[i * axes + axis]]);
        const TensorMeta& meta = whole.instance.inputs[i];
        inputs.emplace_back(mesh, placements, meta.absent ? Dims{} : meta.shape, meta.dtype);
      }
      outputs = record_.rule.joint(whole.instance.call(), whole.metas, inputs);
    } catch (const Error&) {
      return;
    }
    if (!outputs) return;
    const LocalForm form = record_.rule.joint_form;
    verify(
        whole, inputs,
        {*outputs, form == LocalForm::attrs, form == LocalForm::shard, form == LocalForm::lower});
  }

  void verify(const Whole& whole, const std::vector<Spec>& inputs, const Placed& placed) {
    ++combos_;
    std::vector<LocalTensor> parts;
    for (size_t i = 0; i < inputs.size(); ++i)
      parts.push_back(whole.instance.inputs[i].absent
                          ? LocalTensor{}
                          : split(whole.instance.tensors[i], inputs[i], PartialFill::exact, 5 + i));
    std::vector<Spec> specs = placed.outputs;
    std::vector<LocalTensor> results;
    try {
      results = placed.lower ? lowered(whole, inputs, parts, specs)
                             : direct(whole, inputs, parts, placed);
    } catch (const Error& error) {
      // A lowering may refuse what other axes cut beside its own.
      if (placed.lower && axes_that_place(inputs) > 1) {
        ++refused_;
        return;
      }
      return fail(whole, inputs, placed.outputs, error.message());
    }
    const std::vector<Bound> bounds = bounds_of(whole, inputs, parts, specs);
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string trouble =
          difference(assemble(results[i], specs[i]), whole.outputs[i], bounds[i]);
      if (!trouble.empty()) return fail(whole, inputs, specs, trouble);
    }
  }

  // Parts that do not add up exactly, and results whose parts are larger than they are, lose more
  // than the value does.
  std::vector<Bound> bounds_of(const Whole& whole, const std::vector<Spec>& inputs,
                               const std::vector<LocalTensor>& parts,
                               const std::vector<Spec>& outputs) const {
    if (std::none_of(inputs.begin(), inputs.end(),
                     [](const Spec& spec) { return spec.has_partial(); }))
      return whole.bounds;
    const OpCall call = whole.instance.call();
    std::vector<Bound> given;
    for (size_t i = 0; i < inputs.size(); ++i)
      given.push_back(call.inputs[i].absent ? Bound{}
                      : inputs[i].has_partial()
                          ? bound_of_parts(whole.instance.tensors[i], inputs[i], parts[i])
                          : Bound::exact_of(whole.instance.tensors[i]));
    BoundCall at{&call, whole.instance.pointers(), {}, {}, inputs.front().mesh().size()};
    for (size_t i = 0; i < given.size(); ++i)
      at.input_bounds.push_back(at.inputs[i] ? &given[i] : nullptr);
    for (const Tensor& output : whole.outputs) at.outputs.push_back(&output);
    std::vector<Bound> bounds = record_.bound(at);
    std::vector<bool> in_parts;
    for (const Spec& spec : outputs) in_parts.push_back(spec.has_partial());
    widen_for_parts(record_, at, in_parts, bounds);
    return bounds;
  }

  static int axes_that_place(const std::vector<Spec>& inputs) {
    int count = 0;
    for (int axis = 0; axis < inputs.front().mesh().axis_count(); ++axis)
      count += std::any_of(inputs.begin(), inputs.end(),
                           [&](const Spec& spec) { return !spec.placement(axis).is_replicate(); });
    return count;
  }

  std::vector<LocalTensor> direct(const Whole& whole, const std::vector<Spec>& inputs,
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

  std::vector<LocalTensor> lowered(const Whole& whole, const std::vector<Spec>& inputs,
                                   const std::vector<LocalTensor>& parts,
                                   std::vector<Spec>& specs) const {
    std::vector<LowerByRules::Value> values;
    for (size_t i = 0; i < parts.size(); ++i)
      values.push_back({whole.instance.inputs[i], inputs[i], parts[i]});
    LowerByRules builder(ops_, inputs.front().mesh(), std::move(values));
    const std::vector<int> handles = record_.rule.lower(whole.instance.call(), inputs, builder);
    std::vector<LocalTensor> results;
    for (size_t i = 0; i < handles.size(); ++i) {
      if (!(builder.spec(handles[i]) == specs[i]))
        throw_bad_input("lowered to {}, the strategy says {}", to_string(builder.spec(handles[i])),
                        to_string(specs[i]));
      results.push_back(builder.parts(handles[i]));
    }
    return results;
  }

  static std::string difference(const Tensor& got, const Tensor& want, const Bound& bound) {
    if (got.shape != want.shape || got.dtype != want.dtype) return "shape or dtype differs";
    const std::vector<double> a = values_of(got), b = values_of(want);
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      const double allowed = 2 * error_of(bound, static_cast<int64_t>(i));
      if (std::fabs(a[i] - b[i]) <= allowed) continue;
      return fmt::format("element {} is {}, expected {}{}", i, a[i], b[i],
                         allowed == 0 ? "" : fmt::format(" within {}", allowed));
    }
    return "";
  }

  void fail(const Whole& whole, const std::vector<Spec>& inputs, const std::vector<Spec>& outputs,
            const std::string& why) {
    std::string text = record_.name + "(" + to_string(whole.instance.attrs) + ")";
    for (const Spec& spec : inputs) text += "\n    in  " + to_string(spec);
    for (const Spec& spec : outputs) text += "\n    out " + to_string(spec);
    failures_.push_back(text + "\n    " + why);
  }

  const OpRegistry& ops_;
  const OpRecord& record_;
  int64_t combos_ = 0, refused_ = 0;
  std::vector<std::string> failures_;
};

void check_meshes(Checker& checker, const Sample& sample) {
  const Mesh two = Mesh::parse("a=2"), three = Mesh::parse("a=3"), four = Mesh::parse("a=2, b=2");
  checker.check(sample, two, {{}});
  checker.check(sample, two, {{2, {}}});
  checker.check(sample, two, {{1, {1, 100}}});
  checker.check(sample, three, {{}});
  checker.check(sample, three, {{1, {0, 100, 0}}});
  checker.check(sample, three, {{1, {2, 0, 100}}});
  checker.check(sample, four, {{}, {}});
  checker.check(sample, four, {{}, {2, {}}});
}

class StrategyLaws : public ::testing::TestWithParam<std::string> {};

TEST_P(StrategyLaws, PartsMakeUpTheWhole) {
  const OpRegistry ops = builtin_ops();
  const OpRecord& record = ops.at(GetParam());
  const std::vector<Sample> samples = record.samples();
  EXPECT_FALSE(samples.empty()) << "an op without samples is an op without laws";
  Checker checker(ops, record);
  const auto start = std::chrono::steady_clock::now();
  for (const Sample& sample : samples)
    if (!record.is_written_as_others(instance_of(record, sample, 1).call()))
      check_meshes(checker, sample);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  RecordProperty("combos", std::to_string(checker.combos()));
  std::cout << "  " << record.name << ": " << checker.combos() << " combinations, "
            << static_cast<int64_t>(static_cast<double>(checker.combos()) / taken.count())
            << " a second\n";
  EXPECT_LE(checker.refused() * 20, checker.combos()) << "lowerings refused";
  for (size_t i = 0; i < std::min(kShownFailures, checker.failures().size()); ++i)
    ADD_FAILURE() << checker.failures()[i];
  EXPECT_TRUE(checker.failures().empty())
      << checker.failures().size() << " of " << checker.combos();
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  const OpRegistry ops = builtin_ops();
  // A name for other ops has no strategies of its own.
  for (const OpRecord* record : ops.all())
    if (record->infer) names.push_back(record->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllOps, StrategyLaws, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace shardproof::testing
