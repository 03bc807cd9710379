// Implements op_text.h.
#include "shardproof/cli/commands/op_text.h"

namespace shardproof {

std::string signature(const OpRecord& op) {
  std::string out = op.name + "(";
  for (size_t i = 0; i < op.params.size(); ++i) {
    const Param& param = op.params[i];
    if (i > 0) out += ", ";
    out += param.name;
    if (param.required) continue;
    const bool none = std::holds_alternative<std::monostate>(param.fallback);
    out += "=" + (none ? std::string("None") : to_string(param.fallback));
  }
  out += ")";
  return op.infix.empty() ? out : out + "  " + op.infix;
}

}  // namespace shardproof
