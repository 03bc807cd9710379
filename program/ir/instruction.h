// Instr: one instruction of the SPMD program: an action, the lanes that execute it, and the stream
// it runs on. Effects are the values that it reads and writes, and the events that it records.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

struct LaneAttrs {
  Lanes lanes;
  Attrs attrs;
};

// The specs of all inputs and outputs of an op.
struct ShardSpecs {
  std::vector<Spec> inputs, outputs;
};
const ShardSpecs& no_shard_specs();

// An op on local shards.
struct Compute {
  SharedText op;
  std::vector<LaneAttrs> attrs;  // disjoint; usually one
  std::vector<ValueId> inputs, outputs;
  Shared<ShardSpecs> specs;  // set only if the kernel needs global indices
  ValueId into = kNoValue;   // in-place op: the result is written into this value's buffer

  // Return no specs if the kernel needs no global indices.
  const std::vector<Spec>& input_specs() const { return shard_specs().inputs; }
  const std::vector<Spec>& output_specs() const { return shard_specs().outputs; }

 private:
  const ShardSpecs& shard_specs() const { return specs ? *specs : no_shard_specs(); }
};
// A number as a 0-d value: one for all lanes, or one for each lane of the instruction.
struct NumberValue {
  ValueId output = kNoValue;
  std::vector<double> values;
  std::vector<int64_t> integers;  // used instead of `values` if the value's dtype is i64 or bool
};
// One call of some lanes. Lanes of different items of a Communicate overlap only inside a `group:`.
struct CallItem {
  Lanes lanes;
  Collective collective;       // the fields below replace peer and counts that differ by lane
  std::vector<int64_t> peers;  // one for each lane; empty: collective.peer
  // all_to_all_v: for each lane, the counts by member, in rows of dim 0.
  std::vector<std::vector<int64_t>> send_counts, recv_counts;
  ValueId input = kNoValue, output = kNoValue;
  // all_gather, reduce_scatter, gather, scatter: `dim`. all_to_all: split is `dim`, concat `dim2`.
  int dim = 0, dim2 = 0;
  // Set if the call is a step of a plan; packing and shapes follow from it.
  std::shared_ptr<const PlanStep> step;
  bool in_place = false;  // the output is written into the input's buffer
  Origin origin;
};
// Calls that are submitted together: one call, or those of a `group:`.
struct Communicate {
  std::vector<CallItem> items;
};
// A local step of a plan: slices, relabels, or fills with the identity.
struct Reshuffle {
  ValueId input = kNoValue, output = kNoValue;
  std::shared_ptr<const PlanStep> step;  // never null
};
// A new name for existing buffers: the lanes of each part keep the value of that part.
struct Merge {
  ValueId output = kNoValue;
  std::vector<std::pair<Lanes, ValueId>> parts;
};
// Reads the last value that was put into a slot of each rank's window, in the shape of `output`.
struct SlotRead {
  int64_t slot = 0;
  ValueId output = kNoValue;
};
// check(x, 'h_0', dp:S(0)): copies `input` at this point of its stream, only for the probe. Takes
// no memory of the ranks and no time; without a probe it does nothing.
struct Snapshot {
  ValueId input = kNoValue, output = kNoValue;
  std::string name;    // the value of `truth` to compare with
  std::string placed;  // "dp:S(0) on pp=0"; empty: R on all ranks
};
struct RecordEvent {
  std::string event;
};
// wait(..): the stream waits. sync(..): the host waits. Exactly one of value, event, stream is set.
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

const SharedText& main_stream();  // "main"

// A loop of 10,000 passes makes as many instructions, so they share texts, attributes and specs.
struct Instr {
  Lanes lanes;
  SharedText stream = main_stream();
  Action action;
  // Values to which no name and no later instruction refers: they end after the instruction. If the
  // author named one, this is the same as a Free after the instruction.
  std::vector<ValueId> releases;
  Origin origin;
};
// Grows without moving its elements.
using Instrs = PooledDeque<Instr>;

// The values that an instruction reads and writes, and the events that it records.
struct Effects {
  std::vector<ValueId> reads, writes;
  std::vector<std::string> signals;
};
// Returns each value and event once.
Effects effects_of(const Instr& instr);

}  // namespace shardproof
