// A frame of the executor: one cohort at one place of its listing. Internal to the engine.
#pragma once

#include <deque>
#include <map>

#include "shardproof/engine/executor.h"

namespace shardproof {

// A kernel made ready for one instruction and one set of input shapes; shared by all frames.
struct Prepared {
  const Attrs* attrs = nullptr;
  std::vector<TensorMeta> inputs, outputs;
  Kernel kernel;
  OpCost cost;
};

struct Executor::Shared {
  const SpmdProgram& program;
  const OpRegistry& ops;
  World& world;
  ExecutorOptions options;
  std::map<const Instr*, std::deque<Prepared>> prepared;
  std::vector<Error> errors;
  const Prepared& prepare(const Instr& instr, const OpRecord& op, const Attrs& attrs,
                          std::vector<TensorMeta> inputs);
};

// A communication under way: what the door points to until the ticket is done.
struct CallState {
  std::vector<Call> calls;
  std::deque<LocalTensor> inputs, outputs;  // flat; stable addresses
  Ticket ticket = kDone;
};

struct Executor::Frame {
  Shared& shared;
  const SpmdListing& listing;
  Lanes lanes;
  Door& door;
  std::vector<LocalTensor> values;
  std::vector<Ticket> tickets;  // of the instruction that makes each value
  std::map<std::string, Ticket> events;
  std::vector<StreamId> streams;  // used so far
  std::map<std::string, StreamId, std::less<>> stream_ids;
  std::deque<CallState> calls;  // under way
  size_t pc = 0;
  Ticket host_waits = kDone;
  bool ended = false, stopped = false;  // stopped: an injected fault froze or killed the host

  Frame(Shared& shared, const SpmdListing& listing, Lanes lanes, Door& door);
  bool advance();  // true when anything was issued
  bool finished();

  void issue(const Instr& instr);
  void issue_compute(const Instr& instr, const Compute& compute, const Lanes& on);
  void issue_number(const Instr& instr, const NumberValue& number, const Lanes& on);
  void issue_calls(const Instr& instr, const Communicate& call, const Lanes& on);
  void issue_transfer(const Instr& instr, const CallItem& item, const Lanes& on);
  void issue_reshuffle(const Instr& instr, const Reshuffle& reshuffle, const Lanes& on);
  void issue_merge(const Instr& instr, const Merge& merge, const Lanes& on);
  void issue_slot_read(const Instr& instr, const SlotRead& read, const Lanes& on);
  void issue_wait(const Instr& instr, const Wait& wait);
  void release(ValueId id, const Lanes& on);
  // By another value of this frame.
  bool is_viewed(const Buffer* buffer, ValueId but, const Lanes& on) const;
  void sweep_calls();

  StreamId stream_of(const Instr& instr);
  Ticket launch(const Instr& instr, const Lanes& on, std::string_view name, OpCost cost,
                std::function<void()> body);
  // Promised blocks for a value on some lanes, allocated at the door.
  LocalTensor promise(ValueId id, const Lanes& on, StreamId stream);
  void allocate(const LocalTensor& value, ValueId id, StreamId stream);
  void set_value(ValueId id, LocalTensor made, Ticket ticket);
  void made(ValueId id, const LocalTensor& value);
  const SpmdValue& info(ValueId id) const { return shared.program.values[static_cast<size_t>(id)]; }
  LocalTensor& at(ValueId id) { return values[static_cast<size_t>(id)]; }
  CallSite site(const Instr& instr) const;
  // flat communication buffers: how language-level dims become flat counts, and back
  // (call_layout.cpp)
  void prepare_item(const Instr& instr, const CallItem& item, const Lanes& on, CallState& state);
  void finish_item(const Instr& instr, const CallItem& item, const Lanes& on,
                   const LocalTensor& flat, ValueId output);
};

// Runs a prepared kernel on one part of the lanes and gives the promised output blocks their
// contents.
void run_part(const Prepared& prepared, const Lanes& lanes, const std::vector<Block>& inputs,
              std::vector<Block>& outputs, const Compute& compute);

}  // namespace shardproof
