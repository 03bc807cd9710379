// Implements the device side of exchange.h. Each endpoint has one member, so a collective of the
// program is one collective of the transport (NCCL) on the buffers in place. Its order and
// roundings are those of the transport.
#include <algorithm>

#include "shardproof/backends/remote/exchange/exchange.h"
#include "shardproof/localtensor/collective/reduction_schedule.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {
namespace {

// The input of a part, in a buffer on the host or on a device.
struct Piece {
  Bytes owner;
  int64_t offset = 0, size = 0;
};

Piece piece_of(const CallShare& part) {
  const SubmittedCall& submitted = *part.submitted;
  Piece piece;
  piece.size = input_bytes(submitted, part.rank());
  if (piece.size == 0) return piece;
  if (submitted.lanes.size() == 1) {
    const CallBuffer& in = submitted.in;
    piece.owner = in.buffer->bytes;
    piece.offset = byte_offset(in, part.rank());
  } else {
    const Block& block = *submitted.input.find(part.rank());
    const Buffer& buffer = *block.tensor.buffer;
    piece.owner = buffer.bytes;
    piece.offset = block.slot(block.lanes.index_of(part.rank())) * buffer.bytes_per_lane +
                   block.tensor.offset * size_of(block.tensor.dtype);
  }
  if (piece.owner.size() == 0) piece = {contents_to_send(part).owner, 0, piece.size};
  return piece;
}

// True if the pieces lie in group order on the endpoints in ascending order, or if the kind has no
// pieces.
bool lies_in_order(const ExchangeOperation& moving) {
  switch (moving.parts.front().submitted->terms->collective.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce:
    case CollectiveKind::broadcast:
    case CollectiveKind::barrier: return true;
    default: return std::is_sorted(moving.held.begin(), moving.held.end());
  }
}

// True if the program prescribes no order, or one that NCCL can be set to.
bool is_transports_order(const ReductionSchedule& schedule) {
  return schedule == ReductionSchedule() || !nccl_environment(schedule).empty();
}

}  // namespace

void send_piece(ExchangeOperation& moving, const CallShare& part,
                const std::shared_ptr<DeviceMemory>& memory) {
  const Piece piece = piece_of(part);
  moving.out = piece.owner;
  const std::byte* const start = memory ? moving.out.device_data(memory) : moving.out.data();
  moving.exchange.send = start + piece.offset;
  if (memory) moving.exchange.side = Side::device;
}

void receive_bytes(ExchangeOperation& moving, int64_t bytes,
                   const std::shared_ptr<DeviceMemory>& memory) {
  moving.in = memory ? Bytes::on_device(memory, bytes) : Bytes::uninitialized(bytes);
  moving.exchange.recv = memory ? moving.in.device_mutate(memory) : moving.in.mutate();
  if (memory) moving.exchange.side = Side::device;
}

bool can_stay_on_device(const ExchangeOperation& moving) {
  const Collective& c = moving.parts.front().submitted->terms->collective;
  const bool singly = std::all_of(moving.held.begin(), moving.held.end(),
                                  [](const auto& members) { return members.size() == 1; });
  const bool reduced = !reduces(c.kind) || (!moving.unfolded && is_transports_order(c.schedule));
  return singly && reduced && lies_in_order(moving);
}

void start_on_device(ExchangeOperation& moving, const std::shared_ptr<DeviceMemory>& memory) {
  const CallShare& part = moving.parts.front();
  const CallTerms& call = *part.submitted->terms;
  const Collective& c = call.collective;
  Exchange& e = moving.exchange;
  const int64_t n = static_cast<int64_t>(moving.members.size());
  const size_t lane = static_cast<size_t>(part.lane);
  const bool is_root = part.member == c.root;
  e.kind = c.kind;
  e.reduction = c.reduction;
  e.part = FoldPart::whole;
  e.dtype = c.dtype;
  e.count = c.count;
  e.side = Side::device;
  moving.on_device = true;
  moving.in_place = false;
  if (c.kind == CollectiveKind::barrier) return;
  const std::vector<int64_t> even(static_cast<size_t>(n), c.count);
  int64_t received = c.count;
  switch (c.kind) {
    case CollectiveKind::reduce: received = is_root ? c.count : 0; break;
    case CollectiveKind::reduce_scatter: e.recv_counts = even; break;
    case CollectiveKind::all_gather:
    case CollectiveKind::gather:
      e.recv_counts = even;
      received = is_root || c.kind == CollectiveKind::all_gather ? n * c.count : 0;
      break;
    case CollectiveKind::scatter: e.send_counts = even; break;
    case CollectiveKind::all_to_all:
      e.send_counts = e.recv_counts = std::vector<int64_t>(static_cast<size_t>(n), c.count / n);
      break;
    case CollectiveKind::all_to_all_v:
    case CollectiveKind::exchange:
      e.send_counts = call.send_counts[lane];
      e.recv_counts = call.recv_counts[lane];
      received = 0;
      for (const int64_t count : e.recv_counts) received += count;
      break;
    default: break;
  }
  const bool from_root = c.kind == CollectiveKind::broadcast || c.kind == CollectiveKind::scatter;
  if (is_root || !from_root) send_piece(moving, part, memory);
  receive_bytes(moving, received * size_of(c.dtype), memory);
}

void exchange_in_place(ExchangeOperation& moving, const std::shared_ptr<DeviceMemory>& memory) {
  if (!moving.on_device || moving.parts.front().submitted->lanes.size() != 1) return;
  const CallShare& part = moving.parts.front();
  const CallBuffer &in = part.submitted->in, &out = part.submitted->out;
  if (in.buffer == nullptr || in.buffer != out.buffer || in.buffer->lanes.size() != 1) return;
  const Collective& c = part.submitted->terms->collective;
  int64_t from = out.offset_bytes, to = out.offset_bytes;
  switch (c.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce:
    case CollectiveKind::broadcast: break;
    case CollectiveKind::all_gather: from += part.member * in.bytes; break;
    case CollectiveKind::reduce_scatter:
      from = in.offset_bytes;
      if (to != from + part.member * out.bytes) return;
      break;
    default: return;
  }
  if (in.offset_bytes != from) return;
  moving.out = moving.in = Bytes();  // else writing would copy the buffer
  std::byte* const start = in.buffer->bytes.device_mutate(memory);
  moving.exchange.send = start + from;
  moving.exchange.recv = start + to;
  moving.in_place = true;
}

void finish_on_device(ExchangeOperation& moving) {
  if (moving.in_place) return;
  const CallShare& part = moving.parts.front();
  const Collective& c = part.submitted->terms->collective;
  const bool one = c.kind == CollectiveKind::reduce || c.kind == CollectiveKind::gather;
  if (c.kind == CollectiveKind::barrier || (one && part.member != c.root)) return;
  deliver(*part.submitted, part.rank(), moving.in);
}

}  // namespace shardproof
