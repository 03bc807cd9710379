// Implements instruction.h.
#include <algorithm>

#include "shardproof/program/ir/instruction.h"

namespace shardproof {
namespace {

void add(std::vector<ValueId>& values, ValueId value) {
  const bool known = std::find(values.begin(), values.end(), value) != values.end();
  if (value != kNoValue && !known) values.push_back(value);
}

// One overload for each action, so that a new action does not compile without its effects.
struct Collector {
  Effects& effects;

  void operator()(const Compute& compute) const {
    for (const ValueId input : compute.inputs) add(effects.reads, input);
    for (const ValueId output : compute.outputs) add(effects.writes, output);
    add(effects.writes, compute.into);
  }
  void operator()(const NumberValue& number) const { add(effects.writes, number.output); }
  void operator()(const Communicate& call) const {
    for (const CallItem& item : call.items) {
      add(effects.reads, item.input);
      add(effects.writes, item.output);
      if (item.in_place) add(effects.writes, item.input);
    }
  }
  void operator()(const Reshuffle& reshuffle) const {
    add(effects.reads, reshuffle.input);
    add(effects.writes, reshuffle.output);
  }
  void operator()(const SlotRead& read) const { add(effects.writes, read.output); }
  void operator()(const Snapshot& snapshot) const {
    add(effects.reads, snapshot.input);
    add(effects.writes, snapshot.output);
  }
  // Merge gives a name and accesses no memory.
  void operator()(const Merge&) const {}
  void operator()(const RecordEvent& record) const { effects.signals.push_back(record.event); }
  void operator()(const Wait&) const {}
  // Free and Keep concern the allocator; they read and write no contents.
  void operator()(const Free&) const {}
  void operator()(const Keep&) const {}
};

}  // namespace

const ShardSpecs& no_shard_specs() {
  static const ShardSpecs none;
  return none;
}

const SharedText& main_stream() {
  static const SharedText name("main");
  return name;
}

Effects effects_of(const Instr& instr) {
  Effects effects;
  std::visit(Collector{effects}, instr.action);
  return effects;
}

}  // namespace shardproof
