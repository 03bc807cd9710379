// Implements mismatch.h, except texts (mismatch_text.cpp) and divergence (mismatch_divergence.cpp).
//
// Members with equal calls form a class. Classes whose calls fit each other agree; the ranks
// outside an agreeing majority are the ranks of the finding. Example: ranks 0-2 call all_reduce
// with 8 elements, rank 3 with 4. The majority of the two classes is 0-2, so the finding is about
// rank 3.
#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {
namespace {

// Members that made the same call.
struct CallClass {
  const CallTerms* call = nullptr;
  std::vector<int32_t> ranks;
};

// Equal for two calls that fit each other (fits), ordered: all members of a large group may differ.
using FitKey = std::tuple<CollectiveKind, DType, int64_t, ReduceOp, uint64_t, int64_t>;

FitKey fit_key(const Collective& call) {
  if (call.kind == CollectiveKind::barrier) return {call.kind, DType::f32, 0, ReduceOp::sum, 0, 0};
  const Reduction reduction = reduces(call.kind) ? call.reduction : Reduction();
  return {call.kind,
          call.dtype,
          has_counts(call.kind) ? 0 : call.count,
          reduction.op,
          std::bit_cast<uint64_t>(reduction.scalar + 0.0),  // -0 is 0
          has_root(call.kind) ? call.root : 0};
}

std::vector<CallClass> call_classes(const CollectiveInstance& instance) {
  using ClassKey = std::tuple<FitKey, int, std::string_view, std::string_view>;
  std::vector<CallClass> classes;
  std::map<ClassKey, size_t> place_of;
  for (const Arrival& arrival : instance.arrivals) {
    const CallTerms& call = *arrival.submitted->terms;
    const CallSite& site = call.site;
    const auto [place, fresh] = place_of.emplace(
        ClassKey(fit_key(call.collective), site.line, site.text, site.instance), classes.size());
    if (fresh) classes.push_back({&call, {}});
    classes[place->second].ranks.push_back(arrival.rank());
  }
  for (CallClass& c : classes) std::sort(c.ranks.begin(), c.ranks.end());
  std::sort(classes.begin(), classes.end(), [](const CallClass& a, const CallClass& b) {
    if (a.ranks.size() != b.ranks.size()) return a.ranks.size() > b.ranks.size();
    return a.ranks[0] < b.ranks[0];
  });
  return classes;
}

// Returns the ranks outside the majority; all ranks if there is no majority.
std::vector<int32_t> differing_ranks(const std::vector<CallClass>& classes, size_t members) {
  std::map<FitKey, size_t> agreeing;
  for (const CallClass& c : classes) agreeing[fit_key(c.call->collective)] += c.ranks.size();
  std::vector<int32_t> differing;
  const auto majority = std::find_if(agreeing.begin(), agreeing.end(),
                                     [&](const auto& entry) { return 2 * entry.second > members; });
  for (const CallClass& c : classes)
    if (majority == agreeing.end() || fit_key(c.call->collective) != majority->first)
      differing.insert(differing.end(), c.ranks.begin(), c.ranks.end());
  return differing;
}

std::string amount_text(const Collective& collective) {
  if (collective.kind == CollectiveKind::barrier) return "";
  return fmt::format("{} x {}", name(collective.dtype), collective.count);
}

// Describes the arguments in which calls of equal text differ.
std::string argument_text(const Collective& collective) {
  std::string out(name(collective.kind));
  if (reduces(collective.kind)) out += " " + to_string(collective.reduction);
  if (has_root(collective.kind)) out += fmt::format(" root {}", collective.root);
  return out;
}

std::string line_of(const CallTerms& call) { return line_text(call.site.line, call.site.instance); }

std::vector<std::string> describe(const std::vector<CallClass>& classes) {
  bool told_apart = true;
  for (size_t i = 1; i < classes.size(); ++i)
    told_apart &= call_text(*classes[i].call) != call_text(*classes[0].call);
  constexpr size_t kShown = 8;
  std::vector<std::vector<std::string>> rows;
  for (const CallClass& c : classes) {
    if (rows.size() == kShown) break;
    const Collective& collective = c.call->collective;
    rows.push_back({ranks_text(Lanes::of(c.ranks)), call_text(*c.call),
                    told_apart ? "" : argument_text(collective), amount_text(collective),
                    line_of(*c.call)});
  }
  std::vector<std::string> lines = aligned(std::move(rows));
  if (classes.size() > kShown)
    lines.push_back(fmt::format("and {} other calls", classes.size() - kShown));
  return lines;
}

// Returns the fix of equal calls whose reductions differ.
std::string reduction_fix(const Reduction& a, const Reduction& b) {
  if (a.op == ReduceOp::premul_sum && b.op == a.op)
    return "pass the same factor of premul_sum on all members";
  return "reduce with the same operator on all members";
}

std::string fix_text(const std::vector<CallClass>& classes) {
  const Collective& first = classes.front().call->collective;
  for (const CallClass& c : classes) {
    const Collective& other = c.call->collective;
    if (fits(first, other)) continue;
    if (other.kind != first.kind) return std::string(kSameOrder);
    if (other.dtype != first.dtype) return "pass the same dtype on all members";
    const bool other_place = classes.front().call->site.line != c.call->site.line;
    const bool other_root = has_root(first.kind) && other.root != first.root;
    const bool same_amount = other.count == first.count && other.reduction == first.reduction;
    if (other_place && other_root && same_amount)
      return fmt::format("pass the same root on all members, or {}", kSameOrder);
    const bool other_reduction = reduces(first.kind) && other.reduction != first.reduction;
    if (other_place && other_reduction && !other_root && other.count == first.count)
      return fmt::format("{}, or {}", reduction_fix(first.reduction, other.reduction), kSameOrder);
    if (other_place) return std::string(kSameOrder);
    if (other_reduction) return reduction_fix(first.reduction, other.reduction);
    if (other_root) return "pass the same root on all members";
    return "pass the same number of elements on all members";
  }
  return "";
}

Finding base_finding(const std::string& group, int64_t number) {
  Finding finding;
  finding.verdict = Verdict::mismatch;
  finding.group = group;
  finding.call = number;
  finding.headline = fmt::format("mismatch in group {}, call {}", group, number);
  return finding;
}

// Sets the line to the lowest among the calls of the finding's ranks.
void place_at(Finding& finding, const CollectiveInstance& instance) {
  for (const Arrival& arrival : instance.arrivals) {
    const CallSite& site = arrival.submitted->terms->site;
    if (!finding.ranks.contains(arrival.rank())) continue;
    if (finding.line != 0 && finding.line <= site.line) continue;
    finding.line = site.line;
    finding.instance = site.instance;
  }
}

struct UnevenPair {
  const Arrival *sender, *receiver;
  int64_t sent, awaited;
};

std::vector<UnevenPair> disagreeing_pairs(const CollectiveInstance& instance) {
  std::vector<UnevenPair> pairs;
  for (const Arrival& sender : instance.arrivals)
    for (const Arrival& receiver : instance.arrivals) {
      const int64_t sent = send_counts(sender)[static_cast<size_t>(receiver.member)];
      const int64_t awaited = recv_counts(receiver)[static_cast<size_t>(sender.member)];
      if (sent != awaited) pairs.push_back({&sender, &receiver, sent, awaited});
    }
  std::sort(pairs.begin(), pairs.end(), [](const UnevenPair& a, const UnevenPair& b) {
    return std::pair(a.sender->rank(), a.receiver->rank()) <
           std::pair(b.sender->rank(), b.receiver->rank());
  });
  return pairs;
}

// Returns the rank that is an end of every disagreeing pair if there is exactly one, else all ends.
std::vector<int32_t> odd_ends(const std::vector<UnevenPair>& pairs) {
  std::vector<int32_t> ends;
  for (const UnevenPair& pair : pairs) {
    ends.push_back(pair.sender->rank());
    ends.push_back(pair.receiver->rank());
  }
  if (pairs.size() < 2) return ends;
  std::vector<int32_t> everywhere;
  for (int32_t rank : {ends[0], ends[1]}) {
    if (std::all_of(pairs.begin(), pairs.end(), [&](const UnevenPair& pair) {
          return pair.sender->rank() == rank || pair.receiver->rank() == rank;
        })) {
      everywhere.push_back(rank);
    }
  }
  return everywhere.size() == 1 ? everywhere : ends;
}

// Returns "3 rows" if the call counts rows of this size, else "12 elements".
std::string counted(int64_t elements, int64_t row) {
  const int64_t count = row > 0 ? elements / row : elements;
  return fmt::format("{} {}{}", count, row > 0 ? "row" : "element", count == 1 ? "" : "s");
}

std::optional<Finding> find_uneven(const CollectiveInstance& instance, const std::string& group) {
  const std::vector<UnevenPair> pairs = disagreeing_pairs(instance);
  if (pairs.empty()) return std::nullopt;
  Finding finding = base_finding(group, instance.number);
  finding.ranks = Lanes::of(odd_ends(pairs));
  place_at(finding, instance);
  std::vector<std::vector<std::string>> rows;
  for (const UnevenPair& pair : pairs) {
    if (rows.size() == 8) break;
    // Rows of two sizes cannot be compared, but their elements can.
    const int64_t row = pair.sender->submitted->terms->row_elements;
    const int64_t common = row == pair.receiver->submitted->terms->row_elements ? row : 0;
    rows.push_back(
        {fmt::format("rank {}", pair.sender->rank()), line_of(*pair.sender->submitted->terms),
         fmt::format("sends {} to rank {}", counted(pair.sent, common), pair.receiver->rank()),
         fmt::format("which expects {}", counted(pair.awaited, common))});
  }
  finding.details = aligned(std::move(rows));
  finding.fix = "make the receive counts the transpose of the send counts";
  return finding;
}

// Returns a lane's counts, from the call's table or from the collective's flat one.
std::span<const int64_t> counts_of(const std::vector<std::vector<int64_t>>& rows,
                                   const std::vector<int64_t>& flat, const Arrival& arrival) {
  if (!rows.empty()) return rows[static_cast<size_t>(arrival.lane)];
  const size_t members = static_cast<size_t>(arrival.submitted->terms->collective.group.size());
  return std::span(flat).subspan(static_cast<size_t>(arrival.lane) * members, members);
}

}  // namespace

bool fits(const Collective& a, const Collective& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == CollectiveKind::barrier) return true;
  if (a.dtype != b.dtype) return false;
  if (!has_counts(a.kind) && a.count != b.count) return false;
  if (reduces(a.kind) && a.reduction != b.reduction) return false;
  return !has_root(a.kind) || a.root == b.root;
}

std::span<const int64_t> send_counts(const Arrival& arrival) {
  const CallTerms& call = *arrival.submitted->terms;
  return counts_of(call.send_counts, call.collective.send_counts, arrival);
}

std::span<const int64_t> recv_counts(const Arrival& arrival) {
  const CallTerms& call = *arrival.submitted->terms;
  return counts_of(call.recv_counts, call.collective.recv_counts, arrival);
}

std::optional<Finding> find_mismatch(const CollectiveInstance& instance, const std::string& group) {
  if (!instance.differs) {
    const bool uneven = has_counts(instance.arrivals.front().submitted->terms->collective.kind);
    return uneven ? find_uneven(instance, group) : std::nullopt;
  }
  const std::vector<CallClass> classes = call_classes(instance);
  Finding finding = base_finding(group, instance.number);
  finding.ranks = Lanes::of(differing_ranks(classes, instance.arrivals.size()));
  place_at(finding, instance);
  finding.details = describe(classes);
  finding.fix = fix_text(classes);
  return finding;
}

bool fits_message(const Channel::End& sender, const Channel::End& receiver) {
  const Collective& sent = sender.submitted->terms->collective;
  const Collective& awaited = receiver.submitted->terms->collective;
  return sent.dtype == awaited.dtype && sent.count == awaited.count;
}

std::optional<Finding> find_mismatch(const Channel::End& sender, const Channel::End& receiver,
                                     const std::string& group) {
  if (fits_message(sender, receiver)) return std::nullopt;
  const Collective& sent = sender.submitted->terms->collective;
  const Collective& awaited = receiver.submitted->terms->collective;
  Finding finding = base_finding(group, sender.number);
  finding.headline = fmt::format("mismatch in group {}, message {} from rank {} to rank {}", group,
                                 sender.number, sender.rank(), receiver.rank());
  finding.ranks = Lanes::of({sender.rank(), receiver.rank()});
  std::vector<std::vector<std::string>> rows;
  for (const Channel::End* end : {&sender, &receiver}) {
    const CallTerms& call = *end->submitted->terms;
    rows.push_back({fmt::format("rank {}", end->rank()), call_text(call),
                    amount_text(call.collective), line_of(call)});
    if (finding.line != 0 && finding.line <= call.site.line) continue;
    finding.line = call.site.line;
    finding.instance = call.site.instance;
  }
  finding.details = aligned(std::move(rows));
  finding.fix = sent.dtype != awaited.dtype ? "send and receive the same dtype"
                                            : "send and receive the same number of elements";
  return finding;
}

Finding not_a_member(const CallTerms& call, const Lanes& outside, const std::string& group) {
  Finding finding;
  finding.verdict = Verdict::not_a_member;
  finding.ranks = outside;
  finding.line = call.site.line;
  finding.instance = call.site.instance;
  finding.group = group;
  finding.headline = fmt::format("call on group {} by ranks that are not members", group);
  finding.details = aligned({{ranks_text(outside), call_text(call), line_of(call)}});
  finding.fix = "make the call on members only";
  return finding;
}

}  // namespace shardproof
