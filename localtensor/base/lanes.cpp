// Implements lanes.h. Every set operation first tries the cases that need no list: one set contains
// the other, both are ranges, or the sets are disjoint. If none applies, it merges element by
// element.
#include "shardproof/localtensor/base/lanes.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Limits the memory that a short text can request: "0-1 3-2000000000".
constexpr int64_t kMaxListedRanks = int64_t{1} << 24;

using Ranks = std::vector<int32_t>;

std::pair<Ranks::const_iterator, Ranks::const_iterator> between(const Ranks& list, int64_t first,
                                                                int64_t last) {
  const auto low = std::lower_bound(list.begin(), list.end(), first);
  return {low, std::lower_bound(low, list.end(), last)};
}

uint64_t mixed(uint64_t bits) {
  bits = (bits ^ (bits >> 32)) * 0xD6E8FEB86659FD93ull;
  return bits ^ (bits >> 32);
}

// A sum, so that the additions of neighbours need not wait for each other.
uint64_t rank_set_hash(const Ranks& ranks) {
  uint64_t sum = 0;
  for (const int32_t rank : ranks)
    sum += mixed((uint64_t{static_cast<uint32_t>(rank)} + 1) * 0x9E3779B97F4A7C15ull);
  return mixed(sum);
}

void append_run(std::string& text, int64_t first, int64_t last) {
  if (!text.empty()) text += ' ';
  if (first == last) {
    text += fmt::format("{}", first);
  } else {
    // Two neighbours are listed, not written as a range: "0 1", as in "0 1 5".
    text += fmt::format("{}{}{}", first, last - first > 1 ? "-" : " ", last);
  }
}

std::optional<int64_t> parse_rank(std::string_view text) {
  int32_t rank = -1;
  const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (trouble != std::errc{} || end != text.data() + text.size() || rank < 0) return std::nullopt;
  return rank;
}

}  // namespace

Lanes Lanes::range(int64_t first, int64_t last) {
  Lanes lanes;
  if (last <= first) return lanes;
  SP_CHECK(first >= 0 && last <= (int64_t{1} << 31), "ranks {}..{}", first, last - 1);
  lanes.first_ = first;
  lanes.last_ = last;
  return lanes;
}

Lanes Lanes::of(std::vector<int32_t> ranks) {
  if (!std::is_sorted(ranks.begin(), ranks.end())) std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.empty()) return {};
  SP_CHECK(ranks.front() >= 0, "rank {}", ranks.front());
  if (int64_t{ranks.back()} - ranks.front() + 1 == static_cast<int64_t>(ranks.size()))
    return range(ranks.front(), int64_t{ranks.back()} + 1);
  Lanes lanes;
  const uint64_t hash = rank_set_hash(ranks);
  lanes.list_ = std::make_shared<const List>(List{std::move(ranks), hash});
  return lanes;
}

bool Lanes::operator==(const Lanes& other) const {
  if (list_ == other.list_) return list_ || (first_ == other.first_ && last_ == other.last_);
  return list_ && other.list_ && list_->hash == other.list_->hash &&
         list_->ranks == other.list_->ranks;
}

uint64_t Lanes::hash() const {
  return list_ ? list_->hash
               : mixed(static_cast<uint64_t>(first_ << 32 ^ last_) + 0x9E3779B97F4A7C15ull);
}

int64_t Lanes::index_in_list(int64_t rank) const {
  const Ranks& ranks = list_->ranks;
  if (rank < ranks.front() || rank > ranks.back()) return -1;
  // Many lists have equal distances: the even ranks, the ranks of one column of a mesh.
  const int64_t guess = (rank - ranks.front()) * static_cast<int64_t>(ranks.size() - 1) /
                        (int64_t{ranks.back()} - ranks.front());
  if (ranks[static_cast<size_t>(guess)] == rank) return guess;
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank);
  return at != ranks.end() && *at == rank ? at - ranks.begin() : -1;
}

bool Lanes::contains(const Lanes& other) const {
  if (other.empty() || list_ == other.list_) {
    return other.empty() || list_ || (first_ <= other.first_ && other.last_ <= last_);
  }
  if (other.size() > size()) return false;
  const int64_t low = other[0], high = other[other.size() - 1];
  if (!list_) return first_ <= low && high < last_;
  if (!other.list_) {
    const auto [from, to] = between(list_->ranks, low, high + 1);
    return to - from == other.size();
  }
  const Ranks &ranks = list_->ranks, &others = other.list_->ranks;
  return std::includes(ranks.begin(), ranks.end(), others.begin(), others.end());
}

Lanes Lanes::intersect(const Lanes& other) const {
  if (contains(other)) return other;
  if (other.contains(*this)) return *this;
  if (!list_ && !other.list_)
    return range(std::max(first_, other.first_), std::min(last_, other.last_));
  Ranks both;
  if (list_ && other.list_) {
    const Ranks &ranks = list_->ranks, &others = other.list_->ranks;
    std::set_intersection(ranks.begin(), ranks.end(), others.begin(), others.end(),
                          std::back_inserter(both));
  } else {
    const Lanes& limits = list_ ? other : *this;
    const auto [from, to] =
        between((list_ ? *this : other).list_->ranks, limits.first_, limits.last_);
    both.assign(from, to);
  }
  return of(std::move(both));
}

Lanes Lanes::minus(const Lanes& other) const {
  if (empty() || other.empty() || other.contains(*this)) return other.empty() ? *this : Lanes{};
  const int64_t low = other[0], high = other[other.size() - 1];
  if (high < (*this)[0] || low > (*this)[size() - 1]) return *this;
  if (!list_ && !other.list_ && (low <= first_ || high + 1 >= last_))
    return low <= first_ ? range(high + 1, last_) : range(first_, low);
  Ranks rest;
  // `other` may be a huge range: it is compared by its ends and never written out.
  int64_t at = 0;
  for (int64_t lane = 0; lane < size(); ++lane) {
    const int32_t rank = (*this)[lane];
    if (!other.list_) {
      if (rank < low || rank > high) rest.push_back(rank);
      continue;
    }
    while (at < other.size() && other[at] < rank) ++at;
    if (at == other.size() || other[at] != rank) rest.push_back(rank);
  }
  if (static_cast<int64_t>(rest.size()) == size()) return *this;
  return of(std::move(rest));
}

Lanes Lanes::unite(const Lanes& other) const {
  if (contains(other)) return *this;
  if (other.contains(*this)) return other;
  if (!list_ && !other.list_ && first_ <= other.last_ && other.first_ <= last_)
    return range(std::min(first_, other.first_), std::max(last_, other.last_));
  Ranks all;
  all.reserve(static_cast<size_t>(size() + other.size()));
  int64_t a = 0, b = 0;
  while (a < size() || b < other.size()) {
    const bool from_a = b == other.size() || (a < size() && (*this)[a] <= other[b]);
    if (from_a && b < other.size() && (*this)[a] == other[b]) ++b;
    all.push_back(from_a ? (*this)[a++] : other[b++]);
  }
  return of(std::move(all));
}

std::string all_ranks_text(const Lanes& lanes) {
  return fmt::format("rank{} {}", lanes.size() == 1 ? "" : "s", to_string(lanes));
}

std::string to_string(const Lanes& lanes) {
  if (lanes.empty()) return "none";
  std::string text;
  if (lanes.is_range()) {
    append_run(text, lanes[0], lanes[lanes.size() - 1]);
    return text;
  }
  int64_t first = lanes[0], last = first;
  for (int64_t lane = 1; lane < lanes.size(); ++lane) {
    if (lanes[lane] != last + 1) {
      append_run(text, first, last);
      first = lanes[lane];
    }
    last = lanes[lane];
  }
  append_run(text, first, last);
  return text;
}

std::optional<Lanes> parse_lanes(std::string_view text) {
  if (text == "none") return Lanes{};
  Lanes lanes;
  Ranks listed;
  int runs = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (word.empty()) continue;
    const size_t dash = word.find('-');
    const auto first = parse_rank(word.substr(0, dash));
    const auto last = dash == word.npos ? first : parse_rank(word.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    if (++runs == 1) {
      lanes = Lanes::range(*first, *last + 1);
      continue;
    }
    if (lanes.size() + static_cast<int64_t>(listed.size()) + *last - *first >= kMaxListedRanks)
      return std::nullopt;
    for (int64_t rank = *first; rank <= *last; ++rank) listed.push_back(static_cast<int32_t>(rank));
  }
  if (runs == 0) return std::nullopt;
  return listed.empty() ? lanes : lanes.unite(Lanes::of(std::move(listed)));
}

}  // namespace shardproof
