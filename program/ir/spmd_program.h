// SpmdProgram: the program of each rank, as data.
//
// A listing is a straight line of instructions for a set of ranks. Loops are expanded and
// conditions become lane masks, so that one listing serves all ranks that run it. The program of a
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

namespace shardproof {

enum class Category { parameters, gradients, optimizer, activations, communication };

struct LocalShape {
  Lanes lanes;
  Dims shape;
  bool operator==(const LocalShape&) const = default;
};

// The local shapes of a value on disjoint lanes; a list that copies share.
class LocalShapes {
 public:
  LocalShapes() = default;
  LocalShapes(std::vector<LocalShape> shapes) : shapes_(std::move(shapes)) {}
  LocalShapes(std::initializer_list<LocalShape> shapes)
      : LocalShapes(std::vector<LocalShape>(shapes)) {}
  const std::vector<LocalShape>& list() const {
    static const std::vector<LocalShape> none;
    return shapes_ ? *shapes_ : none;
  }
  operator const std::vector<LocalShape>&() const { return list(); }
  auto begin() const { return list().begin(); }
  auto end() const { return list().end(); }
  size_t size() const { return list().size(); }
  bool empty() const { return list().empty(); }
  const LocalShape& operator[](size_t i) const { return list()[i]; }
  const LocalShape& at(size_t i) const { return list().at(i); }
  bool operator==(const LocalShapes&) const = default;

 private:
  Shared<std::vector<LocalShape>> shapes_;
};

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

struct SpmdListing {
  Lanes lanes;
  std::vector<std::string> lines;  // source text
  Instrs instrs;
};

struct SpmdProgram {
  int64_t world = 0;
  std::vector<SpmdValue> values;
  std::vector<ValueId> inputs;  // tensors of the scenario, filled before the first instruction
  std::vector<SpmdListing> listings;  // disjoint lanes
};

// Returns one line of the rank language.
std::string to_string(const Instr& instr, const SpmdProgram& program);
std::vector<std::string> to_lines(const SpmdProgram& program);

}  // namespace shardproof
