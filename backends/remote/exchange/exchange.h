// Exchange operations: a collective, message or put between its start and its end, as one worker
// takes part in it. Internal to backends/remote.
//
// A command names the parts of this process. They are packed into an exchange of the transport
// (start_*). When that is done, its result is written to the outputs (finish_*). Contents lie on
// the host, or in the memory of the transport's device (*_on_device). Not thread-safe.
#pragma once

#include "shardproof/backends/remote/exchange/rank_blocks.h"
#include "shardproof/backends/remote/exchange/transport.h"
#include "shardproof/sim/call/submission.h"

namespace shardproof {

// The share of one rank in a call that a command names.
struct CallShare {
  SubmittedCall* submitted = nullptr;
  int64_t lane = 0;
  int64_t member = 0;  // index in the group; collectives only
  int32_t rank() const { return submitted->lanes[lane]; }
};

struct ExchangeOperation {
  std::vector<CallShare> parts;            // in group order
  std::vector<int32_t> members;            // ranks of the group
  size_t collective_index = 0;             // index of the collective among those of the command
  std::vector<std::vector<int64_t>> held;  // indices of members, for each endpoint of the team
  Exchange exchange;
  Bytes out, in;
  bool message = false;           // send, receive or put
  bool on_device = false;         // `out` and `in` lie on the transport's device
  bool in_place = false;          // the result lies in the output already
  bool unfolded = false;          // all inputs are gathered, then `reference` reduces them
  int64_t target = -1, slot = 0;  // put to a rank of this process; target -1: none
  int64_t begun = 0;              // device event at the start, if times are measured
};
// Splits the parts of a collective by endpoint. Returns one operation for each endpoint.
std::vector<ExchangeOperation> by_endpoint(std::vector<CallShare> parts,
                                           std::vector<int32_t> members, const RankBlocks& blocks);
// Prepares the exchange of a collective: on the device if the transport has device memory and the
// call can stay there, else on the host. Returns false if no other endpoint takes part; the
// collective is then complete.
bool start_instance(ExchangeOperation& moving, const RankBlocks& blocks, Transport& transport);
void finish_instance(ExchangeOperation& moving);
// Prepares the exchange of an operation again, with the contents that its buffers have now.
// Requires an operation that was started and finished before.
void restart(ExchangeOperation& moving, Transport& transport);

// Fills the team, the root and `held`: which members of the group lie on which endpoint.
void place_members(ExchangeOperation& moving, const RankBlocks& blocks);
// True if all groups along the same mesh axes lie over endpoints in the same pattern. Partial sums
// within an endpoint then add the same members in each of these groups, so that their results are
// bit-equal replicas. For a group written as a list of ranks: true if each endpoint has one member.
//
// Example: 8 ranks on 2 endpoints, groups of 4 along an axis. {0,1,2,3} and {4,5,6,7} have the same
// pattern: all four members are on one endpoint. With 3 endpoints, {0,1,2 | 3} and {4,5 | 6,7} do
// not.
bool is_uniform_over_endpoints(const Group& group, const RankBlocks& blocks);
// True if the result's bits depend on which members are reduced first.
bool depends_on_association(const Collective& call);
// Packs the inputs of the parts into the exchange.
void pack_collective(ExchangeOperation& moving);
// Packs the inputs like pack_collective, for the first start. Returns false if no other endpoint
// takes part; the collective is then complete.
bool start_collective(ExchangeOperation& moving);
void finish_collective(ExchangeOperation& moving);
// Returns the exchange of a message between endpoints `self` and `other`, without contents and
// count.
Exchange message_exchange(CollectiveKind kind, int self, int other, int64_t number);
// Collectives in device memory. Possible if each endpoint has one member, and the transport reduces
// in the order of the call.
bool can_stay_on_device(const ExchangeOperation& moving);
void start_on_device(ExchangeOperation& moving, const std::shared_ptr<DeviceMemory>& memory);
void finish_on_device(ExchangeOperation& moving);
// Lets an exchange on the device write into the output where the program makes the call in place,
// as NCCL defines it for its collectives. Does nothing for other calls.
void exchange_in_place(ExchangeOperation& moving, const std::shared_ptr<DeviceMemory>& memory);
// Sets the input of a part, or space for `bytes` bytes, as the contents of the exchange. A null
// `memory` means the host.
void send_piece(ExchangeOperation& moving, const CallShare& part,
                const std::shared_ptr<DeviceMemory>& memory);
void receive_bytes(ExchangeOperation& moving, int64_t bytes,
                   const std::shared_ptr<DeviceMemory>& memory);
// The input of a part, contiguous. An input that was never written is filled with NaN or 0xA5.
struct SendContents {
  Bytes owner;
  const std::byte* data = nullptr;  // null if the part has no input
  int64_t size = 0;                 // bytes
};
SendContents contents_to_send(const CallShare& part);

}  // namespace shardproof
