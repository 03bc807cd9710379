// Implements check_rules.h.
#include "shardproof/engine/certify/check_rules.h"

#include <algorithm>
#include <set>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kReals = 3;  // real draws: a claim may be unclear on all but one
constexpr int kShortReals = 2;
constexpr size_t kMostVariants = 12;  // samples of other sizes, for each sample

Computation computation_of_op(const OpInstance& instance) {
  if (instance.record->is_composite(instance.call()))
    throw_bad_input("{} is written as other ops", instance.record->name);
  return Computation::of_op(*instance.record, instance.attrs);
}

MeshChoice mesh_choice(const char* mesh, std::vector<CutChoice> cuts) {
  return {Mesh::parse(mesh), std::move(cuts)};
}

// True if the op accepts a call of these shapes and the sample's numbers fit them.
bool is_legal(const OpRecord& record, const Sample& sample) {
  try {
    const OpInstance instance = instance_of(record, sample, 1);
    record.infer(instance.call());
    if (record.check)
      record.check(instance.call(), std::vector<const Number*>(instance.inputs.size(), nullptr));
    return true;
  } catch (const Error&) {
    return false;
  }
}

class SizeVariants {
 public:
  SizeVariants(const OpRecord& record, const Sample& sample) : record_(record), sample_(sample) {}

  std::vector<Sample> list() {
    std::set<int64_t> sizes;
    for (const TensorMeta& meta : sample_.inputs)
      for (const int64_t size : meta.shape) sizes.insert(size);
    for (const int64_t size : sizes)
      for (const int64_t other : {size + 1, int64_t{1}, int64_t{0}, size * 2}) {
        Sample varied = sample_;
        for (TensorMeta& meta : varied.inputs)
          for (int64_t& each : meta.shape)
            if (each == size) each = other;
        add(varied);
      }
    for (size_t i = 0; i < sample_.inputs.size(); ++i)
      for (int dim = 0; dim < sample_.inputs[i].shape.size(); ++dim)
        for (const int64_t step : {-1, 1}) {
          Sample varied = sample_;
          varied.inputs[i].shape[dim] += step;
          if (varied.inputs[i].shape[dim] > 0) add(varied);
        }
    return std::move(list_);
  }

 private:
  void add(const Sample& varied) {
    const auto same = [&](const Sample& known) { return known.inputs == varied.inputs; };
    if (list_.size() >= kMostVariants || same(sample_) ||
        std::any_of(list_.begin(), list_.end(), same) || !is_legal(record_, varied))
      return;
    list_.push_back(varied);
  }

  const OpRecord& record_;
  const Sample& sample_;
  std::vector<Sample> list_;
};

bool runs_the_op_itself(const RuleClaim& claim) {
  return !claim.placed.lower && !claim.placed.rank_attrs && !claim.placed.shard_info;
}

// Draws of equal dtypes, for which the rule makes the same claims.
std::vector<std::vector<RuleDraw>> draws_by_dtypes(std::vector<RuleDraw> draws) {
  std::vector<std::vector<RuleDraw>> groups;
  for (RuleDraw& draw : draws) {
    std::vector<RuleDraw>* group = nullptr;
    for (std::vector<RuleDraw>& known : groups)
      if (known.front().instance.inputs == draw.instance.inputs) group = &known;
    if (!group) group = &groups.emplace_back();
    group->push_back(std::move(draw));
  }
  return groups;
}

class SampleCheck {
 public:
  SampleCheck(const OpRegistry& ops, const Sample& sample, const OpRecord& record,
              const RuleOptions& options, OpRuleReport& report)
      : ops_(ops), report_(report) {
    const OpInstance own = instance_of(record, sample, options.seed);
    if (record.is_composite(own.call())) return;
    groups_ =
        draws_by_dtypes(draws_of_op(own, options.is_short ? kShortReals : kReals, options.seed));
  }

  void check_on(const MeshChoice& on) {
    for (const std::vector<RuleDraw>& group : groups_)
      for (const RuleClaim& claim : claims_of(group.front().instance, on)) {
        ++report_.combinations;
        ClaimAnswer answer = check_claim(claim, group, ops_);
        // A rule of floats that runs the op itself must hold for exact integers too.
        const bool is_float = group.front().kind == DrawKind::real;
        if (is_float && answer.kind == ClaimAnswer::Kind::holds && runs_the_op_itself(claim) &&
            is_integer_kind(groups_.front().front().kind))
          if (ClaimAnswer exact = check_claim(claim, groups_.front(), ops_);
              exact.kind == ClaimAnswer::Kind::wrong)
            answer = std::move(exact);
        count(group.front().instance, claim, std::move(answer));
      }
  }

 private:
  void count(const OpInstance& instance, const RuleClaim& claim, ClaimAnswer answer) {
    if (answer.kind == ClaimAnswer::Kind::refused) ++report_.refused;
    if (answer.kind == ClaimAnswer::Kind::undecided) ++report_.undecided;
    if (answer.kind == ClaimAnswer::Kind::wrong)
      report_.wrong.push_back({instance, claim, std::move(answer)});
  }

  const OpRegistry& ops_;
  OpRuleReport& report_;
  std::vector<std::vector<RuleDraw>> groups_;
};

void check_sample(const OpRecord& record, const OpRegistry& ops, const Sample& sample,
                  const RuleOptions& options, const std::vector<MeshChoice>& meshes,
                  OpRuleReport& report) {
  SampleCheck check(ops, sample, record, options, report);
  for (const MeshChoice& on : meshes) check.check_on(on);
}

}  // namespace

std::vector<MeshChoice> rule_meshes(bool is_short) {
  const CutChoice chunks, strided{2, {}};
  std::vector<MeshChoice> meshes = {
      mesh_choice("a=2", {chunks}),
      mesh_choice("a=2", {strided}),
      mesh_choice("a=2", {{1, {1, 100}}}),
      mesh_choice("a=3", {chunks}),
      mesh_choice("a=3", {{1, {0, 100, 0}}}),
      mesh_choice("a=3", {{1, {2, 0, 100}}}),
      mesh_choice("a=2, b=2", {chunks, chunks}),
      mesh_choice("a=2, b=2", {chunks, strided}),
  };
  if (is_short) return meshes;
  meshes.push_back(mesh_choice("a=1", {chunks}));
  meshes.push_back(mesh_choice("a=4", {chunks}));
  meshes.push_back(mesh_choice("a=4", {strided}));
  meshes.push_back(mesh_choice("a=2, b=3", {chunks, chunks}));
  return meshes;
}

std::vector<Sample> samples_of_other_sizes(const OpRecord& record, const Sample& sample) {
  return SizeVariants(record, sample).list();
}

std::vector<RuleDraw> draws_of_op(const OpInstance& instance, int reals, uint64_t seed) {
  return draws_of(instance, computation_of_op, reals, seed);
}

OpRuleReport check_rule(const OpRecord& record, const OpRegistry& ops, const RuleOptions& options) {
  OpRuleReport report;
  report.op = record.name;
  if (!record.infer) return report;
  const std::vector<MeshChoice> meshes = rule_meshes(options.is_short);
  const MeshChoice cube = mesh_choice("a=2, b=2, c=2", {CutChoice{}, CutChoice{}, CutChoice{}});
  for (const Sample& sample : record.samples()) {
    check_sample(record, ops, sample, options, meshes, report);
    // The rules of three axes are many, so samples of other sizes leave them out.
    if (!options.is_short) check_sample(record, ops, sample, options, {cube}, report);
    // Inputs counted in order depend on each other's sizes.
    const bool is_related =
        std::find(sample.fills.begin(), sample.fills.end(), "iota") != sample.fills.end();
    if (options.is_short || is_related) continue;
    for (const Sample& varied : samples_of_other_sizes(record, sample))
      check_sample(record, ops, varied, options, meshes, report);
  }
  return report;
}

}  // namespace shardproof
