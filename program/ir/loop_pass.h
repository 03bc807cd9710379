// The passes of one loop, compared line by line. Internal to program/ir.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shardproof/program/ir/printed_line.h"

namespace shardproof::detail {

// A part of a line: text, or a value that is bound or read.
struct LinePiece {
  std::string text;
  ValueId id = kNoValue;
  bool binds = false;
};
std::vector<LinePiece> pieces_of(std::string_view text);

// Returns the text that equals texts[k] if the loop variable is first + k. Examples: "slot=0" and
// "slot=1" become "slot=i"; "'h_1'" and "'h_2'" become "'h_{i + 1}'". Returns nullopt if there is
// none.
std::optional<std::string> text_in_loop(const std::vector<std::string>& texts,
                                        const std::string& variable, int64_t first);
// Returns such a text for names: "h1" and "h2" become "h{i + 1}".
std::optional<std::string> name_in_loop(const std::vector<std::string>& names,
                                        const std::string& variable, int64_t first);

// A value that a pass reads from the pass before it. `made` is its result in the first pass,
// `first` the value that the first pass reads.
struct LoopState {
  ValueId made = kNoValue, first = kNoValue, id = kNoValue;
  std::vector<size_t> lines = {};  // in the body, that bind `made`, each on other ranks
};

struct LoopBody {
  std::vector<PrintedLine> lines;   // of the first pass; states have marks of their own
  std::map<ValueId, ValueId> same;  // values of later passes, to those of the first
  std::vector<LoopState> states;
  std::set<ValueId> named_by_author;
};

struct LoopPasses {
  std::string variable;
  int64_t first = 0;
  std::vector<std::vector<PrintedLine>> lines;  // of each pass
};

// Returns the body of equal passes (roll_loops.h); nullopt if they differ. `read_after` holds the
// values that are read outside the loop. `next_id` numbers the states.
std::optional<LoopBody> body_of(const LoopPasses& passes, const std::vector<std::string>& bound,
                                const std::set<ValueId>& read_after, ValueId& next_id);

}  // namespace shardproof::detail
