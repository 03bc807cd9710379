// Implements loss_gradients.h. With labels l, the share w of a row in the loss and smoothing e:
//
//   cross_entropy   dx = dy w (softmax(x) - (1 - e) one_hot(l) - e / classes)
//   nll_loss        dx = -dy w one_hot(l)
//
// cross_entropy_grad and nll_loss_grad make these from dy w. A mean divides by the sum of w. An
// ignored row has no gradient.
#include "shardproof/ops/loss/loss_gradients.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

class ClassLossGradient {
 public:
  ClassLossGradient(Gradient& g, LossKind kind)
      : g_(g), kind_(kind), loss_(loss_shape(g.call)), wide_(compute_dtype(g[0].dtype())) {
    valid_ = g.op("ne", {g[kLossLabels], loss_.ignore});
  }

  // True for a shard without classes, on which every label is ignored.
  bool is_constant() const { return loss_.classes == 0; }

  F by_logits() {
    F share = g_.where(valid_, widened(g_.dy()) * weight(), 0.0);
    if (loss_.reduction == LossReduction::mean) share = g_.where(valid_, share / total(), 0.0);
    if (kind_ == LossKind::cross_entropy)
      return g_.op("cross_entropy_grad", {share, g_[0], g_[kLossLabels]},
                   {{"label_smoothing", loss_.smoothing}});
    // Rounding a row's number first gives the same bits, in less memory.
    const DType dtype = g_[0].dtype();
    return g_.op("nll_loss_grad", {dtype == wide_ ? share : g_.to(dtype, share), g_[kLossLabels]},
                 {{"num_classes", loss_.classes}});
  }

  // The loss of each row, without weights, added up by label.
  F by_weight() {
    Attrs plain = *g_.call.attrs;
    plain.set("reduction", std::string("none"));
    const char* name = kind_ == LossKind::nll ? "nll_loss" : "cross_entropy";
    F rows = widened(g_.op(name, {g_[0], g_[kLossLabels], g_.none()}, plain));
    if (loss_.reduction == LossReduction::mean) rows = (rows - widened(g_.y())) / total();
    rows = g_.where(valid_, rows * widened(g_.dy()), 0.0);
    return g_.op("index_sum", {rows, safe()}, {{"dim", int64_t{0}}, {"size", loss_.classes}});
  }

 private:
  F widened(const F& x) const { return x.dtype() == wide_ ? x : g_.to(wide_, x); }
  // The labels, 0 where a row is ignored.
  F safe() {
    if (safe_.handle == kAbsent) safe_ = g_[kLossLabels] * g_.to(DType::i64, valid_);
    return safe_;
  }
  // The weight of each row's label; 1 without weights.
  F weight() {
    if (weight_.handle == kAbsent)
      weight_ = loss_.weighted ? weight_of_label() : g_.to(wide_, valid_);
    return weight_;
  }
  F weight_of_label() {
    const F table = g_.op("unsqueeze", {widened(g_[kLossWeight])}, {{"dim", int64_t{1}}});
    const F taken = g_.op("embedding", {safe(), table});
    return g_.op("squeeze", {taken}, {{"dim", IntegerList{-1}}});
  }
  F total() { return g_.op("sum", {g_.where(valid_, weight(), 0.0)}); }

  Gradient& g_;
  LossKind kind_;
  LossShape loss_;
  DType wide_;
  F valid_, safe_, weight_;
};

}  // namespace

FormulaTerms class_loss_gradient(Gradient& g, LossKind kind) {
  ClassLossGradient parts(g, kind);
  FormulaTerms found(g.call.inputs.size(), g.none());
  const auto zeros_of = [&](int input) { return g.op("zeros", {g[input]}); };
  if (g.wanted(0)) found[0] = parts.is_constant() ? zeros_of(0) : parts.by_logits();
  if (g.has(kLossWeight) && g.wanted(kLossWeight))
    found[kLossWeight] = parts.is_constant() ? zeros_of(kLossWeight) : parts.by_weight();
  return found;
}

F mse_gradient(Gradient& g, double divisor) { return g.dy() * (2 / divisor) * (g[0] - g[1]); }

}  // namespace shardproof
