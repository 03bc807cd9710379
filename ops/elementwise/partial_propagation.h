// Rules for partials of elementwise ops of two operands, one function for each op. Each rule holds
// exactly in real arithmetic: P(sum) * R is P(sum), and max(P(max), R) is P(max).
#pragma once

#include <vector>

#include "shardproof/ops/elementwise/elementwise_rule.h"

namespace shardproof {

std::vector<PartialPropagation> no_passes(const OpCall& call);
std::vector<PartialPropagation> add_passes(const OpCall& call);
std::vector<PartialPropagation> mul_passes(const OpCall& call);
std::vector<PartialPropagation> div_passes(const OpCall& call);
std::vector<PartialPropagation> growing_passes(const OpCall& call);
std::vector<PartialPropagation> sub_passes(const OpCall& call);
std::vector<PartialPropagation> maximum_passes(const OpCall& call);
std::vector<PartialPropagation> minimum_passes(const OpCall& call);
std::vector<PartialPropagation> band_passes(const OpCall& call);
std::vector<PartialPropagation> bor_passes(const OpCall& call);
std::vector<PartialPropagation> bxor_passes(const OpCall& call);
std::vector<PartialPropagation> left_shift_passes(const OpCall& call);
std::vector<PartialPropagation> right_shift_passes(const OpCall& call);
std::vector<PartialPropagation> and_passes(const OpCall& call);
std::vector<PartialPropagation> or_passes(const OpCall& call);

}  // namespace shardproof
