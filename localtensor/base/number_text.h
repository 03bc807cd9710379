// Numbers as reports print them.
#pragma once

#include <cstdint>
#include <string>

namespace shardproof {

std::string grouped_number(int64_t number);  // "9,312"

// Two significant digits: "3.1e-3", "0.53", "42", "0", "inf", "nan".
std::string rough_number(double number);

// A factor from 0, for "... times": rounded up to a whole number below 10,000, else to two
// significant digits: "33", "1,025", "52,000", "5.1e16", "infinitely many".
std::string factor_text(double factor);

}  // namespace shardproof
