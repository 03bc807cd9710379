// What the files of the loss family share.
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
LossShape loss_shape(const OpCall& call);
LossReduction parse_loss_reduction(std::string_view op, const OpCall& call);

// The replacement when classes or rows of a mean are cut.
std::vector<int> lower_loss(LossKind kind, const OpCall& call, const std::vector<Spec>& inputs,
                            LowerBuilder& build);
void add_mse_loss(OpRegistry& ops);
// `weight`, of the elements of a loss of two tensors: a mean is over its sum.
void take_loss_weight(OpRecord& loss);
// Labels that are probabilities of classes; and a weight of classes beside smoothed labels.
void take_class_shares(OpRecord& cross_entropy);

}  // namespace shardproof
