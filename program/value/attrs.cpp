// Implements attrs.h.
#include "shardproof/program/value/attrs.h"

#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/value/number.h"

namespace shardproof {
namespace {

using Values = Attrs::Values;

const AttrValue& present(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  SP_CHECK(found != values.end(), "no attribute {}", name);
  return found->second;
}

template <typename T>
const T& typed(const Values& values, std::string_view name, std::string_view type) {
  const AttrValue& value = present(values, name);
  const T* const held = std::get_if<T>(&value);
  SP_CHECK(held, "attribute {}={} is not {}", name, to_string(value), type);
  return *held;
}

template <typename T>
std::string list_text(const std::vector<T>& items) {
  std::string text = "[";
  for (const T item : items) text += (text.size() > 1 ? ", " : "") + to_string(Number(item));
  return text + "]";
}

}  // namespace

const Attrs::Values& Attrs::values() const {
  static const Values none;
  return values_ ? *values_ : none;
}

void Attrs::set(const std::string& name, AttrValue value) {
  if (values_.use_count() != 1) values_ = std::make_shared<Values>(values());
  (*values_)[name] = std::move(value);
}

bool Attrs::has(std::string_view name) const {
  const auto found = values().find(name);
  return found != values().end() && !std::holds_alternative<std::monostate>(found->second);
}

bool Attrs::flag(std::string_view name) const { return typed<bool>(values(), name, "a flag"); }

int64_t Attrs::integer(std::string_view name) const {
  if (const bool* const held = std::get_if<bool>(&present(values(), name))) return *held ? 1 : 0;
  return typed<int64_t>(values(), name, "an integer");
}

double Attrs::number(std::string_view name) const {
  if (const auto* const held = std::get_if<int64_t>(&present(values(), name)))
    return static_cast<double>(*held);
  return typed<double>(values(), name, "a number");
}

const std::string& Attrs::text(std::string_view name) const {
  return typed<std::string>(values(), name, "a text");
}

DType Attrs::dtype(std::string_view name) const { return typed<DType>(values(), name, "a dtype"); }

const std::vector<int64_t>& Attrs::integers(std::string_view name) const {
  return typed<std::vector<int64_t>>(values(), name, "a list of integers");
}

const std::vector<double>& Attrs::numbers(std::string_view name) const {
  return typed<std::vector<double>>(values(), name, "a list of numbers");
}

std::string to_string(const AttrValue& value) {
  struct Printer {
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(int64_t integer) const { return to_string(Number(integer)); }
    std::string operator()(double number) const { return to_string(Number(number)); }
    std::string operator()(const std::string& text) const { return fmt::format("'{}'", text); }
    std::string operator()(DType dtype) const { return std::string(shardproof::name(dtype)); }
    std::string operator()(const std::vector<int64_t>& list) const { return list_text(list); }
    std::string operator()(const std::vector<double>& list) const { return list_text(list); }
  };
  return std::visit(Printer{}, value);
}

std::string to_string(const Attrs& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs.values()) {
    // An attribute without a value equals one that is not given.
    if (std::holds_alternative<std::monostate>(value)) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, to_string(value));
  }
  return text;
}

}  // namespace shardproof
