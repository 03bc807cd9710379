#include <fmt/format.h>

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/analysis/record_order.h"

namespace shardproof {
namespace {

using History = std::vector<const Record*>;

History calls_of(const std::vector<Record>& records, int32_t rank) {
  History history;
  for (const Record& record : records)
    if (!record.group.empty() && record.ranks.contains(rank)) history.push_back(&record);
  std::sort(history.begin(), history.end(),
            [](const Record* a, const Record* b) { return a->sequence < b->sequence; });
  return history;
}

History::const_iterator find_call(const History& history, const InstanceOfRecords& meeting) {
  return std::find_if(history.begin(), history.end(), [&](const Record* record) {
    return record->group == meeting.group && record->call == meeting.call &&
           record->kind != "send" && record->kind != "recv";
  });
}

// What a rank called, up to its call number `call` on the group.
History history_of(const std::vector<Record>& records, int32_t rank,
                   const InstanceOfRecords& meeting) {
  History history = calls_of(records, rank);
  const auto here = find_call(history, meeting);
  if (here == history.end()) return {};
  history.erase(here + 1, history.end());
  return history;
}

// What a member brings to an all_to_all_v is its own.
bool alike(const Record& a, const Record& b) {
  const bool own_sizes = a.kind == name(CollectiveKind::all_to_all_v);
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

std::string word(int32_t rank, const History& odd, int32_t other, const History& usual, size_t at) {
  const auto same = [&](size_t mine, size_t theirs) {
    return mine < odd.size() && theirs < usual.size() && alike(*odd[mine], *usual[theirs]);
  };
  if (at + 1 >= odd.size() && at + 1 >= usual.size()) return "";
  if (same(at, at + 1) && same(at + 1, at))
    return fmt::format("rank {} made  {}  first{}, rank {} after it", rank, text_of(*odd[at]),
                       place_of(*odd[at]), other);
  if (same(at, at + 1) || at + 1 >= odd.size())
    return fmt::format("rank {} skipped  {}  before it{}", rank, text_of(*usual[at]),
                       place_of(*usual[at]));
  if (same(at + 1, at) || at + 1 >= usual.size())
    return fmt::format("rank {} alone made  {}  before it{}", rank, text_of(*odd[at]),
                       place_of(*odd[at]));
  // Calls that read alike differ in what they bring.
  std::string mine = text_of(*odd[at]), theirs = text_of(*usual[at]);
  if (mine == theirs) {
    mine += contents_of(*odd[at]);
    theirs += contents_of(*usual[at]);
  }
  return fmt::format("rank {} made  {}{}  where rank {} made  {}{}", rank, mine, place_of(*odd[at]),
                     other, theirs, place_of(*usual[at]));
}

int32_t usual_rank_of(const InstanceOfRecords& meeting) {
  const Lanes usual = meeting.members.minus(meeting.odd);
  return usual.empty() ? meeting.members[0] : usual[0];
}

}  // namespace

bool differ_in_order(const std::vector<Record>& records, const InstanceOfRecords& meeting) {
  constexpr size_t kLongest = 1000;  // each call is sought among all
  const int32_t usual_rank = usual_rank_of(meeting);
  const History usual = calls_of(records, usual_rank);
  const auto there = find_call(usual, meeting);
  if (there == usual.end() || usual.size() > kLongest) return false;
  const auto same = [](const Record* a, const Record* b) { return alike(*a, *b); };
  for (int64_t i = 0; i < meeting.odd.size(); ++i) {
    const History odd = calls_of(records, meeting.odd[i]);
    const auto here = find_call(odd, meeting);
    if (meeting.odd[i] != usual_rank && here != odd.end() && !alike(**here, **there) &&
        std::is_permutation(odd.begin(), odd.end(), usual.begin(), usual.end(), same))
      return true;
  }
  return false;
}

std::string first_divergence(const std::vector<Record>& records, const InstanceOfRecords& meeting) {
  const int32_t usual_rank = usual_rank_of(meeting);
  const History usual = history_of(records, usual_rank, meeting);
  for (int64_t i = 0; i < meeting.odd.size(); ++i) {
    const int32_t rank = meeting.odd[i];
    if (rank == usual_rank) continue;
    const History odd = history_of(records, rank, meeting);
    if (odd.empty() || usual.empty()) continue;
    size_t at = 0;
    while (at < odd.size() && at < usual.size() && alike(*odd[at], *usual[at])) ++at;
    if (at == odd.size() || at == usual.size()) continue;
    if (std::string text = word(rank, odd, usual_rank, usual, at); !text.empty()) return text;
  }
  return "";
}

}  // namespace shardproof
