// Fault: one injected fault of a scenario. Plain values with a text form that parses back.
//
// | text                               | effect                                                   |
// |------------------------------------|----------------------------------------------------------|
// | hang(rank=3, call=5)               | the host stops at the call                               |
// | die(rank=3, call=5)                | the host ends at the call                                |
// | skip(rank=3, call=5)               | no call; the output is the input, or zeros               |
// | delay(rank=3, call=5, by='2 ms')   | the host issues the call later                           |
// | corrupt(rank=3, call=5, element=0) | one element of the input changes; recv: of the result   |
// | slow(rank=5, by=1.5)               | every kernel takes `by` times as long                    |
//
// `call` counts the collectives, sends and receives of the rank from 1, over all groups; groups of
// one rank do not count. `line=` in its place means the first call of that line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/base/lanes.h"

namespace shardproof {

enum class FaultKind : uint8_t { hang, die, skip, delay, corrupt, slow };

struct Fault {
  FaultKind kind = FaultKind::hang;
  int64_t rank = 0;
  int64_t call = 0;  // 0: `line` is given
  int line = 0;
  int64_t element = 0;  // corrupt
  Duration by;          // delay
  double factor = 1;    // slow
  bool operator==(const Fault&) const = default;
};

std::string to_string(const Fault& fault);
// Throws Error(bad_input) for a malformed fault, Error(unsupported) for `link` and `crash`.
Fault parse_fault(std::string_view text);
std::vector<Fault> parse_faults(const std::vector<std::string>& texts);

}  // namespace shardproof
