// Implements check_rules.h.
#include "shardproof/engine/check_ops/check_rules.h"

#include <algorithm>
#include <set>

#include "shardproof/engine/check_ops/legal_indices.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/run_single_device.h"

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

// True if a dim is cut by several axes, whose order then matters.
bool has_nested_cuts(const Spec& spec) {
  for (int dim = 0; dim < spec.shape().size(); ++dim)
    if (spec.axes_of_dim(dim).size() > 1) return true;
  return false;
}

// The claims of one group of draws that were judged. A claim is not judged again if it is equal to
// another one. If each rank runs the op itself, these are equal:
// - claims under which each rank holds the same elements of all inputs and results, as under S(0)
//   and S(0, split=2) of a dim of 2 elements;
// - claims with two axes of equal size exchanged, which gives the ranks other numbers and changes
//   nothing else, unless several axes cut one dim.
// Other forms read the placements, so that their claims must be placed equally.
class JudgedClaims {
 public:
  explicit JudgedClaims(ShardCache& cache) : cache_(cache) {}
  // Returns false if an equal claim was added before.
  bool add(const RuleClaim& claim) {
    std::vector<const Spec*> specs;
    for (const std::vector<Spec>* list : {&claim.inputs, &claim.placed.outputs})
      for (const Spec& spec : *list) specs.push_back(&spec);
    if (!runs_the_op_itself(claim)) {
      std::string key;
      for (const Spec* spec : specs) key += to_string(*spec) + "|";
      return texts_.insert(std::move(key)).second;
    }
    std::vector<const Slices*> key;
    for (const Spec& spec : with_axes_in_order(specs)) key.push_back(&cache_.slices(spec));
    return known_.insert(std::move(key)).second;
  }

 private:
  // Returns the specs with axes of equal size ordered by their placements.
  static std::vector<Spec> with_axes_in_order(const std::vector<const Spec*>& specs) {
    const Mesh& mesh = specs.front()->mesh();
    std::vector<std::pair<std::string, int>> axes;
    for (int axis = 0; axis < mesh.axis_count(); ++axis) {
      axes.emplace_back(fmt::format("{:3}", mesh.axis_size(axis)), axis);
      for (const Spec* spec : specs) axes.back().first += to_string(spec->placement(axis)) + " ";
    }
    const bool is_free = std::none_of(specs.begin(), specs.end(),
                                      [](const Spec* spec) { return has_nested_cuts(*spec); });
    const bool is_square = mesh.size() > 1 && axes.size() > 1 &&
                           std::all_of(axes.begin(), axes.end(), [&](const auto& entry) {
                             return mesh.axis_size(entry.second) == mesh.axis_size(0);
                           });
    if (is_free && is_square) std::sort(axes.begin(), axes.end());
    std::vector<Spec> ordered;
    for (const Spec* spec : specs) {
      std::vector<Placement> placements;
      for (const auto& [text, axis] : axes) placements.push_back(spec->placement(axis));
      ordered.emplace_back(mesh, std::move(placements), spec->shape(), spec->dtype(),
                           is_free && is_square ? std::vector<int>{} : spec->order());
    }
    return ordered;
  }

  ShardCache& cache_;
  std::set<std::vector<const Slices*>> known_;
  std::set<std::string> texts_;
};

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
        draws_by_dtypes(draws_of_op(own, {options.is_short ? kShortReals : kReals}, options.seed));
    for (size_t k = 0; k < groups_.size(); ++k) judged_.emplace_back(cache_);
  }

  void check_on(const MeshChoice& on) {
    for (size_t k = 0; k < groups_.size(); ++k) {
      const std::vector<RuleDraw>& group = groups_[k];
      for (const RuleClaim& claim : claims_of(group.front().instance, on)) {
        if (!judged_[k].add(claim)) continue;
        ++report_.combinations;
        ClaimAnswer answer = check_claim(claim, group, ops_, cache_);
        // A rule of floats that runs the op itself must hold for exact integers too.
        const bool is_float = group.front().kind == DrawKind::real;
        if (is_float && answer.kind == ClaimAnswer::Kind::holds && runs_the_op_itself(claim) &&
            is_integer_kind(groups_.front().front().kind))
          if (ClaimAnswer exact = check_claim(claim, groups_.front(), ops_, cache_);
              exact.kind == ClaimAnswer::Kind::wrong)
            answer = std::move(exact);
        count(group.front().instance, claim, std::move(answer));
      }
    }
  }

 private:
  void count(const OpInstance& instance, const RuleClaim& claim, ClaimAnswer answer) {
    if (answer.kind == ClaimAnswer::Kind::refused) {
      ++report_.refused;
      ++report_.refused_reasons[answer.reason];
    }
    if (answer.kind == ClaimAnswer::Kind::undecided) {
      ++report_.undecided;
      ++report_.reasons[answer.reason];
    }
    if (answer.kind == ClaimAnswer::Kind::wrong)
      report_.wrong.push_back({instance, claim, std::move(answer)});
  }

  const OpRegistry& ops_;
  OpRuleReport& report_;
  std::vector<std::vector<RuleDraw>> groups_;
  ShardCache cache_;
  std::vector<JudgedClaims> judged_;  // by group
};

void check_sample(const OpRecord& record, const OpRegistry& ops, const Sample& sample,
                  const RuleOptions& options, const std::vector<MeshChoice>& meshes,
                  OpRuleReport& report) {
  SampleCheck check(ops, sample, record, options, report);
  for (const MeshChoice& on : meshes) check.check_on(on);
}

// True if one device computes the op on the numbers of a sample.
bool computes(const OpRecord& record, const Sample& sample, uint64_t seed) {
  try {
    const OpInstance instance = instance_of(record, sample, seed);
    if (record.is_composite(instance.call())) return true;
    run_once(record, instance.call(), instance.pointers());
    return true;
  } catch (const Error&) {
    return false;
  }
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

std::vector<RuleDraw> draws_of_op(const OpInstance& instance, const DrawCounts& counts,
                                  uint64_t seed) {
  return draws_of(instance, computation_of_op, counts, seed);
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
    for (Sample& varied : samples_of_other_sizes(record, sample))
      if (narrow_indices(varied,
                         [&](const Sample& s) { return computes(record, s, options.seed); }))
        check_sample(record, ops, varied, options, meshes, report);
  }
  return report;
}

}  // namespace shardproof
