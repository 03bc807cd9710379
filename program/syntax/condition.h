// Condition: what `expect` asks of a number: a value (equal), "<= 4", "< 80 GB", "> 0", ">= 2",
// "1.0 .. 1.5" (both ends belong to it). Its bounds are evaluated when it is made. A value:
// compares, prints and parses back.
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
  // Of a JSON number. Error when it is no number.
  static Condition equal_to(Number value);
  // Bounds are quantities or expressions over `scope`. Errors have Where::column.
  static Condition parse(const std::string& text, const NumberScope& scope = {});

  Form form() const { return form_; }
  // What the actual number has to be: bytes, picoseconds, bytes per second; `none` leaves it open.
  Unit unit() const { return unit_; }
  // The value, the bound, or the lower end; and the upper end of a range.
  const Number& low() const { return low_; }
  const Number& high() const { return high_; }

  // Integers and fractions are compared exactly with integers; a fraction meets a bound like 0.1 as
  // the double nearest to it.
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
