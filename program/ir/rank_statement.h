// Statements of the rank language that one instruction is written as. Internal to program/ir.
//
// An instruction becomes several statements if its ranks need different texts. Example: "y =
// reshape(x, shape=[2, 8])" on ranks 0-2 and "y = reshape(x, shape=[1, 8])" on rank 3.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/program/ir/step_text.h"
#include "shardproof/program/value/select_ranks.h"

namespace shardproof {

struct RankStatement {
  Lanes lanes;
  std::string text;            // with marks of values (printed_line.h)
  std::vector<ValueId> binds;  // for remarks
  Origin origin = {};          // of a call; line 0: that of the instruction
};

struct RankStatements {
  std::vector<RankStatement> list;
  bool group = false;  // the calls of one group: block
};

class RankStatementWriter {
 public:
  // `instrs`: all instructions of the listing, among which are the numbers that others read.
  RankStatementWriter(const SpmdProgram& program, const NamedMeshes& meshes, const Instrs& instrs);
  // Returns the statements of an instruction, without those that no rank runs.
  RankStatements statements(const Instr& instr) const;
  // True for a number that is written where it is read, and has no name.
  bool is_written_inline(ValueId id) const { return inline_numbers_.contains(id); }

 private:
  struct Writer;
  friend struct Writer;
  // A step is written as a plain call, or with the shards before and after it.
  struct StepText {
    std::string_view verb;          // of a local step
    std::optional<PlainDims> dims;  // of the plain call
    std::string shards;             // "shards='...'"; "" of a plain call
  };
  const SpmdValue& value(ValueId id) const;
  std::string read(ValueId id) const;
  std::string bind(ValueId id) const;
  std::vector<std::string> own_arguments(const CallItem& item, PlainDims dims) const;
  std::string received(ValueId id, const Lanes& lanes) const;
  std::string peers(const CallItem& item) const;
  const StepText& text_of(const PlanStep& step) const;
  std::string call_text(const CallItem& item, const Lanes& lanes) const;
  RankStatements transfer(const CallItem& item) const;
  RankStatements calls(const Communicate& call, const Lanes& lanes) const;
  RankStatements compute(const Compute& compute, const Lanes& lanes) const;
  RankStatements number(const NumberValue& number, const Lanes& lanes) const;

  const SpmdProgram& program_;
  const NamedMeshes& meshes_;
  std::map<ValueId, std::string> inline_numbers_;
  // The instructions of equal redistributions share their steps.
  mutable std::map<const PlanStep*, StepText> step_texts_;
};

}  // namespace shardproof
