// Fault: one piece of injected trouble, as a scenario declares it. Plain values that print and
// parse back.
//
//   hang(rank=3, call=5)                  the host freezes when it comes to the call
//   die(rank=3, call=5)                   the host ends there
//   skip(rank=3, call=5)                  the call is not made; its output is its own input, or
//   zeros delay(rank=3, call=5, by='2 ms')      the host comes later corrupt(rank=3, call=5,
//   element=0)    the copy brought to the call is changed; at a recv, what arrives slow(rank=5,
//   by=1.5)                  every kernel takes `by` times as long
//
// `call` counts the collectives, sends and receives of that rank from 1, over all groups (a group
// of one rank makes no call). `line=` in its place: the first call of that line.
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
  int64_t call = 0;  // 0: given by line
  int line = 0;
  int64_t element = 0;  // corrupt
  Duration by;          // delay
  double factor = 1;    // slow
  bool operator==(const Fault&) const = default;
};

std::string to_string(const Fault& fault);
// Throws Error: bad_input for what is no fault, unsupported for `link` and `crash`.
Fault parse_fault(std::string_view text);
std::vector<Fault> parse_faults(const std::vector<std::string>& texts);
// The ranks that need a cohort of their own.
Lanes faulty_ranks(const std::vector<Fault>& faults);

}  // namespace shardproof
