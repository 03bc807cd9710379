// Rule tables: sharding rules of any framework as JSON lines, one rule a line. docs/check_ops.md
// describes them for users.
//
//   key      value                                                              needed
//   op       torch's name ("aten.mm", "aten.fill_.Scalar") or that of an op here   yes
//   attrs    arguments that are not tensors, by torch's names or ours              no
//   inputs   [{"shape": [4, 6], "dtype": "f32", "fill": "ints"}, ..]               yes
//   mesh     sizes of the axes: [2, 2]                                             yes
//   in, out  for each tensor its placements by axis: [["S(0)", "R"], ["R", "R"]]   yes
//   kind     "op" (default), "inplace", "out", "backward"                         no
//   local    "op" (default): each rank runs the call on its shards; "rule": what the op's own rule
//            states                                                               no
//   average  n: the result of a backward's call is P(avg) over n ranks, each of which
//            has 1/n of the cotangent                                             no
//
// `in` of a backward has the inputs, then one cotangent for each result; `out` has the gradients of
// the inputs. `in` of an `out` row has the inputs, then for each result the tensor to which it is
// written. torch: `out=`; names such as aten.add.out mean this kind. Blank lines and comments
// (`//`) are skipped.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardproof/engine/check_ops/rule_case.h"

namespace shardproof {

struct RuleRow {
  int line = 0;  // in the file
  RuleCase rule;
  // Results that torch has and the row leaves out, or that have no counterpart here.
  std::vector<std::string> unjudged = {};
};

// Rows of one op whose calls have no counterpart here, for one reason.
struct RefusedCalls {
  std::string op, reason;
  std::vector<int> lines;  // of the table
};

struct RuleTable {
  std::vector<RuleRow> rows;
  std::map<std::string, int64_t> unknown;  // rows by op that is not known here
  std::vector<RefusedCalls> refused;
};

enum class UnknownOps { refuse, skip };

// Throws Error(bad_input) with file and line for the first row that is not legal, and with the
// lines of the others. Unless they are to be skipped, rows of unknown ops and calls that have no
// counterpart here are errors, too. A table without a row is an error: it checks nothing.
RuleTable read_rule_table(const std::string& file, const std::string& text, const OpRegistry& ops,
                          UnknownOps unknown);
// Returns the row of a text, for --row.
RuleRow read_rule_row(const std::string& text, const OpRegistry& ops);

// Returns the case as a row. Reading it gives an equal case.
std::string rule_row_text(const RuleCase& rule);

}  // namespace shardproof
