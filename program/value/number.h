// Number: the value of an expression outside tensors: in shapes, `let`, arguments of calls,
// conditions and `expect`. A 64-bit integer, a double, a truth value, a text, or a list. Integer
// arithmetic is checked for overflow; `//` and `%` are floored, as in Python.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace shardproof {

class Number {
 public:
  using List = std::vector<Number>;
  Number() : value_(int64_t{0}) {}
  Number(int64_t v) : value_(v) {}
  Number(int v) : value_(int64_t{v}) {}
  Number(double v) : value_(v) {}
  Number(bool v) : value_(v) {}
  Number(std::string v) : value_(std::move(v)) {}
  Number(List v) : value_(std::make_shared<const List>(std::move(v))) {}

  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_text() const { return std::holds_alternative<std::string>(value_); }
  bool is_list() const { return std::holds_alternative<SharedList>(value_); }
  // Checked access; each throws Error(bad_input) "expected an integer, found ..." for another kind.
  int64_t integer() const;  // also from a double without a fraction
  double real() const;      // also from an integer
  bool truth() const;       // also from an integer: true if it is not 0
  const std::string& text() const;
  const List& list() const;
  bool operator==(const Number& other) const;

 private:
  using SharedList = std::shared_ptr<const List>;  // copies share one list
  std::variant<int64_t, double, bool, std::string, SharedList> value_;
};
// Returns text that parses back to an equal number; doubles have their shortest form.
std::string to_string(const Number& number);

}  // namespace shardproof
