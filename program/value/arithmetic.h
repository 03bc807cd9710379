// The operators of the language on numbers. Errors have no place; the evaluator adds that of the
// expression.
#pragma once

#include <compare>
#include <string_view>

#include "shardproof/program/value/number.h"

namespace shardproof::detail {

// Returns the result of a binary operator, except `and` and `or`, which may leave an operand
// unevaluated. Throws Error(bad_input) for operands of a wrong kind, overflow and division by zero.
Number apply(std::string_view symbol, const Number& a, const Number& b);
Number negated(const Number& a);  // -a
Number ceiling(const Number& a);  // the smallest integer that is not below a
// Returns the exact order, also between an integer and a double; unordered with nan. Throws
// Error(bad_input) if one is not a number.
std::partial_ordering compare(const Number& a, const Number& b);
// True if both are equal: numbers by value, texts, truth values and lists by content. Throws
// Error(bad_input) for different kinds.
bool equal(const Number& a, const Number& b);

}  // namespace shardproof::detail
