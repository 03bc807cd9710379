// Implements the host side of exchange.h: collectives over several endpoints, with the meaning of
// `reference` (localtensor/collective/collective.h).
//
// 1. pack: members on one endpoint are combined: inputs of a reduction are summed, others are laid
//    one after another. One exchange of the transport then runs over the endpoints.
// 2. The transport moves or reduces the pieces.
// 3. unpack: the result is divided (avg), ordered by member, and written to each member's output.
//
// Members of an endpoint need not be neighbours in the group, so pieces are sent in the order of
// `held`. Example: group 0,1,2,3, endpoint A holds members 0,2 and B holds 1,3. An all_gather of
// one element each delivers x0 x2 x1 x3; unpack writes x0 x1 x2 x3.
//
// If the order of the reduction is prescribed, all inputs are gathered and `reference` reduces
// them.
#include <algorithm>
#include <cstring>

#include "shardproof/backends/remote/exchange/exchange.h"
#include "shardproof/localtensor/collective/partial_fold.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

namespace {

// Returns the storage of the input. It is shared: a later write to the buffer does not change it.
Bytes storage_of(const CallShare& part) {
  const SubmittedCall& submitted = *part.submitted;
  if (submitted.lanes.size() == 1) return submitted.in.buffer->bytes;
  return submitted.input.find(part.rank())->tensor.buffer->bytes;
}

Bytes poisoned(DType dtype, int64_t bytes) {
  Bytes contents = Bytes::uninitialized(bytes);
  std::byte* data = contents.mutate();
  std::memset(data, 0xA5, static_cast<size_t>(bytes));
  if (is_floating(dtype) || is_complex(dtype))
    for (int64_t at = 0; at + size_of(dtype) <= bytes; at += size_of(dtype))
      store_f64(data + at, dtype, std::numeric_limits<double>::quiet_NaN());
  return contents;
}

}  // namespace

SendContents contents_to_send(const CallShare& part) {
  SendContents result;
  result.size = input_bytes(*part.submitted, part.rank());
  if (result.size == 0) return result;
  result.data = input_data(*part.submitted, part.rank());
  if (result.data != nullptr) {
    result.owner = storage_of(part);
  } else {
    result.owner = poisoned(part.submitted->terms->collective.dtype, result.size);
    result.data = result.owner.data();
  }
  return result;
}

namespace {

// Computes the collective by `reference` and writes the outputs of the members in this process.
void deliver_reference(const ExchangeOperation& moving, const Collective& c,
                       const std::vector<Tensor>& inputs) {
  const std::vector<std::optional<Tensor>> outputs = reference(c, inputs);
  for (const CallShare& part : moving.parts) {
    const std::optional<Tensor>& output = outputs[static_cast<size_t>(part.member)];
    if (!output) continue;
    const Bytes& answer = output->buffer->bytes;
    deliver(*part.submitted, part.rank(), answer.data(), answer.size(), &answer);
  }
}

// Packs and unpacks one collective.
class CollectivePacker {
 public:
  explicit CollectivePacker(ExchangeOperation& moving)
      : m_(moving), c_(moving.parts.front().submitted->terms->collective) {
    const std::vector<int>& team = m_.exchange.team;
    const auto own = std::lower_bound(team.begin(), team.end(), m_.exchange.self);
    self_ = static_cast<size_t>(own - team.begin());
    size_ = size_of(c_.dtype);
    n_ = static_cast<int64_t>(m_.members.size());
    int64_t next = 0;
    for (const std::vector<int64_t>& members : m_.held)
      for (const int64_t member : members) in_order_ = in_order_ && member == next++;
    // The order of complex factors decides the sign of a zero.
    const bool ordered = c_.reduction.op == ReduceOp::prod && is_complex(c_.dtype);
    pinned_ = reduces(c_.kind) && (ordered || m_.unfolded || !(c_.schedule == ReductionSchedule()));
  }

  void pack() {
    Exchange& e = m_.exchange;
    e.kind = c_.kind;
    e.reduction = c_.reduction;
    e.dtype = c_.dtype;
    e.count = c_.count;
    if (pinned_) return gather_inputs();
    switch (c_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce: return fold_whole();
      case CollectiveKind::reduce_scatter: return fold_scattered();
      case CollectiveKind::all_gather:
      case CollectiveKind::gather: return gather_mine();
      case CollectiveKind::broadcast: return pack_root();
      case CollectiveKind::scatter: return scatter_all();
      case CollectiveKind::all_to_all:
      case CollectiveKind::all_to_all_v:
      case CollectiveKind::exchange: return pack_pairs();
      default: return;
    }
  }

  void unpack() {
    if (pinned_) return answer_pinned();
    switch (c_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce: return answer_whole();
      case CollectiveKind::reduce_scatter: close_fold(c_.count * mine()); return answer_in_turn();
      case CollectiveKind::all_gather:
      case CollectiveKind::gather: return answer_gathered();
      case CollectiveKind::broadcast: return hand_out(m_.in);
      case CollectiveKind::scatter: return answer_in_turn();
      case CollectiveKind::all_to_all:
      case CollectiveKind::all_to_all_v:
      case CollectiveKind::exchange: return answer_pairs();
      default: return;
    }
  }

 private:
  int64_t mine() const { return static_cast<int64_t>(m_.parts.size()); }
  const std::vector<int64_t>& held(size_t endpoint) const { return m_.held[endpoint]; }
  bool is_root() const { return static_cast<size_t>(m_.exchange.root) == self_; }
  void send(Bytes bytes) {
    m_.out = std::move(bytes);
    m_.exchange.send = m_.out.data();
  }
  void send(const SendContents& own) {
    m_.out = own.owner;
    m_.exchange.send = own.data;
  }
  void receive(int64_t elements) {
    m_.in = Bytes::uninitialized(elements * size_);
    m_.exchange.recv = m_.in.mutate();
  }

  // --- reductions
  // Returns the sum of the inputs in this process; the input itself if there is only one.
  SendContents folded(int64_t count) {
    const ReduceOp op = c_.reduction.op;
    const bool as_it_is = op != ReduceOp::premul_sum && op != ReduceOp::norm;
    if (count == 0 || (m_.parts.size() == 1 && as_it_is)) return contents_to_send(m_.parts.front());
    std::vector<SendContents> own;
    std::vector<const std::byte*> inputs;
    for (const CallShare& part : m_.parts)
      inputs.push_back(own.emplace_back(contents_to_send(part)).data);
    Bytes sum = Bytes::uninitialized(count * size_);
    fold_part(FoldPart::opening, c_.reduction, c_.dtype, inputs, count, n_, sum.mutate());
    const std::byte* data = sum.data();
    return {std::move(sum), data, count * size_};
  }

  void fold_whole() {
    send(folded(c_.count));
    receive(c_.count);
  }

  // Packs the sum with members' pieces in the order of `held`.
  void fold_scattered() {
    const SendContents sum = folded(c_.count * n_);
    for (const std::vector<int64_t>& members : m_.held)
      m_.exchange.recv_counts.push_back(c_.count * static_cast<int64_t>(members.size()));
    receive(c_.count * mine());
    if (in_order_) return send(sum);
    Bytes ordered = Bytes::uninitialized(c_.count * n_ * size_);
    const int64_t piece = c_.count * size_;
    std::byte* to = ordered.mutate();
    for (const std::vector<int64_t>& members : m_.held)
      for (int64_t member : members) {
        if (piece != 0) std::memcpy(to, sum.data + member * piece, static_cast<size_t>(piece));
        to += piece;
      }
    send(std::move(ordered));
  }

  // Gathers the inputs unreduced: a prescribed order may interleave members of several endpoints.
  void gather_inputs() {
    const int64_t each = c_.kind == CollectiveKind::reduce_scatter ? c_.count * n_ : c_.count;
    m_.exchange.kind = CollectiveKind::all_gather;
    m_.exchange.count = each * mine();
    for (const std::vector<int64_t>& members : m_.held)
      m_.exchange.recv_counts.push_back(each * static_cast<int64_t>(members.size()));
    send(joined(each));
    receive(each * n_);
  }

  void answer_pinned() {
    std::vector<Tensor> inputs(static_cast<size_t>(n_));
    const int64_t bytes = m_.in.size() / n_;
    const std::byte* from = m_.in.data();
    for (const std::vector<int64_t>& members : m_.held)
      for (int64_t member : members) {
        Tensor& input = inputs[static_cast<size_t>(member)];
        input = Tensor::empty(c_.dtype, Dims{bytes / size_});
        if (bytes != 0) std::memcpy(input.mutate(), from, static_cast<size_t>(bytes));
        from += bytes;
      }
    deliver_reference(m_, c_, inputs);
  }

  void close_fold(int64_t count) {
    const ReduceOp op = c_.reduction.op;
    if (count == 0 || (op != ReduceOp::avg && op != ReduceOp::norm)) return;
    std::byte* data = m_.in.mutate();
    const std::byte* const inputs[] = {data};
    fold_part(FoldPart::closing, c_.reduction, c_.dtype, inputs, count, n_, data);
  }

  void answer_whole() {
    if (c_.kind == CollectiveKind::reduce && !is_root()) return;
    close_fold(c_.count);
    hand_out(m_.in);
  }

  // --- copies
  void gather_mine() {
    m_.exchange.count = c_.count * mine();
    for (const std::vector<int64_t>& members : m_.held)
      m_.exchange.recv_counts.push_back(c_.count * static_cast<int64_t>(members.size()));
    send(joined(c_.count));
    if (c_.kind == CollectiveKind::all_gather || is_root()) receive(c_.count * n_);
  }

  SendContents joined(int64_t each) {
    if (m_.parts.size() == 1) return contents_to_send(m_.parts.front());
    Bytes all = Bytes::uninitialized(each * mine() * size_);
    std::byte* to = all.mutate();
    for (const CallShare& part : m_.parts) {
      const SendContents own = contents_to_send(part);
      if (own.size != 0) std::memcpy(to, own.data, static_cast<size_t>(own.size));
      to += own.size;
    }
    const std::byte* data = all.data();
    return {std::move(all), data, all.size()};
  }

  void answer_gathered() {
    if (c_.kind == CollectiveKind::gather && !is_root()) return;
    if (in_order_) return hand_out(m_.in);
    Bytes answer = Bytes::uninitialized(c_.count * n_ * size_);
    const int64_t piece = c_.count * size_;
    const std::byte* from = m_.in.data();
    for (const std::vector<int64_t>& members : m_.held)
      for (int64_t member : members) {
        if (piece != 0)
          std::memcpy(answer.mutate() + member * piece, from, static_cast<size_t>(piece));
        from += piece;
      }
    hand_out(answer);
  }

  const CallShare& root_part() const {
    return *std::find_if(m_.parts.begin(), m_.parts.end(),
                         [&](const CallShare& part) { return part.member == c_.root; });
  }

  // The root shares its input with its output instead of copying it.
  void pack_root() {
    if (!is_root()) return receive(c_.count);
    const SendContents own = contents_to_send(root_part());
    if (own.data != own.owner.data() || own.size != own.owner.size()) {
      receive(c_.count);
      if (own.size != 0) std::memcpy(m_.exchange.recv, own.data, static_cast<size_t>(own.size));
      return;
    }
    m_.in = own.owner;
    m_.exchange.recv = const_cast<std::byte*>(own.data);
  }

  void scatter_all() {
    m_.exchange.count = c_.count * mine();
    receive(m_.exchange.count);
    for (const std::vector<int64_t>& members : m_.held)
      m_.exchange.send_counts.push_back(c_.count * static_cast<int64_t>(members.size()));
    if (!is_root()) return;
    const SendContents whole = contents_to_send(root_part());
    if (in_order_) return send(whole);
    Bytes ordered = Bytes::uninitialized(whole.size);
    const int64_t piece = c_.count * size_;
    std::byte* to = ordered.mutate();
    for (const std::vector<int64_t>& members : m_.held)
      for (int64_t member : members) {
        if (piece != 0) std::memcpy(to, whole.data + member * piece, static_cast<size_t>(piece));
        to += piece;
      }
    send(std::move(ordered));
  }

  // Writes one piece to each member of this process. The pieces are in the order of these members.
  void answer_in_turn() {
    const int64_t piece = c_.count * size_;
    const std::byte* from = m_.in.data();
    for (const CallShare& part : m_.parts) {
      deliver(*part.submitted, part.rank(), from, piece, mine() == 1 ? &m_.in : nullptr);
      from += piece;
    }
  }

  // Writes the whole result to the members here that have an output: reduce and gather, the root.
  void hand_out(const Bytes& answer) {
    const bool one = c_.kind == CollectiveKind::reduce || c_.kind == CollectiveKind::gather;
    for (const CallShare& part : m_.parts)
      if (!one || part.member == c_.root)
        deliver(*part.submitted, part.rank(), answer.data(), answer.size(), &answer);
  }

  // --- pairs of members
  int64_t sent(const CallShare& from, int64_t to) const {
    if (c_.kind == CollectiveKind::all_to_all) return c_.count / n_;
    return from.submitted->terms
        ->send_counts[static_cast<size_t>(from.lane)][static_cast<size_t>(to)];
  }
  int64_t received(int64_t from, const CallShare& to) const {
    if (c_.kind == CollectiveKind::all_to_all) return c_.count / n_;
    return to.submitted->terms
        ->recv_counts[static_cast<size_t>(to.lane)][static_cast<size_t>(from)];
  }

  void pack_pairs() {
    std::vector<SendContents> own;
    for (const CallShare& part : m_.parts) own.push_back(contents_to_send(part));
    int64_t expected = 0;
    for (const std::vector<int64_t>& members : m_.held) {
      int64_t out = 0, in = 0;
      for (int64_t member : members)
        for (const CallShare& part : m_.parts) {
          out += sent(part, member);
          in += received(member, part);
        }
      m_.exchange.send_counts.push_back(out);
      m_.exchange.recv_counts.push_back(in);
      expected += in;
    }
    if (mine() == 1 && in_order_)
      send(own.front());
    else
      send(packed_pairs(own));
    receive(expected);
  }

  // Lays out pieces by receiving endpoint, then by sender here, then by receiver there.
  Bytes packed_pairs(const std::vector<SendContents>& own) const {
    std::vector<std::vector<int64_t>> starts;  // offsets of each member's piece, by member here
    int64_t all = 0;
    for (size_t i = 0; i < m_.parts.size(); ++i) {
      all += own[i].size;
      std::vector<int64_t>& start = starts.emplace_back(1, 0);
      for (int64_t to = 0; to < n_; ++to) start.push_back(start.back() + sent(m_.parts[i], to));
    }
    Bytes packed = Bytes::uninitialized(all);
    std::byte* to = packed.mutate();
    for (const std::vector<int64_t>& members : m_.held)
      for (size_t i = 0; i < m_.parts.size(); ++i)
        for (int64_t member : members) {
          const int64_t bytes = sent(m_.parts[i], member) * size_;
          const std::byte* from = own[i].data + starts[i][static_cast<size_t>(member)] * size_;
          if (bytes != 0) std::memcpy(to, from, static_cast<size_t>(bytes));
          to += bytes;
        }
    return packed;
  }

  void answer_pairs() {
    if (mine() == 1 && in_order_) return hand_out(m_.in);
    std::vector<Bytes> results;
    std::vector<std::vector<int64_t>> starts;
    for (const CallShare& part : m_.parts) {
      std::vector<int64_t>& start = starts.emplace_back(1, 0);
      for (int64_t from = 0; from < n_; ++from)
        start.push_back(start.back() + received(from, part));
      results.push_back(Bytes::uninitialized(start.back() * size_));
    }
    const std::byte* from = m_.in.data();
    for (const std::vector<int64_t>& members : m_.held)
      for (int64_t member : members)
        for (size_t i = 0; i < m_.parts.size(); ++i) {
          const int64_t bytes = received(member, m_.parts[i]) * size_;
          std::byte* to = results[i].mutate() + starts[i][static_cast<size_t>(member)] * size_;
          if (bytes != 0) std::memcpy(to, from, static_cast<size_t>(bytes));
          from += bytes;
        }
    for (size_t i = 0; i < m_.parts.size(); ++i)
      deliver(*m_.parts[i].submitted, m_.parts[i].rank(), results[i].data(), results[i].size(),
              &results[i]);
  }

  ExchangeOperation& m_;
  const Collective& c_;
  size_t self_ = 0;
  int64_t size_ = 0, n_ = 0;
  bool pinned_ = false;
  bool in_order_ = true;  // `held`, read endpoint by endpoint, is 0, 1, 2, ...
};

// All members lie on one endpoint: computes the collective by `reference` and moves nothing.
void run_without_exchange(ExchangeOperation& moving) {
  Collective c = moving.parts.front().submitted->terms->collective;
  if (c.kind == CollectiveKind::barrier) return;
  std::vector<Tensor> inputs;
  c.send_counts.clear();
  c.recv_counts.clear();
  for (const CallShare& part : moving.parts) {
    const SendContents own = contents_to_send(part);
    Tensor& input = inputs.emplace_back(Tensor::empty(c.dtype, Dims{own.size / size_of(c.dtype)}));
    if (own.size != 0) std::memcpy(input.mutate(), own.data, static_cast<size_t>(own.size));
    if (!has_counts(c.kind)) continue;
    const CallTerms& call = *part.submitted->terms;
    const size_t lane = static_cast<size_t>(part.lane);
    for (int64_t count : call.send_counts[lane]) c.send_counts.push_back(count);
    for (int64_t count : call.recv_counts[lane]) c.recv_counts.push_back(count);
  }
  deliver_reference(moving, c, inputs);
}

}  // namespace

void pack_collective(ExchangeOperation& moving) { CollectivePacker(moving).pack(); }

bool start_collective(ExchangeOperation& moving) {
  if (moving.exchange.team.size() == 1) {
    run_without_exchange(moving);
    return false;
  }
  pack_collective(moving);
  return true;
}

void finish_collective(ExchangeOperation& moving) {
  moving.out = Bytes();  // else writing the output in place would copy the buffer
  CollectivePacker(moving).unpack();
}

}  // namespace shardproof
