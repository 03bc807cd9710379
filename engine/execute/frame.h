// A frame of the executor: one cohort at one place of its listing. Internal to the engine.
#pragma once

#include <deque>
#include <map>
#include <set>

#include "shardproof/engine/execute/buffer_viewers.h"
#include "shardproof/engine/execute/executor.h"
#include "shardproof/engine/execute/pending_op.h"

namespace shardproof {

struct Executor::Shared {
  const SpmdProgram& program;
  const OpRegistry& ops;
  World& world;
  ExecutorOptions options;
  std::map<const SpmdListing*, std::vector<KnownOp>> known;  // one for each instruction
  std::vector<Error> errors;
  KernelViews views;
  std::set<std::string> host_ops;
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
  std::vector<KnownOp>& known;
  Lanes lanes;
  ExecutionContext& context;
  std::shared_ptr<Device> device;  // of the door
  std::vector<LocalTensor> values;
  BufferViewers viewers;
  std::vector<Ticket> tickets;  // of the instruction that makes each value
  std::set<ValueId> unmetered;  // numbers, and what is only written to others: they take no block
  std::map<std::string, Ticket> events;
  std::map<StreamId, Ticket> waits;  // the last ticket of the stream when it was told to wait
  std::vector<std::pair<std::string, StreamId>> streams;  // used so far
  std::deque<CallState> calls;                            // under way
  std::deque<PendingOp> ops;
  std::vector<PendingOp*> idle_ops;  // of `ops`, those that have run
  size_t pc = 0;
  Ticket host_waits = kDone;
  bool ended = false, stopped = false;  // stopped: an injected fault froze or killed the host

  Frame(Shared& shared, const SpmdListing& listing, Lanes lanes, ExecutionContext& context);
  bool advance();  // true when anything was issued
  bool finished();

  void issue(const Instr& instr);
  void issue_compute(const Instr& instr, const Compute& compute, const Lanes& on);
  PendingOp& new_op(const Instr& instr);
  const Prepared& prepare(const Compute& compute, KnownOp& known, const Attrs& attrs,
                          std::span<const Block> inputs);
  // Of the input blocks of `op` from `first` on.
  void add_part(PendingOp& op, KnownOp& known, const Attrs& attrs, const Lanes& on, size_t first);
  void add_parts(PendingOp& op, KnownOp& known, const LaneAttrs& entry, const Lanes& on);
  void run(PendingOp& op);
  bool run_kernels(PendingOp& op);  // false when one had trouble with its data
  void issue_number(const Instr& instr, const NumberValue& number, const Lanes& on);
  void issue_calls(const Instr& instr, const Communicate& call, const Lanes& on);
  void issue_transfer(const Instr& instr, const CallItem& item, const Lanes& on);
  void issue_reshuffle(const Instr& instr, const Reshuffle& reshuffle, const Lanes& on);
  void issue_merge(const Instr& instr, const Merge& merge, const Lanes& on);
  void issue_snapshot(const Instr& instr, const Snapshot& snapshot, const Lanes& on);
  void issue_slot_read(const Instr& instr, const SlotRead& read, const Lanes& on);
  void issue_wait(const Instr& instr, const Wait& wait);
  // Of all that a stream was told so far, waits too.
  Ticket issued_on(StreamId stream, const Instr& instr);
  void release(ValueId id, const Lanes& on);
  void replace(ValueId id, LocalTensor value);
  // By another value of this frame.
  bool is_viewed(const Buffer* buffer, ValueId but, const Lanes& on) const;
  void sweep_calls();
  // Only the oldest ones, so that looking costs nothing: their contents may be large.
  void drop_ended_calls();

  StreamId stream_of(const Instr& instr);
  const StreamId* find_stream(const std::string& name) const;  // null: not used so far
  Ticket launch(const Instr& instr, const Lanes& on, std::string_view name, OpCost cost,
                std::function<void()> body);
  // Promised blocks for a value on some lanes, allocated at the door.
  LocalTensor promise(ValueId id, const Lanes& on, StreamId stream);
  void allocate(const LocalTensor& value, ValueId id, StreamId stream);
  void set_value(ValueId id, LocalTensor made, Ticket ticket);
  void stamp(ValueId id, Ticket ticket);  // the value is there when the ticket is done
  // In place: all values that view it are there when the ticket is done.
  void wrote(ValueId id, Ticket ticket);
  void made(ValueId id, const LocalTensor& value);
  const SpmdValue& info(ValueId id) const { return shared.program.values[static_cast<size_t>(id)]; }
  const LocalTensor& at(ValueId id) const { return values[static_cast<size_t>(id)]; }
  CallSite site(const Instr& instr) const;
  // flat communication buffers: how language-level dims become flat counts, and back
  // (call_layout.cpp)
  void prepare_item(const Instr& instr, const CallItem& item, const Lanes& on, CallState& state);
  void finish_item(const Instr& instr, const CallItem& item, const Lanes& on,
                   const LocalTensor& flat, ValueId output);
};

}  // namespace shardproof
