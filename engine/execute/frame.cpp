// Implements frame.h: the loop over instructions, and the actions without a kernel or a call.
//
// 1. `advance` issues instructions from `pc` on. It returns when the host waits for a ticket, when
//    a fault stops the cohort, or at the end of the listing.
// 2. `issue` restricts an instruction to the cohort's lanes and dispatches on its action. An action
//    makes its output buffers at once and launches the work that fills them.
// 3. Each value has the ticket of the work that completes it. `wait` and events pass tickets on.
//
// Example (without the work that packs and unpacks calls): a cohort of ranks 0-3 runs
//
//   pc 0  y = all_reduce(x, sum) on stream comm   -> ticket 1; y exists, without contents
//   pc 1  z = a @ b              on stream main   -> ticket 2; overlaps ticket 1
//   pc 2  wait(y)                on stream main   -> main executes nothing more before ticket 1
//   pc 3  s = y + z              on stream main   -> ticket 3
//   pc 4  sync(s)                                 -> host_waits = 3
//
// `advance` issues pc 0 to 4 in one call and returns with host_waits = 3. The next call polls
// ticket 3 and issues nothing until it is done.
#include "shardproof/engine/execute/frame.h"

#include <algorithm>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/gemm.h"

namespace shardproof {

Executor::Frame::Frame(Shared& shared, const SpmdListing& listing, Lanes lanes,
                       ExecutionContext& context)
    : shared(shared),
      listing(listing),
      lanes(std::move(lanes)),
      context(context),
      device(context.device()) {
  streams.emplace_back("main", kMainStream);
  if (device == nullptr || !shared.options.loads_kernels) return;
  device->select();
  shared.options.kernels->load();
  if (Gemm* const gemm = device->gemm()) gemm->open();
}

bool Executor::Frame::advance() {
  drop_ended_calls();
  if (ended || stopped) return false;
  if (host_waits != kDone) {
    if (context.poll(host_waits) != TicketState::done) return false;
    host_waits = kDone;
  }
  while (pc < listing.instrs.size()) {
    const Instr& instr = listing.instrs[pc++];
    if (!issue(instr)) {
      skip();
      continue;
    }
    if (!shared.errors.empty()) return true;
    if (context.state() != CohortState::running) {
      stopped = true;
      return true;
    }
    if (host_waits != kDone) return true;
  }
  sweep_calls();
  ended = true;
  context.finish();
  return true;
}

bool Executor::Frame::finished() {
  if (stopped) return true;  // the world reports the ranks that wait for it
  if (!ended) return false;
  sweep_calls();
  return std::all_of(streams.begin(), streams.end(), [&](const auto& stream) {
    return context.poll(context.last(stream.second)) == TicketState::done;
  });
}

void Executor::Frame::skip() {
  if (lanes.size() > 1) return;
  const auto known = shared.narrow.try_emplace(&listing, listing).first;
  pc = known->second.next(lanes[0], pc);
}

bool Executor::Frame::issue(const Instr& instr) {
  const bool all = instr.lanes.contains(lanes);
  const Lanes some = all ? Lanes() : instr.lanes.intersect(lanes);
  const Lanes& on = all ? lanes : some;
  if (on.empty()) return false;
  std::visit(
      [&](const auto& action) {
        using T = std::decay_t<decltype(action)>;
        if constexpr (std::is_same_v<T, Compute>) issue_compute(instr, action, on);
        if constexpr (std::is_same_v<T, NumberValue>) issue_number(instr, action, on);
        if constexpr (std::is_same_v<T, Communicate>) issue_calls(instr, action, on);
        if constexpr (std::is_same_v<T, Reshuffle>) issue_reshuffle(instr, action, on);
        if constexpr (std::is_same_v<T, Merge>) issue_merge(instr, action, on);
        if constexpr (std::is_same_v<T, Snapshot>) issue_snapshot(instr, action, on);
        if constexpr (std::is_same_v<T, SlotRead>) issue_slot_read(instr, action, on);
        if constexpr (std::is_same_v<T, RecordEvent>)
          events[action.event] = issued_on(stream_of(instr), instr);
        if constexpr (std::is_same_v<T, Wait>) issue_wait(instr, action);
        if constexpr (std::is_same_v<T, Free>) release(action.value, on);
      },
      instr.action);
  for (ValueId id : instr.releases) release(id, on);
  return true;
}

CallSite Executor::Frame::site(const Instr& instr) const {
  CallSite site;
  site.line = instr.origin.line;
  const size_t index = static_cast<size_t>(instr.origin.line - 1);
  if (instr.origin.line > 0 && index < listing.lines.size()) site.text = listing.lines[index];
  site.instance = instr.origin.instance.str();
  return site;
}

StreamId Executor::Frame::stream_of(const Instr& instr) {
  const std::string& name = instr.stream.str();
  if (last_stream.first == &name) return last_stream.second;
  const StreamId* known_id = find_stream(name);
  const StreamId id = known_id != nullptr ? *known_id : context.stream(name);
  if (known_id == nullptr) streams.emplace_back(name, id);
  last_stream = {&name, id};
  return id;
}

const StreamId* Executor::Frame::find_stream(const std::string& name) const {
  for (const auto& [known_name, id] : streams)
    if (known_name == name) return &id;
  return nullptr;
}

Ticket Executor::Frame::launch(const Instr& instr, const Lanes& on, std::string_view name,
                               Buffers used, std::function<void()> body, OpCost cost) {
  return context.launch({.lanes = on,
                         .stream = stream_of(instr),
                         .flops = cost.flops,
                         .bytes = cost.bytes,
                         .body = std::move(body),
                         .site = site(instr),
                         .name = name,
                         .buffers = std::move(used)});
}

Executor::Frame::Buffers Executor::Frame::used_by(
    std::initializer_list<const LocalTensor*> tensors) const {
  Buffers buffers;
  if (!shared.options.repeats) return buffers;
  for (const LocalTensor* tensor : tensors)
    for (const Block& block : tensor->blocks()) buffers.push_back(block.tensor.buffer);
  return buffers;
}

void Executor::Frame::allocate(const LocalTensor& value, ValueId id, StreamId stream) {
  for (const Block& block : value.blocks())
    context.allocate({block.lanes, block.tensor.buffer->bytes_per_lane,
                      static_cast<int>(info(id).category), stream});
}

LocalTensor Executor::Frame::make_value(ValueId id, const Lanes& on, StreamId stream) {
  const DType dtype = info(id).dtype;
  const LocalShapes& shapes = info(id).shapes;
  const LocalShape* const first = shapes.find(on[0]);
  LocalTensor value;
  if (first != nullptr && first->lanes.contains(on)) {
    value = LocalTensor(block_without_contents(dtype, first->shape, on));
  } else {
    std::vector<Block> blocks;
    for (const LocalShape& shape : shapes) {
      const Lanes here = shape.lanes.intersect(on);
      if (!here.empty()) blocks.push_back(block_without_contents(dtype, shape.shape, here));
    }
    if (!blocks.empty()) value = LocalTensor(std::move(blocks));
  }
  allocate(value, id, stream);
  return value;
}

void Executor::Frame::set_value(ValueId id, LocalTensor fresh, Ticket ticket) {
  FrameValues::Entry& entry = values.at(id);
  LocalTensor& known = entry.tensor;
  replace(id, known, known.empty() ? std::move(fresh) : known.merged_with(fresh));
  entry.ticket = std::max(entry.ticket, ticket);
}

void Executor::Frame::stamp(ValueId id, Ticket ticket) {
  if (ticket == kDone) return;
  Ticket& known_ticket = values.at(id).ticket;
  known_ticket = std::max(known_ticket, ticket);
}

void Executor::Frame::wrote(ValueId id, Ticket ticket) {
  stamp(id, ticket);
  for (const Block& block : at(id).blocks())
    viewers.for_each(block.tensor.buffer.get(), [&](ValueId viewer) { stamp(viewer, ticket); });
}

void Executor::Frame::made(ValueId id, const LocalTensor& value) {
  if (shared.options.made && !value.empty()) shared.options.made(id, value);
}

// Work that has not run yet refers to the buffer too. With the buffer's reference count the end of
// an allocation would depend on the schedule.
bool Executor::Frame::is_viewed(const Buffer* buffer, ValueId but, const Lanes& on) const {
  return viewers.another_views(buffer, but, [&](ValueId viewer) {
    const Block* const first = on.empty() ? nullptr : at(viewer).find(on[0]);
    if (first != nullptr && first->tensor.buffer.get() == buffer) return true;
    const std::vector<Block>& blocks = at(viewer).blocks();
    return std::any_of(blocks.begin(), blocks.end(), [&](const Block& block) {
      return block.tensor.buffer.get() == buffer && !block.lanes.intersect(on).empty();
    });
  });
}

void Executor::Frame::replace(ValueId id, LocalTensor& known, LocalTensor value) {
  viewers.remove(id, known);
  known = std::move(value);
  viewers.add(id, known);
}

void Executor::Frame::release(ValueId id, const Lanes& on) {
  LocalTensor& known = values.at(id).tensor;
  std::vector<Block> kept;
  const std::vector<Block>& blocks = known.blocks();
  for (const Block& block : blocks) {
    const bool all = block.lanes == on;
    const Lanes cut = all ? Lanes() : block.lanes.intersect(on);
    const Lanes stay = all ? Lanes() : block.lanes.minus(on);
    const Lanes& gone = all ? on : cut;
    // The allocation ends with the last value that views the buffer.
    const bool last =
        block.tensor.buffer.use_count() == 1 || !is_viewed(block.tensor.buffer.get(), id, gone);
    if (last && stay.empty()) {
      if (blocks.size() == 1)
        context.discard(known);  // not copied
      else
        context.discard(LocalTensor(block));
    }
    if (last && !gone.empty() && !unmetered.contains(id))
      context.release({gone, block.tensor.buffer->bytes_per_lane,
                       static_cast<int>(info(id).category), kMainStream});
    if (!stay.empty()) kept.push_back({stay, block.tensor});
  }
  replace(id, known, kept.empty() ? LocalTensor() : LocalTensor(std::move(kept)));
}

void Executor::Frame::issue_number(const Instr& instr, const NumberValue& number, const Lanes& on) {
  const DType dtype = info(number.output).dtype;
  const size_t count = std::max(number.values.size(), number.integers.size());
  LocalTensor value(block_without_contents(dtype, Dims{}, on));
  Buffer& buffer = *value.blocks()[0].tensor.buffer;
  const bool one = count == 1;
  buffer.slots = one ? Slots::shared(on.size()) : Slots::each(on.size());
  buffer.bytes = Bytes::uninitialized(buffer.bytes_per_lane * buffer.slots.count());
  std::byte* data = buffer.bytes.mutate();
  for (int64_t i = 0; i < buffer.slots.count(); ++i) {
    const size_t from = one ? 0 : static_cast<size_t>(instr.lanes.index_of(on[i]));
    if (!number.integers.empty())
      store_i64(data + i * buffer.bytes_per_lane, dtype, number.integers[from]);
    else
      store_f64(data + i * buffer.bytes_per_lane, dtype, number.values[from]);
  }
  unmetered.insert(number.output);
  context.provide(value);
  set_value(number.output, std::move(value), kDone);
}

void Executor::Frame::issue_merge(const Instr& instr, const Merge& merge, const Lanes& on) {
  std::vector<Block> blocks;
  Ticket ticket = kDone;
  for_each_part(merge.parts, on, [&](const std::pair<Lanes, ValueId>& part, const Lanes& here) {
    const ValueId id = part.second;
    if (at(id).empty()) return;
    const LocalTensor value = at(id).restrict_to(here);
    for (const Block& block : value.blocks()) blocks.push_back(block);
    if (unmetered.contains(id)) unmetered.insert(merge.output);
    ticket = std::max(ticket, values.find(id).ticket);
  });
  if (blocks.empty()) return;
  LocalTensor merged(std::move(blocks));
  if (shared.options.made)
    launch(instr, on, "merge", used_by({&merged}),
           [this, merged, &merge] { made(merge.output, merged); });
  set_value(merge.output, std::move(merged), ticket);
}

// The stream makes the copy when it reaches this instruction. The copy belongs to the probe and is
// not a value of the frame.
void Executor::Frame::issue_snapshot(const Instr& instr, const Snapshot& snapshot,
                                     const Lanes& on) {
  if (!shared.options.made || at(snapshot.input).empty()) return;
  const LocalTensor value = at(snapshot.input).restrict_to(on);
  launch(instr, on, "check", used_by({&value}), [this, on, value, &snapshot] {
    for (const Block& block : value.blocks())
      if (!has_contents(block.tensor)) poison(*block.tensor.buffer, block.tensor.dtype);
    made(snapshot.output, fork(value, on));
  });
}

void Executor::Frame::issue_slot_read(const Instr& instr, const SlotRead& read, const Lanes& on) {
  LocalTensor value = make_value(read.output, on, stream_of(instr));
  const Ticket ticket =
      launch(instr, on, "slot", used_by({&value}), [this, value, &read]() mutable {
        context.read_slot(read.slot, value);
        made(read.output, value);
      });
  set_value(read.output, std::move(value), ticket);
}

// A wait has no ticket. If it was issued last, empty work after it provides one.
Ticket Executor::Frame::issued_on(StreamId stream, const Instr& instr) {
  const auto wait = waits.find(stream);
  if (wait == waits.end() || wait->second != context.last(stream)) return context.last(stream);
  Work nothing;
  nothing.lanes = lanes;
  nothing.stream = stream;
  nothing.site = site(instr);
  nothing.name = "event";
  return context.launch(std::move(nothing));
}

void Executor::Frame::issue_wait(const Instr& instr, const Wait& wait) {
  Ticket ticket = kDone;
  if (wait.value != kNoValue) ticket = values.find(wait.value).ticket;
  if (!wait.event.empty()) ticket = events[wait.event];
  if (!wait.stream.empty()) {
    if (const StreamId* id = find_stream(wait.stream)) ticket = issued_on(*id, instr);
  }
  if (ticket == kDone) return;
  if (wait.who == Wait::Waiter::host) {
    context.host_wait(ticket);
    if (context.poll(ticket) != TicketState::done) host_waits = ticket;
    return;
  }
  const StreamId stream = stream_of(instr);
  context.order(stream, ticket);
  waits[stream] = context.last(stream);
}

}  // namespace shardproof
