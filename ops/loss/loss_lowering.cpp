// Implements lower_loss() of ops/loss/loss.h. cross_entropy = log(sum(exp(x))) - x[label], with the
// maximum subtracted first; every reduction over classes or rows is all-reduced.

#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/loss/loss.h"

namespace shardproof {
namespace {

Attrs over_dim(int dim) { return {{"dim", std::vector<int64_t>{dim}}, {"keepdim", false}}; }

class LossBuilder {
 public:
  LossBuilder(const OpCall& call, const std::vector<Spec>& inputs, LowerBuilder& build)
      : build_(build), loss_(loss_shape(call)), dtype_(inputs[0].dtype()) {
    DType wide = compute_dtype(dtype_);
    logits_ = build.input(0);
    if (wide != dtype_) logits_ = build.op("cast", {{"dtype", wide}}, {logits_});
    labels_ = build.input(kLossLabels);
    // An ignored label need not be a class, so it is replaced by class 0 and has weight 0.
    valid_ = build.op("ne", {}, {labels_, build.number(static_cast<double>(loss_.ignore))});
    safe_ = build.op("mul", {}, {labels_, build.op("cast", {{"dtype", DType::i64}}, {valid_})});
    classes_ = static_cast<double>(inputs[0].shape()[loss_.class_dim]);
  }

  std::vector<int> run(LossKind kind) {
    int value = kind == LossKind::nll ? build_.op("neg", {}, {picked()}) : entropy();
    int share = build_.op("cast", {{"dtype", compute_dtype(dtype_)}}, {valid_});
    if (loss_.weighted) {
      share = build_.op("where", {}, {valid_, weight_of_label(), build_.number(0)});
      value = build_.op("mul", {}, {value, share});
    }
    value = build_.op("where", {}, {valid_, value, build_.number(0)});
    if (loss_.reduction == LossReduction::none) return {narrowed(value)};
    int sum = sum_all(value);
    if (loss_.reduction == LossReduction::sum) return {narrowed(sum)};
    int count = sum_all(share);
    int mean =
        build_.op("div", {}, {build_.replicate_partials(sum), build_.replicate_partials(count)});
    return {narrowed(mean)};
  }

 private:
  int sum_all(int value) {
    std::vector<int64_t> dims;
    for (int d = 0; d < build_.meta(value).shape.size(); ++d) dims.push_back(d);
    if (dims.empty()) return value;
    return build_.op("sum", {{"dim", dims}, {"keepdim", false}}, {value});
  }
  int over_classes(const char* reduction, int value) {
    return build_.replicate_partials(build_.op(reduction, over_dim(loss_.class_dim), {value}));
  }
  int picked() {
    Attrs dim{{"dim", int64_t{loss_.class_dim}}};
    int index = build_.op("unsqueeze", dim, {safe_});
    int taken = build_.op("take_along_dim", dim, {logits_, index});
    Attrs drop{{"dim", std::vector<int64_t>{loss_.class_dim}}};
    return build_.replicate_partials(build_.op("squeeze", drop, {taken}));
  }
  int weight_of_label() {
    int weight = build_.input(kLossWeight);
    if (const DType wide = compute_dtype(dtype_); build_.meta(weight).dtype != wide)
      weight = build_.op("cast", {{"dtype", wide}}, {weight});
    int table = build_.op("unsqueeze", {{"dim", int64_t{1}}}, {weight});
    int taken = build_.op("embedding", {}, {safe_, table});
    Attrs drop{{"dim", std::vector<int64_t>{-1}}};
    return build_.replicate_partials(build_.op("squeeze", drop, {taken}));
  }
  int entropy() {
    int largest = over_classes("amax", logits_);
    int column = build_.op("unsqueeze", {{"dim", int64_t{loss_.class_dim}}}, {largest});
    int shifted = build_.op("exp", {}, {build_.op("sub", {}, {logits_, column})});
    int whole = build_.op("log", {}, {over_classes("sum", shifted)});
    whole = build_.op("add", {}, {whole, largest});
    int value = build_.op("sub", {}, {whole, picked()});
    if (loss_.smoothing == 0) return value;
    int mean = build_.op("div", {}, {over_classes("sum", logits_), build_.number(classes_)});
    int spread = build_.op("sub", {}, {whole, mean});
    return build_.op("add", {},
                     {build_.op("mul", {}, {value, build_.number(1 - loss_.smoothing)}),
                      build_.op("mul", {}, {spread, build_.number(loss_.smoothing)})});
  }
  int narrowed(int value) {
    if (compute_dtype(dtype_) == dtype_) return value;
    return build_.op("cast", {{"dtype", dtype_}}, {value});
  }

  LowerBuilder& build_;
  LossShape loss_;
  DType dtype_;
  int logits_ = 0, labels_ = 0, valid_ = 0, safe_ = 0;
  double classes_ = 1;
};

}  // namespace

std::vector<int> lower_loss(LossKind kind, const OpCall& call, const std::vector<Spec>& inputs,
                            LowerBuilder& build) {
  return LossBuilder(call, inputs, build).run(kind);
}

}  // namespace shardproof
