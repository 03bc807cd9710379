// MatchedCall: something that the coordinator's gate let through, and that workers have to carry
// out. Internal to the remote layer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardproof/backends/remote/wire/messages.h"
#include "shardproof/sim/matching/call_matcher.h"

namespace shardproof {

// A part of a call in the coordinator's own numbers.
struct MatchedCallPart {
  Ticket ticket = kDone;
  int64_t submitted = 0, lane = 0;
  int32_t rank = 0;
  CallSite site;
};

// What the gate let through, until all who are in it have carried it out.
struct MatchedCall {
  CoordinatorCommand kind = CoordinatorCommand::end_part;
  std::vector<MatchedCallPart> parts;
  Collective collective;  // without counts
  std::string text;       // of the first part's call
  int64_t call = 0;       // number in the group
  int32_t target = -1;    // of a put
  int64_t bytes = 0;
  int process = -1;  // of work: whose, and its ticket there
  Ticket work = kDone;
  std::vector<std::shared_ptr<const MatchedCall>> together;  // of a group
};

}  // namespace shardproof
