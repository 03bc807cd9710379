// Implements gradient_line.h.
#include "shardproof/engine/generate/forms/gradient_line.h"

#include <fmt/ranges.h>

namespace shardproof {
namespace {

const std::string kStart = " = grad(sum(", kMiddle = "), [";

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (size_t from = 0; from < list.size();) {
    const size_t end = std::min(list.find(", ", from), list.size());
    names.push_back(list.substr(from, end - from));
    from = end + 2;
  }
  return names;
}

}  // namespace

GradientLine gradient_line(const std::string& value, const std::vector<std::string>& inputs) {
  GradientLine line{value, {}, inputs};
  for (const std::string& input : inputs) line.targets.push_back("g" + input);
  return line;
}

std::string to_string(const GradientLine& line) {
  return fmt::format("{}{}{}{}{}])", fmt::join(line.targets, ", "), kStart, line.value, kMiddle,
                     fmt::join(line.inputs, ", "));
}

std::optional<GradientLine> parse_gradient_line(const std::string& line) {
  const size_t at = line.find(kStart), list = line.find(kMiddle);
  if (at == std::string::npos || list == std::string::npos) return std::nullopt;
  const size_t first = list + kMiddle.size(), end = line.find(']', first);
  return GradientLine{line.substr(at + kStart.size(), list - at - kStart.size()),
                      names_in(line.substr(0, at)), names_in(line.substr(first, end - first))};
}

}  // namespace shardproof
