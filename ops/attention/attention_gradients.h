// Gradient of sdpa.
#pragma once

#include "shardproof/ops/attention/attention_item.h"
#include "shardproof/ops/core/gradient.h"

namespace shardproof {

FormulaTerms sdpa_gradient(Gradient& g, const Attention& attention);

}  // namespace shardproof
