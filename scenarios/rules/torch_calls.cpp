// Implements torch_calls.h. An op has an entry in the table of torch_forms.h, or a record in the
// registry whose tensors and arguments have torch's names or ours.
#include "shardproof/scenarios/rules/torch_calls.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/join_text.h"
#include "shardproof/ops/core/argument_names.h"
#include "shardproof/program/syntax/torch_names.h"
#include "shardproof/scenarios/rules/torch_form_text.h"
#include "shardproof/scenarios/rules/torch_forms.h"
#include "shardproof/scenarios/rules/torch_lists.h"

namespace shardproof {
namespace {

// Writes the call of an op of the registry: tensors in order, arguments by name.
class RecordCall {
 public:
  RecordCall(const OpRecord& op, const JsonReader* attrs, size_t inputs, bool is_torch)
      : op_(op), attrs_(attrs), inputs_(inputs), is_torch_(is_torch) {}

  std::string text() {
    for (const Param& param : op_.params) add_tensor(param);
    if (next_ < inputs_)
      throw_bad_input("{} takes {} tensors, found {} inputs", op_.name, next_, inputs_);
    if (attrs_)
      for (const auto& [key, value] : attrs_->members()) add_argument(key, value);
    return op_.name + "(" + join_text(arguments_, ", ") + ")";
  }

 private:
  const Param* param_of(std::string_view key) const {
    for (const std::string_view name : {key, argument_name(op_.name, key)})
      for (const Param& param : op_.params)
        if (param.name == name) return &param;
    return nullptr;
  }
  // Returns the value that `attrs` gives in place of a tensor; null if it gives none.
  std::optional<JsonReader> given(const Param& tensor) const {
    if (attrs_)
      for (const auto& [key, value] : attrs_->members())
        if (param_of(key) == &tensor) return value;
    return std::nullopt;
  }

  void add_tensor(const Param& param) {
    if (param.kind == ParamKind::tensors) {
      std::vector<std::string> names;
      for (; next_ < inputs_; ++next_) names.push_back(fmt::format("x{}", next_));
      arguments_.push_back("[" + join_text(names, ", ") + "]");
      return;
    }
    const bool is_tensor =
        param.kind == ParamKind::tensor || param.kind == ParamKind::optional_tensor;
    if (!is_tensor || given(param)) {
      by_name_ = true;  // add_argument() writes it, or it is left out
      return;
    }
    if (next_ == inputs_) return;
    arguments_.push_back(fmt::format("{}x{}", by_name_ ? param.name + "=" : "", next_++));
  }

  void add_argument(const std::string& key, const JsonReader& value) {
    if (value.kind() == JsonKind::null) return;
    const Param* param = param_of(key);
    if (is_torch_ && !param && changes_no_number(key)) return;
    const bool is_number = value.kind() == JsonKind::integer;
    if (is_torch_ && key == "reduction" && is_number) {
      static const char* const kReductions[] = {"none", "mean", "sum"};
      if (value.integer() < 0 || value.integer() > 2) value.refuse("expected 0, 1 or 2");
      arguments_.push_back(fmt::format("reduction='{}'", kReductions[value.integer()]));
      return;
    }
    // Torch's [] is the default of a stride.
    if (is_torch_ && key == "stride" && value.kind() == JsonKind::list && value.items().empty())
      return;
    arguments_.push_back(key + "=" + argument_text(value, key == "dtype"));
  }

  const OpRecord& op_;
  const JsonReader* attrs_;
  size_t inputs_, next_ = 0;
  bool is_torch_, by_name_ = false;
  std::vector<std::string> arguments_;
};

// Torch's names of an op: with its overload, without, and without "_".
struct TorchName {
  explicit TorchName(const std::string& op) {
    is_torch = op.starts_with("aten.") || op.starts_with("aten::");
    with_overload = is_torch ? op.substr(op[4] == '.' ? 5 : 6) : op;
    base = with_overload.substr(0, with_overload.find('.'));
    if (base.size() < with_overload.size()) overload = with_overload.substr(base.size() + 1);
    if (overload == "default") overload.clear();
    const bool is_operator = base.starts_with("__i") && base.ends_with("__");  // __iand__
    is_inplace = base.size() > 1 && base.back() == '_' && (is_operator || !base.ends_with("__"));
    functional = is_inplace && !is_operator ? base.substr(0, base.size() - 1) : base;
    // These change shapes and strides, and write no numbers.
    for (const char* view :
         {"squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims", "detach"})
      if (functional == view) is_inplace = false;
  }
  bool is_torch = false, is_inplace = false;
  std::string with_overload, base, functional, overload;
};

std::optional<TorchForm> form_of(const TorchName& name, const OpRegistry& ops) {
  // Names of the registry that torch uses too have our meaning unless they begin with "aten.".
  for (const std::string& one : {name.with_overload, name.base, name.functional})
    if (name.is_torch || !ops.find(one))
      if (const std::optional<TorchForm> form = torch_form(one)) return form;
  if (ops.find(name.functional)) return std::nullopt;
  return torch_form(torch_alias(name.functional));
}

const OpRecord* record_of(const TorchName& name, const OpRegistry& ops) {
  if (const OpRecord* record = ops.find(name.functional)) return record;
  return ops.find(torch_alias(name.functional));
}

// The results of a form, by torch's names.
struct FormResults {
  explicit FormResults(std::string_view text) {
    for (std::string word : words_of(text)) {
      const char mark = word.back();
      if (mark == '?' || mark == '!') word.pop_back();
      required += mark != '?' && mark != '!';
      judged += mark != '!';
      names.push_back(word);
    }
    if (names.empty()) required = judged = 1;
  }
  std::string count_text() const {
    const size_t most = std::max<size_t>(names.size(), 1);
    const std::string range = required == most ? "" : fmt::format("{} to ", required);
    return fmt::format("{}{} result{}{}", range, most, most == 1 ? "" : "s",
                       names.empty() ? "" : " (" + join_text(names, ", ") + ")");
  }
  std::vector<std::string> names;
  size_t required = 0, judged = 0;
};

// Sets the results that a mask of the arguments chooses. A row places all results or those alone.
// Returns false if there is no mask, or all results are chosen.
bool set_masked_results(TorchCall& call, const FormResults& results, const JsonReader* attrs,
                        const std::string& op, std::optional<size_t> count) {
  if (!attrs || !attrs->has("output_mask")) return false;
  std::vector<size_t> chosen;
  const std::vector<JsonReader> mask = attrs->at("output_mask").items("a list of booleans");
  if (mask.size() != results.names.size())
    attrs->at("output_mask").refuse(fmt::format("expected {} booleans", results.names.size()));
  for (size_t i = 0; i < mask.size(); ++i)
    if (mask[i].flag()) chosen.push_back(i);
  if (chosen.size() == mask.size()) return false;
  if (chosen.empty()) attrs->at("output_mask").refuse("expected one true at least");
  if (count && *count != chosen.size() && *count != mask.size())
    throw_bad_input("/out: expected placements of {} results of {}, those of output_mask, found {}",
                    chosen.size(), op, *count);
  if (count == mask.size()) call.placed = chosen;
  for (const size_t i : chosen) call.results.push_back(fmt::format("y{}", i));
  if (!count) call.results.resize(1);
  return true;
}

void set_results(TorchCall& call, const TorchForm& form, const JsonReader* attrs,
                 const std::string& op, std::optional<size_t> count) {
  if (form.results == "*") {
    call.results = {"y0"};
    if (count) call.results.clear();
    for (size_t i = 0; count && i < *count; ++i) call.results.push_back(fmt::format("y{}", i));
    return;
  }
  const FormResults results(form.results);
  if (set_masked_results(call, results, attrs, op, count)) return;
  const size_t most = std::max<size_t>(results.names.size(), 1);
  if (count && (*count < results.required || *count > most))
    throw_bad_input("/out: expected placements of {} of {}, found {}", results.count_text(), op,
                    *count);
  const size_t judged = count ? std::min(*count, results.judged) : 1;
  for (size_t i = 0; i < judged; ++i) call.results.push_back(fmt::format("y{}", i));
  if (count)
    for (size_t i = judged; i < results.names.size(); ++i)
      call.unjudged.push_back(results.names[i]);
}

// Returns the text with "x0" as input 0 of `inputs`, "y0" as a result, and with the names of other
// values numbered by `call`.
std::string renumbered(const std::string& text, const ListCall& call,
                       const std::vector<size_t>& results) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
                                 text[end] == '_' || text[end] == '.'))
      ++end;
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string word = text.substr(at, end - at);
    const bool is_numbered =
        word.size() > 1 && word.find_first_not_of("0123456789", 1) == std::string::npos;
    if (is_numbered && word[0] == 'x' && std::stoul(word.substr(1)) >= call.inputs.size())
      throw_bad_input("{}: {} among the arguments is none of the {} tensors of a list's entry",
                      call.op, word, call.inputs.size());
    if (is_numbered && word[0] == 'x')
      out += fmt::format("x{}", call.inputs.at(std::stoul(word.substr(1))));
    else if (is_numbered && word[0] == 'y')
      out += fmt::format("y{}", results.at(std::stoul(word.substr(1))));
    else
      out += word;
    at = end;
  }
  return out;
}

// Writes the calls for the tensors of lists one after the other.
TorchCall call_of_lists(const ListCalls& lists, const std::vector<TensorMeta>& inputs,
                        std::optional<size_t> results, const OpRegistry& ops,
                        const std::string& op) {
  const size_t count = results.value_or(1), n = lists.calls.size();
  if (count == 0 || count > lists.most_results || (results && count % n != 0))
    throw_bad_input("/out: expected placements of {} results of {}{}, found {}", n, op,
                    lists.most_results == n ? "" : fmt::format(", or up to {}", lists.most_results),
                    count);
  TorchCall made;
  for (size_t i = 0; i < n; ++i) {
    const ListCall& call = lists.calls[i];
    std::vector<TensorMeta> metas;
    for (const size_t input : call.inputs) metas.push_back(inputs[input]);
    const JsonReader attrs(call.attrs, "/attrs");
    const std::optional<TorchCall> one = torch_call(call.op, &attrs, metas, call.results, ops);
    SP_CHECK(one.has_value(), "{} is not known", call.op);
    for (const std::string& line : one->lines)
      made.lines.push_back(renumbered(line, call, lists.results[i]));
  }
  for (size_t k = 0; k < count; ++k) {
    made.results.push_back(fmt::format("y{}", k));
    made.written.push_back(k);
  }
  return made;
}

}  // namespace

DType rule_dtype(const std::string& text) {
  static const std::map<std::string_view, DType> kTorchDTypes = {
      {"float64", DType::f64},   {"double", DType::f64},     {"float32", DType::f32},
      {"float", DType::f32},     {"float16", DType::f16},    {"bfloat16", DType::bf16},
      {"int64", DType::i64},     {"long", DType::i64},       {"int32", DType::i32},
      {"int16", DType::i16},     {"int8", DType::i8},        {"uint8", DType::u8},
      {"complex64", DType::c64}, {"complex128", DType::c128}};
  const std::string word = text.starts_with("torch.") ? text.substr(6) : text;
  const auto found = kTorchDTypes.find(word);
  return found == kTorchDTypes.end() ? parse_dtype_name(word) : found->second;
}

std::optional<TorchCall> torch_call(const std::string& op, const JsonReader* attrs,
                                    const std::vector<TensorMeta>& inputs,
                                    std::optional<size_t> results, const OpRegistry& ops,
                                    const Dims* result) {
  const TorchName name(op);
  TorchCall call;
  const std::optional<ListCalls> lists =
      list_calls(name.functional, name.overload, attrs, inputs.size());
  if (lists) call = call_of_lists(*lists, inputs, results, ops, op);
  call.is_inplace = name.is_inplace;
  if (lists) return call;
  std::string text;
  if (const std::optional<TorchForm> form = form_of(name, ops)) {
    set_results(call, *form, attrs, op, results);
    FormText lines(*form, op, attrs, inputs, results.value_or(1));
    if (result) lines.set_result(*result);
    text = lines.lines();
    call.reads_random_numbers = lines.reads_random_numbers();
    call.depends_on_sizes = lines.depends_on_sizes();
    call.states_result = lines.states_result();
  } else {
    const OpRecord* record = record_of(name, ops);
    if (!record) return std::nullopt;
    const size_t count = results.value_or(1);
    for (size_t i = 0; i < count; ++i) call.results.push_back(fmt::format("y{}", i));
    text = numbered_names("y", count) + " = " +
           RecordCall(*record, attrs, inputs.size(), name.is_torch).text();
  }
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    call.lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return call;
}

bool is_shaped_by_values(const std::string& op) { return has_shape_by_values(TorchName(op).base); }

std::string nearest_torch_op(const std::string& op, const OpRegistry& ops) {
  const TorchName name(op);
  NearestName nearest(name.functional);
  for_each_torch_name([&](std::string_view one) { nearest.offer(one); });
  for (const OpRecord* record : ops.all()) nearest.offer(record->name);
  if (nearest.best().empty()) return "";
  return fmt::format("; did you mean {}{}?", name.is_torch ? "aten." : "", nearest.best());
}

}  // namespace shardproof
