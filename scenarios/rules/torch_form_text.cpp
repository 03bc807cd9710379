// Implements torch_form_text.h. Example: the form of gather, "self index" with the text
// "y0 = take_along_dim({self}, {index}, {dim})", and the argument dim=1 give
// "y0 = take_along_dim(x0, x1, 1)".
#include "shardproof/scenarios/rules/torch_form_text.h"

#include <algorithm>
#include <cstdlib>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/join_text.h"
#include "shardproof/scenarios/rules/torch_calls.h"

namespace shardproof {
namespace {

bool are_equal_values(const std::string& a, const std::string& b) {
  if (a == b) return true;
  char *a_end = nullptr, *b_end = nullptr;
  const double x = std::strtod(a.c_str(), &a_end), y = std::strtod(b.c_str(), &b_end);
  return *a_end == '\0' && *b_end == '\0' && x == y;
}

std::string joined_list(const std::vector<std::string>& items) {
  return "[" + join_text(items, ", ") + "]";
}

// Returns "[-2, -1]" for 2.
std::string last_dims(size_t count) {
  std::vector<std::string> dims;
  for (size_t i = count; i > 0; --i) dims.push_back(fmt::format("-{}", i));
  return joined_list(dims);
}

}  // namespace

std::string argument_text(const JsonReader& value, bool is_dtype) {
  switch (value.kind()) {
    case JsonKind::text: {
      const std::string& text = value.text();
      if (is_dtype) return std::string(name(rule_dtype(text)));
      return text == "inf" || text == "-inf" || text == "nan" ? text : "'" + text + "'";
    }
    case JsonKind::list: {
      std::vector<std::string> items;
      for (const JsonReader& item : value.items()) items.push_back(argument_text(item, false));
      return joined_list(items);
    }
    case JsonKind::boolean:
    case JsonKind::integer:
    case JsonKind::real: return to_string(value.tree());
    default: value.expected("a number, a boolean, a text or a list");
  }
}

std::string numbered_names(const char* prefix, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{}{}{}", i == 0 ? "" : ", ", prefix, i);
  return text;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text = text.substr(std::min(end + 1, text.size()));
  }
  return words;
}

bool changes_no_number(std::string_view key) {
  static const std::string_view kKeys[] = {
      "memory_format", "layout",       "device",     "pin_memory", "non_blocking",
      "copy",          "generator",    "allow_tf32", "benchmark",  "deterministic",
      "cudnn_enabled", "cudnn_enable", "implicit",   "path",       "output_size",
      "compute_mode",  "input_dtype",  "enable_gqa", "sparse_grad"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

FormText::FormText(const TorchForm& form, std::string op, const JsonReader* attrs,
                   const std::vector<TensorMeta>& inputs, size_t results)
    : form_(form), op_(std::move(op)), inputs_(inputs), results_(results) {
  if (attrs)
    for (const auto& [key, value] : attrs->members()) attrs_.emplace(key, value);
  bind_tensors();
}

void FormText::bind_tensors() {
  const std::vector<std::string> names = words_of(form_.tensors);
  // Tensors that the form needs, from number i on, and that no argument replaces.
  const auto needed_from = [&](size_t i) {
    size_t count = 0;
    for (; i < names.size(); ++i)
      count += names[i].back() != '?' && names[i].back() != '*' && !attrs_.contains(names[i]);
    return count;
  };
  size_t next = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string name = names[i];
    const bool is_optional = name.back() == '?', is_list = name.back() == '*';
    if (is_optional || is_list) name.pop_back();
    known_.push_back(name);
    const auto found = attrs_.find(name);
    if (found != attrs_.end() && !is_list) {
      if (found->second.kind() != JsonKind::null)
        tensors_[name] = argument_text(found->second, false);
      else if (!is_optional)
        refuse(fmt::format("expected the tensor {}, found null", name));
      continue;
    }
    const size_t left = inputs_.size() - next, after = needed_from(i + 1);
    if (is_optional && left <= after) continue;
    if (left == 0)
      refuse(fmt::format("expected the tensor {}; it takes {}, found {} inputs", name,
                         form_.tensors, inputs_.size()));
    const size_t count = is_list ? left - std::min(left, after) : 1;
    if (count == 0) continue;
    positions_[name] = next;
    std::string& text = tensors_[name];
    for (size_t k = 0; k < count; ++k, ++next)
      text += fmt::format("{}x{}", k == 0 ? "" : ", ", next);
  }
  if (next < inputs_.size())
    refuse(fmt::format("it takes the tensors {}, found {} inputs", form_.tensors, inputs_.size()));
}

std::string FormText::lines() {
  std::string text = filled(form_.text);
  check_arguments();
  return text;
}

std::string FormText::filled(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = text.find('}', open);
    out += slot_text(text.substr(open + 1, close - open - 1));
    text = text.substr(close + 1);
  }
  return out;
}

std::string FormText::slot_text(std::string_view slot) {
  if (slot == "ys") return numbered_names("y", results_);
  if (slot[0] == '#') return made_text(slot.substr(1));
  if (slot[0] == '=') return fixed_text(slot.substr(1));
  if (slot[0] == '~') {
    given(std::string(slot.substr(1)));
    return "";
  }
  return slot.starts_with(", ") ? optional_text(slot.substr(2)) : required_text(slot);
}

std::string FormText::required_text(std::string_view slot) {
  const size_t equals = slot.find('=');
  std::optional<std::string> text;
  for (std::string_view names = slot.substr(0, equals); !names.empty();) {
    const size_t bar = std::min(names.find('|'), names.size());
    const std::optional<std::string> one = given(std::string(names.substr(0, bar)));
    if (!text) text = one;
    names = names.substr(std::min(bar + 1, names.size()));
  }
  if (text) return *text;
  if (equals != std::string_view::npos) return std::string(slot.substr(equals + 1));
  const std::string_view first = slot.substr(0, slot.find('|'));
  throw_bad_input("/attrs: {} needs the argument {}", op_, first);
}

std::string FormText::optional_text(std::string_view slot) {
  const size_t colon = slot.find(':');
  const std::string key(colon == std::string_view::npos ? slot : slot.substr(colon + 1));
  const std::optional<std::string> value = given(key);
  return value ? fmt::format(", {}={}", slot.substr(0, colon), *value) : "";
}

std::string FormText::fixed_text(std::string_view slot) {
  const size_t colon = slot.find(':');
  const std::string key(slot.substr(0, colon)), value(slot.substr(colon + 1));
  const std::optional<std::string> found = given(key);
  if (found && !are_equal_values(*found, value))
    refuse(
        fmt::format("{}={} has no counterpart here, only {}={}; a row may give \"call\": "
                    "[\"y0 = ..\"] in place of attrs",
                    key, *found, key, value));
  return "";
}

std::string FormText::made_text(std::string_view name) {
  if (name == "reduction") return reduction();
  if (name == "no_mean") return reduction() == "'none'" ? "'none'" : "'sum'";
  if (name == "per_element")
    return reduction() == "'mean'" ? fmt::format(" / sum(ones(like={}))", needed("self")) : "";
  if (name == "per_weight")
    return reduction() == "'mean'" ? fmt::format(" / {}", needed("total_weight")) : "";
  if (name == "of_reduction") return reduction() == "'none'" ? " * 0" : "";
  if (name == "times_weight") {
    const std::optional<std::string> weight = given("weight");
    return weight ? " * " + *weight : "";
  }
  if (name == "half_to_float")
    return given("half_to_float").value_or("false") == "true" ? ", dtype=f32" : "";
  if (name == "ignore") {
    const int64_t row = integer_of("padding_idx", -1);
    return row < 0 ? "" : fmt::format(", ignore={}", row);
  }
  if (name == "elu") {
    if (!given("scale") && !given("input_scale")) return filled("elu({self}, {alpha=1})");
    return filled(
        "where({self} > 0, {self} * {scale=1}, expm1(clamp_max({self}, 0) * {input_scale=1}) * "
        "{alpha=1} * {scale=1})");
  }
  if (name == "cholesky")
    return filled(given("upper").value_or("false") == "true"
                      ? "h = cholesky({self})\ny0 = conj(t(h))"
                      : "y0 = cholesky({self})");
  if (constexpr std::string_view kDType = "dtype_of_"; name.starts_with(kDType))
    return std::string(shardproof::name(meta_of(std::string(name.substr(kDType.size()))).dtype));
  if (name == "window") {
    // An empty stride is the size of the window.
    const JsonReader* stride = argument("stride");
    const bool has_stride =
        stride && !(stride->kind() == JsonKind::list && stride->items().empty());
    return filled(has_stride ? "{, kernel_size}{, stride}{, padding}{, dilation}{, ceil_mode}"
                             : "{, kernel_size}{, padding}{, dilation}{, ceil_mode}");
  }
  if (constexpr std::string_view kLeading = "sum_leading:"; name.starts_with(kLeading)) {
    // An empty list of dims would sum over all.
    const auto normalized = static_cast<int64_t>(integers_of("normalized_shape").size());
    std::vector<std::string> dims;
    for (int64_t d = 0; d < inputs_.at(0).shape.size() - normalized; ++d)
      dims.push_back(fmt::format("{}", d));
    const std::string_view x = name.substr(kLeading.size());
    return dims.empty() ? std::string(x) + " * 1"
                        : fmt::format("sum({}, dim={})", x, joined_list(dims));
  }
  if (name == "plus_bias") return given("bias") ? filled(" + {bias}") : "";
  if (name.ends_with("dims") || name.ends_with("channels") || name == "output_size")
    return made_dims_text(name);
  if (const std::optional<std::string> made = made_composite_text(name)) return *made;
  if (const std::optional<std::string> made = made_network_text(name)) return *made;
  if (name == "index" || name == "index_put" || name == "scatter" || name == "masked_fill")
    return made_index_text(name);
  return made_view_text(name);
}

std::string FormText::made_dims_text(std::string_view name) {
  if (name == "normalized_dims") return last_dims(integers_of("normalized_shape").size());
  if (name == "squeezed_dims") return squeezed_dims();
  if (name == "output_size") {
    const Dims& shape = sizes_of("grad_output");
    std::vector<std::string> sizes;
    for (int d = shape.size() - 2; d < shape.size(); ++d)
      sizes.push_back(fmt::format("{}", shape[d]));
    if (op_.find("3d") != std::string::npos)
      sizes.insert(sizes.begin(), fmt::format("{}", shape[shape.size() - 3]));
    return joined_list(sizes);
  }
  std::vector<std::string> dims;
  const int64_t count = inputs_.at(0).shape.size();
  for (int64_t d = 0; d < count; ++d)
    if (d != 1) dims.push_back(fmt::format("{}", d));
  return joined_list(dims);
}

// DTensor drops the dims that have size 1 in the whole tensor, on each rank.
std::string FormText::squeezed_dims() {
  const Dims& shape = meta_of("self").shape;
  std::vector<int64_t> named;
  const JsonReader* const dim = argument("dim");
  if (dim && dim->kind() == JsonKind::integer)
    named = {dim->integer()};
  else if (dim && dim->kind() != JsonKind::null)
    named = integers_of("dim");
  else
    for (int d = 0; d < shape.size(); ++d) named.push_back(d);
  std::vector<std::string> dropped;
  for (const int64_t d : named) {
    const int64_t front = d < 0 ? d + shape.size() : d;
    const bool is_dim = front >= 0 && front < shape.size();
    if (!is_dim && !shape.empty()) refuse(fmt::format("dim {} is out of range", d));
    if (is_dim && shape[static_cast<int>(front)] == 1) dropped.push_back(fmt::format("{}", front));
  }
  return joined_list(dropped);
}

std::string FormText::made_index_text(std::string_view name) {
  if (name == "masked_fill")
    return filled(positions_.contains("value") ? "where({mask}, {value}, {self})"
                                               : "masked_fill({self}, {mask}, {value})");
  if (name == "scatter") {
    if (given("src")) return filled("src={src}{, reduce}");
    if (positions_.contains("value")) refuse("a tensor as value has no counterpart here");
    return filled("value={value}{, reduce}");
  }
  // Dims without an index are null: "indices": [null, "x1"].
  std::vector<std::string> entries;
  if (const JsonReader* indices = argument("indices")) {
    for (const JsonReader& entry : indices->items("a list with \"x1\" or null for each dim"))
      entries.push_back(entry.kind() == JsonKind::null ? ":" : entry.text("\"x1\" or null"));
  } else {
    std::string names = needed("indices");
    std::erase(names, ',');
    entries = words_of(names);
  }
  if (name == "index") return joined_list(entries);
  return put_at(entries);
}

std::string FormText::made_view_text(std::string_view name) {
  if (name == "cast") return filled(given("dtype") ? "cast({self}, {dtype})" : "flip({self}, [])");
  if (name == "copy") {
    const TensorMeta &self = meta_of("self"), &src = meta_of("src");
    if (self.shape == src.shape && self.dtype == src.dtype) return filled("flip({src}, [])");
    if (self.shape == src.shape)
      return filled("cast({src}, ") + std::string(shardproof::name(self.dtype)) + ")";
    return filled("cast(where(zeros(like={self}) == 0, {src}, {src}), ") +
           std::string(shardproof::name(self.dtype)) + ")";
  }
  if (name == "fill")
    return filled(positions_.contains("value") ? "zeros(like={self}) + {value}"
                                               : "full(like={self}, value={value})");
  if (name == "new_shape") {
    const std::string dtype = given("dtype") ? "{dtype}" : "{#dtype_of_self}";
    return fmt::format("[{}], dtype={}", join_text(result_sizes("size"), ", "), filled(dtype));
  }
  if (name == "slice") {
    std::string text = "[";
    for (int64_t d = 0; d < dim_of("dim", meta_of("self").shape.size()); ++d) text += ":, ";
    const std::optional<std::string> step = given("step");
    text += given("start").value_or("") + ":" + given("end").value_or("");
    return text + (step && *step != "1" ? ":" + *step : "") + "]";
  }
  if (name == "select_range") {
    const Dims& shape = sizes_of("self");
    const int64_t dim = dim_of("dim", shape.size()), given_index = integer_of("index", 0);
    const int64_t index =
        given_index < 0 ? given_index + shape[static_cast<int>(dim)] : given_index;
    return fmt::format("start={}, end={}", index, index + 1);
  }
  // slice_pad, select_pad: from the part of a tensor to the whole.
  const std::vector<int64_t> sizes = result_sizes("input_sizes");
  const auto dims = static_cast<int64_t>(sizes.size());
  const int64_t dim = dim_of("dim", dims), size = sizes[static_cast<size_t>(dim)];
  const auto bounded = [size](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  int64_t start = 0, end = 0;
  if (name == "select_pad") {
    start = bounded(integer_of("index", 0));
    end = start + 1;
  } else {
    start = bounded(integer_of("start", 0));
    end = bounded(integer_of("end", size));
  }
  std::vector<std::string> pads;
  for (int64_t d = dims - 1; d > dim; --d) pads.insert(pads.end(), {"0", "0"});
  pads.push_back(fmt::format("{}", start));
  pads.push_back(fmt::format("{}", size - end));
  return joined_list(pads);
}

std::string FormText::reduction() {
  static const char* const kNames[] = {"'none'", "'mean'", "'sum'"};
  const std::string text = given("reduction").value_or("1");
  return text.size() == 1 && text[0] >= '0' && text[0] <= '2' ? kNames[text[0] - '0'] : text;
}

void FormText::check_arguments() const {
  for (const auto& [key, value] : attrs_) {
    if (changes_no_number(key)) continue;
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    NearestName nearest(key);
    for (const std::string& name : known_) nearest.offer(name);
    std::string hint = nearest.hint();
    if (hint.empty()) hint = fmt::format("; it takes {}", join_text(known_, ", "));
    throw_bad_input("/attrs: {} has no argument {}{}", op_, key, hint);
  }
}

std::optional<std::string> FormText::given(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  if (const auto tensor = tensors_.find(key); tensor != tensors_.end()) return tensor->second;
  const auto found = attrs_.find(key);
  if (found == attrs_.end() || found->second.kind() == JsonKind::null) return std::nullopt;
  return argument_text(found->second, key == "dtype");
}

std::string FormText::needed(const std::string& key) {
  const std::optional<std::string> text = given(key);
  if (!text) throw_bad_input("/attrs: {} needs the argument {}", op_, key);
  return *text;
}

const JsonReader* FormText::argument(const std::string& key) {
  given(key);
  const auto found = attrs_.find(key);
  return found == attrs_.end() || found->second.kind() == JsonKind::null ? nullptr : &found->second;
}

int64_t FormText::integer_of(const std::string& key, int64_t fallback) {
  const JsonReader* value = argument(key);
  return value ? value->integer() : fallback;
}

std::vector<int64_t> FormText::integers_of(const std::string& key) {
  needed(key);
  std::vector<int64_t> numbers;
  for (const JsonReader& item : argument(key)->items("a list of integers"))
    numbers.push_back(item.integer());
  return numbers;
}

int64_t FormText::dim_of(const std::string& key, int64_t dims) {
  const int64_t dim = integer_of(key, 0), counted = dim < 0 ? dim + dims : dim;
  if (counted < 0 || counted >= dims)
    refuse(fmt::format("{} {} is out of range for {} dims", key, dim, dims));
  return counted;
}

const TensorMeta& FormText::meta_of(const std::string& tensor) const {
  const auto found = positions_.find(tensor);
  if (found == positions_.end()) refuse(fmt::format("expected the tensor {}", tensor));
  return inputs_[found->second];
}

const Dims& FormText::sizes_of(const std::string& tensor) {
  depends_on_sizes_ = true;
  return meta_of(tensor).shape;
}

std::vector<int64_t> FormText::result_sizes(const std::string& key) {
  depends_on_sizes_ = states_result_ = true;
  const std::vector<int64_t> sizes = integers_of(key);
  return result_ ? std::vector<int64_t>(result_->begin(), result_->end()) : sizes;
}

void FormText::refuse(const std::string& message) const { throw_bad_input("{}: {}", op_, message); }

}  // namespace shardproof
