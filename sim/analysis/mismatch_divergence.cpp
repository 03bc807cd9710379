// Implements first_divergence and differ_in_order of record_order.h: compares the calls that two
// ranks made before a collective that does not fit, and describes the first difference.
#include <fmt/format.h>

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/analysis/record_order.h"

namespace shardproof {
namespace {

using History = std::vector<const Record*>;

// Returns the calls of some ranks, by lane of `ranks`, each in order of issue. One pass over the
// records, because all members of a large group may differ.
std::vector<History> calls_of(const std::vector<Record>& records, const Lanes& ranks) {
  std::vector<History> histories(static_cast<size_t>(ranks.size()));
  for (const Record& record : records) {
    if (record.group.empty()) continue;
    const Lanes here = record.ranks.intersect(ranks);
    for (int64_t i = 0; i < here.size(); ++i)
      histories[static_cast<size_t>(ranks.index_of(here[i]))].push_back(&record);
  }
  for (History& history : histories)
    std::sort(history.begin(), history.end(),
              [](const Record* a, const Record* b) { return a->sequence < b->sequence; });
  return histories;
}

History::const_iterator find_call(const History& history, const MismatchedCollective& instance) {
  return std::find_if(history.begin(), history.end(), [&](const Record* record) {
    return record->group == instance.group && record->call == instance.call &&
           record->kind != "send" && record->kind != "recv";
  });
}

// Returns the calls up to the one with number `call` on the group.
History until_call(History history, const MismatchedCollective& instance) {
  const auto here = find_call(history, instance);
  if (here == history.end()) return {};
  history.erase(here + 1, history.end());
  return history;
}

// True if two calls are equal. In an all_to_all_v or exchange each member has counts of its own.
// Calls that ended had fitting sizes. Two groups of one name may have different ones, because
// shards are uneven.
bool equal_calls(const Record& a, const Record& b) {
  const std::optional<CollectiveKind> kind = parse_collective_kind(a.kind);
  const bool ended = a.state == RecordState::done && b.state == RecordState::done;
  const bool own_sizes = ended || (kind && has_counts(*kind));
  return a.kind == b.kind && a.group == b.group && a.reduction == b.reduction &&
         a.dtype == b.dtype && (own_sizes || a.sizes == b.sizes);
}

std::string text_of(const Record& record) {
  const std::string comma = record.reduction.empty() ? "" : record.reduction + ", ";
  return fmt::format("{}({}group={})", record.kind, comma, record.group);
}

std::string contents_of(const Record& record) {
  const std::string_view dtype = record.dtype ? name(*record.dtype) : "";
  return fmt::format("  {} x {}", dtype, fmt::join(record.sizes, " "));
}

std::string place_of(const Record& record) {
  const std::string pass = record.instance.empty() ? "" : ", " + record.instance;
  return record.line == 0 ? "" : fmt::format(" (line {}{})", record.line, pass);
}

std::string divergence_text(int32_t rank, const History& odd, int32_t other, const History& typical,
                            size_t at) {
  const auto same = [&](size_t mine, size_t theirs) {
    return mine < odd.size() && theirs < typical.size() &&
           equal_calls(*odd[mine], *typical[theirs]);
  };
  if (at + 1 >= odd.size() && at + 1 >= typical.size()) return "";
  if (same(at, at + 1) && same(at + 1, at))
    return fmt::format("rank {} made  {}  before another call{}, rank {} after it", rank,
                       text_of(*odd[at]), place_of(*odd[at]), other);
  if (same(at, at + 1) || at + 1 >= odd.size())
    return fmt::format("rank {} skipped  {}  before it{}", rank, text_of(*typical[at]),
                       place_of(*typical[at]));
  if (same(at + 1, at) || at + 1 >= typical.size())
    return fmt::format("rank {} alone made  {}  before it{}", rank, text_of(*odd[at]),
                       place_of(*odd[at]));
  // Calls with equal text differ in dtype or counts.
  std::string mine = text_of(*odd[at]), theirs = text_of(*typical[at]);
  if (mine == theirs) {
    mine += contents_of(*odd[at]);
    theirs += contents_of(*typical[at]);
  }
  return fmt::format("rank {} made  {}{}  where rank {} made  {}{}", rank, mine, place_of(*odd[at]),
                     other, theirs, place_of(*typical[at]));
}

int32_t typical_rank_of(const MismatchedCollective& instance) {
  const Lanes typical = instance.members.minus(instance.odd);
  return typical.empty() ? instance.members[0] : typical[0];
}

}  // namespace

bool differ_in_order(const std::vector<Record>& records, const MismatchedCollective& instance) {
  constexpr size_t kLongest = 1000;  // longer histories: comparing all pairs would take too long
  const int32_t typical_rank = typical_rank_of(instance);
  const History typical = std::move(calls_of(records, Lanes::one(typical_rank))[0]);
  const auto there = find_call(typical, instance);
  if (there == typical.end() || typical.size() > kLongest) return false;
  const auto same = [](const Record* a, const Record* b) { return equal_calls(*a, *b); };
  const std::vector<History> histories = calls_of(records, instance.odd);
  for (int64_t i = 0; i < instance.odd.size(); ++i) {
    const History& odd = histories[static_cast<size_t>(i)];
    const auto here = find_call(odd, instance);
    if (instance.odd[i] != typical_rank && here != odd.end() && !equal_calls(**here, **there) &&
        std::is_permutation(odd.begin(), odd.end(), typical.begin(), typical.end(), same))
      return true;
  }
  return false;
}

std::string first_divergence(const std::vector<Record>& records,
                             const MismatchedCollective& instance) {
  const int32_t typical_rank = typical_rank_of(instance);
  const History typical =
      until_call(std::move(calls_of(records, Lanes::one(typical_rank))[0]), instance);
  std::vector<History> histories = calls_of(records, instance.odd);
  for (int64_t i = 0; i < instance.odd.size(); ++i) {
    const int32_t rank = instance.odd[i];
    if (rank == typical_rank) continue;
    const History odd = until_call(std::move(histories[static_cast<size_t>(i)]), instance);
    if (odd.empty() || typical.empty()) continue;
    size_t at = 0;
    while (at < odd.size() && at < typical.size() && equal_calls(*odd[at], *typical[at])) ++at;
    if (at == odd.size() || at == typical.size()) continue;
    if (std::string text = divergence_text(rank, odd, typical_rank, typical, at); !text.empty())
      return text;
  }
  return "";
}

}  // namespace shardproof
