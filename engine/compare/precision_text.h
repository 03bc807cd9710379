// Text of a ValuePrecision, for findings and for the notes of reports.
#pragma once

#include <string>

#include "shardproof/engine/job/outcome.h"

namespace shardproof {

// Returns the text without the cause:
// "g: error 3.1e-3 of its largest element, one device 5.9e-8: 52,000 times".
// If one device is more precise than one unit of rounding, the ratio refers to that unit:
// "g: error 3.1e-3 of its largest element, one device 0: 52,000 times one unit of rounding".
// For an infinite error: "g: not finite on a rank where one device holds a number".
// For integers and bools: "f: 3 of 8 elements differ by up to 2, because the ranks round and one
// device does not".
// A value without a name is "a value inside the line".
std::string precision_text(const ValuePrecision& precision);

}  // namespace shardproof
