// What operators do to numbers. Errors carry no place: the evaluator adds that of the expression.
#pragma once

#include <compare>
#include <string_view>

#include "shardproof/program/value/number.h"

namespace shardproof::detail {

// Of two operands; not `and` and `or`, which may leave one of them unread.
Number apply(std::string_view symbol, const Number& a, const Number& b);
Number negated(const Number& a);
Number ceiling(const Number& a);
// Exact, also between an integer and a double; unordered with nan. Error when one is no number.
std::partial_ordering compare(const Number& a, const Number& b);
// Numbers by value, texts, truth values and lists with their like; Error between unlike kinds.
bool equal(const Number& a, const Number& b);

}  // namespace shardproof::detail
