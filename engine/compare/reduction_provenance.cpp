// Implements reduction_provenance.h.
//
// Values that may lie in one buffer (views, merges) are joined in a union-find, and a mark belongs
// to the whole set. Marks spread from reductions through instructions until a pass over all
// listings finds nothing new. Several passes are needed: a message may carry a mark into a listing
// that was visited before.
//
// Example: ranks 0-1 run `s = all_reduce(x, sum, group=tp)` with 3 ranks in tp, then `send(s,
// to=2)`. Rank 2 runs `r = recv(like=x, from=0)` and `y = r + 1`. Pass 1 marks s and notes that a
// message carries a sum; pass 2 marks r and y.
#include "shardproof/engine/compare/reduction_provenance.h"

#include <algorithm>
#include <numeric>

namespace shardproof {
namespace {

// True if a reduction of floats depends on the order of ranks. The sum of two numbers does not
// depend on their order. An average over two ranks may add halves, so it counts as dependent.
bool order_matters(const Collective& c) {
  if (!reduces(c.kind) || is_integral(c.dtype) || c.dtype == DType::boolean) return false;
  switch (c.reduction.op) {
    case ReduceOp::sum:
    case ReduceOp::prod: return c.group.size() > 2;
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
    case ReduceOp::norm: return c.group.size() > 1;
    default: return false;
  }
}

// Sets of values that may lie in one buffer (union-find).
class SharedBuffers {
 public:
  SharedBuffers(const SpmdProgram& program, const OpRegistry& ops) : heads_(program.values.size()) {
    std::iota(heads_.begin(), heads_.end(), ValueId{0});
    for (const SpmdListing& listing : program.listings)
      for (const Instr& instr : listing.instrs) {
        if (const auto* compute = std::get_if<Compute>(&instr.action))
          if (compute->into == kNoValue && ops.at(compute->op.str()).view)
            join(compute->outputs.front(), compute->inputs.front());
        if (const auto* merge = std::get_if<Merge>(&instr.action))
          for (const auto& [lanes, part] : merge->parts) join(merge->output, part);
      }
  }
  ValueId head(ValueId id) {
    ValueId& known = heads_[static_cast<size_t>(id)];
    if (known != id) known = head(known);
    return known;
  }

 private:
  void join(ValueId a, ValueId b) { heads_[static_cast<size_t>(head(a))] = head(b); }
  std::vector<ValueId> heads_;
};

// Marks the values that depend on a sum over ranks, until nothing new is found.
class Marks {
 public:
  Marks(const SpmdProgram& program, const OpRegistry& ops)
      : buffers_(program, ops), marked_(program.values.size(), false) {
    while (fresh_) {
      fresh_ = false;
      for (const SpmdListing& listing : program.listings)
        for (const Instr& instr : listing.instrs) mark_written(instr);
    }
  }
  std::vector<bool> take() {
    std::vector<bool> added(marked_.size());
    for (size_t id = 0; id < added.size(); ++id) added[id] = is_added(static_cast<ValueId>(id));
    return added;
  }

 private:
  bool is_added(ValueId id) {
    return id != kNoValue && marked_[static_cast<size_t>(buffers_.head(id))];
  }
  bool is_made_of_sums(const Instr& instr, const Effects& effects) {
    bool from = std::any_of(effects.reads.begin(), effects.reads.end(),
                            [&](ValueId id) { return is_added(id); });
    if (const auto* calls = std::get_if<Communicate>(&instr.action)) {
      for (const CallItem& item : calls->items) {
        from = from || order_matters(item.collective);
        const bool message = is_point_to_point(item.collective.kind);
        fresh_ = fresh_ || (from && message && !sent_);
        sent_ = sent_ || (from && message);
        from = from || (sent_ && message);
      }
    }
    return from || (sent_ && std::holds_alternative<SlotRead>(instr.action));
  }
  void mark_written(const Instr& instr) {
    const Effects effects = effects_of(instr);
    if (!is_made_of_sums(instr, effects)) return;
    for (const ValueId id : effects.writes) {
      if (is_added(id)) continue;
      marked_[static_cast<size_t>(buffers_.head(id))] = fresh_ = true;
    }
  }

  SharedBuffers buffers_;
  std::vector<bool> marked_;  // by head of the set
  bool sent_ = false;         // a message carries a sum
  bool fresh_ = true;         // the last pass found something new
};

}  // namespace

std::vector<bool> values_reduced_over_ranks(const SpmdProgram& program, const OpRegistry& ops) {
  return Marks(program, ops).take();
}

std::vector<bool> values_written(const SpmdProgram& program, const OpRegistry& ops) {
  SharedBuffers buffers(program, ops);
  std::vector<bool> heads(program.values.size()), written(program.values.size());
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs) {
      const auto* compute = std::get_if<Compute>(&instr.action);
      if (compute && compute->into == kNoValue && ops.at(compute->op.str()).view) continue;
      if (std::holds_alternative<Merge>(instr.action)) continue;
      const auto mark = [&](ValueId id) {
        if (id != kNoValue) heads[static_cast<size_t>(buffers.head(id))] = true;
      };
      if (compute != nullptr) {
        for (const ValueId id : compute->outputs) mark(id);
        mark(compute->into);
        continue;
      }
      for (const ValueId id : effects_of(instr).writes) mark(id);
    }
  for (size_t id = 0; id < written.size(); ++id)
    written[id] = heads[static_cast<size_t>(buffers.head(static_cast<ValueId>(id)))];
  return written;
}

std::vector<bool> written_through_others(const SpmdProgram& program, const OpRegistry& ops) {
  SharedBuffers buffers(program, ops);
  std::vector<bool> heads(program.values.size()), written(program.values.size());
  std::vector<int> count_of(program.values.size(), 0);
  for (size_t id = 0; id < written.size(); ++id)
    ++count_of[static_cast<size_t>(buffers.head(static_cast<ValueId>(id)))];
  const auto mark = [&](ValueId id) { heads[static_cast<size_t>(buffers.head(id))] = true; };
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs) {
      if (const auto* compute = std::get_if<Compute>(&instr.action))
        if (compute->into != kNoValue) mark(compute->into);
      if (const auto* call = std::get_if<Communicate>(&instr.action))
        for (const CallItem& item : call->items)
          if (item.in_place && item.output != kNoValue) mark(item.output);
    }
  for (size_t id = 0; id < written.size(); ++id) {
    const auto head = static_cast<size_t>(buffers.head(static_cast<ValueId>(id)));
    written[id] = heads[head] && count_of[head] > 1;
  }
  return written;
}

}  // namespace shardproof
