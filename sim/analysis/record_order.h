// The one order of records: as the calls ended, ranks that did alike in one record. Two runs of one
// program have equal records however their ranks were grouped.
#pragma once

#include <string>
#include <vector>

#include "shardproof/localtensor/report/call_record.h"

namespace shardproof {

std::vector<Record> in_order(std::vector<Record> records);

// Where ranks that brought different calls parted before: compares what `odd` ranks did with what
// another member did, up to the call itself. "rank 6 skipped  barrier(group=dp)  before it (line
// 21)", or "" when nothing before the call differs or the records do not reach back.
struct InstanceOfRecords {
  Lanes members, odd;
  std::string group;
  int64_t call = 0;
};
std::string first_divergence(const std::vector<Record>& records, const InstanceOfRecords& instance);
// Whether one of `odd` makes the very calls of another member, and this one at another time.
bool differ_in_order(const std::vector<Record>& records, const InstanceOfRecords& instance);

}  // namespace shardproof
