// Implements check_gradients.h.
#include "shardproof/engine/check_ops/check_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "shardproof/engine/check_ops/candidates.h"
#include "shardproof/engine/check_ops/enumerate.h"
#include "shardproof/engine/check_ops/legal_indices.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof {
namespace {

constexpr size_t kMostResults = 3;
constexpr DrawCounts kGradientDraws{3};   // of one call; an op has many samples
constexpr size_t kMostTried = 1 << 14;    // choices of placements of the inputs
constexpr int kFormulaDraws = 3;          // of which a gradient is compared with differences
constexpr int kDirections = 4;            // of one sample
constexpr double kFormulaStep = 0x1p-12;  // of the wide difference; the narrow one has half of it
constexpr double kFormulaRounding = 0x1p-46;  // of the terms, over the step
constexpr double kFormulaWrong = 64;          // errors of the difference that make a gradient wrong

int64_t doubles_in(const Tensor& wide) {
  return wide.elements() * (wide.dtype == DType::c128 ? 2 : 1);
}
bool is_wide(const Tensor& tensor) {
  return tensor.buffer && (tensor.dtype == DType::f64 || tensor.dtype == DType::c128);
}
double double_at(const Tensor& wide, int64_t i) {
  return load_f64(wide.data() + 8 * i, DType::f64);
}

// Returns numbers of -1..1; symmetric matrices for an input of such matrices.
Tensor drawn_direction(const Tensor& like, const std::string& fill, uint64_t seed) {
  Tensor tensor = Tensor::empty(like.dtype, like.shape);
  const Rng rng(seed, hash_text("direction"));
  std::byte* const at = tensor.mutate();
  for (int64_t i = 0, n = doubles_in(tensor); i < n; ++i)
    store_f64(at + 8 * i, DType::f64, rng.uniform(static_cast<uint64_t>(i)) * 2 - 1);
  if (fill == kDefiniteFill) mirror_lower_triangles(tensor);
  return tensor;
}

Tensor moved_along(const Tensor& x, const Tensor& direction, double step) {
  Tensor moved = Tensor::empty(x.dtype, x.shape);
  std::byte* const at = moved.mutate();
  for (int64_t i = 0, n = doubles_in(x); i < n; ++i)
    store_f64(at + 8 * i, DType::f64, double_at(x, i) + step * double_at(direction, i));
  return moved;
}

double sum_of_sizes(const std::vector<Tensor>& tensors) {
  double sum = 0;
  for (const Tensor& tensor : tensors)
    for (int64_t i = 0, n = doubles_in(tensor); i < n; ++i) sum += std::fabs(double_at(tensor, i));
  return sum;
}

int64_t count_not_finite(const Tensor& wide) {
  int64_t count = 0;
  for (int64_t i = 0, n = doubles_in(wide); i < n; ++i) count += !std::isfinite(double_at(wide, i));
  return count;
}

struct Product {
  double value = 0, terms = 0;  // terms: the sum of the sizes of the products
};
void add_product(Product& sum, const Tensor& a, const Tensor& b) {
  for (int64_t i = 0, n = doubles_in(a); i < n; ++i) {
    const double term = double_at(a, i) * double_at(b, i);
    sum.value += term;
    sum.terms += std::fabs(term);
  }
}

// The comparison of one gradient with central differences. `draw` computes the gradients from the
// inputs of the call and the cotangent.
class FormulaCheck {
 public:
  FormulaCheck(const Computation& forward, const RuleDraw& draw) : draw_(draw) {
    const size_t inputs = draw.instance.inputs.size() - 1;
    metas_.assign(draw.instance.inputs.begin(), draw.instance.inputs.end() - 1);
    for (size_t i = 0; i < inputs; ++i)
      if (has_gradient(metas_[i])) differentiated_.push_back(i);
    if (!applies()) return;
    program_ = forward.compile(metas_);
    for (const Tensor& gradient : draw.outputs) {
      gradient_size_ += doubles_in(gradient);
      gradient_not_finite_ += count_not_finite(gradient);
    }
    const Tensor result = result_at(draw.instance.tensors);
    result_size_ = doubles_in(result);
    result_not_finite_ = count_not_finite(result);
  }

  // False: the draw is not in f64.
  bool applies() const {
    return draw_.kind == DrawKind::real && is_wide(draw_.instance.tensors.back()) &&
           std::all_of(differentiated_.begin(), differentiated_.end(),
                       [&](size_t i) { return is_wide(draw_.instance.tensors[i]); }) &&
           std::all_of(draw_.outputs.begin(), draw_.outputs.end(), is_wide);
  }

  // If no element of the result is finite, the gradient agrees if none of its elements is, as in
  // the dual law.
  ClaimAnswer answer_along(uint64_t seed) const {
    ClaimAnswer answer;
    answer.draw = draw_.kind;
    answer.seed = seed;
    if (result_not_finite_ > 0) {
      answer.reason = gradient_not_finite_ == 0 ? "the result is not finite, but its gradient is"
                                                : "the result or its gradient is finite in part";
      if (result_not_finite_ == result_size_ && gradient_not_finite_ == gradient_size_)
        answer.kind = ClaimAnswer::Kind::holds;
      return answer;
    }
    std::vector<Tensor> directions;
    Product gradient;
    for (size_t k = 0; k < differentiated_.size(); ++k) {
      directions.push_back(drawn_direction(draw_.instance.tensors[differentiated_[k]],
                                           draw_.instance.fills[differentiated_[k]],
                                           seed + 11 * k));
      add_product(gradient, draw_.outputs[k], directions.back());
    }
    double terms = gradient.terms;
    const double wide = slope(directions, kFormulaStep, terms),
                 narrow = slope(directions, kFormulaStep / 2, terms);
    const double difference = narrow + (narrow - wide) / 3;
    double room = std::fabs(wide - narrow) + terms / kFormulaStep * kFormulaRounding;
    // If the result is constant to the bit, terms of the gradient cancel up to the inputs'
    // rounding. Example: cross_entropy of one class, 1 - 0.9 - 0.1.
    if (wide == 0 && narrow == 0) room += sum_of_sizes(directions) * rounding_of_inputs();
    const double apart = std::fabs(gradient.value - difference);
    answer.reason = std::isfinite(difference) ? "the distance of the gradient from a central "
                                                "difference decides neither right nor wrong"
                                              : "the result is not finite near the inputs";
    if (apart <= room) answer.kind = ClaimAnswer::Kind::holds;
    const bool is_apart = apart > kFormulaWrong * room && apart > 1e-6 * std::fabs(terms);
    if (std::isfinite(difference) && (gradient_not_finite_ > 0 || is_apart)) {
      answer.kind = ClaimAnswer::Kind::wrong;
      answer.trouble = fmt::format(
          "along a random direction the gradient gives {:.9g}, a central difference {:.9g}",
          gradient.value, difference);
    }
    return answer;
  }

 private:
  double rounding_of_inputs() const { return kFormulaRounding * draw_.largest_input; }
  double slope(const std::vector<Tensor>& directions, double step, double& terms) const {
    const Product low = weighted(directions, -step), high = weighted(directions, step);
    terms = std::max({terms, low.terms, high.terms});
    return (high.value - low.value) / (2 * step);
  }
  // Returns <cotangent, result> at the inputs moved by a step.
  Product weighted(const std::vector<Tensor>& directions, double step) const {
    std::vector<Tensor> inputs(draw_.instance.tensors.begin(), draw_.instance.tensors.end() - 1);
    for (size_t k = 0; k < differentiated_.size(); ++k) {
      Tensor& x = inputs[differentiated_[k]];
      x = moved_along(x, directions[k], step);
    }
    Product product;
    add_product(product, result_at(inputs), draw_.instance.tensors.back());
    return product;
  }
  Tensor result_at(const std::vector<Tensor>& inputs) const {
    return Computation::run_whole(program_, metas_,
                                  {inputs.begin(), inputs.begin() + std::ssize(metas_)})
        .front();
  }

  LocalProgram program_;  // the call
  const RuleDraw& draw_;
  std::vector<TensorMeta> metas_;
  std::vector<size_t> differentiated_;                   // inputs of the call
  int64_t gradient_size_ = 0, gradient_not_finite_ = 0;  // numbers of all gradients
  int64_t result_size_ = 0, result_not_finite_ = 0;
};

// Returns the call as a function of the results whose names are y0, y1, ...
RuleCase call_case(const OpInstance& instance, const std::vector<std::string>& targets) {
  RuleCase rule;
  rule.op = instance.record->name;
  std::vector<std::string> names;
  for (size_t i = 0; i < instance.inputs.size(); ++i) names.push_back(fmt::format("x{}", i));
  for (const std::string& target : targets)
    if (target[0] == 'y') rule.results.push_back(target);
  rule.lines = {fmt::format("{} = {}", fmt::join(targets, ", "), call_text(instance, names))};
  rule.inputs = instance.inputs;
  rule.fills = instance.fills;
  return rule;
}

// Returns the call as a function of one of its results, y0.
RuleCase call_of_one_result(const OpInstance& instance, size_t result, size_t results) {
  std::vector<std::string> targets;
  for (size_t o = 0; o < results; ++o)
    targets.push_back(o == result ? "y0" : fmt::format("other{}", o));
  return call_case(instance, targets);
}

RuleCase call_of_all_results(const OpInstance& instance, size_t results) {
  std::vector<std::string> targets;
  for (size_t o = 0; o < results; ++o) targets.push_back(fmt::format("y{}", o));
  return call_case(instance, targets);
}

RuleCase placed(RuleCase rule, const CasePlacements& on) {
  rule.mesh = on.mesh;
  rule.in = on.in;
  rule.out = on.out;
  rule.averaged_over = on.averaged_over;
  return rule;
}

// The placements on a mesh of one rank.
CasePlacements on_one_rank(const RuleCase& rule) {
  return {Mesh::parse("a=1"), std::vector<std::vector<Placement>>(rule.inputs.size(), {R()}),
          std::vector<std::vector<Placement>>(rule.results.size(), {R()}), 1};
}

// True if an input has symmetric matrices. The formula holds for these also if the sample names
// kinks: they move along symmetric directions, along which the op has a derivative.
bool has_definite_fill(const Sample& sample) {
  return std::find(sample.fills.begin(), sample.fills.end(), kDefiniteFill) != sample.fills.end();
}

// True for P of an operator other than sum, and for P(avg) of an input. On one axis.
bool has_no_dual_as_input(const Spec& spec) {
  const Placement& p = spec.placement(0);
  return p.is_partial() && p.partial().reduction.op != ReduceOp::sum;
}
bool has_no_dual_as_result(const Spec& spec) {
  const Placement& p = spec.placement(0);
  return has_no_dual_as_input(spec) && p.partial().reduction.op != ReduceOp::avg;
}

class GradientCheck {
 public:
  GradientCheck(const OpRegistry& ops, const RuleOptions& options, GradientReport& report)
      : ops_(ops), options_(options), report_(report) {}

  // Takes the gradient of one result. False: it has none or a narrow dtype, the call has no text in
  // the language, or its sample has fewer results.
  bool take(const OpRecord& record, const Sample& sample, size_t result) {
    result_ = result;
    instance_ = instance_of(record, sample, options_.seed);
    if (record.is_composite(instance_.call()) && !record.gradient_of(instance_.call()))
      return false;
    try {
      const std::vector<TensorMeta> results = results_of_call();
      if (result >= results.size() || !has_gradient(results[result])) return false;
      results_ = results;
      call_ = call_of_one_result(instance_, result, results.size());
      backward_ = call_;
      make_backward(backward_, ops_);
      Computation::of_lines(ops_, backward_.lines, backward_.results).compile(backward_.inputs);
      if (states_narrow_dtype()) return false;
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  // True if one device computes the call on the numbers of a sample. Requires take().
  bool computes(const OpRecord& record, const Sample& sample) const {
    try {
      const OpInstance instance = instance_of(record, sample, options_.seed);
      Computation::of_lines(ops_, call_.lines, call_.results)
          .run_whole(instance.inputs, instance.tensors);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // True if an input or the result has no elements.
  bool is_empty() const {
    return std::any_of(
        backward_.inputs.begin(), backward_.inputs.end(),
        [](const TensorMeta& meta) { return !meta.absent && element_count(meta.shape) == 0; });
  }

  // True if the gradients have elements. A gradient without any is right.
  bool has_elements() const {
    return std::any_of(call_.inputs.begin(), call_.inputs.end(), [](const TensorMeta& meta) {
      return has_gradient(meta) && element_count(meta.shape) > 0;
    });
  }

  void check_formula() {
    if (!has_elements()) return;
    const Computation forward = Computation::of_lines(ops_, call_.lines, call_.results);
    const std::vector<RuleDraw> draws = draws_of_case(backward_, ops_, kGradientDraws);
    int left = kFormulaDraws;
    for (const RuleDraw& draw : draws) {
      const FormulaCheck check(forward, draw);
      if (!check.applies()) continue;
      if (--left < 0) break;
      for (int k = 0; k < kDirections; ++k)
        count(backward_, on_one_rank(backward_), check.answer_along(options_.seed + 100 * k));
    }
  }

  // True if all placements of the inputs on an axis may be tried.
  bool has_few_placements(const Mesh& mesh) const {
    size_t choices = 1;
    for (const TensorMeta& meta : call_.inputs) {
      choices *= all_placements(meta, mesh, {}).size();
      if (choices > kMostTried) return false;
    }
    return true;
  }

  // Judges the dual of every right rule of the op on one axis. Placements of the inputs are right
  // if every result has a placement. Requires has_few_placements().
  void check_duals_of_right_rules(const Mesh& mesh) {
    const RuleCase all = call_of_all_results(instance_, results_.size());
    const std::vector<RuleDraw> draws = draws_of_case(all, ops_);
    if (draws.empty()) return;
    std::vector<std::vector<Spec>> inputs, outputs;
    for (const TensorMeta& meta : call_.inputs) {
      inputs.push_back(all_placements(meta, mesh, {}));
      if (has_gradient(meta)) std::erase_if(inputs.back(), has_no_dual_as_input);
    }
    for (const TensorMeta& meta : results_) outputs.push_back(all_placements(meta, mesh, {}));
    std::erase_if(outputs[result_], has_no_dual_as_result);
    const std::vector<RightRule> right = search_candidates(draws, inputs, outputs, tables_).right;
    std::map<std::vector<int32_t>, std::set<int32_t>> placed_results;
    for (const RightRule& rule : right) placed_results[rule.inputs].insert(rule.output);
    std::vector<CasePlacements> list;
    std::vector<const RightRule*> rules;  // of `list`
    const auto specs_of_inputs = [&](const RightRule& rule) {
      std::vector<Spec> in;
      for (size_t i = 0; i < inputs.size(); ++i)
        in.push_back(inputs[i][static_cast<size_t>(rule.inputs[i])]);
      return in;
    };
    const auto spec_of_result = [&](const RightRule& rule) {
      return outputs[result_][static_cast<size_t>(rule.placement)];
    };
    for (const RightRule& rule : right) {
      if (rule.output != static_cast<int32_t>(result_) ||
          placed_results[rule.inputs].size() < results_.size())
        continue;
      add_dual(specs_of_inputs(rule), {spec_of_result(rule)}, list);
      if (rules.size() < list.size()) rules.push_back(&rule);
    }
    const std::vector<ClaimAnswer> answers = check_cases(backward_, list, ops_, kGradientDraws);
    for (size_t i = 0; i < list.size(); ++i) {
      const ClaimAnswer& answer = answers[i];
      const bool is_special =
          answer.kind == ClaimAnswer::Kind::wrong && answer.draw == DrawKind::special;
      if (!is_special ||
          holds_on_special_numbers(specs_of_inputs(*rules[i]), spec_of_result(*rules[i])))
        count(backward_, list[i], answer);
    }
  }

  // Judges the duals of what the op's rule claims on these meshes.
  void check_duals_of_claims(const std::vector<MeshChoice>& meshes) {
    if (instance_.record->is_composite(instance_.call())) return;
    std::vector<CasePlacements> list;
    for (const MeshChoice& on : meshes)
      for (const RuleClaim& claim : claims_of(instance_, on))
        if (!claim.placed.lower && !claim.placed.rank_attrs && !claim.placed.shard_info)
          add_dual(claim.inputs, {claim.placed.outputs[result_]}, list);
    if (!list.empty()) judge(list);
  }

 private:
  // Returns the results of the call; that of a composite op has as many as bind.
  std::vector<TensorMeta> results_of_call() const {
    if (instance_.record->infer) return instance_.record->infer(instance_.call());
    for (size_t count = 1; count < kMostResults; ++count) {
      try {
        const RuleCase all = call_of_all_results(instance_, count);
        return Computation::of_lines(ops_, all.lines, all.results).compile(all.inputs).outputs();
      } catch (const Error&) {
        continue;  // it has more results
      }
    }
    return {};
  }

  // True if the rule holds on other special numbers, too. Zeros hide what NaN in other positions
  // would show: rows of one element, whose layer_norm is 0 whatever their numbers are.
  bool holds_on_special_numbers(const std::vector<Spec>& inputs, const Spec& output) {
    constexpr uint64_t kMoreDraws = 8;
    std::vector<std::vector<Spec>> in, out(results_.size());
    for (const Spec& spec : inputs) in.push_back({spec});
    out[result_] = {output};
    const RuleCase all = call_of_all_results(instance_, results_.size());
    const Computation computation = Computation::of_lines(ops_, all.lines, all.results);
    OpInstance call = instance_;
    call.record = nullptr;  // lines, not an op
    std::vector<RuleDraw> draws;
    for (uint64_t k = 1; k <= kMoreDraws; ++k)
      for (RuleDraw& draw : draws_of(
               call, [&](const OpInstance&) { return computation; }, {0}, options_.seed + 7919 * k))
        if (draw.kind == DrawKind::special) draws.push_back(std::move(draw));
    return draws.empty() || !search_candidates(draws, in, out, tables_).right.empty();
  }

  // True if the call gives a narrower dtype than f64 for f64, such as cast(x0, dtype=bf16). Its
  // rounding is not part of its gradient.
  bool states_narrow_dtype() const {
    std::vector<TensorMeta> wide = call_.inputs;
    for (TensorMeta& meta : wide)
      if (has_gradient(meta)) meta.dtype = is_complex(meta.dtype) ? DType::c128 : DType::f64;
    const DType result =
        Computation::of_lines(ops_, call_.lines, call_.results).compile(wide).outputs()[0].dtype;
    return result != DType::f64 && result != DType::c128;
  }

  void add_dual(const std::vector<Spec>& inputs, const std::vector<Spec>& outputs,
                std::vector<CasePlacements>& list) const {
    if (auto dual = dual_placements(call_, inputs, outputs)) list.push_back(std::move(*dual));
  }
  void judge(const std::vector<CasePlacements>& list) {
    const std::vector<ClaimAnswer> answers = check_cases(backward_, list, ops_, kGradientDraws);
    for (size_t i = 0; i < list.size(); ++i) count(backward_, list[i], answers[i]);
  }

  void count(const RuleCase& rule, const CasePlacements& on, const ClaimAnswer& answer) {
    ++report_.combinations;
    if (answer.kind == ClaimAnswer::Kind::undecided) {
      ++report_.undecided;
      ++report_.reasons[answer.reason];
    }
    if (answer.kind == ClaimAnswer::Kind::wrong)
      report_.wrong.push_back({placed(rule, on), answer});
  }

  const OpRegistry& ops_;
  const RuleOptions& options_;
  GradientReport& report_;
  OpInstance instance_;
  size_t result_ = 0;
  std::vector<TensorMeta> results_;
  RuleCase call_, backward_;
  PlacementTables tables_;
};

}  // namespace

std::optional<CasePlacements> dual_placements(const RuleCase& call, const std::vector<Spec>& inputs,
                                              const std::vector<Spec>& outputs) {
  CasePlacements dual;
  dual.mesh = inputs.front().mesh();
  const auto dual_of = [&](const Placement& p, bool is_result,
                           int axis) -> std::optional<Placement> {
    if (p.is_replicate()) return P(ReduceOp::sum);
    if (!p.is_partial()) return p;
    const ReduceOp op = p.partial().reduction.op;
    if (op == ReduceOp::avg && is_result)
      dual.averaged_over *= dual.mesh.axis_size(axis);
    else if (op != ReduceOp::sum)
      return std::nullopt;
    return R();
  };
  std::vector<std::vector<Placement>> gradients;
  for (size_t i = 0; i < inputs.size(); ++i) {
    dual.in.push_back(inputs[i].placements());
    if (!has_gradient(call.inputs[i])) continue;
    gradients.emplace_back();
    for (int axis = 0; axis < dual.mesh.axis_count(); ++axis) {
      const auto placement = dual_of(inputs[i].placement(axis), false, axis);
      if (!placement) return std::nullopt;
      gradients.back().push_back(*placement);
    }
  }
  dual.in.emplace_back();
  for (int axis = 0; axis < dual.mesh.axis_count(); ++axis) {
    const auto placement = dual_of(outputs.front().placement(axis), true, axis);
    if (!placement) return std::nullopt;
    dual.in.back().push_back(*placement);
  }
  dual.out = std::move(gradients);
  return dual;
}

namespace {

// Judges one result of a sample. `varied`: its sizes are not those that the op states, and may be
// too small for its indices.
void check_result(GradientCheck& check, const OpRecord& record, Sample sample, size_t result,
                  bool varied) {
  if (!check.take(record, sample, result)) return;
  if (varied) {
    const auto computes = [&](const Sample& one) { return check.computes(record, one); };
    if (!narrow_indices(sample, computes) || !check.take(record, sample, result)) return;
  }
  if (sample.kinks.empty() || has_definite_fill(sample)) check.check_formula();
  // Without elements every placement is right, so right rules have no duals to prove.
  const bool tries_all = !check.is_empty() && check.has_few_placements(Mesh::parse("a=2"));
  for (const char* axis : {"a=2", "a=3"})
    if (tries_all) check.check_duals_of_right_rules(Mesh::parse(axis));
  std::vector<MeshChoice> meshes = rule_meshes(true);
  if (tries_all)
    std::erase_if(meshes, [](const MeshChoice& on) { return on.mesh.axis_count() == 1; });
  check.check_duals_of_claims(meshes);
}

}  // namespace

GradientReport check_gradient(const OpRecord& record, const OpRegistry& ops,
                              const RuleOptions& options) {
  GradientReport report;
  report.op = record.name;
  if (record.differentiable != Differentiable::yes) return report;
  GradientCheck check(ops, options, report);
  for (const Sample& sample : record.samples()) {
    std::vector<Sample> sizes = {sample};
    if (!options.is_short && record.infer)
      for (Sample& other : samples_of_other_sizes(record, sample))
        sizes.push_back(std::move(other));
    for (size_t i = 0; i < sizes.size(); ++i)
      for (size_t result = 0; result < kMostResults; ++result)
        check_result(check, record, sizes[i], result, i > 0);
  }
  return report;
}

}  // namespace shardproof
