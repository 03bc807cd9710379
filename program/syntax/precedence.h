// The precedence of operators, in Python's order: one table for the parser and the printer.
#pragma once

#include <string_view>

namespace shardproof::detail {

inline constexpr int kWeakest = 1;  // or; then `and`
inline constexpr int kNot = 3;
inline constexpr int kComparison = 4;
inline constexpr int kSum = 5;
inline constexpr int kProduct = 6;
inline constexpr int kUnary = 7;
inline constexpr int kPower = 8;  // its right side binds like kUnary; not part of binary_precedence
inline constexpr int kPostfix = 9;

// Returns the precedence of an operator between two operands; 0 for `**` and all other text.
constexpr int binary_precedence(std::string_view symbol) {
  if (symbol == "or") return kWeakest;
  if (symbol == "and") return kWeakest + 1;
  if (symbol == "<" || symbol == "<=" || symbol == "==" || symbol == "!=" || symbol == ">" ||
      symbol == ">=")
    return kComparison;
  if (symbol == "+" || symbol == "-") return kSum;
  if (symbol == "@" || symbol == "*" || symbol == "/" || symbol == "//" || symbol == "%")
    return kProduct;
  return 0;
}

}  // namespace shardproof::detail
