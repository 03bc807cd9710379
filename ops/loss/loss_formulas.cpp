// Registers losses that decompose: l1, huber, smooth_l1, binary_cross_entropy, kl_div,
// gaussian_nll, cosine_embedding, triplet_margin and others, with their sum or mean.
#include <cmath>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/loss/loss.h"

namespace shardproof {
namespace {

using params::tensor;

FormulaTerm distance(Formula& f) { return f.op("abs", {f[0] - f[1]}); }
// max(x, 0), with the gradient 0 at 0, as in torch's losses.
FormulaTerm not_below_zero(Formula& f, const Operand& x) { return f.op("relu", {x}); }
FormulaTerm softplus_term(Formula& f, const Operand& x) { return f.op("softplus", {x}); }
FormulaTerm log_not_below(Formula& f, const char* log, const Operand& x) {
  return max_of(f.op(log, {x}), -100);
}
// Returns x log x, and 0 at 0.
FormulaTerm entropy_of(Formula& f, const Operand& x) { return f.op("xlogy", {x, x}); }

FormulaTerm quadratic_then_linear(Formula& f, double bend) {
  const FormulaTerm apart = distance(f), near = min_of(apart, bend);
  return near * (apart - near * 0.5);
}

std::vector<Sample> pair_loss_samples(const Attrs& attrs, const char* first, const char* second) {
  std::vector<Sample> samples;
  for (const char* reduction : {"mean", "sum", "none"}) {
    Attrs all = attrs;
    all.set("reduction", std::string(reduction));
    samples.push_back(sample_of({{{5, 3}, {5, 3}}, DType::f32, {first, second}}, all));
  }
  return samples;
}

struct Fills {
  const char* input = "uniform(-2, 2)";
  const char* target = "uniform(-2, 2)";
  DType labels = DType::f32;     // dtype of the target
  const char* other_input = "";  // set: of one more sample
};

// Adds a loss of two tensors. Parameters have the order of torch: `more` before the reduction,
// `last` after it.
void add_pair_loss(OpRegistry& ops, const char* name, const char* summary, std::vector<Param> more,
                   std::function<FormulaTerm(Formula&)> body, const Fills& fills = {},
                   std::vector<Param> last = {}) {
  std::vector<Param> all = {tensor("input"), tensor("target")};
  all.insert(all.end(), more.begin(), more.end());
  all.push_back(params::text("reduction", "mean"));
  all.insert(all.end(), last.begin(), last.end());
  std::vector<Sample> samples = pair_loss_samples({}, fills.input, fills.target);
  if (*fills.other_input) {
    samples.push_back(samples.front());
    samples.back().fills[0] = fills.other_input;
  }
  for (Sample& sample : samples) sample.inputs[1].dtype = fills.labels;
  ops.add(in_f32(formula(
      {name, "loss", summary}, std::move(all),
      [body = std::move(body)](Formula& f) { return FormulaTerms{f.reduced(body(f))}; }, samples)));
}

void add_distance_losses(OpRegistry& ops) {
  const Param weight = params::optional_tensor("weight");
  OpRecord l1 = formula(
      {"l1_loss", "loss", "|input - target|"},
      {tensor("input"), tensor("target"), params::text("reduction", "mean")},
      [](Formula& f) { return FormulaTerms{f.reduced(distance(f))}; },
      pair_loss_samples({}, "uniform(-2, 2)", "uniform(-2, 2)"));
  add_loss_weight(l1);
  ops.add(std::move(l1));
  add_pair_loss(ops, "huber_loss", "half the square up to delta, then linear", {},
                [](Formula& f) {
                  const FormulaTerm loss = quadratic_then_linear(f, f.number("delta").real());
                  return f.has(2) ? loss * f[2] : loss;
                },
                {}, {params::number("delta", 1.0), weight});
  add_pair_loss(ops, "smooth_l1_loss", "half the square over beta up to beta, then linear", {},
                [](Formula& f) {
                  const double beta = f.number("beta").real();
                  return beta == 0 ? distance(f) : quadratic_then_linear(f, beta) / beta;
                },
                {}, {params::number("beta", 1.0)});
  add_pair_loss(ops, "soft_margin_loss", "log(1 + exp(-target * input))", {},
                [](Formula& f) { return softplus_term(f, f[1] * f[0] * -1); });
  add_pair_loss(ops, "hinge_embedding_loss", "input where target is 1, else max(0, margin - input)",
                {params::number("margin", 1.0)},
                [](Formula& f) {
                  const FormulaTerm close = f.where(f.op("ne", {f[1], -1}), f[0], 0.0);
                  const FormulaTerm apart = not_below_zero(f, f.number("margin").real() - f[0]);
                  return close + f.where(f.op("ne", {f[1], 1}), apart, 0.0);
                },
                {"uniform(-2, 2)", "ints(-1, 1)", DType::i64});
}

FormulaTerm times_weight(Formula& f, const FormulaTerm& loss) {
  return f.has(2) ? loss * f[2] : loss;
}

FormulaTerm binary_entropy(Formula& f) {
  const FormulaTerm yes = log_not_below(f, "log", f[0]);
  const FormulaTerm no = log_not_below(f, "log1p", f[0] * -1);
  return (f[1] * yes + (1 - f[1]) * no) * -1;
}

// The gradient by the input is (x - target) / (x (1 - x)), with torch's least divisor, which is an
// f32. The gradient is finite at 0 and 1, where the logarithms are infinite.
FormulaTerms binary_entropy_gradient(Gradient& g) {
  const auto weighted = [&g](const FormulaTerm& x) { return times_weight(g, g.dy() * x); };
  FormulaTerms found(g.call.inputs.size(), g.none());
  if (g.wanted(0)) found[0] = weighted((g[0] - g[1]) / max_of((1 - g[0]) * g[0], double{1e-12F}));
  if (g.wanted(1))
    found[1] = weighted(log_not_below(g, "log1p", g[0] * -1) - log_not_below(g, "log", g[0]));
  if (g.has(2) && g.wanted(2)) found[2] = g.dy() * binary_entropy(g);
  return found;
}

// The sum and the mean are other ops, so that the gradient is that of each element's loss.
void add_binary_cross_entropy(OpRegistry& ops) {
  OpRecord entropy = with_gradient(
      formula(
          {"binary_cross_entropy", "loss",
           "-(target log input + (1 - target) log(1 - input)), logarithms not below -100"},
          {tensor("input"), tensor("target"), params::optional_tensor("weight"),
           params::text("reduction", "mean")},
          [](Formula& f) { return FormulaTerms{times_weight(f, binary_entropy(f))}; },
          pair_loss_samples({}, "uniform(0.1, 0.9)", "uniform(0, 1)")),
      gradient_together(binary_entropy_gradient));
  decompose_when(
      entropy, [](const OpCall& call) { return call.attrs->text("reduction") != "none"; },
      [](Formula& f) {
        const Attrs each{{"reduction", std::string("none")}};
        return FormulaTerms{f.reduced(f.op("binary_cross_entropy", {f[0], f[1], f[2]}, each))};
      });
  ops.add(in_f32(std::move(entropy)));
}

void add_entropies(OpRegistry& ops) {
  const Param weight = params::optional_tensor("weight");
  add_binary_cross_entropy(ops);
  Fills logits{"uniform(-2, 2)", "uniform(0, 1)"};
  logits.other_input = "ints(-1, 1)";
  add_pair_loss(ops, "binary_cross_entropy_with_logits",
                "binary_cross_entropy(sigmoid(input), target)", {weight},
                [](Formula& f) {
                  const FormulaTerm no = (1 - f[1]) * f[0], yes = f.op("logsigmoid", {f[0]});
                  if (!f.has(3)) return times_weight(f, no - yes);
                  return times_weight(f, no - ((f[3] - 1) * f[1] + 1) * yes);
                },
                logits, {params::optional_tensor("pos_weight")});
  add_pair_loss(
      ops, "poisson_nll_loss", "exp(input) - target * input, of the logarithm of a rate",
      {params::boolean("log_input", true), params::boolean("full", false),
       params::number("eps", 1e-8)},
      [](Formula& f) {
        const FormulaTerm loss = f.flag("log_input")
                                     ? f.op("exp", {f[0]}) - f[1] * f[0]
                                     : f[0] - f[1] * f.op("log", {f[0] + f.number("eps").real()});
        if (!f.flag("full")) return loss;
        // Adds Stirling's approximation of log(target!) for targets above 1.
        const FormulaTerm log = f.op("log", {max_of(f[1], 1)});
        const FormulaTerm factorial = f[1] * log - f[1] + 0.5 * (log + std::log(2 * M_PI));
        return loss + f.where(f.op("gt", {f[1], 1}), factorial, 0.0);
      },
      {"uniform(-2, 2)", "uniform(0, 1)"});
}

FormulaTerms kl_div(Formula& f) {
  if (is_complex(f[0].dtype())) f.refuse("not defined for {}", name(f[0].dtype()));
  const bool logs = f.flag("log_target");
  const FormulaTerm loss =
      logs ? f.op("exp", {f[1]}) * (f[1] - f[0]) : entropy_of(f, f[1]) - f[1] * f[0];
  if (f.call.attrs->text("reduction") != "batchmean") return {f.reduced(loss)};
  const int64_t rows = f[0].dims() == 0 ? 1 : f[0].shape()[0];
  return {f.op("sum", {loss}) / static_cast<double>(rows)};
}

// Returns the variance, which has the input's shape, or one number in place of one dim, or is one
// number. A last dim of 1 may be left out.
FormulaTerm variance_of(Formula& f) {
  const FormulaTerm variance = f[2];
  if (f.call.inputs[2].weak) return variance;
  const Dims &of = f[0].shape(), &given = variance.shape();
  Dims rows = of;
  if (!rows.empty()) rows.erase(rows.size() - 1);
  if (of.size() == given.size() + 1 && given == rows)
    return f.op("unsqueeze", {variance}, {{"dim", int64_t{-1}}});
  int apart = of.size() == given.size() ? 0 : 2;
  for (int d = 0; d < of.size() && d < given.size(); ++d)
    if (of[d] != given[d]) apart += given[d] == 1 ? 1 : 2;
  if (apart > 1)
    f.refuse("var must have the input's shape, with one dim of size 1 at most, found {}",
             to_string(given));
  return variance;
}

FormulaTerms gaussian_nll(Formula& f) {
  const FormulaTerm variance = max_of(variance_of(f), f.number("eps").real());
  const FormulaTerm apart = f.op("square", {f[0] - f[1]});
  FormulaTerm loss = (f.op("log", {variance}) + apart / variance) * 0.5;
  if (f.flag("full")) loss = loss + 0.5 * std::log(2 * M_PI);
  return {f.reduced(loss)};
}

// Adds eps to the squared norms, so that a row of zeros has a finite cosine.
FormulaTerms cosine_embedding(Formula& f) {
  const int dim = f[0].dims() - 1;
  const Attrs along{{"dim", std::vector<int64_t>{dim}}};
  const auto sum = [&](const FormulaTerm& x) { return f.op("sum", {x}, along); };
  const double eps = 1e-12;
  const FormulaTerm sizes =
      f.op("sqrt", {(sum(f.op("square", {f[0]})) + eps) * (sum(f.op("square", {f[1]})) + eps)});
  const FormulaTerm cosine = sum(f[0] * f[1]) / sizes;
  const FormulaTerm apart = not_below_zero(f, cosine - f.number("margin").real());
  const FormulaTerm loss = f.where(f.op("eq", {f[2], 1}), 1 - cosine, 0.0);
  return {f.reduced(loss + f.where(f.op("eq", {f[2], -1}), apart, 0.0))};
}

FormulaTerms triplet_margin(Formula& f) {
  const double p = f.number("p").real(), eps = f.number("eps").real();
  const auto distance = [&](int one, int other) {
    const FormulaTerm apart = f[one] - f[other] + eps;
    return f.op("norm", {apart}, {{"p", p}, {"dim", std::vector<int64_t>{apart.dims() - 1}}});
  };
  FormulaTerm away = distance(0, 2);
  if (f.flag("swap")) away = min_of(away, distance(1, 2));
  return {f.reduced(not_below_zero(f, distance(0, 1) - away + f.number("margin").real()))};
}

FormulaTerms margin_ranking(Formula& f) {
  return {f.reduced(not_below_zero(f, f[2] * (f[0] - f[1]) * -1 + f.number("margin").real()))};
}

void add_others(OpRegistry& ops) {
  std::vector<Sample> kl = pair_loss_samples({}, "uniform(-3, 0)", "uniform(0.1, 1)");
  Sample batch = kl[0];
  batch.attrs.set("reduction", std::string("batchmean"));
  kl.push_back(batch);
  ops.add(
      in_f32(formula({"kl_div", "loss", "target * (log(target) - input), input a log-probability"},
                     {tensor("input"), tensor("target"), params::text("reduction", "mean"),
                      params::boolean("log_target", false)},
                     kl_div, kl)));
  Sample three = sample_of({{{5, 3}, {5, 3}, {5, 3}}, DType::f32, {"", "", "uniform(0.5, 2)"}});
  ops.add(
      formula({"gaussian_nll_loss", "loss",
               "negative log-likelihood of target under a normal of mean input and variance var"},
              {tensor("input"), tensor("target"), tensor("var"), params::boolean("full", false),
               params::number("eps", 1e-6), params::text("reduction", "mean")},
              gaussian_nll, {three}));
  Sample signs = sample_of({{{5, 3}, {5, 3}, {5}}, DType::f32, {"", "", "ones"}});
  signs.inputs[2].dtype = DType::i64;
  ops.add(in_f32(
      formula({"cosine_embedding_loss", "loss", "1 - cos where target is 1, else cos - margin"},
              {tensor("x1"), tensor("x2"), tensor("target"), params::number("margin", 0.0),
               params::text("reduction", "mean")},
              cosine_embedding, {signs})));
  ops.add(in_f32(
      formula({"triplet_margin_loss", "loss", "max(0, |a - p| - |a - n| + margin)"},
              {tensor("anchor"), tensor("positive"), tensor("negative"),
               params::number("margin", 1.0), params::number("p", 2.0), params::number("eps", 1e-6),
               params::boolean("swap", false), params::text("reduction", "mean")},
              triplet_margin, {three})));
  ops.add(
      with_kinks(formula({"margin_ranking_loss", "loss", "max(0, -target * (x1 - x2) + margin)"},
                         {tensor("x1"), tensor("x2"), tensor("target"),
                          params::number("margin", 0.0), params::text("reduction", "mean")},
                         margin_ranking, {three}),
                 "a loss of 0"));
}

}  // namespace

void add_loss_weight(OpRecord& loss) {
  loss.params.push_back(params::optional_tensor("weight"));
  decompose_when(
      loss, [](const OpCall& call) { return present(call, 2); },
      [name = loss.name](Formula& f) {
        const Attrs none{{"reduction", std::string("none")}};
        const FormulaTerm weighted = f.op(name.c_str(), {f[0], f[1]}, none) * f[2];
        if (f.call.attrs->text("reduction") != "mean") return FormulaTerms{f.reduced(weighted)};
        return FormulaTerms{f.op("sum", {weighted}) / f.op("sum", {f[2]})};
      });
}

void add_loss_formulas(OpRegistry& ops) {
  add_distance_losses(ops);
  add_entropies(ops);
  add_others(ops);
}

}  // namespace shardproof
