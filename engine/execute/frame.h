// Frame: one cohort of the executor at one position of its listing, with the values, streams and
// pending work of that cohort. Internal to the engine.
//
// frame.cpp holds the loop over instructions and the actions that move no data; frame_compute.cpp
// the ops; frame_calls.cpp the collectives; frame_pieces.cpp the steps of plans that take several
// calls; frame_transfer.cpp the redistributions between meshes.
#pragma once

#include <list>
#include <map>
#include <set>
#include <unordered_map>

#include "shardproof/engine/execute/buffer_viewers.h"
#include "shardproof/engine/execute/executor.h"
#include "shardproof/engine/execute/frame_values.h"
#include "shardproof/engine/execute/narrow_instrs.h"
#include "shardproof/engine/execute/parts_by_rank.h"
#include "shardproof/engine/execute/pending_op.h"
#include "shardproof/engine/execute/run_kernel.h"

namespace shardproof {

// The state that all frames of an executor share.
struct Executor::Shared {
  const SpmdProgram& program;
  const OpRegistry& ops;
  World& world;
  ExecutorOptions options;
  KnownOps known;
  PreparedOps prepared;
  std::vector<Error> errors;
  KernelViews views;
  std::set<std::string> host_ops;
  std::unordered_map<const void*, PartsByRank> parts;  // by the address of the list of parts
  std::unordered_map<const SpmdListing*, NarrowInstrs> narrow;
};

// Calls under way. The execution context points into this struct until the ticket is done.
struct CallState {
  std::vector<Call> calls;
  std::list<LocalTensor> inputs, outputs;  // flat buffers; a list keeps their addresses
  std::vector<Allocation> copies;          // those of steps that are neither source nor result
  Ticket ticket = kDone;
};

// The messages of a transfer that arrive, and their flat buffers.
using ArrivingMessages = std::vector<std::pair<TransferPiece, LocalTensor>>;

struct Executor::Frame {
  Shared& shared;
  const SpmdListing& listing;
  Lanes lanes;
  ExecutionContext& context;
  std::shared_ptr<Device> device;  // of the execution context; null: the host
  FrameValues values;
  BufferViewers viewers;
  std::set<ValueId> unmetered;  // values without a metered allocation: numbers, sources of writes
  std::map<std::string, Ticket> events;
  std::map<StreamId, Ticket> waits;  // the last ticket of the stream when a wait was issued on it
  std::vector<std::pair<std::string, StreamId>> streams;  // used so far
  // The stream of the last instruction, by the text that instructions of one stream share.
  std::pair<const std::string*, StreamId> last_stream{nullptr, kMainStream};
  std::list<CallState> calls;  // under way
  std::list<PendingOp> ops;
  std::vector<PendingOp*> idle_ops;  // entries of `ops` that have run and can be used again
  size_t pc = 0;
  Ticket host_waits = kDone;
  bool ended = false, stopped = false;  // stopped: an injected fault froze or killed the host

  Frame(Shared& shared, const SpmdListing& listing, Lanes lanes, ExecutionContext& context);
  // Issues instructions until the host waits, the listing ends or a kernel fails. Returns true if
  // it issued anything.
  bool advance();
  // True if the listing has ended and the work of all its streams is done, or a fault stopped it.
  bool finished();

  bool issue(const Instr& instr);  // false if no rank of the cohort executes it
  // Moves `pc` to the next instruction that the cohort may execute.
  void skip();
  void issue_compute(const Instr& instr, const Compute& compute, const Lanes& on);
  PendingOp& new_op(const Instr& instr);
  const Prepared& prepare(const Compute& compute, KnownOp& known, const Attrs& attrs,
                          std::span<const Block> inputs);
  // Adds one part on the lanes `on`; its input blocks are those of `op.inputs` from `first` on.
  void add_part(PendingOp& op, KnownOp& known, const Attrs& attrs, const Lanes& on, size_t first);
  // Adds one part for each block of the inputs on these lanes.
  void add_parts(PendingOp& op, KnownOp& known, const LaneAttrs& entry, const Lanes& on);
  void run(PendingOp& op);
  bool run_kernels(PendingOp& op);  // false if a kernel threw an Error about its data
  void issue_number(const Instr& instr, const NumberValue& number, const Lanes& on);
  void issue_calls(const Instr& instr, const Communicate& call, const Lanes& on);
  void issue_pieces(const Instr& instr, const Communicate& call, const Lanes& on);
  void issue_transfer(const Instr& instr, const CallItem& item, const Lanes& on);
  ArrivingMessages prepare_messages(const Instr& instr, const CallItem& item, const Lanes& on,
                                    int64_t piece_number, CallState& state);
  void issue_reshuffle(const Instr& instr, const Reshuffle& reshuffle, const Lanes& on);
  void issue_merge(const Instr& instr, const Merge& merge, const Lanes& on);
  void issue_snapshot(const Instr& instr, const Snapshot& snapshot, const Lanes& on);
  void issue_slot_read(const Instr& instr, const SlotRead& read, const Lanes& on);
  void issue_wait(const Instr& instr, const Wait& wait);
  // Returns a ticket that is done when all that was issued on the stream is done, waits included.
  Ticket issued_on(StreamId stream, const Instr& instr);
  // Calls visit(part, lanes) for each part of an instruction that has some of the lanes `on`.
  template <class Part, class Visit>
  void for_each_part(const std::vector<Part>& parts, const Lanes& on, Visit visit) {
    constexpr size_t kFew = 8;
    if (on.size() > 1 || parts.size() <= kFew) {
      for (const Part& part : parts) {
        const Lanes& lanes = lanes_of_part(part);
        if (lanes.contains(on))
          visit(part, on);
        else if (const Lanes here = lanes.intersect(on); !here.empty())
          visit(part, here);
      }
      return;
    }
    PartsByRank& known = shared.parts[&parts];
    if (known.empty()) known = PartsByRank(parts);
    for (const PartsByRank::Entry& entry : known.of(on[0]))
      visit(parts[static_cast<size_t>(entry.part)], on);
  }
  void release(ValueId id, const Lanes& on);
  void replace(ValueId id, LocalTensor& known, LocalTensor value);
  // True if a value other than `but` has a block in the buffer on some of these lanes.
  bool is_viewed(const Buffer* buffer, ValueId but, const Lanes& on) const;
  // Drops all calls that are done.
  void sweep_calls();
  // Drops the oldest calls that are done, to free their buffers early. Stops at the first pending
  // one, so its cost does not grow with the number of calls.
  void drop_ended_calls();

  StreamId stream_of(const Instr& instr);
  const StreamId* find_stream(const std::string& name) const;  // null: not used yet
  // `used`: the buffers that the body reads and writes.
  using Buffers = std::vector<std::shared_ptr<Buffer>>;
  Ticket launch(const Instr& instr, const Lanes& on, std::string_view name, Buffers used,
                std::function<void()> body, OpCost cost = {});
  // Returns the buffers of tensors if the world repeats its work; else none are needed.
  Buffers used_by(std::initializer_list<const LocalTensor*> tensors) const;
  Buffers used_by(const PendingOp& op) const;
  template <typename Tensors>
  void discard(const Tensors& tensors) {  // nothing issued later reads them
    for (const LocalTensor& tensor : tensors) context.discard(tensor);
  }
  // Makes blocks without contents for a value on some lanes, and reports their allocation to the
  // execution context.
  LocalTensor make_value(ValueId id, const Lanes& on, StreamId stream);
  void allocate(const LocalTensor& value, ValueId id, StreamId stream);
  void set_value(ValueId id, LocalTensor made, Ticket ticket);
  void stamp(ValueId id, Ticket ticket);  // the value is complete when the ticket is done
  // Stamps a value that is written in place, and all values that view its buffers.
  void wrote(ValueId id, Ticket ticket);
  void made(ValueId id, const LocalTensor& value);
  const SpmdValue& info(ValueId id) const { return shared.program.values[static_cast<size_t>(id)]; }
  const LocalTensor& at(ValueId id) const { return values.find(id).tensor; }
  CallSite site(const Instr& instr) const;
  // Moves contents that only these lanes hold to the device, where packing then copies them.
  void move_to_device(const LocalTensor& value) const;
  // Convert between tensors with dims and the flat buffers of a call (call_packing.h).
  void prepare_item(const Instr& instr, const CallItem& item, const Lanes& on, CallState& state,
                    int64_t piece = 0);
  // Reports a flat buffer of a step to the execution context, which counts memory.
  void allocate_copy(const LocalTensor& flat, StreamId stream, CallState& state);
  // Ends the use of the flat buffers: work that unpacks them has been issued.
  void release_flats(const CallState& state);
  // Issues the work that unpacks a flat output. Returns the part of the result that it makes, with
  // the ticket of the work; empty for a call in place.
  std::pair<LocalTensor, Ticket> finish_item(const Instr& instr, const CallItem& item,
                                             const Lanes& on, const LocalTensor& flat);
};

}  // namespace shardproof
