// CallTotals: how many calls of a kind on a group each rank has made, and the bytes it sent with
// them. For counts that expectations and reports state. Linear in the calls that are added and in
// the ranks of each distinct set of ranks.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shardproof/localtensor/base/fraction.h"
#include "shardproof/localtensor/base/lanes.h"

namespace shardproof {

// Calls of ranks that have made equally many and sent equal bytes with them.
struct CallTotal {
  std::string kind, group;  // "all_reduce", "tp"
  Lanes ranks;
  int64_t count = 0;
  Fraction bytes;  // sent by each of these ranks
  bool operator==(const CallTotal&) const = default;
};

class CallTotals {
 public:
  // Names a kind and a group in `add`.
  size_t index_of(const std::string& kind, const std::string& group);
  // One call of each of these ranks.
  void add(size_t index, const Lanes& ranks, Fraction bytes);
  // Sorted by kind, group and first rank; the ranks of one kind and group are disjoint.
  std::vector<CallTotal> totals() const;

 private:
  struct Sum {
    int64_t count = 0;
    Fraction bytes;
    void add(int64_t calls, Fraction more);
  };
  // Calls of single ranks are summed by rank, others by set of ranks.
  struct Sums {
    std::vector<Sum> of_rank;
    std::unordered_map<Lanes, Sum, LanesHash> of_ranks;  // looked up; its order does not matter
  };
  static std::vector<std::pair<Lanes, Sum>> disjoint(const Sums& sums);

  std::map<std::pair<std::string, std::string>, size_t> indices_;
  std::vector<Sums> sums_;
};

}  // namespace shardproof
