// Implements the transfers of frame.h: redistributions from one mesh to another.
//
// 1. transfer_pieces() lists which rank sends which elements to which rank.
// 2. Each sender packs its pieces into flat buffers; each piece is one send and one receive.
// 3. Work after all calls unpacks the pieces that arrive.
//
// All sends and receives of a cohort are submitted together, so no order among them can deadlock. A
// piece that stays on its rank makes no call. A step in pieces repeats this for a part of every
// message.
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/frame.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Gives a flat buffer the contents of a tensor of one lane.
void give(const LocalTensor& promised, const Tensor& contents) {
  Buffer& buffer = *promised.blocks()[0].tensor.buffer;
  buffer.slots = Slots::shared(1);
  buffer.bytes = contents.buffer->bytes;
}

// Returns a send or a receive of one rank.
Call message(CollectiveKind kind, int64_t world, DType dtype, int64_t count, int32_t rank,
             int32_t peer) {
  Call call;
  call.collective.kind = kind;
  call.collective.group = Group::world(world);
  call.collective.dtype = dtype;
  call.collective.count = count;
  call.collective.peer = peer;
  call.lanes = Lanes::one(rank);
  return call;
}

}  // namespace

// Returns the messages that arrive on ranks of `on`, with their flat buffers.
ArrivingMessages Executor::Frame::prepare_messages(const Instr& instr, const CallItem& item,
                                                   const Lanes& on, int64_t piece_number,
                                                   CallState& state) {
  const PlanStep& step = *item.step;
  const StreamId stream = stream_of(instr);
  // A rank of a rank program that only receives has no input.
  const LocalTensor input = item.input == kNoValue ? LocalTensor() : at(item.input);
  ArrivingMessages arriving;
  const auto flat_of = [&](const TransferPiece& piece, int32_t rank) {
    LocalTensor flat(
        block_without_contents(step.to.dtype(), Dims{piece.elements}, Lanes::one(rank)));
    allocate_copy(flat, stream, state);
    return flat;
  };
  for (const TransferPiece& piece : transfer_pieces(step, piece_number)) {
    const bool sends = on.contains(piece.from_rank), receives = on.contains(piece.to_rank);
    if (sends) {
      LocalTensor& flat = state.inputs.emplace_back(flat_of(piece, piece.from_rank));
      launch(instr, Lanes::one(piece.from_rank), "pack", used_by({&flat, &input}),
             [flat, piece, input, &step] { give(flat, pack_piece(step, piece, input)); });
      if (piece.from_rank == piece.to_rank) {
        arriving.emplace_back(piece, flat);
        continue;
      }
      Call call = message(CollectiveKind::send, shared.program.world, step.to.dtype(),
                          piece.elements, piece.from_rank, piece.to_rank);
      call.site = site(instr);
      call.input = &flat;
      state.calls.push_back(std::move(call));
    }
    if (!receives || piece.from_rank == piece.to_rank) continue;
    LocalTensor& flat = state.outputs.emplace_back(flat_of(piece, piece.to_rank));
    Call call = message(CollectiveKind::recv, shared.program.world, step.to.dtype(), piece.elements,
                        piece.to_rank, piece.from_rank);
    call.site = site(instr);
    call.output = &flat;
    state.calls.push_back(std::move(call));
    arriving.emplace_back(piece, flat);
  }
  return arriving;
}

void Executor::Frame::issue_transfer(const Instr& instr, const CallItem& item, const Lanes& on) {
  const StreamId stream = stream_of(instr);
  const Lanes targets = on.intersect(item.step->to.mesh().ranks());
  LocalTensor result = targets.empty() ? LocalTensor() : make_value(item.output, targets, stream);
  const auto whole = std::make_shared<LocalTensor>();
  Ticket last = kDone;
  for (int64_t piece = 0; piece < item.step->pieces; ++piece) {
    CallState& state = calls.emplace_back();
    const ArrivingMessages arriving = prepare_messages(instr, item, on, piece, state);
    if (!state.calls.empty()) state.ticket = context.submit(std::span<Call>(state.calls), stream);
    if (context.state() != CohortState::running) return;
    last = std::max(last, state.ticket);
    std::vector<LocalTensor> flats(state.inputs.begin(), state.inputs.end());
    flats.insert(flats.end(), state.outputs.begin(), state.outputs.end());
    Buffers used = used_by({&result});
    for (const LocalTensor& flat : flats)
      for (std::shared_ptr<Buffer>& buffer : used_by({&flat})) used.push_back(std::move(buffer));
    if (item.step->pieces == 1 || shared.options.repeats) flats.clear();
    // The unpacking does not wait for sends of other ranks.
    if (!targets.empty())
      std::erase_if(flats,
                    [&](const LocalTensor& flat) { return !targets.contains(flat.lanes()); });
    if (!targets.empty() || !flats.empty())
      last = launch(instr, targets.empty() ? on : targets, "unpack", std::move(used),
                    [this, arriving, flats, result, targets, whole, piece, &item]() mutable {
                      if (piece == 0 && !targets.empty())
                        *whole = empty_locals(item.step->to, targets);
                      for (const auto& [message, flat] : arriving)
                        unpack_piece(*item.step, message, flat.blocks()[0].tensor, *whole);
                      drop_contents(flats);
                      if (targets.empty() || piece + 1 < item.step->pieces) return;
                      adopt(result, *whole);
                      made(item.output, result);
                    });
    release_flats(state);
    if (context.poll(state.ticket) == TicketState::done) calls.pop_back();
  }
  if (!targets.empty()) set_value(item.output, std::move(result), last);
}

}  // namespace shardproof
