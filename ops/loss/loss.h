// Declarations shared by the sources of cross_entropy, nll_loss and mse_loss.
#pragma once

#include <string_view>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

enum class LossKind { cross_entropy, nll };
enum class LossReduction { none, sum, mean };

inline constexpr int kLossLabels = 1, kLossWeight = 2;

// Logits as [outer, classes, inner].
struct LossShape {
  int64_t outer = 1, classes = 0, inner = 1, ignore = -100;
  int class_dim = 0;
  double smoothing = 0;
  LossReduction reduction = LossReduction::mean;
  bool weighted = false;
};
// Returns the shape and the attributes of a call. Throws Error(bad_input) for an unknown reduction.
LossShape loss_shape(const OpCall& call);
// Returns the attribute `reduction`. Throws Error(bad_input) unless it is 'mean', 'sum' or 'none'.
LossReduction parse_loss_reduction(std::string_view op, const OpCall& call);

// Rule::lower of the family: emits the loss for sharded classes, or for sharded rows of a mean.
// Returns the handle of the loss.
std::vector<int> lower_loss(LossKind kind, const OpCall& call, const std::vector<Spec>& inputs,
                            LowerBuilder& build);
// Registers mse_loss.
void add_mse_loss(OpRegistry& ops);
// Adds `weight` to a loss of two tensors: one weight per element; a mean divides by their sum.
void add_loss_weight(OpRecord& loss);
// Adds two forms of cross_entropy: targets that are class probabilities, and class weights with
// label smoothing.
void add_soft_label_forms(OpRecord& cross_entropy);

}  // namespace shardproof
