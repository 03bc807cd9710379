// Implements own_dtype_judge.h: how far a value moves when the inputs of its line change by
// roundings. Errors as large as that are no loss of precision.
#include <algorithm>
#include <cmath>

#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/judging/own_dtype_judge.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr double kReachRoundings = 16;
constexpr double kSmoothGrowth = 2 * kReachRoundings * kReachRoundings;
constexpr int kReachDraws = 8;
// Share of the width of a range of results by which another result may be outside of it.
constexpr double kRangeMargin = 1.0 / 4;

std::vector<double> magnitudes(const Tensor& tensor) {
  std::vector<double> all(static_cast<size_t>(tensor.elements()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = magnitude_at(tensor, static_cast<int64_t>(i));
  return all;
}

// Returns the size of each element of a line's input, or of its parts.
std::vector<double> sizes_of_input(ValueId id, const Tensor& input,
                                   const std::map<ValueId, ComparedValue>& in_parts) {
  const auto parts = in_parts.find(id);
  if (parts != in_parts.end()) return part_sizes(parts->second.value, parts->second.spec);
  return magnitudes(dense(input));
}

}  // namespace

// Returns the size of the terms that a line adds. Changes all inputs by a share of their sizes, and
// returns the largest change of the result divided by that share.
double OwnDtypeJudge::moved_terms(const JudgedLine& line) const {
  double size = 0;
  std::map<ValueId, std::vector<double>> sizes;
  for (const ValueId id : line.reference.line_inputs())
    sizes.emplace(id, sizes_of_input(id, *line.reference.find(id), line.in_parts));
  const EvaluationPlan& lifted = options_.lifted();
  const Tensor still = dense(line.reference.again(line.value, lifted));
  for (int direction = 0; direction < kOtherRoundings; ++direction) {
    const Tensor other =
        dense(line.reference.again(line.value, lifted, [&](ValueId id, const Tensor& tensor) {
          return moved(tensor, sizes.at(id), direction, id);
        }));
    for (const double movement : distances(other, still))
      if (std::isfinite(movement)) size = std::max(size, std::ldexp(movement, kMovedBits));
  }
  return size;
}

// Returns for each element the largest finite change by which one of `changes` of the line's inputs
// moves its result in f64.
std::vector<double> OwnDtypeJudge::largest_changes(const JudgedLine& line,
                                                   const std::vector<InputChange>& changes) const {
  const EvaluationPlan& lifted = options_.lifted();
  const Tensor still = dense(line.reference.again(line.value, lifted));
  std::vector<double> largest(static_cast<size_t>(still.elements()), 0);
  for (const InputChange& change : changes) {
    const Tensor other = dense(line.reference.again(line.value, lifted, change));
    for (size_t i = 0; i < largest.size(); ++i) {
      const double movement = distance_at(other, still, static_cast<int64_t>(i));
      if (std::isfinite(movement)) largest[i] = std::max(largest[i], movement);
    }
  }
  return largest;
}

namespace {

// Returns changes of a line's inputs by a share of their sizes. A sum of parts changes by a share
// of the parts, because the ranks round each of them.
std::vector<InputChange> drawn_changes(const std::map<ValueId, ComparedValue>& in_parts,
                                       std::function<double(ValueId)> share_of,
                                       int number = kReachDraws) {
  std::vector<InputChange> draws;
  for (int draw = 0; draw < number; ++draw)
    draws.push_back([&in_parts, share_of, draw](ValueId id, const Tensor& tensor) {
      const double share = std::ldexp(share_of(id), kMovedBits);
      std::vector<double> sizes = sizes_of_input(id, tensor, in_parts);
      for (double& size : sizes) size *= share;
      return moved(tensor, sizes, draw, id);
    });
  return draws;
}

bool is_float(const EvaluationPlan& plan, ValueId id) {
  if (id == kNoValue || plan.info(id).weak) return false;
  return is_floating(plan.info(id).dtype) || is_complex(plan.info(id).dtype);
}

// Returns the values of the line that are computed from floats and are piecewise constant: rounded
// numbers, indices, results of comparisons.
std::vector<ValueId> steps_of(const ReferenceRun& reference) {
  const EvaluationPlan& plan = reference.plan();
  std::vector<ValueId> steps;
  for (const int index : reference.line()) {
    const GlobalInstr& instr = plan.program().instrs[static_cast<size_t>(index)];
    if (instr.kind != GlobalKind::op ||
        std::none_of(instr.inputs.begin(), instr.inputs.end(),
                     [&](ValueId id) { return is_float(plan, id); }))
      continue;
    const bool rounds = plan.ops().at(instr.op).differentiable == Differentiable::zero;
    for (const ValueId id : instr.outputs)
      if (rounds || !is_float(plan, id)) steps.push_back(id);
  }
  return steps;
}

}  // namespace

double OwnDtypeJudge::widest_rounding_on(const ReferenceRun& reference) {
  const EvaluationPlan& plan = reference.plan();
  double widest = 0;
  for (const int index : reference.line())
    for (const ValueId id : plan.program().instrs[static_cast<size_t>(index)].outputs)
      if (is_float(plan, id)) widest = std::max(widest, unit_roundoff(plan.info(id).dtype));
  return widest;
}

// Returns the largest change of each element when the inputs of its line change by so many
// roundings. They are those of the value's dtype if the inputs are narrower, such as bf16 gradients
// added in f32.
std::vector<double> OwnDtypeJudge::changes_by(double roundings, const JudgedLine& line) const {
  const EvaluationPlan& plan = line.reference.plan();
  const double own = unit_roundoff(plan.info(line.value).dtype);
  return largest_changes(line, drawn_changes(line.in_parts, [&plan, own, roundings](ValueId input) {
                           return roundings * std::min(unit_roundoff(plan.info(input).dtype), own);
                         }));
}

// The least and the largest result of each number on one device when the line's inputs change by
// some roundings. Also has the largest change of each element that only a step causes.
struct OwnDtypeJudge::StepRange {
  // By number, so twice as many for complex elements; empty if the line has no step.
  std::vector<double> least, largest;
  std::vector<double> change;  // by element

  void include(const Tensor& result) {
    const std::vector<double> numbers = numbers_of(result);
    if (least.empty()) least = largest = numbers;
    for (size_t i = 0; i < numbers.size(); ++i) {
      least[i] = std::min(least[i], numbers[i]);
      largest[i] = std::max(largest[i], numbers[i]);
    }
  }
};

// Returns the results of the line when its inputs change by some roundings of the narrowest float
// on the line. The line runs twice: freely, and with its indices, rounded numbers and comparisons
// unchanged. A step causes the difference of both.
// Example: y = one_hot(argmax(z)) * z, with z in f16 and y in f32. Another argmax changes y by z.
OwnDtypeJudge::StepRange OwnDtypeJudge::step_range(const JudgedLine& line) const {
  const auto& [id, reference, in_parts] = line;
  const EvaluationPlan& lifted = options_.lifted();
  std::map<ValueId, Tensor> still;
  for (const ValueId step : steps_of(reference)) still.emplace(step, reference.again(step, lifted));
  if (still.empty()) return {};
  const double share = kReachRoundings * widest_rounding_on(reference);
  StepRange range;
  range.include(dense(reference.again(id, lifted)));
  range.change.resize(static_cast<size_t>(element_count(reference.plan().info(id).shape)), 0);
  for (const InputChange& change : drawn_changes(in_parts, [share](ValueId) { return share; })) {
    const Tensor free = dense(reference.again(id, lifted, change));
    const Tensor fixed = dense(reference.again(id, lifted, change, still));
    range.include(free);
    for (size_t i = 0; i < range.change.size(); ++i) {
      const double step = distance_at(free, fixed, static_cast<int64_t>(i));
      if (std::isfinite(step)) range.change[i] = std::max(range.change[i], step);
    }
  }
  return range;
}

std::vector<double> OwnDtypeJudge::changes_by_steps(const JudgedLine& line) const {
  return step_range(line).change;
}

// Finds elements whose step depends on rounding and that lie outside the range of the results of
// one device. The range is widened by kRangeMargin of its width. Example: the sign of a sum that is
// 0 apart from rounding, multiplied by 3 on the ranks. Rounding may make it -1, 0 or 1, but not 3.
void OwnDtypeJudge::find_beyond_steps(const ComparedValue& value,
                                      const std::vector<Deviation>& found,
                                      const std::vector<StoredCopy>& copies, const Tensor& expected,
                                      const ReferenceRun& reference) try {
  const DType dtype = expected.dtype;
  if (!options_.measures_f64 || is_complex(dtype) || steps_of(reference).empty()) return;
  const double size = std::max(largest_element(expected), largest_line_input(reference));
  const double spread = is_exact(dtype) ? 0 : kUnitsShown * unit_of(dtype) * size;
  const auto is_close = [spread](const Deviation& one) { return one.distance <= spread; };
  if (std::all_of(found.begin(), found.end(), is_close)) return;
  StepRange range = step_range({value.global, reference, in_parts_});
  range.include(expected);
  JudgedValue beyond;
  beyond.global = value.global;
  beyond.key = value.key;
  beyond.label = value.label;
  beyond.judgement = Judgement::undecided;
  beyond.of = expected.elements();
  std::set<int64_t> elements;
  for (const Deviation& one : found) {
    const auto at = static_cast<size_t>(one.global);
    if (is_close(one) || !(range.change[at] > spread)) continue;
    const double held = load_f64(element_at(copies[one.copy], one.local), dtype);
    const double margin = spread + kRangeMargin * (range.largest[at] - range.least[at]);
    if (held >= range.least[at] - margin && held <= range.largest[at] + margin) continue;
    if (!elements.insert(one.global).second && one.distance <= beyond.distance) continue;
    beyond.distance = std::max(beyond.distance, one.distance);
    beyond.movement = std::max(beyond.movement, range.change[at]);
  }
  beyond.elements.assign(elements.begin(), elements.end());
  if (!elements.empty()) beyond_steps_.push_back(std::move(beyond));
} catch (const Error& error) {
  unmeasured_ = error.message();
}

// Returns the error of each element that is not a loss of precision. A number that is rounded to a
// whole one may step to the next if the inputs change by some roundings. If one rounding of the
// inputs already predicts the change by many, the line is smooth: a variance changes by their
// square at most. Then only one rounding excuses an error.
std::vector<double> OwnDtypeJudge::reach_of(const JudgedLine& line) const {
  std::vector<double> reach = changes_by(kReachRoundings, line);
  const std::vector<double> by_one = changes_by(1, line);
  const std::vector<double> by_steps = changes_by_steps(line);
  for (size_t i = 0; i < reach.size(); ++i) {
    if (reach[i] <= kSmoothGrowth * by_one[i]) reach[i] = by_one[i];
    if (!by_steps.empty()) reach[i] = std::max(reach[i], by_steps[i]);
  }
  return reach;
}

// Returns the largest loss of each element on one device whose inputs change by one rounding to the
// narrowest float on the line. Example: the first step of Adam moves a weight by its learning rate,
// in the direction of the gradient. Where a bf16 gradient is nearly 0, rounding decides its sign,
// on one device as on the ranks.
std::vector<double> OwnDtypeJudge::losses_on_one_device(const JudgedLine& line) const {
  constexpr int kDraws = 32;
  const auto& [id, reference, in_parts] = line;
  const EvaluationPlan &own = reference.plan(), &lifted = options_.lifted();
  const double share = widest_rounding_on(reference);
  std::vector<double> largest(static_cast<size_t>(element_count(own.info(id).shape)), 0);
  for (const InputChange& change : drawn_changes(
           in_parts, [share](ValueId) { return share; }, kDraws)) {
    const auto rounded = [&](ValueId input, const Tensor& tensor) {
      const Tensor wide = as_dtype(tensor, lifted.info(input).dtype);
      return as_dtype(change(input, wide), own.info(input).dtype);
    };
    const auto as_rounded = [&](ValueId input, const Tensor& tensor) {
      return as_dtype(rounded(input, tensor), tensor.dtype);
    };
    const Tensor exact = dense(reference.again(id, lifted, as_rounded));
    const Tensor device = dense(as_dtype(reference.again(id, own, rounded), exact.dtype));
    const std::vector<double> losses = distances(device, exact);
    for (size_t i = 0; i < largest.size(); ++i)
      if (std::isfinite(losses[i])) largest[i] = std::max(largest[i], losses[i]);
  }
  return largest;
}

// Returns the change of each element when the line's inputs change by some roundings, and when they
// lie on grids of that width. Numbers that are equal apart from rounding, such as two sums of the
// same parts in other orders, are equal on one of the grids. Random changes never make them equal.
std::vector<double> OwnDtypeJudge::changes_by_rounding(const ComparedValue& value,
                                                       const ReferenceRun& reference) const {
  std::map<ValueId, std::vector<double>> roundings;
  double step = 0;  // one grid for all inputs, because they may be compared with each other
  for (const ValueId id : reference.line_inputs()) {
    const DType dtype = reference.plan().info(id).dtype;
    if (!is_floating(dtype) && !is_complex(dtype)) continue;
    std::vector<double> sizes = sizes_of_input(id, *reference.find(id), in_parts_);
    for (double& size : sizes) {
      size *= kReachRoundings * unit_roundoff(dtype);
      if (std::isfinite(size)) step = std::max(step, size);
      size = std::ldexp(size, kMovedBits);
    }
    roundings.emplace(id, std::move(sizes));
  }
  std::vector<InputChange> changes;
  for (int draw = 0; draw < kReachDraws && step > 0; ++draw)
    changes.push_back([&roundings, draw](ValueId id, const Tensor& tensor) {
      const auto own = roundings.find(id);
      return own == roundings.end() ? tensor : moved(tensor, own->second, draw, id);
    });
  for (const double shift : {0.0, 0.5})
    if (step > 0)
      changes.push_back(
          [step, shift](ValueId, const Tensor& tensor) { return on_grid(tensor, step, shift); });
  return largest_changes({value.global, reference, in_parts_}, changes);
}

}  // namespace shardproof
