// Implements ops/elementwise/elementwise_rule.h.
#include "shardproof/ops/elementwise/elementwise_rule.h"

#include "shardproof/ops/core/type_promotion.h"

namespace shardproof {
namespace {

std::string operand_letters(const Dims& shape, const Dims& result) {
  std::string term;
  const int shift = result.size() - shape.size();
  for (int d = 0; d < shape.size(); ++d) {
    const bool broadcast = shape[d] == 1 && result[d + shift] != 1;
    term.push_back(broadcast ? '1' : static_cast<char>('a' + d + shift));
  }
  return term;
}

bool passes_conversions(const PartialPropagation& pass, const OpCall& call, DType result) {
  for (size_t i = 0; i < call.inputs.size() && i < pass.inputs.size(); ++i)
    if (pass.inputs[i] && (call.inputs[i].absent || call.inputs[i].weak ||
                           !can_convert_partial(*pass.inputs[i], call.inputs[i].dtype, result)))
      return false;
  return true;
}

}  // namespace

std::string broadcast_notation(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const Dims& shape = outputs.front().shape;
  std::string text = " ";  // factor notation writes a single scalar input as " "
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (i > 0) text.push_back(',');
    if (!call.inputs[i].absent) text += operand_letters(call.inputs[i].shape, shape);
  }
  text += "->";
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i > 0) text.push_back(',');
    text += operand_letters(shape, shape);
  }
  return text;
}

std::vector<Strategy> elementwise_strategies(const OpCall& call,
                                             const std::vector<TensorMeta>& outputs,
                                             const std::vector<PartialPropagation>& passes,
                                             LocalExecution form) {
  FactorOptions options;
  options.form = form;
  std::vector<Strategy> strategies = factor_strategies(broadcast_notation(call, outputs), options);
  for (const PartialPropagation& pass : passes) {
    if (!passes_conversions(pass, call, outputs.front().dtype)) continue;
    strategies.push_back(partial_strategy(pass, call.inputs.size(), outputs.size(), form));
  }
  return strategies;
}

bool can_convert_partial(ReduceOp op, DType from, DType to) {
  const bool same = from == to;
  const bool floats = !is_integral(from) && from != DType::boolean;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod: return floats ? can_widen(from, to) : same;
    case ReduceOp::avg: return floats && can_widen(from, to);
    case ReduceOp::min:
    case ReduceOp::max:
      if (can_widen(from, to)) return true;
      // Rounding is monotone. An overflow to NaN (f8e4m3) is not.
      return to == DType::f32 || to == DType::f64 ||
             (floats && is_floating(to) && to != DType::f8e4m3);
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return same || (is_integral(from) && is_integral(to) && can_widen(from, to));
    case ReduceOp::norm: return floats && can_widen(from, to);
    case ReduceOp::premul_sum: return false;
  }
  return false;
}

}  // namespace shardproof
