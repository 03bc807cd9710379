// The lines of a program: placements and local shapes of the value that a line binds, its calls and
// bytes. Made from the lowered program, without a run.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/check/check.h"

namespace shardproof {

struct LineRow {
  int line = 0;  // in the listing, from 1
  std::string source;
  std::string placements;  // "dp:S(0)"; empty if not known
  std::string local;       // "[4, 8]", or "[2] on 0-1, [1] on 2"
  std::string calls;       // "all_reduce over tp", with the count if a line makes several
  std::string bytes;       // sent by the busiest rank over all passes: "384 B"
};
struct LineTable {
  std::string listing;  // ranks of the listing: "0-7"
  std::vector<LineRow> rows;
};

// Returns one table for each listing; a global program has one.
std::vector<LineTable> line_tables(const LoweredJob& lowered);

}  // namespace shardproof
