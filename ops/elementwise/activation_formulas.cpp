// Activations that are a few arithmetic ops. Where one bends, it is written with maximum and
// minimum and not with a choice: near the bend both branches agree.
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/formula.h"

namespace shardproof {
namespace {

using params::tensor;
using Terms = std::vector<FormulaTerm>;

FormulaTerm exp_minus_one(Formula& f, const Operand& x) { return f.op("expm1", {x}); }
FormulaTerm softplus_of(Formula& f, const Operand& x) { return f.op("softplus", {x}); }
FormulaTerm clamped(const FormulaTerm& x, const Operand& low, const Operand& high) {
  return min_of(max_of(x, low), high);
}

std::vector<Sample> samples_with(const Attrs& attrs) {
  return {sample_of({{{5, 3}}, DType::f32, {"uniform(-4, 4)"}}, attrs),
          sample_of({{{4}}, DType::bf16, {"uniform(-4, 4)"}}, attrs)};
}

void add(OpRegistry& ops, const char* name, const char* summary, std::vector<Param> more,
         std::function<FormulaTerm(Formula&)> body, const Attrs& attrs = {}) {
  std::vector<Param> all = {tensor("x")};
  all.insert(all.end(), more.begin(), more.end());
  OpRecord record = formula(
      {name, "activation", summary}, std::move(all),
      [body = std::move(body)](Formula& f) { return Terms{body(f)}; }, samples_with(attrs));
  const std::string_view op = name;
  const bool of_any = op == "relu6" || op == "hardtanh" || op == "threshold" || op == "softsign" ||
                      op == "tanhshrink";
  if (!of_any) require_float_input(record);
  ops.add(std::move(record));
}

void add_bends(OpRegistry& ops) {
  add(ops, "relu6", "x, not below 0 and not above 6", {},
      [](Formula& f) { return clamped(f[0], 0, 6); });
  add(ops, "hardtanh", "x, not below min_val and not above max_val",
      {params::number("min_val", -1.0), params::number("max_val", 1.0)}, [](Formula& f) {
        const FormulaTerm kept = clamped(f[0], f.number("min_val"), f.number("max_val"));
        return kept.dtype() == f[0].dtype() ? kept : f.to(f[0].dtype(), kept);
      });
  add(ops, "hardsigmoid", "relu6(x + 3) / 6", {},
      [](Formula& f) { return clamped(f[0] + 3, 0, 6) / 6; });
  add(ops, "hardswish", "x * relu6(x + 3) / 6", {},
      [](Formula& f) { return f[0] * (clamped(f[0] + 3, 0, 6) / 6); });  // 6 x may overflow
  add(ops, "leaky_relu", "x, below 0 negative_slope * x", {params::number("negative_slope", 0.01)},
      [](Formula& f) {
        return max_of(f[0], 0) + min_of(f[0], 0) * f.number("negative_slope").real();
      });
  add(ops, "softshrink", "x moved towards 0 by lambd", {params::number("lambd", 0.5)},
      [](Formula& f) {
        const double lambd = f.number("lambd").real();
        return f[0] - clamped(f[0], -lambd, lambd);
      });
  add(ops, "hardshrink", "x, 0 within lambd of 0", {params::number("lambd", 0.5)}, [](Formula& f) {
    const FormulaTerm inside = f.op("le", {f.op("abs", {f[0]}), f.number("lambd")});
    return f.where(inside, 0.0, f[0]);
  });
  add(ops, "threshold", "x above threshold, else value",
      {params::required("threshold", ParamKind::number),
       params::required("value", ParamKind::number)},
      [](Formula& f) {
        const FormulaTerm below = f.op("le", {f[0], f.number("threshold")});  // NaN is not
        const FormulaTerm kept = f.where(below, f.number("value"), f[0]);
        return kept.dtype() == f[0].dtype() ? kept : f.to(f[0].dtype(), kept);
      },
      {{"threshold", 0.5}, {"value", int64_t{-1}}});
}

void add_exponentials(OpRegistry& ops) {
  add(ops, "elu", "x, below 0 alpha * (exp(x) - 1)", {params::number("alpha", 1.0)},
      [](Formula& f) {
        return max_of(f[0], 0) + exp_minus_one(f, min_of(f[0], 0)) * f.number("alpha").real();
      });
  add(ops, "celu", "x, below 0 alpha * (exp(x / alpha) - 1)", {params::number("alpha", 1.0)},
      [](Formula& f) {
        const double alpha = f.number("alpha").real();
        return max_of(f[0], 0) + exp_minus_one(f, min_of(f[0], 0) / alpha) * alpha;
      });
  add(ops, "selu", "elu with the two constants that keep mean and variance", {}, [](Formula& f) {
    const double alpha = 1.6732632423543772848170429916717,
                 scale = 1.0507009873554804934193349852946;
    return (max_of(f[0], 0) + exp_minus_one(f, min_of(f[0], 0)) * alpha) * scale;
  });
  add(ops, "logsigmoid", "log(sigmoid(x))", {}, [](Formula& f) {
    const FormulaTerm below = f.op("exp", {f.op("abs", {f[0]}) * -1});
    return min_of(f[0], 0) - f.op("log1p", {below});
  });
  add(ops, "mish", "x * tanh(softplus(x))", {},
      [](Formula& f) { return f[0] * f.op("tanh", {softplus_of(f, f[0])}); });
  add(ops, "softsign", "x / (1 + |x|)", {},
      [](Formula& f) { return f[0] / (f.op("abs", {f[0]}) + 1); });
  add(ops, "tanhshrink", "x - tanh(x)", {}, [](Formula& f) { return f[0] - f.op("tanh", {f[0]}); });
}

void add_gates(OpRegistry& ops) {
  ops.add(formula({"glu", "activation", "first half of dim times the sigmoid of the second"},
                  {tensor("x"), params::integer("dim", -1)},
                  [](Formula& f) {
                    const int dim = f.dim();
                    const int64_t size = f[0].shape()[dim], half = size / 2;
                    if (size % 2 != 0) f.refuse("dim {} of size {} has no half", dim, size);
                    const Terms halves =
                        f.ops("split", {f[0]},
                              {{"sizes", std::vector<int64_t>{half, half}}, {"dim", int64_t{dim}}});
                    return Terms{halves.at(0) * f.op("sigmoid", {halves.at(1)})};
                  },
                  {sample_of({{{5, 6}}, DType::f32, {"uniform(-4, 4)"}})}));
  ops.add(
      formula({"prelu", "activation", "x, below 0 weight * x; weight of one number or of dim 1"},
              {tensor("x"), tensor("weight")},
              [](Formula& f) {
                FormulaTerm weight = f[1];
                if (weight.dims() == 1 && weight.shape()[0] != 1 && f[0].dims() > 1) {
                  std::vector<int64_t> shape(static_cast<size_t>(f[0].dims()), 1);
                  shape[1] = weight.shape()[0];
                  weight = f.op("reshape", {weight}, {{"shape", shape}});
                }
                return Terms{f.where(f.op("gt", {f[0], 0}), f[0], weight * f[0])};
              },
              {sample_of({{{5, 3, 2}, {3}}, DType::f32, {}})}));
}

}  // namespace

void add_activation_formulas(OpRegistry& ops) {
  add_bends(ops);
  add_exponentials(ops);
  add_gates(ops);
}

}  // namespace shardproof
