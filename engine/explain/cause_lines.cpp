// Implements cause_lines.h.
#include "shardproof/engine/explain/cause_lines.h"

#include <string_view>

namespace shardproof {

const char* reduction_word(ReduceOp op) {
  switch (op) {
    case ReduceOp::avg: return "average";
    case ReduceOp::max: return "maximum";
    case ReduceOp::min: return "minimum";
    case ReduceOp::norm: return "norm";
    default: return "sum";
  }
}

bool states_cause(const std::string& detail) { return detail.starts_with(kCauseLabel); }

bool states_cause_or_hint(const std::string& detail) {
  return states_cause(detail) || detail.starts_with(kHintLabel);
}

void causes_to_hints(Finding& finding) {
  for (std::string& detail : finding.details)
    if (states_cause(detail)) {
      detail = kHintLabel + detail.substr(std::string_view(kCauseLabel).size());
      finding.fix.clear();
    }
}

void remove_causes(Finding& finding) { std::erase_if(finding.details, states_cause_or_hint); }

}  // namespace shardproof
