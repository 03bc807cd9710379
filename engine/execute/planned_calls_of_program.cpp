// Implements planned_calls_of_program.h: walks each listing in the order in which its ranks issue
// their calls, as frame_calls.cpp and frame_transfer.cpp do. Each skip fires once, at the call that
// faults count (sim/cost/fault.h).
#include "shardproof/engine/execute/planned_calls_of_program.h"

#include <algorithm>
#include <map>

#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/sim/cost/fault.h"

namespace shardproof {
namespace {

class CallPlanner {
 public:
  CallPlanner(const SpmdProgram& program, const std::vector<std::string>& faults)
      : world_(Group::world(program.world)), skips_(parse_faults(faults)) {
    std::erase_if(skips_, [](const Fault& fault) { return fault.kind != FaultKind::skip; });
    for (const SpmdListing& listing : program.listings)
      for (const Instr& instr : listing.instrs)
        if (const auto* communicate = std::get_if<Communicate>(&instr.action))
          for (const CallItem& item : communicate->items) add_item(instr, item);
  }
  PlannedCalls take() { return std::move(planned_); }

 private:
  void add_item(const Instr& instr, const CallItem& item) {
    const int line = item.origin.line > 0 ? item.origin.line : instr.origin.line;
    const Lanes on = item.lanes.intersect(instr.lanes);
    if (item.step && item.step->kind == StepKind::transfer) return add_transfer(item, on, line);
    const Collective& call = item.collective;
    if (!is_point_to_point(call.kind) && call.group.size() == 1) return;
    for (int64_t piece = 0, n = item.step ? item.step->pieces : 1; piece < n; ++piece)
      add_call(item, call, on, line);
  }

  void add_call(const CallItem& item, const Collective& call, const Lanes& on, int line) {
    std::vector<PlannedCalls::Caller> callers;
    for (int64_t i = 0; i < on.size(); ++i) {
      const size_t lane = static_cast<size_t>(item.lanes.index_of(on[i]));
      if (!is_skipped(call.kind, on[i], line))
        callers.push_back({on[i], item.peers.empty() ? call.peer : item.peers[lane]});
    }
    planned_.add(call, callers);
  }

  void add_transfer(const CallItem& item, const Lanes& on, int line) {
    Collective call;
    call.group = world_;
    for (int64_t number = 0; number < item.step->pieces; ++number)
      for (const TransferPiece& piece : transfer_pieces(*item.step, number)) {
        if (piece.from_rank == piece.to_rank) continue;
        call.kind = CollectiveKind::send;
        if (on.contains(piece.from_rank)) add(call, piece.from_rank, piece.to_rank, line);
        call.kind = CollectiveKind::recv;
        if (on.contains(piece.to_rank)) add(call, piece.to_rank, piece.from_rank, line);
      }
  }

  void add(const Collective& call, int32_t rank, int64_t peer, int line) {
    if (!is_skipped(call.kind, rank, line)) planned_.add(call, {{rank, peer}});
  }

  bool is_skipped(CollectiveKind kind, int32_t rank, int line) {
    const bool one_sided = kind == CollectiveKind::put || kind == CollectiveKind::signal ||
                           kind == CollectiveKind::wait_signal;
    if (skips_.empty() || one_sided) return false;
    const int64_t number = ++calls_[rank];
    const auto due = std::find_if(skips_.begin(), skips_.end(), [&](const Fault& fault) {
      return fault.rank == rank && (fault.call != 0 ? fault.call == number : fault.line == line);
    });
    if (due == skips_.end()) return false;
    skips_.erase(due);
    return true;
  }

  Group world_;
  std::vector<Fault> skips_;
  std::map<int32_t, int64_t> calls_;  // of each rank, so far
  PlannedCalls planned_;
};

}  // namespace

PlannedCalls plan_calls(const SpmdProgram& program, const std::vector<std::string>& faults) {
  return CallPlanner(program, faults).take();
}

}  // namespace shardproof
