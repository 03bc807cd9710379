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
#include <variant>
#include <vector>

#include "shardproof/localtensor/collective.h"
#include "shardproof/localtensor/plan.h"
#include "shardproof/program/global_program.h"

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

struct LaneAttrs {
  Lanes lanes;
  Attrs attrs;
};

// An op on local shards. Specs are given when the kernel needs its global indices (form `shard`).
struct Compute {
  std::string op;
  std::vector<LaneAttrs> attrs;  // disjoint; usually one
  std::vector<ValueId> inputs, outputs;
  std::vector<Spec> input_specs, output_specs;  // empty unless `shard`
  ValueId into = kNoValue;  // in place: the result is written into this value's buffer
};
// A number as a 0-d value; one for all lanes, or one per lane of the instruction.
struct NumberValue {
  ValueId output = kNoValue;
  std::vector<double> values;
  std::vector<int64_t> integers;  // used when the value's dtype is i64
};
// One call for some lanes. Lanes of the items of one Communicate may overlap only inside a
// `group:`.
struct CallItem {
  Lanes lanes;
  Collective collective;       // peer, counts: see below when they differ by lane
  std::vector<int64_t> peers;  // per lane; empty: collective.peer
  std::vector<std::vector<int64_t>> send_counts,
      recv_counts;  // per lane, all_to_all_v, in rows of dim 0
  ValueId input = kNoValue, output = kNoValue;
  int dim = 0,
      dim2 = 0;  // all_gather / reduce_scatter / gather / scatter dim; all_to_all split, concat
  std::optional<PlanStep>
      step;  // set when the call is a step of a plan: packing and shapes follow from it
  bool in_place = false;  // output is input's buffer
  Origin origin;
};
struct Communicate {
  std::vector<CallItem> items;
};  // one submit: one group
// Local part of a plan: slice, relabel, zero fill.
struct Reshuffle {
  ValueId input = kNoValue, output = kNoValue;
  PlanStep step;
};
// Another name for existing buffers: lanes of each part keep what they have.
struct Merge {
  ValueId output = kNoValue;
  std::vector<std::pair<Lanes, ValueId>> parts;
};
struct RecordEvent {
  std::string event;
};
// wait(..): the stream waits. sync(..): the host waits. Exactly one of value, event, stream is
// given.
struct Wait {
  enum class Who { stream, host } who = Who::stream;
  ValueId value = kNoValue;
  std::string event, stream;
};
struct Free {
  ValueId value = kNoValue;
};
struct Keep {
  ValueId value = kNoValue;
  std::string stream;
};

using Action = std::variant<Compute, NumberValue, Communicate, Reshuffle, Merge, RecordEvent, Wait,
                            Free, Keep>;

struct Instr {
  Lanes lanes;
  std::string stream = "main";
  Action action;
  std::vector<ValueId> releases;  // values whose last name or use ends after this instruction
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

// What an instruction touches: happens-before, memory, traces see only this.
struct Effects {
  std::vector<ValueId> reads, writes;
  std::vector<ValueId> waits_values;
  std::vector<std::string> waits_events, waits_streams, signals;
  bool host = false;  // the host waits
};
Effects effects_of(const Instr& instr);

std::string to_string(const Instr& instr,
                      const SpmdProgram& program);  // one line of the rank language
std::vector<std::string> to_lines(const SpmdProgram& program);

}  // namespace shardproof
