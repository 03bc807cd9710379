// Implements ops/core/sharding_rule.h. Factor notation is split into terms. Each letter gives the
// strategy that shards its dim in every term; outputs without the letter are P.
#include "shardproof/ops/core/sharding_rule.h"

#include <algorithm>
#include <utility>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

struct Notation {
  std::vector<std::string> inputs, outputs;
};

std::vector<std::string> split_terms(std::string_view text) {
  std::vector<std::string> terms(1);
  for (const char c : text) {
    if (c == ',') {
      terms.emplace_back();
    } else if (c != ' ') {
      terms.back().push_back(c);
    }
  }
  return terms;
}

Notation parse_notation(const std::string& text) {
  const size_t arrow = text.find("->");
  SP_CHECK(arrow != std::string::npos, "factor notation '{}' has no arrow", text);
  const std::string_view left = std::string_view(text).substr(0, arrow);
  Notation notation;
  // "->a" has no inputs, " ->a" has one scalar.
  if (!left.empty()) notation.inputs = split_terms(left);
  notation.outputs = split_terms(std::string_view(text).substr(arrow + 2));
  return notation;
}

// Returns the dim of a letter: -1 if the term lacks it, -2 if it occurs twice, which no strategy
// can shard.
int dim_of_letter(const std::string& term, char letter) {
  const size_t first = term.find(letter);
  if (first == std::string::npos) return -1;
  return term.find(letter, first + 1) == std::string::npos ? static_cast<int>(first) : -2;
}

std::string letters_of(const Notation& notation, const std::string& whole) {
  std::string letters;
  auto collect = [&](const std::vector<std::string>& terms) {
    for (const std::string& term : terms)
      for (const char c : term)
        if (c != '1' && whole.find(c) == std::string::npos && letters.find(c) == std::string::npos)
          letters.push_back(c);
  };
  collect(notation.outputs);
  collect(notation.inputs);
  return letters;
}

std::optional<Strategy> cut_factor(const Notation& notation, char letter,
                                   const FactorOptions& options) {
  Strategy strategy;
  bool reduced = true;
  for (const std::string& term : notation.inputs) {
    const int dim = dim_of_letter(term, letter);
    if (dim == -2) return std::nullopt;
    strategy.inputs.push_back(dim < 0 ? R() : S(dim));
  }
  for (const std::string& term : notation.outputs) {
    const int dim = dim_of_letter(term, letter);
    if (dim == -2) return std::nullopt;
    reduced = reduced && dim < 0;
    strategy.outputs.push_back(dim < 0 ? Placement(Partial{options.reduction}) : S(dim));
  }
  const auto form = options.form_of.find(letter);
  strategy.form = form == options.form_of.end() ? options.form : form->second;
  const auto cut = options.cut_of.find(letter);
  if (cut != options.cut_of.end()) strategy.cut = cut->second;
  if (reduced && options.reduction_needs_even) strategy.cut = ShardLayout::even;
  return strategy;
}

}  // namespace

std::vector<Strategy> factor_strategies(const std::string& notation, const FactorOptions& options) {
  const Notation terms = parse_notation(notation);
  std::vector<Strategy> strategies;
  for (const char letter : letters_of(terms, options.whole))
    if (auto strategy = cut_factor(terms, letter, options)) strategies.push_back(*strategy);
  for (const PartialPropagation& rule : options.partials)
    strategies.push_back(
        partial_strategy(rule, terms.inputs.size(), terms.outputs.size(), options.form));
  return strategies;
}

std::vector<PartialPropagation> joint_partial_rules(const std::vector<ReduceOp>& reductions,
                                                    const std::vector<int>& together) {
  std::vector<PartialPropagation> rules;
  for (const ReduceOp reduction : reductions) {
    PartialPropagation rule{{}, reduction};
    for (const int input : together) {
      const auto at = static_cast<size_t>(input);
      if (rule.inputs.size() <= at) rule.inputs.resize(at + 1);
      rule.inputs[at] = reduction;
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

Strategy partial_strategy(const PartialPropagation& rule, size_t inputs, size_t outputs,
                          LocalExecution form) {
  Strategy strategy;
  strategy.form = form;
  for (size_t i = 0; i < inputs; ++i) {
    const bool carries = i < rule.inputs.size() && rule.inputs[i];
    strategy.inputs.push_back(carries ? P(*rule.inputs[i]) : R());
  }
  strategy.outputs.assign(outputs, P(rule.output));
  return strategy;
}

bool has_cuts_between_blocks(const Spec& spec, int dim, int64_t blocks) {
  const int64_t block = spec.shape()[dim] / blocks;
  if (block == 0) return true;
  const Lanes ranks = spec.mesh().ranks();
  for (int64_t i = 0; i < ranks.size(); ++i)
    for (const Run& run : spec.owned(ranks[i], dim))
      if (run.start % block != 0 || run.length % block != 0) return false;
  return true;
}

bool is_reduction_allowed(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return is_integral(dtype) || dtype == DType::boolean;
    case ReduceOp::min:
    case ReduceOp::max: return !is_complex(dtype);
    case ReduceOp::norm: return is_floating(dtype);
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::prod:
    case ReduceOp::premul_sum: return dtype != DType::boolean;
  }
  SP_UNREACHABLE("reduction {}", static_cast<int>(op));
}

}  // namespace shardproof
