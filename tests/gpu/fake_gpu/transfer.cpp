// Implements fake_nccl_calls.h: sends and receives the contents of a bundle, then computes its
// results.
#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl_calls.h"

namespace shardproof::fake_gpu {
namespace {

bool has_peer(CollectiveKind kind) {
  return kind == CollectiveKind::send || kind == CollectiveKind::recv;
}

}  // namespace

CallHead NcclCall::head() const {
  CallHead head;
  const bool message = has_peer(kind);
  head.kind = static_cast<int64_t>(message ? CollectiveKind::send : kind);
  head.type = static_cast<int64_t>(dtype);
  head.op = reduces(kind) ? static_cast<int64_t>(reduction.op) : 0;
  head.factor = reduces(kind) ? reduction.scalar : 0;
  head.root = message ? 0 : peer;
  head.count = static_cast<int64_t>(count);
  return head;
}

bool NcclCall::sends_to(int rank, int own) const {
  if (has_peer(kind)) return kind == CollectiveKind::send && peer == rank;
  if (rank == own) return false;
  if (kind == CollectiveKind::broadcast) return peer == own;
  return kind != CollectiveKind::reduce || peer == rank;
}

bool NcclCall::hears_from(int rank, int own) const {
  if (has_peer(kind)) return kind == CollectiveKind::recv && peer == rank;
  if (rank == own) return false;
  if (kind == CollectiveKind::broadcast) return peer == rank;
  return kind != CollectiveKind::reduce || peer == own;
}

Bundle::Bundle(Peers& peers, std::vector<NcclCall> calls, ReductionSchedule order)
    : peers_(peers), calls_(std::move(calls)), order_(order), heard_(peers.size(), 0) {
  for (NcclCall& call : calls_) call.brought.resize(static_cast<size_t>(peers_.size()));
}

int64_t NcclCall::bytes_in() const {
  const bool whole = kind == CollectiveKind::reduce_scatter;
  const size_t ranks = whole ? brought.size() : 1;
  return static_cast<int64_t>(count * ranks) * size_of(dtype);
}

// A rank's input for itself needs no socket.
void Bundle::begin() {
  const int own = peers_.rank();
  std::vector<std::string> to_self;
  for (NcclCall& call : calls_) {
    const size_t bytes = static_cast<size_t>(call.bytes_in());
    const CallHead head = call.head();
    for (int peer = 0; peer < peers_.size(); ++peer) {
      if (!call.sends_to(peer, own)) continue;
      if (peer == own) {
        to_self.emplace_back(reinterpret_cast<const char*>(call.send), bytes);
        continue;
      }
      peers_.send(peer, &head, sizeof(head));
      peers_.send(peer, call.send, bytes);
    }
    if (!has_peer(call.kind) && (call.kind != CollectiveKind::broadcast || call.peer == own))
      call.brought[static_cast<size_t>(own)].assign(reinterpret_cast<const char*>(call.send),
                                                    bytes);
  }
  size_t taken = 0;
  for (NcclCall& call : calls_)
    if (call.hears_from(own, own)) call.brought[static_cast<size_t>(own)] = to_self.at(taken++);
}

// Takes what has come from one peer, in order of calls. Returns true if nothing more is expected.
bool Bundle::hear(int peer) {
  size_t& next = heard_[static_cast<size_t>(peer)];
  for (; next < calls_.size(); ++next) {
    NcclCall& call = calls_[next];
    if (!call.hears_from(peer, peers_.rank())) continue;
    const std::string& in = peers_.received(peer);
    CallHead head;
    if (in.size() >= sizeof(head)) {
      std::memcpy(&head, in.data(), sizeof(head));
      stuck_ = stuck_ || !(head == call.head());
      const size_t bytes = static_cast<size_t>(call.bytes_in());
      if (!stuck_ && in.size() >= sizeof(head) + bytes) {
        peers_.take(peer, sizeof(head));
        call.brought[static_cast<size_t>(peer)] = peers_.take(peer, bytes);
        continue;
      }
    }
    lost_ = lost_ || peers_.gone(peer);
    return false;
  }
  return true;
}

void Bundle::finish(NcclCall& call) {
  const int own = peers_.rank();
  if (call.kind == CollectiveKind::send) return;
  if (call.kind == CollectiveKind::recv || call.kind == CollectiveKind::broadcast) {
    const std::string& all = call.brought[static_cast<size_t>(call.peer)];
    std::memcpy(call.recv, all.data(), all.size());
    return;
  }
  if (call.kind == CollectiveKind::reduce && call.peer != own) return;
  Collective c;
  c.kind = call.kind;
  c.reduction = call.reduction;
  c.dtype = call.dtype;
  c.group = Group::world(peers_.size());
  c.count = static_cast<int64_t>(call.count);
  c.root = call.peer;
  if (reduces(call.kind)) c.schedule = order_;
  std::vector<std::span<const std::byte>> inputs;
  for (const std::string& bytes : call.brought)
    inputs.emplace_back(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  const LocalTensor answer = reference(c, inputs);
  const Tensor mine = answer.of_rank(own);
  std::memcpy(call.recv, mine.data(), static_cast<size_t>(mine.elements() * size_of(mine.dtype)));
}

bool Bundle::heard() {
  peers_.pump();
  bool complete = !stuck_;
  for (int peer = 0; peer < peers_.size(); ++peer)
    if (peer != peers_.rank()) complete = hear(peer) && complete;
  return complete && !stuck_ && peers_.all_sent();
}

void Bundle::finish() {
  for (NcclCall& call : calls_) finish(call);
}

}  // namespace shardproof::fake_gpu
