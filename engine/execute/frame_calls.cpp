// Implements the calls of frame.h: collectives, sends, receives and one-sided calls.
//
// 1. Each item gets a flat input buffer, and work on the same stream that packs it.
// 2. All items are submitted together; the execution context completes them under one ticket.
// 3. Work after the ticket unpacks each flat output into the result (call_packing.h).
//
// Calls of a step in pieces are made by frame_pieces.cpp, those of a transfer between meshes by
// frame_transfer.cpp.
#include <algorithm>
#include <iterator>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/call_packing.h"
#include "shardproof/engine/execute/frame.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/step_pieces.h"
#include "shardproof/localtensor/tensor/copy_place.h"

namespace shardproof {
namespace {

// True if a call needs no communication: its group has one rank, and the counts it sends are those
// it receives. A call that the call matcher would refuse is still submitted.
bool is_no_call(const Call& call) {
  const Group& group = call.collective.group;
  return !is_point_to_point(call.collective.kind) && group.size() == 1 &&
         group.lanes().contains(call.lanes) && call.send_counts == call.recv_counts;
}

// Returns the result of a collective over a group of one rank.
LocalTensor result_alone(const Collective& collective, const LocalTensor& input) {
  const bool scales = reduces(collective.kind) && collective.reduction.op == ReduceOp::premul_sum;
  return scales ? reference(collective, input) : input;
}

}  // namespace

// Contents that other cohorts hold, too, may be needed on other devices: they stay.
void Executor::Frame::move_to_device(const LocalTensor& value) const {
  if (!device) return;
  for (const Block& block : value.blocks()) {
    Buffer& buffer = *block.tensor.buffer;
    if (block.lanes == buffer.lanes && CopyPlace::of(buffer.bytes).is_host())
      buffer.bytes.device_mutate(device);
  }
}

void Executor::Frame::sweep_calls() {
  std::erase_if(calls, [&](const CallState& call) {
    return context.poll(call.ticket) != TicketState::pending;
  });
}

void Executor::Frame::drop_ended_calls() {
  while (!calls.empty() && context.poll(calls.front().ticket) != TicketState::pending)
    calls.pop_front();
}

// Makes the call of one item, its flat buffers, and the work that packs its input.
void Executor::Frame::prepare_item(const Instr& instr, const CallItem& item, const Lanes& on,
                                   CallState& state, int64_t piece) {
  const LocalTensor input = item.input == kNoValue ? LocalTensor() : at(item.input).restrict_to(on);
  state.calls.push_back(context_call(item, input, on, piece));
  Call& call = state.calls.back();
  call.site = site(instr);
  if (item.origin.line > 0 && static_cast<size_t>(item.origin.line) <= listing.lines.size()) {
    call.site.line = item.origin.line;
    call.site.text = listing.lines[static_cast<size_t>(item.origin.line - 1)];
  }
  if (item.input != kNoValue) {
    LocalTensor& flat = state.inputs.emplace_back(flat_input_without_contents(item, input, piece));
    launch(instr, on, "pack", used_by({&flat, &input}),
           [this, flat, input, &item, piece]() mutable {
             move_to_device(input);
             pack_item(item, input, flat, piece);
           });
    call.input = &flat;
  }
  if (item.step && !packs_a_view(*item.step))
    allocate_copy(state.inputs.back(), stream_of(instr), state);
  std::vector<Block> blocks;
  for (const FlatOutput& output : flat_outputs(item, input, on, piece))
    blocks.push_back(
        block_without_contents(call.collective.dtype, Dims{output.count}, output.lanes));
  if (!blocks.empty()) call.output = &state.outputs.emplace_back(LocalTensor(std::move(blocks)));
  if (item.step && !unpacks_a_view(*item.step))
    allocate_copy(state.outputs.back(), stream_of(instr), state);
}

void Executor::Frame::allocate_copy(const LocalTensor& flat, StreamId stream, CallState& state) {
  for (const Block& block : flat.blocks()) {
    state.copies.push_back({block.lanes, block.tensor.buffer->bytes_per_lane,
                            static_cast<int>(Category::communication), stream});
    context.allocate(state.copies.back());
  }
}

void Executor::Frame::release_flats(const CallState& state) {
  for (const Allocation& copy : state.copies) context.release(copy);
  discard(state.inputs);
  discard(state.outputs);
}

std::pair<LocalTensor, Ticket> Executor::Frame::finish_item(const Instr& instr,
                                                            const CallItem& item, const Lanes& on,
                                                            const LocalTensor& flat) {
  const ValueId output = item.output;
  if (item.in_place) {
    // The work holds the target itself: the value may be released before the call ends.
    LocalTensor target = at(output).restrict_to(on);
    const Ticket ticket = launch(instr, on, "unpack", used_by({&flat, &target}),
                                 [this, flat, target, output]() mutable {
                                   write_through(target, reshaped_as(target, flat));
                                   made(output, target);
                                 });
    wrote(output, ticket);
    return {};
  }
  LocalTensor result = make_value(output, on, stream_of(instr));
  if (result.empty()) return {};
  const Ticket ticket = launch(instr, on, "unpack", used_by({&flat, &result}),
                               [this, flat, result, &item, output]() mutable {
                                 adopt(result, unpack_item(item, flat, result));
                                 made(output, result);
                               });
  return {std::move(result), ticket};
}

// Calls of different ranks may make parts of one value, as many as there are ranks. So a value is
// set once, from all its parts.
void Executor::Frame::issue_calls(const Instr& instr, const Communicate& communicate,
                                  const Lanes& on) {
  struct IssuedCall {
    const CallItem* item = nullptr;
    Lanes lanes;
    const LocalTensor* flat = nullptr;  // output
  };
  std::vector<IssuedCall> issued;
  for_each_part(communicate.items, on, [&](const CallItem& item, const Lanes& here) {
    issued.push_back({&item, here, nullptr});
  });
  for (const IssuedCall& call : issued)
    if (call.item->step && call.item->step->kind == StepKind::transfer)
      return issue_transfer(instr, *call.item, call.lanes);
    else if (call.item->step && call.item->step->pieces > 1)
      return issue_pieces(instr, communicate, on);
  const StreamId stream = stream_of(instr);
  CallState& state = calls.emplace_back();
  for (IssuedCall& call : issued) {
    prepare_item(instr, *call.item, call.lanes, state);
    call.flat = state.calls.back().output;
    if (!is_no_call(state.calls.back())) continue;
    Call lone = std::move(state.calls.back());
    state.calls.pop_back();
    if (lone.output)
      launch(instr, call.lanes, "copy", used_by({lone.input, lone.output}),
             [c = call.item->collective, in = *lone.input, out = *lone.output]() mutable {
               adopt(out, result_alone(c, in));
             });
  }
  if (!state.calls.empty()) {
    // The calls point into `state`, which stays in `calls` until the ticket is done.
    state.ticket = context.submit(std::span<Call>(state.calls), stream);
    if (context.state() != CohortState::running) return;
  }
  const Ticket submitted = state.ticket;
  std::map<ValueId, std::pair<std::vector<Block>, Ticket>> values;
  for (const IssuedCall& call : issued) {
    const ValueId output = call.item->output;
    if (output == kNoValue) continue;
    if (call.flat) {
      auto [part, ticket] = finish_item(instr, *call.item, call.lanes, *call.flat);
      if (issued.size() == 1 && !part.empty()) {
        set_value(output, std::move(part), ticket);
      } else if (!part.empty()) {
        auto& [blocks, last] = values[output];
        std::move(part.blocks().begin(), part.blocks().end(), std::back_inserter(blocks));
        last = std::max(last, ticket);
      }
    }
    stamp(output, submitted);
  }
  for (auto& [id, made_of] : values)
    set_value(id, LocalTensor(std::move(made_of.first)), made_of.second);
  release_flats(state);
  if (context.poll(submitted) == TicketState::done) calls.pop_back();
}

}  // namespace shardproof
