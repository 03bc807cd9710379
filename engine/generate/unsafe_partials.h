// Lines where a P value meets something that is not finite, or a divisor that may be 0. There the
// ranks' parts give NaN or infinities that one device does not have, so the program would not be
// honest.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/generate/program_text.h"

namespace shardproof {

struct UnsafeLine {
  int line = 0;
  std::vector<std::string> partials;  // names of P inputs; empty: the P value has no name
  bool operator==(const UnsafeLine&) const = default;
};

// In order of lines. Throws Error if the program cannot be partitioned.
std::vector<UnsafeLine> find_unsafe_partials(const ProgramText& text, const OpRegistry& ops);

}  // namespace shardproof
