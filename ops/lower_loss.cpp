#include <cmath>

#include "shardproof/ops/call_text.h"
#include "shardproof/ops/loss.h"

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
    // A label that is ignored need not be a class; it reads class 0 and counts 0.
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

// Rounding of a row's loss and what its inputs bring: log sum exp moves by no more than its largest
// input does.
double row_error(LossKind kind, const LossShape& loss, const std::vector<double>& row,
                 const std::vector<double>& error, int64_t label, double u, double* size) {
  double largest_error = 0, farthest = 0, sum_error = 0, mean = 0, mean_size = 0;
  double top = -INFINITY, sum = 0;
  for (size_t c = 0; c < row.size(); ++c) {
    // Masked: adds nothing to the sum of exponentials.
    if (std::isinf(row[c]) && row[c] < 0 && error[c] == 0 && loss.smoothing == 0) continue;
    largest_error = std::max(largest_error, error[c]);
    farthest = std::max(farthest, std::fabs(row[c]) + 2 * error[c]);
    top = std::max(top, row[c]);
    mean += row[c] / static_cast<double>(row.size());
    mean_size += (std::fabs(row[c]) + 2 * error[c]) / static_cast<double>(row.size());
    sum_error += error[c] / static_cast<double>(row.size());
  }
  auto classes = static_cast<int64_t>(row.size());
  auto at = static_cast<size_t>(label);
  if (kind == LossKind::nll) {
    *size = std::fabs(row[at]) + 2 * error[at];
    return error[at];
  }
  for (double x : row) sum += std::exp(x - top);
  double whole = std::log(sum) + top;
  // The shift rounds each exponent, exp and the sum round relatively, log turns that into absolute.
  double whole_error = largest_error + 2 * u * farthest + gamma(classes + 12, u) +
                       4 * u * (std::fabs(whole) + farthest);
  double value = std::fabs(whole - row[at]), picked = error[at];
  double total = whole_error + picked + 2 * u * (value + whole_error + picked);
  *size = value + 2 * total;
  if (loss.smoothing == 0) return total;
  double spread = whole_error + sum_error + mean_size * gamma(classes + 3, u);
  *size = (1 - loss.smoothing) * value + loss.smoothing * std::fabs(whole - mean);
  double both = (1 - loss.smoothing) * total + loss.smoothing * spread;
  both += gamma(6, u) * (value + std::fabs(whole) + mean_size + total + spread);
  *size += 2 * both;
  return both;
}

}  // namespace

std::vector<int> lower_loss(LossKind kind, const OpCall& call, const std::vector<Spec>& inputs,
                            LowerBuilder& build) {
  return LossBuilder(call, inputs, build).run(kind);
}

std::vector<Bound> loss_bound(LossKind kind, const BoundCall& call) {
  LossShape loss = loss_shape(*call.call);
  const Tensor& out = *call.outputs[0];
  auto x = values_of(*call.inputs[0]), labels = values_of(*call.inputs[kLossLabels]);
  std::vector<double> weight;
  if (loss.weighted) weight = values_of(*call.inputs[kLossWeight]);
  double u = unit_roundoff(compute_dtype(out.dtype));
  std::vector<double> errors;
  double total = 0, sum = 0, count = 0;
  int64_t rows = loss.outer * loss.inner;
  for (int64_t r = 0; r < rows; ++r) {
    auto label = static_cast<int64_t>(labels[static_cast<size_t>(r)]);
    std::vector<double> row, error;
    for (int64_t c = 0; c < loss.classes; ++c) {
      int64_t at = (r / loss.inner * loss.classes + c) * loss.inner + r % loss.inner;
      row.push_back(x[static_cast<size_t>(at)]);
      error.push_back(error_of(*call.input_bounds[0], at));
    }
    double size = 0, share = label == loss.ignore ? 0 : 1;
    double moved = share == 0 ? 0 : row_error(kind, loss, row, error, label, u, &size);
    if (loss.weighted && share != 0) {
      share = weight[static_cast<size_t>(label)];
      double w_error = error_of(*call.input_bounds[kLossWeight], label);
      moved = moved * (std::fabs(share) + w_error) + size * (w_error + u * std::fabs(share));
      size *= std::fabs(share) + 2 * w_error;
      if (w_error != 0) moved = INFINITY;  // the count would be off as well
    }
    errors.push_back(moved + rounding_error(size, out.dtype, 1));
    total += moved;
    sum += size;
    count += share;
  }
  if (loss.reduction != LossReduction::none) {
    double error = total + sum_error(sum, rows + 2, call.parts, out.dtype, -100000);
    if (loss.reduction == LossReduction::mean) {
      error = (error + sum * gamma(rows + 4, u)) / std::fabs(count);
      error += rounding_error((sum / std::fabs(count)) + error, out.dtype, 2);
    }
    errors = {error};
  }
  return {bound_from_errors(out, std::move(errors))};
}

}  // namespace shardproof
