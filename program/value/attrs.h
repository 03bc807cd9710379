// Attrs: the attributes of an op, from names to values, ordered by name. Copies share them until
// one of them is changed. Prints as "dim=-1, keepdim=true".
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {

using AttrValue = std::variant<std::monostate, bool, int64_t, double, std::string, DType,
                               std::vector<int64_t>, std::vector<double>>;

class Attrs {
 public:
  using Values = std::map<std::string, AttrValue, std::less<>>;
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, AttrValue>> values)
      : values_(std::make_shared<Values>(values)) {}
  void set(const std::string& name, AttrValue value);
  bool has(std::string_view name) const;  // true if present and not none (monostate)
  // Typed access. Requires that the attribute is present and has the type (SP_CHECK); user input
  // has been checked before. integer() also accepts a bool, number() also an integer.
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;
  const std::vector<double>& numbers(std::string_view name) const;
  const Values& values() const;
  bool operator==(const Attrs& other) const {
    return values_ == other.values_ || values() == other.values();
  }
  // Returns a pointer that is the same for all copies of one object; equal pointers imply equal
  // contents. Used for look-up by identity.
  const void* identity() const { return values_.get(); }

 private:
  std::shared_ptr<Values> values_;  // null: none
};
std::string to_string(
    const AttrValue& value);                // as the language writes it: "-1", "'mean'", "[1, 2]"
std::string to_string(const Attrs& attrs);  // "dim=-1, keepdim=true"; empty if there are none

}  // namespace shardproof
