// MatchedCall: a call that the coordinator's call matcher has completed and that workers have to
// carry out. Internal to backends/remote. A value; the coordinator shares it between workers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardproof/backends/remote/wire/messages.h"
#include "shardproof/sim/matching/call_matcher.h"

namespace shardproof {

// The share of one rank in a call, in the coordinator's numbering of tickets.
struct MatchedCallPart {
  Ticket ticket = kDone;
  int64_t submitted = 0, lane = 0;
  int32_t rank = 0;
  bool alone = false;  // its submission has no other call
  CallSite site;
};

// A matched call. Kept until all workers concerned have carried it out.
struct MatchedCall {
  CoordinatorCommand kind = CoordinatorCommand::end_part;
  std::vector<MatchedCallPart> parts;
  Collective collective;  // kind, group and slot only
  std::string text;       // text of the first part's call, for messages
  int64_t call = 0;       // number of the call in its group
  int32_t target = -1;    // target rank of a put
  int64_t bytes = 0;      // size of a put
  int process = -1;       // run: the worker that launched the work
  Ticket work = kDone;    // run: the ticket of the work in that worker's numbering
  std::vector<std::shared_ptr<const MatchedCall>> together;  // group: the calls that start together
};

}  // namespace shardproof
