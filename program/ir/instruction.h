// One instruction of the SPMD program: an action, the lanes that take part in it, the stream it
// runs on; and its effects, which are all that happens-before, memory and traces see of it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

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
// One call for some lanes. Lanes of the items of one Communicate overlap only inside a `group:`.
struct CallItem {
  Lanes lanes;
  Collective collective;       // peer, counts: see below when they differ by lane
  std::vector<int64_t> peers;  // per lane; empty: collective.peer
  // Of all_to_all_v: per lane, in rows of dim 0.
  std::vector<std::vector<int64_t>> send_counts, recv_counts;
  ValueId input = kNoValue, output = kNoValue;
  // Of all_gather, reduce_scatter, gather, scatter: the dim; of all_to_all: split, concat.
  int dim = 0, dim2 = 0;
  // Set when the call is a step of a plan: packing and shapes follow from it.
  std::optional<PlanStep> step;
  bool in_place = false;  // output is input's buffer
  Origin origin;
};
// One submit: one group.
struct Communicate {
  std::vector<CallItem> items;
};
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
// What was last put into a slot of each rank's window, in the shape of `output`.
struct SlotRead {
  int64_t slot = 0;
  ValueId output = kNoValue;
};
// check(x, 'h_0', dp:S(0)): a copy of what `input` holds at this place of its stream, for the probe
// alone. It takes no memory of the ranks and no time; without a probe nothing happens.
struct Snapshot {
  ValueId input = kNoValue, output = kNoValue;
  std::string name;    // of the truth's value
  std::string placed;  // "dp:S(0) on pp=0"; empty: R on all ranks
};
struct RecordEvent {
  std::string event;
};
// wait(..): the stream waits. sync(..): the host waits. Exactly one of value, event, stream is
// given.
struct Wait {
  enum class Waiter { stream, host } who = Waiter::stream;
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

using Action = std::variant<Compute, NumberValue, Communicate, Reshuffle, Merge, SlotRead, Snapshot,
                            RecordEvent, Wait, Free, Keep>;

struct Instr {
  Lanes lanes;
  std::string stream = "main";
  Action action;
  std::vector<ValueId> releases;  // values whose last name or use ends after this instruction
  Origin origin;
};

// What an instruction touches: happens-before, memory, traces see only this.
struct Effects {
  std::vector<ValueId> reads, writes;
  std::vector<ValueId> waits_values;
  std::vector<std::string> waits_events, waits_streams, signals;
  bool host = false;  // the host waits
};
Effects effects_of(const Instr& instr);

}  // namespace shardproof
