// Contents on their way: a collective, message or put between its start and its end, as one worker
// sees it. Internal to the remote layer.
#pragma once

#include "shardproof/backends/remote/exchange/transport.h"
#include "shardproof/backends/remote/worker/worker.h"
#include "shardproof/sim/call/submission.h"

namespace shardproof {

// One lane's part of a call that an order names.
struct CallShare {
  SubmittedCall* submitted = nullptr;
  int64_t lane = 0;
  int64_t member = 0;  // index in the group; of collectives
  int32_t rank() const { return submitted->call.lanes[lane]; }
};

// A collective, message or put between its start and its end, on the contents of lanes here.
struct ExchangeOperation {
  std::vector<CallShare> parts;  // in group order
  std::vector<int32_t> members;
  size_t meeting = 0;                      // of those that start together; of collectives
  std::vector<std::vector<int64_t>> held;  // member indices of each endpoint of the team
  Exchange exchange;
  Bytes out, in;
  bool message = false;           // a send, a receive or a put
  bool on_device = false;         // `out` and `in` lie in the transport's memory
  bool unfolded = false;          // the reference reduces what all members bring
  int64_t target = -1, slot = 0;  // of a put that lands here
  int64_t begun = 0;              // event of the device, where it is measured
};
// The parts of a meeting that are here, one for each endpoint with its parts.
std::vector<ExchangeOperation> by_endpoint(std::vector<CallShare> parts,
                                           std::vector<int32_t> members, const RankBlocks& blocks);
// A meeting of `parts` and `members`, in the way that its transport likes best; false when no other
// endpoint has a part, and all is done already.
bool start_instance(ExchangeOperation& moving, const RankBlocks& blocks, Transport& transport);
void finish_instance(ExchangeOperation& moving);

// Who of the group lies where.
void seat(ExchangeOperation& moving, const RankBlocks& blocks);
// Whether all groups beside this one lie over endpoints as it does, so that members that are folded
// where they lie are added alike in each: replicas that come out of several of them are then equal
// to the bit. A group that somebody wrote has none beside it: only one member on each endpoint.
bool lies_alike(const Group& group, const RankBlocks& blocks);
// Whether it matters to the bits which members are reduced first.
bool depends_on_association(const Collective& call);
// Packs what the parts bring; false when no other endpoint has a part, and all is done already.
bool start_collective(ExchangeOperation& moving);
void finish_collective(ExchangeOperation& moving);
// Between this endpoint and another; contents and their count are the caller's.
Exchange message_exchange(CollectiveKind kind, int self, int other, int64_t number);
// The same in the transport's memory, for a meeting to which each endpoint brings one member.
bool can_stay_on_device(const ExchangeOperation& moving);
void start_on_device(ExchangeOperation& moving, const std::shared_ptr<DeviceMemory>& memory);
void finish_on_device(ExchangeOperation& moving);
// What a part brings, or room for so many bytes, becomes the exchange's; null: on the host.
void send_piece(ExchangeOperation& moving, const CallShare& part,
                const std::shared_ptr<DeviceMemory>& memory);
void receive_bytes(ExchangeOperation& moving, int64_t bytes,
                   const std::shared_ptr<DeviceMemory>& memory);
// What a part brings, dense; poison where nothing has been written yet.
struct SendContents {
  Bytes owner;
  const std::byte* data = nullptr;  // null when it brings nothing
  int64_t size = 0;                 // bytes
};
SendContents brought(const CallShare& part);

}  // namespace shardproof
