// Finds lines where a P value meets a value that is not finite or a divisor that may be 0. The
// ranks' parts then give NaN or infinities that one device does not have, so the program is not
// honest.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/program_text.h"

namespace shardproof {

struct UnsafeLine {
  int line = 0;
  std::vector<std::string> partials;  // names of P inputs; empty: the P value has no name
  bool has_infinity = false;          // some value is not finite; false: only the divisor may be 0
  bool operator==(const UnsafeLine&) const = default;
};

// Returns the unsafe lines in order. Throws Error if the program cannot be partitioned.
std::vector<UnsafeLine> find_unsafe_partials(const ProgramText& text, const OpRegistry& ops);

}  // namespace shardproof
