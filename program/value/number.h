// Number: what an expression of the scenario language gives outside tensors: in shapes, `let`, line
// arguments, conditions and `expect`. Integers are 64 bit and checked; `//` and `%` are floored.
#pragma once

#include <cstdint>
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
  Number(List v) : value_(std::move(v)) {}

  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_text() const { return std::holds_alternative<std::string>(value_); }
  bool is_list() const { return std::holds_alternative<List>(value_); }
  // Checked access: Error(bad_input) "expected an integer, found ..." ; a double that is whole
  // counts as one.
  int64_t integer() const;
  double real() const;
  bool truth() const;
  const std::string& text() const;
  const List& list() const;
  bool operator==(const Number&) const = default;

 private:
  std::variant<int64_t, double, bool, std::string, List> value_;
};
std::string to_string(const Number& number);  // parses back; doubles in shortest form

}  // namespace shardproof
