// SpmdProgram: the program of each rank, as data.
//
// A listing is a straight line of instructions for a set of ranks. Loops are expanded and
// conditions become lane masks, so that all its ranks share one listing. The program of a
// rank is the instructions whose `lanes` contain it, in order.
//
// Every value has its origin and, if known, the spec under which it equals a global value. The host
// issues instructions in order and waits only at instructions that state it. An instruction runs on
// `stream` of its ranks.
//
// Example: "y = redistribute(h @ w2, tp:R)" with w2 as tp:S(0) becomes, for all ranks,
//   _1 = matmul(h, w2)
//   y = all_reduce(_1, sum, group=tp)
#pragma once

#include <string>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/program/ir/global_program.h"
#include "shardproof/program/ir/instruction.h"
#include "shardproof/program/ir/local_shapes.h"

namespace shardproof {

enum class Category { parameters, gradients, optimizer, activations, communication };

struct SpmdValue {
  std::string name;  // unique in the program: "h", "h.1", "_3"
  SharedText bound;  // the author's name, "" for temporaries
  DType dtype = DType::f32;
  bool weak = false;  // true for a number: it does not raise dtypes
  LocalShapes shapes;
  Shared<Spec> spec;  // the spec under which it equals `global`, if known
  ValueId global = kNoValue;
  Category category = Category::activations;
  Origin origin;
};

// Grows without moving its elements.
using SpmdValues = PooledDeque<SpmdValue>;

struct SpmdListing {
  Lanes lanes;
  std::vector<std::string> lines;  // source text
  Instrs instrs;
  std::string path;  // JSON pointer of its lines, for errors; "" if no file has them
};

struct SpmdProgram {
  int64_t world = 0;
  SpmdValues values;
  std::vector<ValueId> inputs;  // tensors of the scenario, filled before the first instruction
  std::vector<SpmdListing> listings;  // disjoint lanes
};

// Returns one line of the rank language.
std::string to_string(const Instr& instr, const SpmdProgram& program);
std::vector<std::string> to_lines(const SpmdProgram& program);

}  // namespace shardproof
