// Record: one call or piece of local work as it happened. The flight recorder of every backend
// writes records; every analysis reads them, both of simulated and of real runs. A record holds
// text and numbers only, no type of a backend.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/base/fraction.h"
#include "shardproof/localtensor/base/lanes.h"
#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {

// The clock that a record's times are read from: the world's (virtual, or the host's), or the
// device's own. `device_and_launch`: the device was idle, so its times include the host's launch.
enum class TimedBy : uint8_t { world, device, device_and_launch };
enum class RecordState : uint8_t { issued, started, done, failed };
std::string_view name(RecordState state);

struct Record {
  Lanes ranks;            // ranks of one cohort that made this call together
  int64_t sequence = 0;   // position in the order in which this cohort issued
  std::string kind;       // "all_reduce", or the op of local work
  std::string group;      // "tp", "dp+tp", "world"; empty for local work
  int64_t call = 0;       // number in the group, from 1; 0: no call
  int64_t members = 0;    // number of members of the group
  std::string reduction;  // "sum", "premul_sum(0.5)"
  std::optional<DType> dtype;
  std::vector<int64_t> sizes;  // input elements of a rank; uneven exchanges: one entry a member
  int64_t root = -1;           // root or peer, an index in the group; -1: none
  std::string stream;
  RecordState state = RecordState::issued;
  Duration start, end;
  TimedBy clock = TimedBy::world;
  Duration expected;     // estimate of the library that made the call; zero: it gives none
  Fraction bytes_sent;   // by each of the ranks
  int line = 0;          // line of the program, from 1; 0: none
  std::string instance;  // "layer 3, step 2"
  bool operator==(const Record&) const = default;
};

// Returns one line of key=value pairs (key_value_text.h); fields with their default are left out.
std::string to_string(const Record& record);
// Returns the inverse of to_string. Throws Error(bad_input) for an unknown field or value.
Record parse_record(std::string_view text);

}  // namespace shardproof
