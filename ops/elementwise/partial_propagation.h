// Which partials pass an elementwise op of two operands, by its name.
#pragma once

#include <vector>

#include "shardproof/ops/elementwise/elementwise_rule.h"

namespace shardproof {

std::vector<Pass> no_passes(const OpCall& call);
std::vector<Pass> add_passes(const OpCall& call);
std::vector<Pass> mul_passes(const OpCall& call);
std::vector<Pass> div_passes(const OpCall& call);
std::vector<Pass> sub_passes(const OpCall& call);
std::vector<Pass> maximum_passes(const OpCall& call);
std::vector<Pass> minimum_passes(const OpCall& call);
std::vector<Pass> band_passes(const OpCall& call);
std::vector<Pass> bor_passes(const OpCall& call);
std::vector<Pass> bxor_passes(const OpCall& call);
std::vector<Pass> and_passes(const OpCall& call);
std::vector<Pass> or_passes(const OpCall& call);

}  // namespace shardproof
