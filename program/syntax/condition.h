// Condition: the requirement that `expect` makes on a number: a value (equality), "<= 4", "< 80
// GB", "> 0", ">= 2", "1.0 .. 1.5" (both ends included). Bounds are evaluated at construction. A
// plain value that compares, prints and parses back.
#pragma once

#include <cstdint>
#include <string>

#include "shardproof/localtensor/base/fraction.h"
#include "shardproof/program/syntax/evaluate.h"
#include "shardproof/program/value/number.h"
#include "shardproof/program/value/quantity.h"

namespace shardproof {

class Condition {
 public:
  enum class Form { equal, less, at_most, greater, at_least, between };

  Condition() = default;  // equal to 0
  // Returns equality with a JSON number. Throws Error(bad_input) for any other kind.
  static Condition equal_to(Number value);
  // Returns the condition of a text; bounds are quantities or expressions over `scope`. Throws
  // Error(bad_input) with Where::column.
  static Condition parse(const std::string& text, const NumberScope& scope = {});

  Form form() const { return form_; }
  // Unit of the actual number: bytes, picoseconds, bytes per second; `none` if the text has none.
  Unit unit() const { return unit_; }
  // The value, the bound or the lower end; and the upper end of a range.
  const Number& low() const { return low_; }
  const Number& high() const { return high_; }

  // True if the actual number fulfils the condition; nan never does. Comparisons with integer
  // bounds are exact; a fraction is compared with a bound such as 0.1 as the nearest double.
  bool holds(int64_t actual) const;
  bool holds(int actual) const { return holds(int64_t{actual}); }
  bool holds(double actual) const;
  bool holds(Fraction actual) const;

  bool operator==(const Condition&) const = default;

 private:
  template <typename Compare>
  bool judge(const Compare& against) const;

  Form form_ = Form::equal;
  Unit unit_ = Unit::none;
  Number low_, high_;
};

std::string to_string(const Condition& condition);  // "<= 4", "17 GB .. 80 GB"

}  // namespace shardproof
