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
// True for the functions of one number: ceil, exp, floor, log, sqrt.
bool is_function(std::string_view name);
// Returns the function's value, which is an integer for ceil and floor, and else a double. Throws
// Error(bad_input) if a finite number has no finite real value: sqrt(-1), log(0), exp(1000).
Number apply_function(std::string_view name, const Number& a);
// Returns the exact order, also between an integer and a double; unordered with nan. Throws
// Error(bad_input) if one is not a number.
std::partial_ordering compare(const Number& a, const Number& b);
// True if both are equal: numbers by value, texts, truth values and lists by content. Throws
// Error(bad_input) for different kinds.
bool equal(const Number& a, const Number& b);

}  // namespace shardproof::detail
