// The SPMD program: what ranks do, as data. A listing is a straight line of instructions for a set
// of ranks; loops are expanded and conditions turned into lane masks, so that one listing serves
// all ranks that run it and each rank's program is the subsequence of instructions whose `lanes`
// hold it.
//
// Every value carries its origin and, where known, the spec under which it equals a global value.
// The host issues instructions in order and never waits by itself; an instruction runs on `stream`
// of its ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/program/ir/global_program.h"
#include "shardproof/program/ir/instruction.h"

namespace shardproof {

enum class Category { parameters, gradients, optimizer, activations, communication };

struct LocalShape {
  Lanes lanes;
  Dims shape;
  bool operator==(const LocalShape&) const = default;
};

struct SpmdValue {
  std::string name;   // unique in the program: "h", "h.1", "_3"
  std::string bound;  // the author's name, "" for temporaries
  DType dtype = DType::f32;
  bool weak = false;               // a number of the program: does not raise dtypes
  std::vector<LocalShape> shapes;  // disjoint lanes
  std::optional<Spec> spec;        // under which it equals `global`
  ValueId global = kNoValue;
  Category category = Category::activations;
  Origin origin;
};

struct SpmdListing {
  Lanes lanes;
  std::vector<std::string> lines;  // source text
  std::vector<Instr> instrs;
};

struct SpmdProgram {
  int64_t world = 0;
  std::vector<SpmdValue> values;
  std::vector<ValueId> inputs;  // tensors of the scenario; filled before the first instruction
  std::vector<SpmdListing> listings;  // disjoint lanes
};

// One line of the rank language.
std::string to_string(const Instr& instr, const SpmdProgram& program);
std::vector<std::string> to_lines(const SpmdProgram& program);

}  // namespace shardproof
