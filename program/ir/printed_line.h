// PrintedLine: one line of a printed program before its values have names. Loops are found on such
// lines, because equal passes then have equal text.
//
// A value is a mark inside the text; mark_value() makes it, and named_text() replaces it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/program/ir/global_program.h"

namespace shardproof {

struct PrintedLine {
  // Blocks around the line, outermost first: "if rank == 0", "on comm", "group". Lines of one block
  // have equal entries. begin_block() makes entries of blocks that are never joined.
  std::vector<std::string> blocks;
  std::string text;     // with marks
  std::string remarks;  // without the source line; printed after "#"
  Origin origin;        // line 0: not printed
};

// Returns the mark of a value that this line binds (`binds`) or reads.
std::string mark_value(ValueId id, bool binds);
// Returns the text with each mark replaced by `name`.
std::string named_text(std::string_view text,
                       const std::function<std::string(ValueId, bool binds)>& name);
// Returns an entry of PrintedLine::blocks that differs from those with other numbers. The number is
// not printed.
std::string begin_block(std::string_view header, size_t number);
std::string_view header_of(std::string_view block);  // without the number

// Returns the parts with ", " between them.
std::string comma_list(const std::vector<std::string>& parts);

// Returns the lines with their blocks as a listing, without remarks. A block of one line is printed
// on the line of its header, except loops and groups.
struct ListingLine {
  std::string text, remarks;
  Origin origin;
};
std::vector<ListingLine> with_blocks(std::vector<PrintedLine> lines);

// Returns the lines with remarks and source lines after "#", in one column where lines are short.
std::vector<std::string> with_remarks(const std::vector<ListingLine>& lines);

}  // namespace shardproof
