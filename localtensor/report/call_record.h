// Record: one call or piece of work as it happened. The flight recorder of every backend writes it,
// every analysis reads it, simulated or real; so it holds text and numbers only, no backend's
// types.
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

// On which clock times are: that of the world, virtual or the host's, or a device's own. Where the
// device had nothing to do, its own hold what it took the host to launch the work.
enum class TimedBy : uint8_t { world, device, device_and_launch };
enum class RecordState : uint8_t { issued, started, done, failed };
std::string_view name(RecordState state);

struct Record {
  Lanes ranks;            // of one cohort, that made this call together
  int64_t sequence = 0;   // in the order in which this cohort issued
  std::string kind;       // "all_reduce", or the op of local work
  std::string group;      // "tp", "dp+tp", "world"; empty for local work
  int64_t call = 0;       // number in the group, from 1; 0: no call
  int64_t members = 0;    // of the group
  std::string reduction;  // "sum", "premul_sum(0.5)"
  std::optional<DType> dtype;
  std::vector<int64_t> sizes;  // elements a rank brings; one a member for uneven exchanges
  int64_t root = -1;           // or peer, an index in the group; -1: none
  std::string stream;
  RecordState state = RecordState::issued;
  Duration start, end;
  TimedBy clock = TimedBy::world;
  Duration expected;     // by the library that made the call; zero: it does not say
  Fraction bytes_sent;   // a rank
  int line = 0;          // of the program
  std::string instance;  // "layer 3, step 2"
  bool operator==(const Record&) const = default;
};

// One line of key=value pairs, what is empty left out; and back, with Error(bad_input).
std::string to_string(const Record& record);
Record parse_record(std::string_view text);

}  // namespace shardproof
