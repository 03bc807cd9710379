// Implements torch_lists.h. Example: _foreach_add.ScalarList of [x0, x1] with the scalars [2, 3] is
// add(x0, 2) and add(x1, 3). An optimizer step of n parameters is n calls of our step.
#include "shardproof/scenarios/rules/torch_lists.h"

#include <algorithm>
#include <map>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// torch's name of the second operand, which `scalar` and `scalars` of a list give.
const std::map<std::string_view, std::string_view> kScalarNames = {
    {"add", "other"},     {"sub", "other"},     {"mul", "other"},     {"div", "other"},
    {"maximum", "other"}, {"minimum", "other"}, {"pow", "exponent"},  {"clamp_min", "min"},
    {"clamp_max", "max"}, {"addcmul", "value"}, {"addcdiv", "value"}, {"lerp", "weight"}};

// Ops of one tensor that have another name for lists.
const std::map<std::string_view, std::string_view> kSingleNames = {
    {"norm", "linalg_vector_norm"}, {"powsum", "linalg__powsum"}, {"max", "amax"}};

bool is_known_single(std::string_view op) {
  static const std::string_view kOps[] = {
      "abs", "acos",  "asin",  "atan",   "ceil",       "cos",   "cosh",  "erf",     "erfc",
      "exp", "expm1", "floor", "frac",   "lgamma",     "log",   "log10", "log1p",   "log2",
      "max", "neg",   "norm",  "powsum", "reciprocal", "round", "rsqrt", "sigmoid", "sign",
      "sin", "sinh",  "sqrt",  "tan",    "tanh",       "trunc", "zero"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

JsonTree object_of(const JsonReader* attrs) {
  JsonTree object;
  object.kind = JsonKind::object;
  return attrs ? attrs->tree() : object;
}

JsonTree number_of(int64_t value) {
  JsonTree tree;
  tree.kind = JsonKind::integer;
  tree.integer = value;
  return tree;
}

// Returns the length of each of `lists` lists.
size_t length_of_lists(const std::string& op, size_t lists, size_t inputs) {
  if (inputs == 0 || inputs % lists != 0)
    throw_bad_input("{} takes {} lists of equal length, found {} inputs", op, lists, inputs);
  return inputs / lists;
}

ListCalls foreach_calls(const std::string& single, const std::string& overload,
                        const JsonReader* attrs, size_t inputs) {
  const std::string op = "aten._foreach_" + single;
  const auto scalar = kScalarNames.find(single);
  const bool is_ternary = single == "addcmul" || single == "addcdiv";
  const bool has_scalar = attrs && (attrs->has("scalar") || attrs->has("scalars") ||
                                    attrs->has("weight") || attrs->has("value"));
  // One more tensor after the lists: a factor, or one number for each tensor of a list.
  const bool has_tensor = overload == "Tensor";
  if (has_tensor && single == "pow")
    throw_bad_input("{}.Tensor has no counterpart here, only its other overloads", op);
  const bool of_lists = overload == "List" || (overload.empty() && !has_scalar);
  size_t lists = 1;
  if (is_ternary)
    lists = 3;
  else if (single == "lerp")
    lists = of_lists ? 3 : 2;
  else if (single == "copy" || (scalar != kScalarNames.end() && of_lists))
    lists = 2;
  const size_t n = length_of_lists(op, lists, inputs - (has_tensor ? 1 : 0));
  JsonTree common = object_of(attrs);
  std::optional<JsonTree> number, numbers;
  if (const JsonTree* found = common.find("scalar")) number = *found;
  if (const JsonTree* found = common.find("scalars")) numbers = *found;
  common.erase("scalar");
  common.erase("scalars");
  if ((number || numbers) && scalar == kScalarNames.end())
    throw_bad_input("/attrs: {} takes no scalars", op);
  if (numbers && (numbers->kind != JsonKind::list || numbers->items.size() != n))
    throw_bad_input("/attrs/scalars: expected a list of {} numbers, one for each tensor", n);
  ListCalls made;
  made.most_results = n;
  for (size_t i = 0; i < n; ++i) {
    const auto alias = kSingleNames.find(single);
    ListCall call{
        "aten." + (alias == kSingleNames.end() ? single : std::string(alias->second)), common, {}};
    if (number) call.attrs.at_or_add(std::string(scalar->second)) = *number;
    if (numbers) call.attrs.at_or_add(std::string(scalar->second)) = numbers->items[i];
    for (size_t list = 0; list < lists; ++list) call.inputs.push_back(list * n + i);
    if (has_tensor) call.inputs.push_back(inputs - 1);
    if (has_tensor && is_ternary) {
      call.op = single + "_of_scalars";
      call.attrs.at_or_add("index") = number_of(static_cast<int64_t>(i));
    }
    made.calls.push_back(std::move(call));
    made.results.push_back({i});
  }
  return made;
}

// Refuses an argument of a step unless it has the value that our step has.
void require_value(JsonTree& attrs, const char* key, const std::string& value) {
  const JsonTree* found = attrs.find(key);
  if (found && found->kind != JsonKind::null && to_string(*found) != value)
    throw_bad_input("/attrs: {}={} has no counterpart here, only {}={}", key, to_string(*found),
                    key, value);
  attrs.erase(key);
}

// Lists: parameters, gradients, two moments, and the steps, which are tensors of one number.
ListCalls adam_calls(const std::string& op, const JsonReader* attrs, size_t inputs) {
  const size_t n = length_of_lists("aten._fused_" + op + "_ (with amsgrad=false)", 5, inputs);
  JsonTree common = object_of(attrs);
  for (const char* key : {"amsgrad", "maximize"}) require_value(common, key, "false");
  for (const char* key : {"grad_scale", "found_inf"}) require_value(common, key, "null");
  ListCalls made;
  made.most_results = 4 * n;
  for (size_t i = 0; i < n; ++i) {
    made.calls.push_back({"fused_" + op, common, {i, n + i, 2 * n + i, 3 * n + i, 4 * n + i}, 4});
    made.results.push_back({i, n + i, 2 * n + i, 3 * n + i});
  }
  return made;
}

// Lists: parameters, gradients, and buffers unless momentum is 0.
ListCalls sgd_calls(const JsonReader* attrs, size_t inputs) {
  JsonTree common = object_of(attrs);
  require_value(common, "maximize", "false");
  for (const char* key : {"grad_scale", "found_inf"}) require_value(common, key, "null");
  const JsonTree* momentum = common.find("momentum");
  const bool has_buffers =
      momentum && (momentum->kind == JsonKind::real ? momentum->real != 0 : momentum->integer != 0);
  const size_t lists = has_buffers ? 3 : 2, n = length_of_lists("aten._fused_sgd_", lists, inputs);
  const JsonTree* first = common.find("is_first_step");
  const bool is_first = first && first->boolean;
  common.erase("is_first_step");
  if (has_buffers)
    common.at_or_add("step") = number_of(is_first ? 1 : 2);
  else
    for (const char* key : {"momentum", "dampening", "nesterov"}) common.erase(key);
  ListCalls made;
  made.most_results = lists * n;
  for (size_t i = 0; i < n; ++i) {
    ListCall call{has_buffers ? "fused_sgd_momentum" : "fused_sgd", common, {}, lists};
    made.results.emplace_back();
    for (size_t list = 0; list < lists; ++list) {
      call.inputs.push_back(list * n + i);
      made.results.back().push_back(list * n + i);
    }
    made.calls.push_back(std::move(call));
  }
  return made;
}

}  // namespace

std::optional<ListCalls> list_calls(const std::string& base, const std::string& overload,
                                    const JsonReader* attrs, size_t inputs) {
  constexpr std::string_view kForeach = "_foreach_";
  if (base == "_fused_adam" || base == "_fused_adamw")
    return adam_calls(base.substr(7), attrs, inputs);
  if (base == "_fused_sgd") return sgd_calls(attrs, inputs);
  if (!base.starts_with(kForeach)) return std::nullopt;
  const std::string single = base.substr(kForeach.size());
  if (!kScalarNames.contains(single) && single != "copy" && !is_known_single(single))
    return std::nullopt;
  return foreach_calls(single, overload, attrs, inputs);
}

}  // namespace shardproof
