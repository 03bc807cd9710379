// Implements a table of line_forms.h: elementwise ops of one, two and three operands.
#include <fmt/format.h>
#include <array>

#include "shardproof/engine/generate/forms/line_forms.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

struct Unary {
  const char* text;  // {} is the operand
  bool whole = false;
};

constexpr std::array<Unary, 36> kUnary = {{
    {"relu({})", true},
    {"-{}", true},
    {"abs({})", true},
    {"sign({})", true},
    {"clamp({}, min=-2, max=3)", true},
    {"leaky_relu({}, 2)", true},
    {"gelu({})"},
    {"silu({})"},
    {"tanh({})"},
    {"sigmoid({})"},
    {"exp({} * 0.2)"},
    {"exp(-abs({}))"},
    {"log(abs({}) + 0.1)"},
    {"log1p(abs({}))"},
    {"sqrt(abs({}) + 0.01)"},
    {"rsqrt(abs({}) + 0.2)"},
    {"square({})"},
    {"reciprocal(abs({}) + 0.5)"},
    {"sin({})"},
    {"cos({})"},
    {"erf({})"},
    {"softplus({})"},
    {"expm1({} * 0.1)"},
    {"atan({})"},
    {"{} ** 2"},
    {"elu({})"},
    {"mish({})"},
    {"hardswish({})"},
    {"floor({})"},
    {"round({})"},
    {"frac({})"},
    {"softsign({})"},
    {"logsigmoid({})"},
    {"gelu({}, approximate='tanh')"},
    {"tanhshrink({})"},
    {"log2(abs({}) + 1)"},
}};

Lines write_unary(LineWriter& writer) {
  const DraftValue* x = writer.any_float();
  if (x == nullptr) return {};
  const Unary& form = kUnary[static_cast<size_t>(writer.draw().below(std::ssize(kUnary)))];
  if (writer.is_whole() && !form.whole) return {};
  return {"$0 = " + fmt::format(fmt::runtime(form.text), x->name)};
}

Lines write_scalar(LineWriter& writer) {
  const DraftValue* x = writer.any_float();
  if (x == nullptr) return {};
  const std::string number = writer.number();
  switch (writer.draw().below(writer.is_whole() ? 4 : 6)) {
    case 0: return {fmt::format("$0 = {} * {}", x->name, number)};
    case 1: return {fmt::format("$0 = {} + {}", x->name, number)};
    case 2: return {fmt::format("$0 = {} - {}", number, x->name)};
    case 3: return {fmt::format("$0 = {} - {}", x->name, number)};
    case 4: return {fmt::format("$0 = {} / 3", x->name)};
    default: return {fmt::format("$0 = {} % 1.7", x->name)};
  }
}

Lines write_binary(LineWriter& writer) {
  const DraftValue* x = writer.any_float();
  const DraftValue* y = x == nullptr ? nullptr : writer.broadcast_with(*x);
  if (y == nullptr) return {};
  std::string a = x->name, b = y->name;
  if (writer.draw().chance(0.3)) std::swap(a, b);
  static const std::vector<std::string> kWhole = {
      "{} + {}", "{} - {}", "{} * {}", "maximum({}, {})", "minimum({}, {})", "{} + {} * 2"};
  static const std::vector<std::string> kRounded = {
      "{} / (abs({}) + 0.5)", "{} * sigmoid({})",  "tanh({} + {})",     "{} * 0.3 + {}",
      "hypot({}, {})",        "lerp({}, {}, 0.3)", "logaddexp({}, {})", "atan2({}, {})"};
  const bool whole = writer.is_whole() || writer.draw().chance(0.6);
  const std::string& form = writer.draw().from(whole ? kWhole : kRounded);
  return {"$0 = " + fmt::format(fmt::runtime(form), a, b)};
}

Lines write_ternary(LineWriter& writer) {
  const DraftValue* x = writer.any_float();
  const DraftValue* y = x == nullptr ? nullptr : writer.like(*x);
  const DraftValue* z = x == nullptr ? nullptr : writer.broadcast_with(*x);
  if (z == nullptr) return {};
  static const std::vector<std::string> kForms = {
      "{} * {} + {}", "({} - {}) * {}", "addcmul({}, {}, {}, value=2)", "maximum({}, {}) - {}"};
  return {"$0 = " +
          fmt::format(fmt::runtime(writer.draw().from(kForms)), x->name, y->name, z->name)};
}

}  // namespace

void add_elementwise_forms(std::vector<LineForm>& forms) {
  forms.push_back({"unary", true, 5, write_unary});
  forms.push_back({"scalar", true, 2, write_scalar});
  forms.push_back({"binary", true, 5, write_binary});
  forms.push_back({"ternary", true, 1, write_ternary});
}

}  // namespace shardproof
