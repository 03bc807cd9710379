// Implements numerical_gradient.h. The inputs are moved a little first, because generated tensors
// of whole numbers lie on kinks: zeros and equal elements.
#include "shardproof/engine/generate/numerical_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/engine/generate/forms/draw.h"
#include "shardproof/engine/generate/forms/gradient_line.h"
#include "shardproof/engine/generate/forms/one_device.h"
#include "shardproof/engine/reference/f64_job.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/widen_op_call.h"

namespace shardproof {
namespace {

constexpr int kPoints = 3;
constexpr double kStep = 0x1p-12;           // of the wide difference; the narrow one has half of it
constexpr double kRounding = 0x1p-40;       // of the terms of the sum, over the step; of the inputs
constexpr double kInputRounding = 0x1p-50;  // of the gradient, over the step
constexpr double kTiny = 1e-6;              // smallest scale of an input
constexpr double kWrong = 64;               // errors of the difference that make a gradient wrong
constexpr double kSeen = 1e-3;              // of the gradient: smaller errors are not detected
constexpr double kStepShare = 0.25;
constexpr double kJitter = 0x1p-6, kLift = 0x1p-10;  // of an element; of the largest element

std::optional<GradientLine> last_line(const ProgramText& text) {
  if (text.one_device().empty()) return std::nullopt;
  return parse_gradient_line(text.one_device().back());
}

double number_at(const Tensor& tensor, int64_t i) {
  return load_f64(tensor.data() + 8 * i, DType::f64);
}

double largest_in(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i)
    if (std::isfinite(number_at(tensor, i)))
      largest = std::max(largest, std::fabs(number_at(tensor, i)));
  return largest;
}

double scale_of(const Tensor& input) { return std::max(kTiny, largest_in(input)); }

class DifferenceCheck {
 public:
  DifferenceCheck(const ProgramText& text, const GradientLine& line, const OpRegistry& ops)
      : ops_(ops) {
    const Job job = job_of(text);
    program_ = lower_one_device(job, ops);
    widen_floats(program_, ops);
    inputs_ = input_tensors(with_wider_floats(job));
    value_ = program_.names.at(line.value);
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const std::string& name = program_.values[static_cast<size_t>(program_.inputs[i])].name;
      if (std::count(line.inputs.begin(), line.inputs.end(), name) == 0) continue;
      moved_.push_back(i);
      gradients_.push_back(program_.names.at("g" + name));
    }
  }

  bool is_stopped() const { return depends_on_stop(program_, value_); }
  // Returns the message of a wrong gradient at one point; "" if it is right, or not decided.
  std::string at_point(Draw& draw) const {
    std::vector<Tensor> point = inputs_;
    for (const size_t i : moved_) point[i] = jittered(inputs_[i], draw);
    const std::vector<Tensor> values = run_one_device(program_, ops_, point);
    std::vector<Tensor> directions;
    double gradient = 0, moved = 0;
    for (size_t k = 0; k < moved_.size(); ++k) {
      directions.push_back(direction_at(point[moved_[k]], draw));
      const Tensor& g = values[static_cast<size_t>(gradients_[k])];
      for (int64_t i = 0; i < g.elements(); ++i) {
        gradient += number_at(g, i) * number_at(directions.back(), i);
        moved += std::fabs(number_at(directions.back(), i));
      }
    }
    const Tensor& value = values[static_cast<size_t>(value_)];
    if (has_no_step(values) || saturates(values)) return "";
    const double step = step_for(gradient, value);
    double terms = 0;
    const double wide = slope(point, directions, step, terms);
    const double narrow = slope(point, directions, step / 2, terms);
    const double difference = narrow + (narrow - wide) / 3;
    // gelu(x) computes 1 + erf(x): near 0 it is rounded as numbers as large as 1 are.
    const double room = std::fabs(wide - narrow) + (terms / step + moved) * kRounding +
                        std::fabs(gradient) / step * kInputRounding;
    const double apart = std::fabs(gradient - difference);
    if (!(apart > kWrong * room)) return "";  // also for NaN
    if (!(apart > kSeen * (std::fabs(gradient) + std::fabs(difference)))) return "";
    return fmt::format("along a random direction the gradient gives {:.6g}, a difference {:.6g}",
                       gradient, difference);
  }

 private:
  // Near symmetric matrices only symmetric ones are tried: cholesky has no other derivative.
  static Tensor jittered(const Tensor& x, Draw& draw) {
    Tensor moved = Tensor::empty(DType::f64, x.shape);
    const double lift = kLift * scale_of(x);
    for (int64_t i = 0; i < x.elements(); ++i)
      store_f64(moved.mutate() + 8 * i, DType::f64,
                number_at(x, i) * (1 + kJitter * draw.uniform()) + lift * draw.uniform());
    if (are_symmetric(x)) mirror_lower_triangles(moved);
    return moved;
  }
  static Tensor direction_at(const Tensor& x, Draw& draw) {
    Tensor direction = Tensor::empty(DType::f64, x.shape);
    const double scale = scale_of(x);
    for (int64_t i = 0; i < x.elements(); ++i)
      store_f64(direction.mutate() + 8 * i, DType::f64, scale * (2 * draw.uniform() - 1));
    if (are_symmetric(x)) mirror_lower_triangles(direction);
    return direction;
  }

  // True if the neighbours of a value in f64 are whole: frac is 0 at all of them, and round is
  // linear.
  static bool has_no_step(const std::vector<Tensor>& values) {
    return std::any_of(values.begin(), values.end(), [](const Tensor& value) {
      return value.buffer && value.dtype == DType::f64 && largest_in(value) >= 0x1p52;
    });
  }

  // True if a cast to f8e4m3 takes a number beyond its range. Its result does not move there; the
  // gradient passes, as in torch.
  bool saturates(const std::vector<Tensor>& values) const {
    return std::any_of(program_.instrs.begin(), program_.instrs.end(),
                       [&](const GlobalInstr& instr) {
                         return instr.kind == GlobalKind::op && instr.attrs.has(kSaturatesAs) &&
                                largest_in(values[static_cast<size_t>(instr.inputs[0])]) >
                                    max_finite(instr.attrs.dtype(kSaturatesAs));
                       });
  }

  // Returns a step that changes the terms of the sum by no more than their size. Example: frac(x *
  // 1e9) takes all its values within kStep.
  static double step_for(double gradient, const Tensor& value) {
    double sizes = 0;
    for (int64_t i = 0; i < value.elements(); ++i) sizes += std::fabs(number_at(value, i));
    const double change = std::fabs(gradient) * kStep;
    return sizes > 0 && std::isfinite(change) && change > sizes ? kStep * sizes / change : kStep;
  }

  // True if an input of round, floor or a similar op moves by a large part of a step. Over many
  // steps these ops look like a straight line.
  bool passes_steps(const std::vector<Tensor>& low, const std::vector<Tensor>& high) const {
    const auto moves = [&](ValueId id) {
      if (id == kNoValue || low[static_cast<size_t>(id)].dtype != DType::f64) return false;
      const Tensor &a = low[static_cast<size_t>(id)], &b = high[static_cast<size_t>(id)];
      for (int64_t i = 0; i < a.elements(); ++i)
        if (std::fabs(number_at(a, i) - number_at(b, i)) > kStepShare) return true;
      return false;
    };
    return std::any_of(program_.instrs.begin(), program_.instrs.end(),
                       [&](const GlobalInstr& instr) {
                         return instr.kind == GlobalKind::op &&
                                ops_.at(instr.op).differentiable == Differentiable::zero &&
                                std::any_of(instr.inputs.begin(), instr.inputs.end(), moves);
                       });
  }

  // Returns NaN if nothing is known of the slope.
  double slope(const std::vector<Tensor>& point, const std::vector<Tensor>& directions, double step,
               double& terms) const {
    const std::vector<Tensor> values_low = values_at(point, directions, -step);
    const std::vector<Tensor> values_high = values_at(point, directions, step);
    if (passes_steps(values_low, values_high)) return std::numeric_limits<double>::quiet_NaN();
    const Tensor &low = values_low[static_cast<size_t>(value_)],
                 &high = values_high[static_cast<size_t>(value_)];
    double change = 0, sizes = 0;
    for (int64_t i = 0; i < low.elements(); ++i) {
      change += number_at(high, i) - number_at(low, i);
      sizes += std::fabs(number_at(low, i)) + std::fabs(number_at(high, i));
    }
    terms = std::max(terms, sizes);
    return change / (2 * step);
  }

  std::vector<Tensor> values_at(std::vector<Tensor> point, const std::vector<Tensor>& directions,
                                double step) const {
    for (size_t k = 0; k < moved_.size(); ++k) {
      Tensor& x = point[moved_[k]];
      Tensor moved = Tensor::empty(DType::f64, x.shape);
      for (int64_t i = 0; i < x.elements(); ++i)
        store_f64(moved.mutate() + 8 * i, DType::f64,
                  number_at(x, i) + step * number_at(directions[k], i));
      x = moved;
    }
    return run_one_device(program_, ops_, point);
  }

  const OpRegistry& ops_;
  GlobalProgram program_;
  std::vector<Tensor> inputs_;
  ValueId value_ = kNoValue;
  std::vector<size_t> moved_;  // inputs by which the program differentiates
  std::vector<ValueId> gradients_;
};

}  // namespace

bool depends_on_stop(const GlobalProgram& program, ValueId value) {
  std::set<ValueId> read{value};
  for (auto instr = program.instrs.rbegin(); instr != program.instrs.rend(); ++instr) {
    const std::vector<ValueId>& made = instr->outputs;
    if (std::none_of(made.begin(), made.end(), [&](ValueId id) { return read.contains(id); }))
      continue;
    if (instr->op == "stop") return true;
    read.insert(instr->inputs.begin(), instr->inputs.end());
  }
  return false;
}

std::string numerical_gradient_error(const ProgramText& text, uint64_t seed,
                                     const OpRegistry& ops) {
  const std::optional<GradientLine> line = last_line(text);
  if (!line) return "";
  Draw draw(seed, "points of a gradient");
  std::string message;
  try {
    const DifferenceCheck check(text, *line, ops);
    if (check.is_stopped()) return "";
    for (int point = 0; point < kPoints; ++point) {
      message = check.at_point(draw);
      if (message.empty()) return "";
    }
  } catch (const Error&) {
    return "";  // the inputs leave the domain of an op
  }
  return message;
}

}  // namespace shardproof
