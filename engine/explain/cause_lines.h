// The lines of a finding's details that state its cause: "cause   ..." if it is proven, and
// "hint    ..." if it is not.
#pragma once

#include <string>

#include "shardproof/localtensor/placement/placement.h"
#include "shardproof/localtensor/report/finding.h"

namespace shardproof {

inline constexpr const char* kCauseLabel = "cause   ";
inline constexpr const char* kHintLabel = "hint    ";

// Returns the word for a reduction: "average", "maximum", "minimum", or "sum" for all others.
const char* reduction_word(ReduceOp op);

bool states_cause(const std::string& detail);
bool states_cause_or_hint(const std::string& detail);

// Turns the causes of a finding into hints and removes the fix of one.
void causes_to_hints(Finding& finding);

// Removes the lines that state a cause or a hint. The fix remains.
void remove_causes(Finding& finding);

}  // namespace shardproof
