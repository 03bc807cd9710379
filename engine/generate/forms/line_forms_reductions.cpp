// Implements a table of line_forms.h: lines that reduce along dims, normalize or scan.
#include "shardproof/engine/generate/forms/line_forms.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

Lines write_reduction(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  static const std::vector<std::string> kWhole = {"sum", "amax", "amin", "sum"};
  static const std::vector<std::string> kRounded = {"mean", "logsumexp", "norm",   "var",
                                                    "std",  "mean",      "nanmean"};
  const bool whole = writer.is_whole() || writer.draw().chance(0.5);
  const std::string verb = writer.draw().from(whole ? kWhole : kRounded);
  if (writer.draw().chance(0.15) && verb != "logsumexp")
    return {fmt::format("$0 = {}({})", verb, x->name)};
  const int64_t dim = writer.dim_of(*x);
  const std::string keep = writer.draw().chance(0.5) ? ", keepdim=true" : "";
  return {fmt::format("$0 = {}({}, dim={}{})", verb, x->name, writer.dim_text(*x, dim), keep)};
}

Lines write_softmax(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const char* verb = writer.draw().chance(0.6) ? "softmax" : "log_softmax";
  return {
      fmt::format("$0 = {}({}, dim={})", verb, x->name, writer.dim_text(*x, writer.dim_of(*x)))};
}

Lines write_norm(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const int64_t size = x->shape[x->shape.size() - 1];
  const DraftValue* weight = writer.any_of([&](const DraftValue& other) {
    return other.dtype == x->dtype && other.shape.size() == 1 && other.shape[0] == size;
  });
  const std::string given = weight == nullptr ? "" : ", " + weight->name;
  switch (writer.draw().below(4)) {
    case 0: return {fmt::format("$0 = layer_norm({}{})", x->name, given)};
    case 1: return {fmt::format("$0 = rms_norm({}{}, eps=0.01)", x->name, given)};
    case 2: return {fmt::format("$0 = normalize({}, dim=-1, eps=0.01)", x->name)};
    default: return {fmt::format("$0 = layer_norm({}{}, eps=0.1)", x->name, given)};
  }
}

Lines write_norm_by_hand(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const std::string mean = writer.fresh(), scale = writer.fresh(), name = x->name;
  if (writer.draw().chance(0.5))
    return {fmt::format("{} = mean({} * {}, dim=-1, keepdim=true)", scale, name, name),
            fmt::format("$a = {} * rsqrt({} + 0.01)", name, scale)};
  return {fmt::format("{} = {} - mean({}, dim=-1, keepdim=true)", mean, name, name),
          fmt::format("{} = mean(square({}), dim=-1, keepdim=true)", scale, mean),
          fmt::format("$a = {} / sqrt({} + 0.01)", mean, scale)};
}

Lines write_softmax_by_hand(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const std::string top = writer.fresh(), exp = writer.fresh();
  return {fmt::format("{} = amax({}, dim=-1, keepdim=true)", top, x->name),
          fmt::format("{} = exp({} - {})", exp, x->name, top),
          fmt::format("$a = {} / sum({}, dim=-1, keepdim=true)", exp, exp)};
}

Lines write_scan(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const std::string dim = writer.dim_text(*x, writer.dim_of(*x));
  if (writer.is_whole() || writer.draw().chance(0.7))
    return {fmt::format("$0 = cumsum({}, dim={})", x->name, dim)};
  if (writer.draw().chance(0.5))
    return {fmt::format("$0 = logcumsumexp({}, dim={})", x->name, dim)};
  return {fmt::format("$a, $b = cummax({}, dim={})", x->name, dim)};
}

Lines write_loss(LineWriter& writer) {
  const DraftValue* x = writer.any_float(2);
  const DraftValue* y = x == nullptr ? nullptr : writer.like(*x);
  if (y == nullptr) return {};
  const DraftValue* labels = writer.any_of([&](const DraftValue& other) {
    return other.dtype == DType::i64 && other.shape.size() == 1 && other.shape[0] == x->shape[0];
  });
  const int64_t classes = x->shape[1];
  if (labels != nullptr && x->shape.size() == 2 && classes > 0 && writer.draw().chance(0.7))
    return {fmt::format("$0 = cross_entropy({}, {} % {})", x->name, labels->name, classes)};
  const std::string verb = writer.draw().from({"mse_loss", "l1_loss", "huber_loss"});
  return {fmt::format("$0 = {}({}, {})", verb, x->name, y->name)};
}

}  // namespace

void add_reduction_forms(std::vector<LineForm>& forms) {
  forms.push_back({"reduction", true, 4, write_reduction});
  forms.push_back({"softmax", false, 1.5, write_softmax});
  forms.push_back({"norm", false, 1.5, write_norm});
  forms.push_back({"norm_by_hand", false, 1, write_norm_by_hand});
  forms.push_back({"softmax_by_hand", false, 0.7, write_softmax_by_hand});
  forms.push_back({"scan", true, 1, write_scan});
  forms.push_back({"loss", false, 0.7, write_loss});
}

}  // namespace shardproof
