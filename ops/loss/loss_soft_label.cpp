// Implements add_soft_label_forms() of ops/loss/loss.h: cross_entropy with class probabilities, or
// with class weights and label smoothing, decomposes into log_softmax, sums and nll_loss.
#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/loss/loss.h"

namespace shardproof {
namespace {

// Attributes and sizes that both forms read from a call.
struct Shares {
  explicit Shares(Formula& f)
      : dim(f[0].dims() > 1 ? 1 : 0),
        smoothing(f.number("label_smoothing").real()),
        classes(f[0].shape()[dim]) {}
  int dim;
  double smoothing;
  int64_t classes;
};

FormulaTerm reshaped_to_classes(Formula& f, const FormulaTerm& x, const Shares& shares, int dims) {
  IntegerList shape(static_cast<size_t>(dims), 1);
  shape[static_cast<size_t>(shares.dim)] = shares.classes;
  return f.op("reshape", {x}, {{"shape", shape}});
}

FormulaTerm over_classes(Formula& f, const FormulaTerm& x, const Shares& shares) {
  return f.op("sum", {x}, {{"dim", IntegerList{shares.dim}}}) * -1;
}

// Returns -sum(weight * share * log softmax); a mean divides by the number of rows.
FormulaTerms of_probabilities(Formula& f) {
  if (f[0].dims() == 0) f.refuse("the logits must have a dim of classes");
  if (!(f[0].shape() == f[1].shape()))
    f.refuse("a target of a float dtype holds probabilities and must have the shape of the logits");
  const Shares shares(f);
  FormulaTerm share = f[1];
  if (shares.smoothing != 0)
    share = share * (1 - shares.smoothing) + shares.smoothing / static_cast<double>(shares.classes);
  FormulaTerm term = f.op("log_softmax", {f[0]}, {{"dim", int64_t{shares.dim}}}) * share;
  if (f.has(kLossWeight)) term = term * reshaped_to_classes(f, f[kLossWeight], shares, f[0].dims());
  const FormulaTerm loss = over_classes(f, term, shares);
  if (f.call.attrs->text("reduction") != "mean") return {f.reduced(loss)};
  const int64_t rows = element_count(f[0].shape()) / std::max<int64_t>(shares.classes, 1);
  return {f.op("sum", {loss}) / static_cast<double>(rows)};
}

// Returns (1 - s) times the weighted loss of the labels plus s times the weighted loss of all
// classes. A mean divides by the weights of the labels.
FormulaTerms of_weighted_labels(Formula& f) {
  const Shares shares(f);
  const std::string& reduction = f.call.attrs->text("reduction");
  const auto labelled = [&](const FormulaTerm& logs, const std::string& how) {
    return f.op("nll_loss", {logs, f[kLossLabels], f[kLossWeight]},
                {{"ignore_index", f.integer("ignore_index")}, {"reduction", how}});
  };
  const FormulaTerm logs = f.op("log_softmax", {f[0]}, {{"dim", int64_t{shares.dim}}});
  const FormulaTerm weight = reshaped_to_classes(f, f[kLossWeight], shares, f[0].dims());
  const FormulaTerm valid = f.op("ne", {f[kLossLabels], f.integer("ignore_index")});
  FormulaTerm spread = f.where(valid, over_classes(f, logs * weight, shares), 0.0);
  if (reduction != "none") spread = f.op("sum", {spread});
  if (reduction == "mean")
    spread = spread / labelled(f.op("full", {logs}, {{"value", -1.0}}), "sum");
  return {labelled(logs, reduction) * (1 - shares.smoothing) +
          spread * (shares.smoothing / static_cast<double>(shares.classes))};
}

}  // namespace

void add_soft_label_forms(OpRecord& cross_entropy) {
  decompose_when(
      cross_entropy,
      [](const OpCall& call) {
        return present(call, kLossWeight) && call.attrs->has("label_smoothing") &&
               call.attrs->number("label_smoothing") != 0;
      },
      of_weighted_labels);
  decompose_when(
      cross_entropy, [](const OpCall& call) { return is_floating(call.inputs[kLossLabels].dtype); },
      of_probabilities);
}

}  // namespace shardproof
