// Implements the calls of frame.h for steps of plans in pieces (localtensor/plan/step_pieces.h).
//
// All calls are issued on one stream: the work that packs an input, the call, the work that unpacks
// its output into the result. So at any time a rank holds the copies of one piece.
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/call_packing.h"
#include "shardproof/engine/execute/frame.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
void Executor::Frame::issue_pieces(const Instr& instr, const Communicate& communicate,
                                   const Lanes& on) {
  const StreamId stream = stream_of(instr);
  struct Part {  // an item on the lanes of this frame
    const CallItem* item;
    Lanes lanes;
    LocalTensor result;
  };
  std::vector<Part> parts;
  for (const CallItem& item : communicate.items) {
    const Lanes here = item.lanes.intersect(on);
    if (!here.empty()) parts.push_back({&item, here, make_value(item.output, here, stream)});
  }
  Ticket last = kDone;
  const int64_t pieces = communicate.items[0].step->pieces;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    CallState& state = calls.emplace_back();
    for (const Part& part : parts) prepare_item(instr, *part.item, part.lanes, state, piece);
    state.ticket = context.submit(std::span<Call>(state.calls), stream);
    if (context.state() != CohortState::running) return;
    last = std::max(last, state.ticket);
    auto packed = state.inputs.begin(), received = state.outputs.begin();
    for (const Part& part : parts) {
      const LocalTensor &in = *packed++, &out = *received++;
      const std::vector<LocalTensor> drops =
          shared.options.repeats ? std::vector<LocalTensor>{} : std::vector{in, out};
      const Ticket ticket = launch(
          instr, part.lanes, "unpack", used_by({&out, &part.result}),
          [this, out, result = part.result, drops, piece, pieces, item = part.item]() mutable {
            if (piece == 0)
              adopt(result, unpack(*item->step, out));
            else
              unpack_more(*item->step, piece, out, result);
            drop_contents(drops);
            if (piece + 1 == pieces) made(item->output, result);
          });
      last = std::max(last, ticket);
    }
    release_flats(state);
    if (context.poll(state.ticket) == TicketState::done) calls.pop_back();
  }
  for (Part& part : parts) set_value(part.item->output, std::move(part.result), last);
}

}  // namespace shardproof
