// Implements `reference` of collective.h, on one group and on all sibling groups of a cohort. All
// forms write through the class Outputs, so that they agree to the bit.
//
// On a cohort:
//   1. Sources numbers every stored copy of the input, and lists the number that each rank reads.
//   2. Siblings lists, for each sibling group, the tuple of copies that its members read. Groups
//      with equal tuples have equal results, so each distinct tuple is computed once.
//   3. lanes_of_outputs gives each lane the output (tuple, index of the member); all members have
//      index 0 if the call gives them the same (all_reduce, all_gather, broadcast).
//   4. Each distinct output is written into one stored copy.
//
// Example: all_reduce over tp on "dp=2, tp=2"; ranks 0 and 2 read copy 0, ranks 1 and 3 copy 1.
// Both groups have the tuple (0, 1): one sum is computed, and all four lanes share it.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <unordered_map>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/localtensor/collective/fold.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

namespace {

using Pointers = std::vector<const std::byte*>;

void copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// The input and output of each member of one group, by index in the group.
class Outputs {
 public:
  explicit Outputs(const Collective& call)
      : call_(call), n_(call.group.size()), bytes_(size_of(call.dtype)) {
    SP_CHECK(!is_point_to_point(call.kind), "{} has no reference", to_string(call));
    if (reduces(call.kind)) check_reduction(call.reduction, call.dtype);
  }

  int64_t in_count(int64_t index) const {
    switch (call_.kind) {
      case CollectiveKind::reduce_scatter: return n_ * call_.count;
      case CollectiveKind::scatter: return index == call_.root ? n_ * call_.count : 0;
      case CollectiveKind::broadcast: return index == call_.root ? call_.count : 0;
      case CollectiveKind::barrier: return 0;
      default: return call_.count;
    }
  }

  // Returns the number of elements that a member gets; -1 if it gets no tensor.
  int64_t out_count(int64_t index) const {
    switch (call_.kind) {
      case CollectiveKind::all_gather: return n_ * call_.count;
      case CollectiveKind::gather: return index == call_.root ? n_ * call_.count : -1;
      case CollectiveKind::reduce: return index == call_.root ? call_.count : -1;
      case CollectiveKind::barrier: return -1;
      default: return call_.count;
    }
  }

  // Returns the members that get a tensor; all of them get the same count.
  Lanes receivers() const {
    switch (call_.kind) {
      case CollectiveKind::barrier: return {};
      case CollectiveKind::gather:
      case CollectiveKind::reduce: return Lanes::one(call_.root);
      default: return Lanes::range(0, n_);
    }
  }

  void write(const std::byte* const* inputs, int64_t index, std::byte* out) const {
    const int64_t piece = call_.count * bytes_;
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce: return reduce(inputs, 0, out);
      case CollectiveKind::reduce_scatter: return reduce(inputs, index * call_.count, out);
      case CollectiveKind::all_gather:
      case CollectiveKind::gather:
        for (int64_t i = 0; i < n_; ++i) copy(out + i * piece, inputs[i], piece);
        return;
      case CollectiveKind::all_to_all: {
        SP_CHECK(call_.count % n_ == 0, "all_to_all of {} elements over {} members", call_.count,
                 n_);
        const int64_t part = piece / n_;
        for (int64_t i = 0; i < n_; ++i) copy(out + i * part, inputs[i] + index * part, part);
        return;
      }
      case CollectiveKind::broadcast: return copy(out, inputs[call_.root], piece);
      case CollectiveKind::scatter: return copy(out, inputs[call_.root] + index * piece, piece);
      default: SP_UNREACHABLE("{} writes nothing", to_string(call_));
    }
  }

  int64_t bytes() const { return bytes_; }

 private:
  void reduce(const std::byte* const* inputs, int64_t first, std::byte* out) const {
    const FoldOrder order = call_.schedule.order;
    if (order == FoldOrder::rank || order == FoldOrder::f32)
      return fold(call_.reduction, call_.schedule, call_.dtype, inputs, n_, first, call_.count,
                  out);
    fold_in_order(call_, inputs, first, call_.count, out);
  }

  const Collective& call_;
  int64_t n_, bytes_;
};

// The counts of an all_to_all_v or exchange; `row` is a lane of the call.
class Exchange {
 public:
  explicit Exchange(const Collective& call) : call_(call), n_(call.group.size()) {}

  int64_t out_count(int64_t row) const { return total(call_.recv_counts, row); }
  int64_t in_count(int64_t row) const { return total(call_.send_counts, row); }

  // rows[i] is the row of member i.
  void write(const std::byte* const* inputs, const std::vector<int64_t>& rows, int64_t index,
             std::byte* out) const {
    const int64_t bytes = size_of(call_.dtype);
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t* send = row_of(call_.send_counts, rows[static_cast<size_t>(i)]);
      const int64_t* recv = row_of(call_.recv_counts, rows[static_cast<size_t>(index)]);
      SP_CHECK(send[index] == recv[i], "member {} sends {} elements to {}, which takes {}", i,
               send[index], index, recv[i]);
      const int64_t start = std::accumulate(send, send + index, int64_t{0});
      copy(out, inputs[i] + start * bytes, recv[i] * bytes);
      out += recv[i] * bytes;
    }
  }

 private:
  const int64_t* row_of(const std::vector<int64_t>& counts, int64_t row) const {
    SP_CHECK((row + 1) * n_ <= static_cast<int64_t>(counts.size()), "no counts for lane {}", row);
    return counts.data() + row * n_;
  }
  int64_t total(const std::vector<int64_t>& counts, int64_t row) const {
    const int64_t* first = row_of(counts, row);
    return std::accumulate(first, first + n_, int64_t{0});
  }

  const Collective& call_;
  int64_t n_;
};

// Numbers every stored copy of the input, over all blocks, and lists the one that each lane reads.
struct Sources {
  std::vector<Tensor> held;  // owns the dense copies
  Pointers data;
  std::vector<int64_t> elements;
  Lanes lanes;
  int64_t first_rank = 0;
  std::vector<int32_t> of_rank;  // by rank, from first_rank on; -1: no input

  explicit Sources(const LocalTensor& input) : lanes(input.lanes()) {
    first_rank = lanes[0];
    of_rank.assign(static_cast<size_t>(lanes[lanes.size() - 1] - first_rank + 1), -1);
    for (const Block& block : input.blocks()) {
      held.push_back(block.tensor.contiguous() ? block.tensor : contiguous_copy(block.tensor));
      const Tensor& dense = held.back();
      const auto base = static_cast<int32_t>(data.size());
      const int64_t copies = dense.buffer->slots.count();
      const int64_t count = dense.elements();
      for (int64_t slot = 0; slot < copies; ++slot) data.push_back(dense.data(slot));
      elements.insert(elements.end(), static_cast<size_t>(copies), count);
      number_lanes(block, base);
    }
  }

  int32_t source(int64_t rank) const {
    const int64_t at = rank - first_rank;
    if (at < 0 || at >= static_cast<int64_t>(of_rank.size())) return -1;
    return of_rank[static_cast<size_t>(at)];
  }

 private:
  void number_lanes(const Block& block, int32_t base) {
    const Buffer& buffer = *block.tensor.buffer;
    const bool whole = buffer.lanes.size() == block.lanes.size();
    if (whole && block.lanes.is_range() && (buffer.slots.is_each() || buffer.slots.is_shared())) {
      const auto first = of_rank.begin() + (block.lanes[0] - first_rank);
      const auto last = first + block.lanes.size();
      if (buffer.slots.is_shared())
        std::fill(first, last, base);
      else
        std::iota(first, last, base);
      return;
    }
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      const int64_t slot = whole ? buffer.slots[i] : block.slot(i);
      of_rank[static_cast<size_t>(block.lanes[i] - first_rank)] = base + static_cast<int32_t>(slot);
    }
  }
};

// The sibling groups of a call; groups that read the same copies share one tuple.
class Siblings {
 public:
  Siblings(const Collective& call, const Sources& sources) : n_(call.group.size()) {
    const Group& group = call.group;
    const int64_t lanes = sources.lanes.size();
    if (lanes == group.count() * n_) {
      for (int64_t s = 0; s < group.count(); ++s) add(group.members(s), sources);
    } else {
      for (int64_t i = 0; i < lanes; ++i) {
        const int64_t index = group.index_of(sources.lanes[i]);
        SP_CHECK(index >= 0, "rank {} is not in group {}", sources.lanes[i], group.name());
        if (index == 0) add(group.members(group.sibling_of(sources.lanes[i])), sources);
      }
      SP_CHECK(static_cast<int64_t>(ranks_.size()) == lanes, "ranks {} are not whole groups of {}",
               to_string(sources.lanes), group.name());
    }
  }

  int64_t unique() const { return static_cast<int64_t>(tuples_.size()) / n_; }
  const int32_t* tuple(int64_t unique) const { return tuples_.data() + unique * n_; }
  // All ranks by sibling and member; and the number of a sibling's tuple.
  const std::vector<int32_t>& ranks() const { return ranks_; }
  int32_t tuple_of(int64_t sibling) const { return tuple_of_[static_cast<size_t>(sibling)]; }
  int64_t members() const { return n_; }

 private:
  void add(const std::vector<int32_t>& members, const Sources& sources) {
    const size_t start = tuples_.size();
    uint64_t hash = 1469598103934665603u;
    for (int32_t rank : members) {
      const int32_t source = sources.source(rank);
      SP_CHECK(source >= 0, "rank {} is missing from its group", rank);
      tuples_.push_back(source);
      hash = (hash ^ static_cast<uint64_t>(source)) * 1099511628211u;
    }
    ranks_.insert(ranks_.end(), members.begin(), members.end());
    const auto [from, to] = seen_.equal_range(hash);
    for (auto it = from; it != to; ++it) {
      const int32_t* old = tuple(it->second);
      if (std::equal(old, old + n_, tuples_.data() + start)) {
        tuples_.resize(start);
        tuple_of_.push_back(it->second);
        return;
      }
    }
    const auto number = static_cast<int32_t>(start / static_cast<size_t>(n_));
    seen_.emplace(hash, number);
    tuple_of_.push_back(number);
  }

  int64_t n_;
  std::vector<int32_t> tuples_, ranks_, tuple_of_;
  std::unordered_multimap<uint64_t, int32_t> seen_;
};

// Lanes in ascending order with the output copy that each reads, numbered by first use.
struct LaneSlots {
  // Siblings of an outer axis interleave. Their ranks are dense, so a table is faster than a sort.
  void sort_by_rank() {
    if (std::is_sorted(rank_and_output.begin(), rank_and_output.end())) return;
    int32_t last = 0;
    for (const auto& [rank, output] : rank_and_output) last = std::max(last, rank);
    std::vector<int64_t> output_of_rank(static_cast<size_t>(last) + 1, -1);
    for (const auto& [rank, output] : rank_and_output)
      output_of_rank[static_cast<size_t>(rank)] = output;
    rank_and_output.clear();
    for (int32_t rank = 0; rank <= last; ++rank)
      if (const int64_t output = output_of_rank[static_cast<size_t>(rank)]; output >= 0)
        rank_and_output.emplace_back(rank, output);
  }

  std::vector<std::pair<int32_t, int64_t>> rank_and_output;  // output: tuple * n + index
  Lanes lanes;
  Slots slots;
  std::vector<int64_t> output_of_slot;

  void number() {
    sort_by_rank();
    std::vector<int32_t> ranks, slot_of_lane;
    ranks.reserve(rank_and_output.size());
    slot_of_lane.reserve(rank_and_output.size());
    std::vector<int32_t> slot_of_output;
    for (const auto& [rank, output] : rank_and_output) {
      if (static_cast<size_t>(output) >= slot_of_output.size())
        slot_of_output.resize(static_cast<size_t>(output) + 1, -1);
      int32_t& slot = slot_of_output[static_cast<size_t>(output)];
      if (slot < 0) {
        slot = static_cast<int32_t>(output_of_slot.size());
        output_of_slot.push_back(output);
      }
      ranks.push_back(rank);
      slot_of_lane.push_back(slot);
    }
    const auto count = static_cast<int64_t>(ranks.size());
    const bool consecutive = ranks.back() - ranks.front() + 1 == count;
    lanes = consecutive ? Lanes::range(ranks.front(), ranks.front() + count)
                        : Lanes::of(std::move(ranks));
    if (output_of_slot.size() == 1)
      slots = Slots::shared(count);
    else if (static_cast<int64_t>(output_of_slot.size()) == count)
      slots = Slots::each(count);
    else
      slots = Slots::table(std::move(slot_of_lane));
  }
};

void check_counts(const Collective& call, const Outputs& outputs, const Sources& sources,
                  const Siblings& siblings) {
  for (int64_t u = 0; u < siblings.unique(); ++u)
    for (int64_t i = 0; i < siblings.members(); ++i) {
      const int64_t given = sources.elements[static_cast<size_t>(siblings.tuple(u)[i])];
      const int64_t wanted = outputs.in_count(i);
      SP_CHECK(given == wanted || wanted == 0, "{}: member {} has {} elements, expected {}",
               to_string(call), i, given, wanted);
    }
}

LocalTensor exchange(const Collective& call, const Sources& sources, const Siblings& siblings) {
  const Exchange exchange(call);
  const int64_t n = siblings.members();
  std::map<int64_t, LaneSlots> by_count;  // by output count: each is a block of its own
  std::vector<int64_t> row_of(siblings.ranks().size());
  for (size_t i = 0; i < row_of.size(); ++i) {
    row_of[i] = sources.lanes.index_of(siblings.ranks()[i]);
    const int64_t given =
        sources.elements[static_cast<size_t>(sources.source(siblings.ranks()[i]))];
    SP_CHECK(given == exchange.in_count(row_of[i]), "rank {} has {} elements, its counts state {}",
             siblings.ranks()[i], given, exchange.in_count(row_of[i]));
    by_count[exchange.out_count(row_of[i])].rank_and_output.emplace_back(siblings.ranks()[i],
                                                                         static_cast<int64_t>(i));
  }
  std::vector<Block> blocks;
  Pointers inputs(static_cast<size_t>(n));
  std::vector<int64_t> rows(static_cast<size_t>(n));
  for (auto& [count, lanes] : by_count) {
    lanes.number();
    Tensor out = Tensor::empty(call.dtype, {count}, lanes.lanes, lanes.slots);
    for (size_t slot = 0; slot < lanes.output_of_slot.size(); ++slot) {
      const int64_t at = lanes.output_of_slot[slot];
      const int64_t first = at / n * n;
      for (int64_t i = 0; i < n; ++i) {
        const auto from = static_cast<size_t>(first + i);
        inputs[static_cast<size_t>(i)] =
            sources.data[static_cast<size_t>(sources.source(siblings.ranks()[from]))];
        rows[static_cast<size_t>(i)] = row_of[from];
      }
      exchange.write(inputs.data(), rows, at - first, out.mutate(static_cast<int64_t>(slot)));
    }
    blocks.push_back({lanes.lanes, std::move(out)});
  }
  return LocalTensor(std::move(blocks));
}

LaneSlots lanes_of_outputs(const Collective& call, const Outputs& outputs,
                           const Siblings& siblings) {
  LaneSlots result;
  const int64_t n = siblings.members();
  result.rank_and_output.reserve(siblings.ranks().size());
  const bool same = has_equal_outputs(call.kind);
  for (size_t i = 0; i < siblings.ranks().size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t index = at % n;
    if (outputs.out_count(index) < 0) continue;
    const int64_t tuple = siblings.tuple_of(at / n);
    result.rank_and_output.emplace_back(siblings.ranks()[i], tuple * n + (same ? 0 : index));
  }
  return result;
}

// Fast path: one group whose members all get the same; no tuples are needed.
LocalTensor same_on_one_group(const Collective& call, const Outputs& outputs,
                              const Sources& sources) {
  const std::vector<int32_t> members = call.group.members(0);
  const auto n = static_cast<int64_t>(members.size());
  SP_CHECK(n == sources.lanes.size(), "ranks {} are not whole groups of {}",
           to_string(sources.lanes), call.group.name());
  Pointers inputs;
  inputs.reserve(members.size());
  for (int64_t i = 0; i < n; ++i) {
    const int32_t source = sources.source(members[static_cast<size_t>(i)]);
    SP_CHECK(source >= 0, "rank {} is missing from its group", members[static_cast<size_t>(i)]);
    const int64_t given = sources.elements[static_cast<size_t>(source)];
    const int64_t wanted = outputs.in_count(i);
    SP_CHECK(given == wanted || wanted == 0, "{}: member {} has {} elements, expected {}",
             to_string(call), i, given, wanted);
    inputs.push_back(sources.data[static_cast<size_t>(source)]);
  }
  Tensor out = Tensor::empty(call.dtype, {outputs.out_count(0)}, sources.lanes, Slots::shared(n));
  outputs.write(inputs.data(), 0, out.mutate());
  return LocalTensor(std::move(out));
}

}  // namespace

LocalTensor reference(const Collective& call, const LocalTensor& input) {
  if (call.kind == CollectiveKind::barrier || input.empty()) return LocalTensor();
  const Outputs outputs(call);
  const Sources sources(input);
  if (call.group.count() == 1 && has_equal_outputs(call.kind))
    return same_on_one_group(call, outputs, sources);
  const Siblings siblings(call, sources);
  if (has_counts(call.kind)) return exchange(call, sources, siblings);
  check_counts(call, outputs, sources, siblings);
  LaneSlots lanes = lanes_of_outputs(call, outputs, siblings);
  if (lanes.rank_and_output.empty()) return LocalTensor();
  const int64_t n = siblings.members();
  const int64_t out_count = outputs.out_count(has_root(call.kind) ? call.root : 0);
  lanes.number();
  Tensor out = Tensor::empty(call.dtype, {out_count}, lanes.lanes, lanes.slots);
  Pointers inputs(static_cast<size_t>(n));
  std::byte* const data = out.mutate(0);
  int64_t loaded = -1;
  for (size_t slot = 0; slot < lanes.output_of_slot.size(); ++slot) {
    const int64_t tuple = lanes.output_of_slot[slot] / n;
    if (tuple != loaded)
      for (int64_t i = 0; i < n; ++i)
        inputs[static_cast<size_t>(i)] =
            sources.data[static_cast<size_t>(siblings.tuple(tuple)[i])];
    loaded = tuple;
    outputs.write(inputs.data(), lanes.output_of_slot[slot] % n,
                  data + static_cast<int64_t>(slot) * out.slot_stride_bytes());
  }
  return LocalTensor(std::move(out));
}

LocalTensor reference(const Collective& call,
                      const std::vector<std::span<const std::byte>>& inputs) {
  const Outputs outputs(call);
  const int64_t n = call.group.size();
  SP_CHECK(static_cast<int64_t>(inputs.size()) == n, "{} inputs for {} members", inputs.size(), n);
  Pointers data;
  data.reserve(inputs.size());
  for (int64_t i = 0; i < n; ++i) {
    const std::span<const std::byte> input = inputs[static_cast<size_t>(i)];
    const int64_t wanted = outputs.in_count(i) * outputs.bytes();
    SP_CHECK(static_cast<int64_t>(input.size()) == wanted || wanted == 0,
             "{}: member {} has {} bytes, expected {}", to_string(call), i, input.size(), wanted);
    data.push_back(input.data());
  }
  const Lanes members = outputs.receivers();
  if (members.empty()) return LocalTensor();
  const Slots slots = has_equal_outputs(call.kind) ? Slots::shared(n) : Slots::each(members.size());
  Tensor out = Tensor::empty(call.dtype, {outputs.out_count(members[0])}, members, slots);
  for (int64_t slot = 0; slot < slots.count(); ++slot)
    outputs.write(data.data(), members[slot], out.mutate(slot));
  return LocalTensor(std::move(out));
}

std::vector<std::optional<Tensor>> reference(const Collective& call,
                                             const std::vector<Tensor>& inputs) {
  const Outputs outputs(call);
  const int64_t n = call.group.size();
  SP_CHECK(static_cast<int64_t>(inputs.size()) == n, "{} inputs for {} members", inputs.size(), n);
  std::vector<Tensor> held;
  Pointers data;
  std::vector<int64_t> rows(inputs.size());
  std::iota(rows.begin(), rows.end(), 0);
  for (const Tensor& input : inputs) {
    held.push_back(input.contiguous() ? input : contiguous_copy(input));
    data.push_back(held.back().data(0));
  }
  const bool counted = has_counts(call.kind);
  std::vector<std::optional<Tensor>> results(inputs.size());
  for (int64_t i = 0; i < n; ++i) {
    const int64_t count = counted ? Exchange(call).out_count(i) : outputs.out_count(i);
    if (count < 0) continue;
    Tensor out = Tensor::empty(call.dtype, {count});
    if (counted)
      Exchange(call).write(data.data(), rows, i, out.mutate());
    else
      outputs.write(data.data(), i, out.mutate());
    results[static_cast<size_t>(i)] = std::move(out);
  }
  return results;
}

Tensor reduce_all(const Reduction& reduction, const std::vector<Tensor>& inputs,
                  ReductionSchedule schedule) {
  SP_CHECK(!inputs.empty(), "nothing to reduce");
  check_reduction(reduction, inputs[0].dtype);
  std::vector<Tensor> held;
  Pointers data;
  for (const Tensor& input : inputs) {
    SP_CHECK(input.shape == inputs[0].shape && input.dtype == inputs[0].dtype,
             "parts of different shape or dtype are reduced");
    held.push_back(input.contiguous() ? input : contiguous_copy(input));
    data.push_back(held.back().data(0));
  }
  Tensor out = Tensor::empty(inputs[0].dtype, inputs[0].shape);
  fold(reduction, schedule, out.dtype, data.data(), static_cast<int64_t>(data.size()), 0,
       out.elements(), out.mutate());
  return out;
}

}  // namespace shardproof
