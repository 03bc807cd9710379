// Implements the calls of frame.h for steps of plans in pieces (localtensor/plan/step_pieces.h).
//
// All calls are issued on one stream, each after the work that packs its input and before the work
// that unpacks its output into the result. So at any time a rank holds the copies of one piece.
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/call_packing.h"
#include "shardproof/engine/execute/frame.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
void Executor::Frame::issue_pieces(const Instr& instr, const CallItem& item, const Lanes& on) {
  const PlanStep& step = *item.step;
  const StreamId stream = stream_of(instr);
  LocalTensor result = make_value(item.output, on, stream);
  Ticket last = kDone;
  for (int64_t piece = 0; piece < step.pieces; ++piece) {
    CallState& state = calls.emplace_back();
    prepare_item(instr, item, on, state, piece);
    state.ticket = context.submit(std::span<Call>(state.calls), stream);
    if (context.state() != CohortState::running) return;
    const LocalTensor &packed = state.inputs.back(), &received = state.outputs.back();
    const std::vector<LocalTensor> drops =
        shared.options.repeats ? std::vector<LocalTensor>{} : std::vector{packed, received};
    const Ticket ticket = launch(instr, on, "unpack", used_by({&received, &result}),
                                 [this, received, result, drops, piece, &item]() mutable {
                                   if (piece == 0)
                                     adopt(result, unpack(*item.step, received));
                                   else
                                     unpack_more(*item.step, piece, received, result);
                                   drop_contents(drops);
                                   if (piece + 1 == item.step->pieces) made(item.output, result);
                                 });
    last = std::max({last, state.ticket, ticket});
    release_flats(state);
    if (context.poll(state.ticket) == TicketState::done) calls.pop_back();
  }
  set_value(item.output, std::move(result), last);
}

}  // namespace shardproof
