// Implements fake_nccl_call_group.h: sends and receives the contents of a group of calls, then
// computes their results.
#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl_call_group.h"

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

bool NcclCall::receives_from(int rank, int own) const {
  if (has_peer(kind)) return kind == CollectiveKind::recv && peer == rank;
  if (rank == own) return false;
  if (kind == CollectiveKind::broadcast) return peer == rank;
  return kind != CollectiveKind::reduce || peer == own;
}

CallGroup::CallGroup(Peers& peers, std::vector<NcclCall> calls, ReductionSchedule order)
    : peers_(peers), calls_(std::move(calls)), order_(order), received_calls_(peers.size(), 0) {
  for (NcclCall& call : calls_) call.inputs.resize(static_cast<size_t>(peers_.size()));
}

int64_t NcclCall::bytes_in() const {
  const bool whole = kind == CollectiveKind::reduce_scatter;
  const size_t ranks = whole ? inputs.size() : 1;
  return static_cast<int64_t>(count * ranks) * size_of(dtype);
}

// A rank's input for itself needs no socket.
void CallGroup::begin() {
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
      call.inputs[static_cast<size_t>(own)].assign(reinterpret_cast<const char*>(call.send), bytes);
  }
  size_t next = 0;
  for (NcclCall& call : calls_)
    if (call.receives_from(own, own)) call.inputs[static_cast<size_t>(own)] = to_self.at(next++);
}

// Reads what one peer has sent, in the order of the calls. Returns true if nothing more is
// expected.
bool CallGroup::receive_from(int peer) {
  size_t& next = received_calls_[static_cast<size_t>(peer)];
  for (; next < calls_.size(); ++next) {
    NcclCall& call = calls_[next];
    if (!call.receives_from(peer, peers_.rank())) continue;
    const std::string& in = peers_.received(peer);
    CallHead head;
    if (in.size() >= sizeof(head)) {
      std::memcpy(&head, in.data(), sizeof(head));
      mismatched_ = mismatched_ || !(head == call.head());
      const size_t bytes = static_cast<size_t>(call.bytes_in());
      if (!mismatched_ && in.size() >= sizeof(head) + bytes) {
        peers_.read(peer, sizeof(head));
        call.inputs[static_cast<size_t>(peer)] = peers_.read(peer, bytes);
        continue;
      }
    }
    peer_has_exited_ = peer_has_exited_ || peers_.has_exited(peer);
    return false;
  }
  return true;
}

void CallGroup::finish(NcclCall& call) {
  const int own = peers_.rank();
  if (call.kind == CollectiveKind::send) return;
  if (call.kind == CollectiveKind::recv || call.kind == CollectiveKind::broadcast) {
    const std::string& all = call.inputs[static_cast<size_t>(call.peer)];
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
  for (const std::string& bytes : call.inputs)
    inputs.emplace_back(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  const LocalTensor result = reference(c, inputs);
  const Tensor own_result = result.of_rank(own);
  std::memcpy(call.recv, own_result.data(),
              static_cast<size_t>(own_result.elements() * size_of(own_result.dtype)));
}

bool CallGroup::exchange() {
  peers_.transfer();
  bool complete = !mismatched_;
  for (int peer = 0; peer < peers_.size(); ++peer)
    if (peer != peers_.rank()) complete = receive_from(peer) && complete;
  return complete && !mismatched_ && peers_.all_sent();
}

void CallGroup::finish() {
  for (NcclCall& call : calls_) finish(call);
}

}  // namespace shardproof::fake_gpu
