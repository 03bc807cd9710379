// Implements global_draft.h. Only new lines are lowered, with all values of the draft as inputs, so
// the cost of a line does not grow with the program.
#include "shardproof/engine/generate/forms/global_draft.h"

#include <algorithm>
#include <cmath>

#include "shardproof/engine/generate/forms/one_device.h"
#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int64_t kMaxDraftElements = 400;  // elements of one value

DraftValue draft_value(const std::string& name, const Tensor& value) {
  DraftValue draft{name, value.dtype, value.shape, value, std::nullopt, 0, true};
  for (const double element : values_of(value)) {
    if (!std::isfinite(element))
      draft.is_finite = false;
    else
      draft.largest = std::max(draft.largest, std::abs(element));
  }
  return draft;
}

double share_not_finite(const Tensor& value) {
  const std::vector<double> elements = values_of(value);
  const auto count = std::count_if(elements.begin(), elements.end(),
                                   [](double element) { return !std::isfinite(element); });
  return elements.empty() ? 0 : static_cast<double>(count) / static_cast<double>(elements.size());
}

bool is_whole(const Tensor& value, double largest) {
  const std::vector<double> elements = values_of(value);
  return std::all_of(elements.begin(), elements.end(), [largest](double element) {
    return std::abs(element) <= largest && element == std::floor(element);
  });
}

// Returns the largest element that a value of a well-conditioned program may have.
double well_conditioned_limit(DType dtype) { return std::min(1e4, max_finite(dtype) / 64); }
double rough_limit(DType dtype) {
  return dtype == DType::f64 ? 1e60 : dtype == DType::f16 ? 200 : max_finite(dtype) / 1e6;
}

}  // namespace

GlobalDraft::GlobalDraft(std::string mesh, DType dtype, Conditioning conditioning,
                         const OpRegistry& ops)
    : mesh_(Mesh::parse(mesh)), conditioning_(conditioning), ops_(ops) {
  text_.mesh = std::move(mesh);
  text_.dtype = dtype;
}

void GlobalDraft::add_tensor(Draw& draw, TensorText tensor, Conditioning elements) {
  tensor.values = draw_values(draw, tensor.dtype, element_count(tensor.shape), elements);
  if (tensor.placements.find("P(") != std::string::npos)
    for (double& value : tensor.values)  // parts of a sum cannot add up to these exactly
      if (!std::isfinite(value) || std::abs(value) > 1e6) value = 1;
  DraftValue value = draft_value(tensor.name, tensor_of(tensor.dtype, tensor.shape, tensor.values));
  value.placements = tensor.placements;
  text_.tensors.push_back(std::move(tensor));
  bind(std::move(value));
}

bool GlobalDraft::add(Draw& draw, const std::vector<std::string>& lines) {
  GlobalContext context;
  context.ops = &ops_;
  context.meshes = {{"", mesh_}};
  std::vector<Tensor> inputs;
  for (const DraftValue& value : values_) {
    context.inputs.emplace_back(value.name, TensorMeta{value.dtype, value.shape});
    inputs.push_back(value.value);
  }
  std::vector<DraftValue> made;
  try {
    const GlobalProgram program = lower_global(parse_listing(lines), context, "/program");
    const std::vector<Tensor> values = run_one_device(program, ops_, inputs);
    for (const auto& [name, id] : program.names) {
      const bool is_input = std::count(program.inputs.begin(), program.inputs.end(), id) > 0;
      if (is_input && find(name)) continue;
      made.push_back(draft_value(name, values[static_cast<size_t>(id)]));
    }
  } catch (const Error&) {
    return false;
  }
  for (const DraftValue& value : made)
    if (!is_acceptable(draw, value)) return false;
  for (DraftValue& value : made) bind(std::move(value));
  text_.program.insert(text_.program.end(), lines.begin(), lines.end());
  return true;
}

bool GlobalDraft::is_acceptable(Draw& draw, const DraftValue& value) const {
  if (value.value.elements() > kMaxDraftElements) return false;
  if (is_integral(value.dtype) || value.dtype == DType::boolean) return value.largest < 1e6;
  switch (conditioning_) {
    case Conditioning::whole_numbers:
      return is_whole(value.value, std::ldexp(1.0, precision_bits(value.dtype) - 12));
    case Conditioning::well:
      return value.is_finite && value.largest <= well_conditioned_limit(value.dtype);
    case Conditioning::ill:
      return value.largest <= rough_limit(value.dtype) && (value.is_finite || draw.chance(0.05));
    case Conditioning::extreme: break;
  }
  const double share = share_not_finite(value.value);
  return share == 0 || draw.chance(share > 0.5 ? 0.1 : 0.5);
}

void GlobalDraft::set_placements(const std::string& name, const std::string& placements) {
  for (DraftValue& value : values_)
    if (value.name == name) value.placements = placements;
}

const DraftValue* GlobalDraft::find(const std::string& name) const {
  for (const DraftValue& value : values_)
    if (value.name == name) return &value;
  return nullptr;
}

void GlobalDraft::bind(DraftValue value) {
  std::erase_if(values_, [&](const DraftValue& other) { return other.name == value.name; });
  values_.push_back(std::move(value));
}

}  // namespace shardproof
