// Number formats of reports.
#pragma once

#include <cstdint>
#include <string>

namespace shardproof {

std::string grouped_number(int64_t number);  // thousands separated by commas: "9,312"

// Returns two significant digits: "3.1e-3", "0.53", "42", "0", "inf", "nan".
std::string rough_number(double number);

// Returns the text of a factor for "... times". A factor below 10,000 is rounded up to a whole
// number, a larger one to two significant digits. Examples: "33", "1,025", "52,000", "5.1e16",
// "infinitely many". Requires factor >= 0.
std::string factor_text(double factor);

}  // namespace shardproof
