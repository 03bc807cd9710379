// Gives the values of a printed program their names, after its loops are found.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "shardproof/program/ir/printed_line.h"

namespace shardproof {

struct LineValues {
  std::vector<std::string> bound;  // the author's name of each value, "" if there is none
  std::vector<ValueId> inputs;     // bound before the first line
  std::set<ValueId> read_at_end;   // read after the last line
  std::set<std::string> reserved;  // names that mean something else: streams, axes, numbers
};

struct NamedLines {
  std::vector<ListingLine> lines;
  std::unordered_map<ValueId, std::string> names;  // of values that lines bind, and of inputs
};

// An author's name that has a value after the last line.
struct NameAtEnd {
  std::string name;
  ValueId value = kNoValue;
  std::string condition = {};  // "if rank == 0: "; "": on all ranks
};
// Adds lines such as "w = w_1" for each name that has another value than the printed one. If a line
// would bind a name that a later one reads, all are read first.
void bind_names_at_end(const std::vector<NameAtEnd>& names, NamedLines& named);

NamedLines name_lines(std::vector<PrintedLine> lines, const LineValues& values);

}  // namespace shardproof
