// The line of a generated program that makes gradients, as text: "gx, gw = grad(sum(y), [x, w])".
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shardproof {

struct GradientLine {
  std::string value;                         // y
  std::vector<std::string> targets, inputs;  // gx, gw; x, w
};

// Returns the line that names the gradient by x "gx".
GradientLine gradient_line(const std::string& value, const std::vector<std::string>& inputs);
std::string to_string(const GradientLine& line);
// Returns the parts of a line; nullopt for any other line.
std::optional<GradientLine> parse_gradient_line(const std::string& line);

}  // namespace shardproof
