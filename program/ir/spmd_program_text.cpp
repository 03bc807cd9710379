// Implements the text form of spmd_program.h with the statements of rank_statement.h.
#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/ir/printed_line.h"
#include "shardproof/program/ir/rank_statement.h"
#include "shardproof/program/ir/rank_text.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {
namespace {

// True if an instruction runs on some ranks of its listing only; then its ranks are printed.
bool masked(const Lanes& lanes, const SpmdProgram& program) {
  for (const SpmdListing& listing : program.listings)
    if (listing.lanes == lanes) return false;
  return lanes.size() != program.world;
}

}  // namespace

std::string to_string(const Instr& instr, const SpmdProgram& program) {
  const RankStatements statements = RankStatementWriter(program, {}, {}).statements(instr);
  std::string text;
  for (const RankStatement& statement : statements.list) {
    text += text.empty() ? "" : "; ";
    text += named_text(statement.text, [&](ValueId id, bool) {
      return program.values[static_cast<size_t>(id)].name;
    });
    if (!(statement.lanes == instr.lanes) && statements.list.size() > 1)
      text += fmt::format(" on {}", to_string(statement.lanes));
  }
  if (statements.group) text = "group: " + text;
  if (instr.stream != "main") text = fmt::format("on {}: {}", instr.stream, text);
  return masked(instr.lanes, program) ? text + "  # " + all_ranks_text(instr.lanes) : text;
}

std::vector<std::string> to_lines(const SpmdProgram& program) {
  std::vector<std::string> lines;
  for (const RankText& text : rank_texts(program, {})) {
    lines.push_back("# " + all_ranks_text(text.lanes));
    for (const std::string& line : with_remarks(text.lines)) lines.push_back(line);
  }
  return lines;
}

}  // namespace shardproof
