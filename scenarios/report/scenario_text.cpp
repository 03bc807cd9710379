// Implements scenario_text.h.
#include "shardproof/scenarios/report/scenario_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace shardproof {
namespace {

std::string quoted_text(const std::string& text) { return nlohmann::json(text).dump(); }

std::string json_element_text(double value, DType dtype) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  if (is_integral(dtype) || dtype == DType::boolean)
    return fmt::to_string(static_cast<int64_t>(value));
  return value == 0 && std::signbit(value) ? "-0.0" : fmt::format("{}", value);
}

// Row-major elements as nested lists; of no elements, the lists that the shape has.
std::string json_nested_text(const TensorText& tensor, size_t dim, size_t& next) {
  if (dim == static_cast<size_t>(tensor.shape.size()))
    return json_element_text(tensor.values[next++], tensor.dtype);
  std::vector<std::string> parts;
  for (int64_t i = 0; i < tensor.shape[dim]; ++i)
    parts.push_back(json_nested_text(tensor, dim + 1, next));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

std::string json_tensor_text(const TensorText& tensor) {
  size_t next = 0;
  std::string out =
      fmt::format("    {}: {{\"dtype\": \"{}\", \"shape\": [{}]", quoted_text(tensor.name),
                  name(tensor.dtype), fmt::join(tensor.shape, ", "));
  if (!tensor.placements.empty()) out += ", \"placements\": " + quoted_text(tensor.placements);
  return out + ", \"values\": " + json_nested_text(tensor, 0, next) + "}";
}

std::string json_listing_text(const std::vector<std::string>& lines) {
  std::vector<std::string> quoted_lines;
  for (const std::string& line : lines) quoted_lines.push_back("    " + quoted_text(line));
  return fmt::format("[\n{}\n  ]", fmt::join(quoted_lines, ",\n"));
}

}  // namespace

std::string scenario_text(const ProgramText& text) {
  std::vector<std::string> tensors;
  for (const TensorText& tensor : text.tensors) tensors.push_back(json_tensor_text(tensor));
  std::string out = fmt::format(
      "{{\n  \"version\": 1,\n  \"about\": {},\n  \"mesh\": {},\n  \"dtype\": \"{}\",\n"
      "  \"tensors\": {{\n{}\n  }},\n",
      quoted_text(text.about), quoted_text(text.mesh), name(text.dtype), fmt::join(tensors, ",\n"));
  if (text.is_global()) return out + "  \"program\": " + json_listing_text(text.program) + "\n}\n";
  std::vector<std::string> outputs;
  for (const auto& [output, placements] : text.outputs)
    outputs.push_back(fmt::format("{}: {}", quoted_text(output), quoted_text(placements)));
  return out + "  \"ranks\": {\"all\": " + json_listing_text(text.ranks) +
         "},\n  \"truth\": " + json_listing_text(text.truth) +
         fmt::format(",\n  \"outputs\": {{{}}}\n}}\n", fmt::join(outputs, ", "));
}

}  // namespace shardproof
