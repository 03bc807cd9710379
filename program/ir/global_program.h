// The global program: pure values with global shapes, ops, redistributions and claims, loops
// expanded. Value ids index `values`; every id is made once (a name bound again gets a new id).
// Instructions are in program order; those of one source line share its line number.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/dims.h"
#include "shardproof/localtensor/placement/placement.h"
#include "shardproof/program/value/attrs.h"
#include "shardproof/program/value/number.h"

namespace shardproof {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

// Where a value or an instruction comes from: source line and column, and the instance of it
// ("i=2").
struct Origin {
  int line = 0, column = 0;
  std::string instance;
  bool operator==(const Origin&) const = default;
};

struct GlobalValue {
  std::string name;  // as bound; "" for a temporary inside a line
  DType dtype = DType::f32;
  Dims shape;
  bool weak = false;  // a number: does not raise the dtype of what it meets
  Number number;      // when weak
  Origin origin;
  bool operator==(const GlobalValue&) const = default;
};

enum class GlobalKind { op, redistribute, claim };

struct GlobalInstr {
  GlobalKind kind = GlobalKind::op;
  std::string op;  // of op
  Attrs attrs;
  std::vector<ValueId> inputs, outputs;   // an absent optional input is kNoValue
  std::vector<PlacementText> placements;  // of redistribute and claim
  std::string mesh;                       // redistribute(x, mesh=dec, ..); "" = stays
  // Inside `... as placements`: computed on the local shards as they lie, no redistribution is
  // added.
  bool local = false;
  Origin origin;
  bool operator==(const GlobalInstr&) const = default;
};

struct GlobalProgram {
  std::vector<std::string> lines;  // source text
  std::vector<GlobalValue> values;
  std::vector<ValueId> inputs;  // tensors of the scenario, in order of writing
  std::vector<GlobalInstr> instrs;
  std::map<std::string, ValueId> names;  // what each name means at the end
  bool operator==(const GlobalProgram&) const = default;
};

// One line an instruction, in the scenario language: "h = gelu(_1)". Parses back as a listing.
std::vector<std::string> to_lines(const GlobalProgram& program);

}  // namespace shardproof
