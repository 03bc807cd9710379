// Implements add_gradient.h: tries tensors one at a time, and writes those that the value reaches.
#include "shardproof/engine/generate/add_gradient.h"

#include <algorithm>

#include "shardproof/engine/generate/forms/gradient_line.h"
#include "shardproof/engine/generate/forms/one_device.h"
#include "shardproof/engine/generate/unsafe_partials.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kMostValues = 4;  // that are tried

// True if a line binds the name. Gradients by such a name are not drawn, because after the line the
// name is no input.
bool is_bound_again(const ProgramText& text, const std::string& name) {
  for (const std::string& line : text.one_device()) {
    const size_t start = line.find_first_not_of(' ');
    if (start != std::string::npos && line.compare(start, name.size() + 2, name + " =") == 0)
      return true;
  }
  return false;
}

bool can_lower(const ProgramText& text, const OpRegistry& ops) {
  try {
    lower_one_device(job_of(text), ops);
    return true;
  } catch (const Error&) {
    return false;
  }
}

ProgramText with_line(ProgramText text, std::string line) {
  (text.is_global() ? text.program : text.truth).push_back(std::move(line));
  return text;
}

// Returns the names of float values that lines bind.
std::vector<std::string> bound_floats(const ProgramText& text, const OpRegistry& ops) {
  const GlobalProgram program = lower_one_device(job_of(text), ops);
  std::vector<std::string> names;
  for (const auto& [name, id] : program.names) {
    const bool is_input =
        std::find(program.inputs.begin(), program.inputs.end(), id) != program.inputs.end();
    if (!is_input && is_floating(program.values[static_cast<size_t>(id)].dtype))
      names.push_back(name);
  }
  return names;
}

// True if the last line multiplies parts of a cotangent by a value that is not finite. Inside `as
// dp:R` one rank has the cotangent and the other ranks have zeros. 0 * inf is NaN, so the parts do
// not add up to the gradient of one device.
bool has_unsafe_gradient(const ProgramText& text, const OpRegistry& ops) {
  const auto last = static_cast<int>(text.program.size());
  const std::vector<UnsafeLine> lines = find_unsafe_partials(text, ops);
  return std::any_of(lines.begin(), lines.end(), [&](const UnsafeLine& line) {
    return line.line == last && line.has_infinity;
  });
}

}  // namespace

std::vector<std::string> draw_gradient_inputs(const ProgramText& text, const std::string& value,
                                              size_t most, Draw& draw, const OpRegistry& ops) {
  std::vector<std::string> inputs;
  for (const TensorText& tensor : text.tensors) {
    if (inputs.size() == most || !is_floating(tensor.dtype)) continue;
    if (is_bound_again(text, tensor.name) || draw.chance(0.3)) continue;
    if (can_lower(with_line(text, to_string(gradient_line(value, {tensor.name}))), ops))
      inputs.push_back(tensor.name);
  }
  return inputs;
}

void add_gradient(ProgramText& text, Draw& draw, const OpRegistry& ops) {
  const std::vector<std::string> values = bound_floats(text, ops);
  for (int attempt = 0; attempt < kMostValues && !values.empty(); ++attempt) {
    const std::string value = draw.from(values);
    const std::vector<std::string> inputs =
        draw_gradient_inputs(text, value, kMostGradientInputs, draw, ops);
    if (inputs.empty()) continue;
    text.program.push_back(to_string(gradient_line(value, inputs)));
    if (!has_unsafe_gradient(text, ops)) return;
    text.program.pop_back();
  }
}

}  // namespace shardproof
