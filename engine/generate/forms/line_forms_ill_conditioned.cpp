// Implements a table of line_forms.h: lines that amplify rounding or leave the range of a dtype.
#include "shardproof/engine/generate/forms/line_forms.h"

#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Forms of one operand {0} with at least one dim.
const std::vector<std::string>& cancelling_forms() {
  static const std::vector<std::string> kForms = {
      "({0} + 1000) - 1000",
      "{0} - mean({0}, dim=-1, keepdim=true)",
      "{0} * 1.0001 - {0}",
      "sum({0}, dim=-1) - sum({0} * 0.999, dim=-1)",
      "{0} - {0} * 1",
      "mean({0} * {0}, dim=-1) - square(mean({0}, dim=-1))",
      "cumsum({0} - mean({0}), dim=-1)",
  };
  return kForms;
}

const std::vector<std::string>& quotient_forms() {
  static const std::vector<std::string> kForms = {
      "{0} / sum({0}, dim=-1, keepdim=true)",
      "reciprocal(sum({0}, dim=-1))",
      "{0} / (sum({0}) - sum({0} * 1.5))",
      "sign(sum({0}, dim=-1))",
      "log(abs(sum({0}, dim=-1)))",
      "rsqrt(var({0}, dim=-1))",
      "{0} / norm({0})",
      "sqrt({0})",
      "{0} / {0}",
      "sum({0}) / sum({0})",
  };
  return kForms;
}

const std::vector<std::string>& scale_forms() {
  static const std::vector<std::string> kForms = {
      "{0} * 1000",
      "{0} * 0.0001",
      "exp({0})",
      "{0} * {0} * {0}",
      "cast({0}, f16) * 300",
      "{0} * 1e6",
      "exp({0} * 20)",
      "{0} ** 3",
      "exp2({0} * 5)",
      "softmax({0} * 100, dim=-1)",
      "tan({0})",
      "{0} * 1e-7",
      "sinh({0})",
      "{0} * 0",
      "log({0})",
      "1 / {0}",
      "prod({0}, dim=-1)",
  };
  return kForms;
}

Lines write_of(LineWriter& writer, const std::vector<std::string>& forms) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  return {"$0 = " + fmt::format(fmt::runtime(writer.draw().from(forms)), x->name)};
}

Lines write_masked_softmax(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  const DraftValue* mask = x == nullptr ? nullptr : writer.any_bool_like(*x);
  if (x == nullptr) return {};
  const std::string condition = mask == nullptr ? fmt::format("{} > 0.2", x->name) : mask->name;
  const std::string low = writer.draw().from({"-1e9", "-1e4", "-inf"});
  return {fmt::format("$a = softmax(where({}, {}, {}), dim=-1)", condition, x->name, low)};
}

Lines write_amplifying_chain(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const std::string h = writer.fresh();
  const std::string body =
      writer.draw().from({"  {0} = 3.7 * {0} * (1 - {0})", "  {0} = {0} * 3 - floor({0} * 3)",
                          "  {0} = {0} * 1.5 - {0} * {0} * 0.4"});
  return {fmt::format("{} = sigmoid({})", h, x->name),
          fmt::format("for i in range({}):", writer.draw().between(4, 12)),
          fmt::format(fmt::runtime(body), h)};
}

Lines write_zero_by_zero(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  return {fmt::format("$a = relu({})", x->name),
          fmt::format("$b = relu({0}) / (relu({0}) + relu(-{0}) * 0)", x->name)};
}

Lines write_nan_repair(LineWriter& writer) {
  const DraftValue* x = writer.any_of(
      [&](const DraftValue& value) { return is_plain_float(value.dtype) && !value.is_finite; });
  if (x == nullptr) return {};
  if (writer.draw().chance(0.5))
    return {fmt::format("$a = where(isfinite({}), {}, 0)", x->name, x->name)};
  return {fmt::format("$a = nan_to_num({}, nan=1, posinf=2, neginf=-2)", x->name)};
}

}  // namespace

void add_ill_conditioned_forms(std::vector<LineForm>& forms) {
  forms.push_back({"cancelling", false, 4,
                   [](LineWriter& writer) { return write_of(writer, cancelling_forms()); }});
  forms.push_back({"quotient", false, 3,
                   [](LineWriter& writer) { return write_of(writer, quotient_forms()); }});
  forms.push_back(
      {"scale", false, 3, [](LineWriter& writer) { return write_of(writer, scale_forms()); }});
  forms.push_back({"masked_softmax", false, 1, write_masked_softmax});
  forms.push_back({"amplifying_chain", false, 1, write_amplifying_chain});
  forms.push_back({"zero_by_zero", false, 0.5, write_zero_by_zero});
  forms.push_back({"nan_repair", false, 2, write_nan_repair});
}

}  // namespace shardproof
