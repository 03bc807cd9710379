// GlobalProgram: the program on whole tensors. Pure values with global shapes, ops,
// redistributions and claims; loops are expanded.
//
// Value ids index `values`. Each id is bound once: a name that is bound again gets a new id.
// Instructions are in program order; those of one source line share its line number.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/dims.h"
#include "shardproof/localtensor/placement/placement.h"
#include "shardproof/program/value/attrs.h"
#include "shardproof/program/value/number.h"
#include "shardproof/program/value/shared.h"

namespace shardproof {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

// The source of a value or an instruction: line, column, and the pass of the loops around it
// ("i=2").
struct Origin {
  int line = 0, column = 0;
  SharedText instance;
  bool operator==(const Origin&) const = default;
};

struct GlobalValue {
  std::string name;  // as bound; "" for a temporary inside a line
  DType dtype = DType::f32;
  Dims shape;
  bool weak = false;  // true for a number: it does not raise the dtype of the other operand
  Number number;      // valid if weak
  Origin origin = {};
  // The input of the program to whose name the result of an op is bound: a state, such as `w` in `w
  // = w - g`. The partitioner redistributes it to the placements of that input. kNoValue: none.
  ValueId state_of = kNoValue;
  bool operator==(const GlobalValue&) const = default;
};

enum class GlobalKind { op, redistribute, claim };

struct GlobalInstr {
  GlobalKind kind = GlobalKind::op;
  std::string op;  // kind `op` only
  Attrs attrs;
  std::vector<ValueId> inputs, outputs;   // an absent optional input is kNoValue
  std::vector<PlacementText> placements;  // redistribute and claim only
  // In place of `placements`: those of this value, for gradients. redistribute(g, like=x): where x
  // is partial, g is replicated. kNoValue: none.
  ValueId like = kNoValue;
  // The placements are the dual of those of `like`: where x is partial (replicated), its gradient
  // on the shards is replicated (partial).
  bool dual = false;
  std::string mesh;                   // redistribute(x, mesh=dec, ..); "": the mesh of x
  std::optional<int64_t> peak_limit;  // bytes: redistribute(x, .., peak_limit='40 KiB')
  // True inside `... as placements`: the op runs on local shards, and no redistribution is added.
  bool local = false;
  Origin origin;
  bool operator==(const GlobalInstr&) const = default;
};

struct GlobalProgram {
  std::vector<std::string> lines;  // source text
  std::vector<GlobalValue> values;
  std::vector<ValueId> inputs;  // tensors of the scenario, in the order of the file
  std::vector<GlobalInstr> instrs;
  std::set<ValueId> recomputed;          // freed after their last use, although names have them
  std::map<std::string, ValueId> names;  // the value of each name after the last instruction
  bool operator==(const GlobalProgram&) const = default;
};

// Returns one line for each instruction, in the scenario language: "h = gelu(_1)". The lines parse
// as a listing. The line of an instruction that is printed inside another one is empty.
std::vector<std::string> to_lines(const GlobalProgram& program);

}  // namespace shardproof
