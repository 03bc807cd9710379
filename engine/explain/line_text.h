// Words for lines of rank programs: where ranks run different listings, a line number alone names a
// line of each of them.
#pragma once

#include <set>
#include <string>

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// A line of one listing of a program.
struct ListedLine {
  size_t listing = 0;
  int line = 0;
  auto operator<=>(const ListedLine&) const = default;
};

// Returns "line 5", or "line 5 of ranks 3-5" if other ranks run a listing with another text.
std::string line_text(const SpmdProgram& program, const ListedLine& line);
// Returns the same of the line that an instruction of the program has its origin in.
std::string line_text(const SpmdProgram& program, const Instr& instr);
// Returns the same of several lines: "lines 3 and 4", "line 3 of ranks 0-1 and line 5 of ranks
// 2-3". Requires at least one line.
std::string lines_text(const SpmdProgram& program, const std::set<ListedLine>& lines);

// Returns "line 3 reduces", or "lines 3 and 4 reduce", for the texts above and the verb "reduces".
std::string lines_with_verb(const std::string& lines, const std::string& verb);

// Returns "a, b and c".
std::string joined_words(const std::vector<std::string>& words, const char* last);

}  // namespace shardproof
