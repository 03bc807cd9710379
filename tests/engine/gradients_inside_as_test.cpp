// Tests the law of gradients inside `as`: the gradient is that of what the ranks compute forward.
// Along a random direction it agrees with a difference of two runs on ranks, for every
// differentiable op under each strategy of its rule. If its inputs have names, an op that counts
// positions counts those of the whole; else it counts from 0 on each rank. Its gradient must count
// in the same way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/engine/generate/run_on_ranks.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::testing::gradients_inside_as_test {
namespace {

constexpr double kStep = 0x1p-16;
constexpr double kAgreement = 1e-6;  // of the larger of both slopes
// With few draws, one of this number of placements and forms.
constexpr int kDrawStep = kFewDraws ? 7 : 2;
// Forms of a line: they differ in which inputs have names, and in whether the op ends its line.
enum class Form { alone, result_used, inputs_computed, last_input_computed };
constexpr Form kForms[] = {Form::alone, Form::result_used, Form::inputs_computed,
                           Form::last_input_computed};

bool is_moved(const TensorMeta& meta) {
  return meta.dtype == DType::f64 && !meta.weak && !meta.absent;
}

Tensor drawn(const TensorMeta& meta, std::mt19937& bits) {
  Tensor made = Tensor::empty(DType::f64, meta.shape);
  for (int64_t i = 0; i < made.elements(); ++i)
    store_f64(made.mutate() + 8 * i, DType::f64,
              std::ldexp(static_cast<double>(bits()), -32) - 0.5);
  return made;
}

class InsideAs {
 public:
  InsideAs(const OpInstance& instance, const Strategy& strategy, Form form)
      : instance_(instance), job_(job_of("tp=2", {})) {
    const Mesh& mesh = job_.meshes[0].second;
    std::vector<std::string> arguments;
    std::optional<size_t> last;
    for (size_t i = 0; i < instance.inputs.size(); ++i) {
      const TensorMeta& meta = instance.inputs[i];
      const std::string name = fmt::format("x{}", i);
      arguments.push_back(name);
      if (meta.absent) continue;
      if (meta.weak) {
        arguments.back() = fmt::format("({})", values_of(instance.tensors[i]).at(0));
        continue;
      }
      if (is_moved(meta)) {
        moved_.push_back(i);
        if (form == Form::inputs_computed) arguments.back() = name + " * 1";
        last = i;
      }
      inputs_[i] = static_cast<int>(job_.inputs.size());
      job_.inputs.push_back({name, Spec(mesh, {strategy.inputs[i]}, meta.shape, meta.dtype),
                             mesh.ranks(), instance.tensors[i], Category::activations});
    }
    if (form == Form::last_input_computed && last) arguments[*last] += " * 1";
    const std::string call = call_text(instance, arguments);
    lines_ = {fmt::format("y = {}{} as {}", call, form == Form::result_used ? " * 2" : "",
                          placements_text(Spec(mesh, {strategy.outputs[0]},
                                               instance.record->infer(instance.call())[0].shape,
                                               DType::f64))),
              "loss = sum(y * y + 0.5 * y)"};
  }

  std::string text() const { return lines_[0] + " " + placements_of_inputs(); }

  // Returns the two slopes along a direction: of the gradient and of a difference.
  std::pair<double, double> slopes(std::mt19937& bits) {
    std::vector<Tensor> directions;
    for (const size_t i : moved_) directions.push_back(drawn(instance_.inputs[i], bits));
    std::vector<std::string> lines = lines_;
    std::string names, targets;
    for (const size_t i : moved_) {
      names += fmt::format("{}g{}", names.empty() ? "" : ", ", i);
      targets += fmt::format("{}x{}", targets.empty() ? "" : ", ", i);
    }
    lines.push_back(fmt::format("{} = grad(loss, [{}])", names, targets));
    double gradient = 0;
    const std::vector<HeldValue> held = run(lines, directions, 0);
    for (size_t k = 0; k < moved_.size(); ++k) {
      const Tensor& g = value_of(held, fmt::format("g{}", moved_[k]));
      for (int64_t i = 0; i < g.elements(); ++i)
        gradient +=
            values_of(g)[static_cast<size_t>(i)] * values_of(directions[k])[static_cast<size_t>(i)];
    }
    const double high = values_of(value_of(run(lines_, directions, kStep), "loss"))[0];
    const double low = values_of(value_of(run(lines_, directions, -kStep), "loss"))[0];
    return {gradient, (high - low) / (2 * kStep)};
  }

 private:
  std::string placements_of_inputs() const {
    std::string text;
    for (const JobInput& input : job_.inputs)
      text += fmt::format(" {}={}", input.name, placements_text(input.spec));
    return text;
  }
  static const Tensor& value_of(const std::vector<HeldValue>& held, const std::string& name) {
    const auto found = std::find_if(held.begin(), held.end(),
                                    [&](const HeldValue& value) { return value.name == name; });
    SP_CHECK(found != held.end(), "the run has no such value");
    return found->ranks;
  }
  std::vector<HeldValue> run(const std::vector<std::string>& lines,
                             const std::vector<Tensor>& directions, double step) {
    Job job = job_;
    job.program = parse_listing(lines);
    for (size_t k = 0; k < moved_.size(); ++k) {
      Tensor& x = job.inputs[static_cast<size_t>(inputs_.at(moved_[k]))].data;
      Tensor moved = Tensor::empty(DType::f64, x.shape);
      const std::vector<double> at = values_of(x), by = values_of(directions[k]);
      for (size_t i = 0; i < at.size(); ++i)
        store_f64(moved.mutate() + 8 * i, DType::f64, at[i] + step * by[i]);
      x = moved;
    }
    return run_on_ranks(job, builtin_registries());
  }

  const OpInstance& instance_;
  Job job_;
  std::map<size_t, int> inputs_;  // input of the op -> of the job
  std::vector<size_t> moved_;
  std::vector<std::string> lines_;
};

// Returns the strategies of the rule, and cuts of one dim of one input that need not be in a
// strategy. Each has all claims for the result. Claims that do not fit the shards are refused
// later. A result that is claimed R must not differ by rank, so it is claimed where no input is
// cut.
std::vector<Strategy> placements_of(const OpInstance& instance,
                                    const std::vector<TensorMeta>& outputs) {
  std::vector<Strategy> all;
  if (instance.record->rule.strategies)
    all = instance.record->rule.strategies(instance.call(), outputs, 2);
  std::erase_if(all, [](const Strategy& one) {
    return one.outputs[0].is_replicate() &&
           std::any_of(one.inputs.begin(), one.inputs.end(),
                       [](const Placement& p) { return !p.is_replicate(); });
  });
  std::vector<Placement> claims{P(ReduceOp::sum)};
  for (int dim = 0; dim < outputs[0].shape.size(); ++dim) claims.push_back(S(dim));
  for (size_t i = 0; i < instance.inputs.size(); ++i)
    for (int dim = 0; dim < instance.inputs[i].shape.size(); ++dim)
      for (const Placement& claim : claims) {
        Strategy one{std::vector<Placement>(instance.inputs.size(), R()),
                     std::vector<Placement>(outputs.size(), claim)};
        one.inputs[i] = S(dim);
        all.push_back(std::move(one));
      }
  return all;
}

// A sample in f64 with inputs of no kinks; nullopt if it has no gradients.
std::optional<OpInstance> smooth_instance(const OpRecord& record, const Sample& sample) {
  if (!sample.kinks.empty() || !record.infer) return std::nullopt;
  OpInstance instance = instance_of(record, sample, 23);
  if (record.is_composite(instance.call())) return std::nullopt;
  if (const std::optional<OpInstance> wide = in_f64(instance)) instance = *wide;
  if (record.infer(instance.call())[0].dtype != DType::f64) return std::nullopt;
  bool any = false;
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    if (!is_moved(instance.inputs[i])) continue;
    any = true;
    if (instance.fills[i] == "ints")
      instance.tensors[i] =
          filled_by("uniform(0.1, 1)", DType::f64, instance.inputs[i].shape, 5 + i);
  }
  return any ? std::optional(instance) : std::nullopt;
}

class GradientInsideAs : public ::testing::TestWithParam<std::string> {
 protected:
  void compare(const OpInstance& instance, const Strategy& strategy, Form form) {
    if (drawn_++ % kDrawStep != 0) return;
    try {
      InsideAs inside(instance, strategy, form);
      const auto [gradient, difference] = inside.slopes(bits_);
      if (!std::isfinite(difference)) return;
      ++compared_;
      EXPECT_NEAR(gradient, difference,
                  kAgreement * std::max({1.0, std::fabs(gradient), std::fabs(difference)}))
          << inside.text();
    } catch (const Error& error) {
      ++refused_[error.message()];  // shards that do not fit, or a gradient that depends on sizes
    }
  }

  std::mt19937 bits_{11};
  int drawn_ = 0, compared_ = 0;
  std::map<std::string, int> refused_;
};

TEST_P(GradientInsideAs, UnderAnyPlacements_IsThatOfWhatRanksCompute) {
  const OpRecord& record = builtin_registries().ops.at(GetParam());
  for (const Sample& sample : record.samples())
    if (const std::optional<OpInstance> instance = smooth_instance(record, sample))
      for (const Strategy& strategy : placements_of(*instance, record.infer(instance->call())))
        for (const Form form : kForms) compare(*instance, strategy, form);
  std::printf("  %s: %d compared\n", record.name.c_str(), compared_);
  for (const auto& [message, count] : refused_)
    std::printf("    refused %d times: %s\n", count, message.c_str());
}

// Each rank counts the elements of its shard. In f64 a count of f32 would round its quotients.
TEST(GradientsInsideAs, OfMeansInF64_AreThoseOutside) {
  for (const auto& [call, placement] : {std::pair("var(x, dim=1)", "a:S(0)"),
                                        {"std(x, dim=1)", "a:S(0)"},
                                        {"mean(x ** 2)", "a:P(avg)"},
                                        {"mean(x ** 2, dim=1)", "a:S(0)"}}) {
    Job job = job_of("a=2", {fmt::format("y0 = {} as {}", call, placement), "y1 = grad(sum(y0), x)",
                             fmt::format("y2 = {}", call), "y3 = grad(sum(y2), x)"});
    add_input(job, "x", {4, 6}, "a:S(0)", DType::f64);
    const GlobalRun run = run_lines(job);
    ASSERT_EQ(run.error, "") << call;
    const std::vector<double> inside = values_of(run.outputs.at(1)),
                              outside = values_of(run.outputs.at(3));
    for (size_t i = 0; i < inside.size(); ++i)
      EXPECT_NEAR(inside[i], outside[i], 0x1p-50 * std::fabs(outside[i])) << call;
  }
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpRecord* record : builtin_registries().ops.all())
    if (record->differentiable == Differentiable::yes) names.push_back(record->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(AllOps, GradientInsideAs, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace shardproof::testing::gradients_inside_as_test
