// Implements dim_layout.h.
//
// of_cuts turns the cuts of a spec into digits, one cut after another (put_cut):
//   plain cut         an axis digit at the end
//   S(d, split=k)     cuts into an existing gap if there is one (put_in_gap), else a gap of k and
//                     the axis
//   explicit sizes    an axis digit with a form, or a plain one if the sizes follow the chunk rule
//   any other cut     goes to `odd`
// make_normal() makes equal layouts equal lists: it drops digits of size 1, joins neighbouring gaps
// and drops gaps at the end.
//
// Example: dim of 8, digits gap4 tp2 (tp 0 has 0 2 4 6). The cut dp:S(0, split=2) over 2 ranks
// applies to the local 4 elements. One factor of 2 stays a gap, the other becomes the dp digit:
// gap2 dp2 tp2. cuts is the inverse: the split of a Shard is the product of the gaps before it.
#include "shardproof/localtensor/plan/dim_layout.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

namespace {

constexpr int kGap = -1;
constexpr int64_t kIndicesHashed = 8;    // of a dim, to find layouts that own the same
constexpr int64_t kMaxRanksListed = 64;  // along the axes of layouts that are compared by pieces

// True if cutting an extent into h1 pieces, and each into h2, equals cutting it into h1 * h2 at
// once. Example: extent 5, h1 = h2 = 2: 3 + 2, then 2 1 + 1 1; at once 2 2 1. False.
bool may_merge(int64_t extent, int64_t h1, int64_t h2) {
  const int64_t outer = ceil_div(extent, h1);
  const int64_t inner = ceil_div(outer, h2);
  if (outer != h2 * inner && extent > outer) return false;
  const int64_t last = outer == 0 ? 0 : extent % outer;  // a short piece is cut by its own length
  const int64_t own = ceil_div(last, h2);
  return last == 0 || own == inner || (last <= inner && last <= own);
}

// True if a shard cuts all extents to their ends. Explicit sizes are made for one extent.
bool can_cut(const Shard& shard, const std::vector<int64_t>& extents) {
  const int64_t total = std::accumulate(shard.sizes.begin(), shard.sizes.end(), int64_t{0});
  return shard.sizes.empty() || std::all_of(extents.begin(), extents.end(),
                                            [&](int64_t extent) { return extent == total; });
}

Digit gap_of(int64_t size) { return {kGap, 0, size}; }

// Returns the product of the sizes of the digits.
int64_t parts_of(std::span<const Digit> digits) {
  return std::accumulate(digits.begin(), digits.end(), int64_t{1},
                         [](int64_t parts, const Digit& digit) { return parts * digit.size; });
}

bool is_plain(std::span<const Digit> digits) {
  return std::all_of(digits.begin(), digits.end(), [](const Digit& d) { return d.form == 0; });
}

bool has_gaps(std::span<const Digit> digits) {
  return std::any_of(digits.begin(), digits.end(), [](const Digit& d) { return d.axis == kGap; });
}

// Calls each(first, last) for the places that the axes of `mask` cut.
template <typename Each>
void for_each_place(std::span<const Digit> digits, uint64_t mask, const Each& each) {
  int64_t place = 1;
  for (const Digit& digit : digits) {
    if (digit.axis != kGap && (mask >> digit.axis & 1) != 0) each(place, place * digit.size);
    place *= digit.size;
  }
}

bool is_power(int64_t number, int64_t prime) {
  while (number % prime == 0) number /= prime;
  return number == 1;
}

std::vector<int64_t> cut_all(const std::vector<int64_t>& extents, int64_t ranks) {
  return cut_extents(Shard{}, extents, ranks);
}

}  // namespace

DimLayouts::DimLayouts(int dim, int64_t extent, std::vector<int64_t> axis_sizes)
    : dim_(dim),
      extent_(extent),
      axis_sizes_(std::move(axis_sizes)),
      bits_(axis_sizes_),
      forms_(1) {
  number(Layout{});
}

void DimLayouts::add_gap(int64_t size) {
  if (size <= 1 || std::find(gaps_.begin(), gaps_.end(), size) != gaps_.end()) return;
  gaps_.push_back(size);
  for (Facts& facts : facts_) facts.with.clear();
}

void DimLayouts::offer(int layout) {
  offered_.push_back(layout);
  for (Facts& facts : facts_) facts.with.clear();
}

int DimLayouts::form_of(const Shard& shard) {
  for (size_t i = 1; i < forms_.size(); ++i)
    if (forms_[i] == shard) return static_cast<int>(i);
  forms_.push_back(shard);
  return static_cast<int>(forms_.size()) - 1;
}

bool DimLayouts::is_stored(size_t stored, const Layout& layout) const {
  const std::span<const Digit> digits = digits_of(stored_[stored]);
  return std::equal(digits.begin(), digits.end(), layout.digits.begin(), layout.digits.end()) &&
         stored_[stored].odd == layout.odd;
}

// Returns the slot of a layout, or the free one where it belongs.
size_t& DimLayouts::slot_of(const Layout& layout) {
  uint64_t hash = layout.odd.size();
  for (const Digit& digit : layout.digits) {
    hash ^= static_cast<uint64_t>(digit.size) << 16 ^ static_cast<uint64_t>(digit.form) << 8 ^
            static_cast<uint64_t>(digit.axis + 1);
    hash *= 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at] != 0 && !is_stored(slots_[at] - 1, layout)) at = (at + 1) & mask;
  return slots_[at];
}

void DimLayouts::grow_slots() {
  slots_.assign(std::max<size_t>(2 * slots_.size(), 64), 0);
  for (size_t i = 0; i < stored_.size(); ++i) {
    Layout layout{{}, stored_[i].odd};
    layout.digits.append(digits_of(stored_[i]));
    slot_of(layout) = i + 1;
  }
}

int DimLayouts::number(const Layout& layout) {
  if (2 * (stored_.size() + 1) > slots_.size()) grow_slots();
  size_t& slot = slot_of(layout);
  if (slot != 0) return stored_[slot - 1].number;
  const auto next = static_cast<int>(facts_.size());
  stored_.push_back({digits_.size(), layout.digits.size(), layout.odd, next});
  slot = stored_.size();
  digits_.insert(digits_.end(), layout.digits.begin(), layout.digits.end());
  add_facts();
  const int same = same_ownership(next);
  if (same == next) return next;
  stored_.back().number = same;
  // Digits describe what is left if any axis is taken out; odd cuts do not.
  if (!odd_of(same).empty() && layout.odd.empty() && parts_of(layout.digits) <= extent_)
    facts_[static_cast<size_t>(same)] = std::move(facts_.back());
  facts_.pop_back();
  return same;
}

// Returns the owner of an index.
uint64_t DimLayouts::owner_of(int layout, int64_t index) {
  const std::span<const Digit> digits = digits_of(layout);
  if (!odd_of(layout).empty() || !is_plain(digits)) {
    const OwnedPieces& owned = pieces(layout);
    const auto piece =
        std::upper_bound(owned.begin(), owned.end(), index,
                         [](int64_t at, const OwnedPiece& one) { return at < one.end; });
    SP_CHECK(piece != owned.end(), "nobody owns index {}", index);
    return piece->owner;
  }
  uint64_t owner = 0;
  int64_t extent = extent_;
  for (const Digit& digit : digits) {
    const int64_t length = ceil_div(extent, digit.size), chunk = index / length;
    if (digit.axis != kGap) owner |= bits_.packed(digit.axis, chunk);
    index -= chunk * length;
    extent = std::min(length, extent - chunk * length);
  }
  return owner;
}

// Returns a number that is equal for layouts that own the same.
uint64_t DimLayouts::ownership_hash(int layout) {
  uint64_t hash = axes(layout);
  for (int64_t i = 0; i < kIndicesHashed; ++i) {
    hash = (hash ^ owner_of(layout, i * extent_ / kIndicesHashed)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

// Returns the number of a layout that owns the same, the layout itself if there is no earlier one.
// Uneven cuts with empty parts can own the same in several ways.
int DimLayouts::same_ownership(int layout) {
  if (is_even(layout) || !is_inverse_of_cuts(layout)) return layout;
  if (ranks_along(axes(layout)) > kMaxRanksListed) return layout;
  const uint64_t hash = ownership_hash(layout);
  const auto [first, last] = uneven_.equal_range(hash);
  const auto same = std::find_if(first, last, [&](const auto& known) {
    return axes(known.second) == axes(layout) && pieces(known.second) == pieces(layout);
  });
  if (same != last) return same->second;
  uneven_.emplace(hash, layout);
  return layout;
}

// Adds the facts of the last stored layout.
void DimLayouts::add_facts() {
  Facts& facts = facts_.emplace_back();
  facts.stored = stored_.size() - 1;
  const auto number = static_cast<int>(facts_.size()) - 1;
  const std::span<const Digit> digits = digits_of(number);
  int64_t ranks = 1, longest = extent_;
  for (const Digit& digit : digits) {
    if (digit.axis == kGap) continue;
    facts.axes |= uint64_t{1} << digit.axis;
    ranks *= digit.size;
    longest = ceil_div(longest, digit.size);
  }
  for (const auto& [axis, form] : odd_of(number)) facts.axes |= uint64_t{1} << axis;
  const bool plain = odd_of(number).empty() && is_plain(digits);
  facts.even = plain && extent_ % parts_of(digits) == 0;
  if (facts.even)
    facts.max_extent = extent_ / ranks;
  else if (plain && !has_gaps(digits))
    facts.max_extent = longest;
}

int64_t DimLayouts::max_extent(int layout) {
  const auto at = static_cast<size_t>(layout);
  if (facts_[at].max_extent < 0)
    facts_[at].max_extent = shardproof::max_extent(cuts(layout), extent_);
  return facts_[at].max_extent;
}

Layout DimLayouts::layout_of(int layout) const {
  Layout copy{{}, odd_of(layout)};
  copy.digits.append(digits_of(layout));
  return copy;
}

const OwnedPieces& DimLayouts::pieces(int layout) {
  Facts& facts = facts_[static_cast<size_t>(layout)];
  if (facts.has_pieces) return facts.pieces;
  facts.has_pieces = true;
  const std::span<const Digit> digits = digits_of(layout);
  if (odd_of(layout).empty() && is_plain(digits)) {
    ShortList<ChunkCut, Layout::kMaxDigits> cuts;
    for (const Digit& digit : digits) cuts.push_back({digit.axis, digit.size});
    facts.pieces = owned_pieces(cuts, extent_, bits_);
  } else {
    facts.pieces = owned_pieces(cuts(layout), extent_, bits_);
  }
  return facts.pieces;
}

std::vector<int64_t> DimLayouts::extents_after(const Layout& layout, size_t digits) const {
  std::vector<int64_t> extents = {extent_};
  for (size_t i = 0; i < digits; ++i) {
    const Digit& digit = layout.digits[i];
    extents = digit.form == 0
                  ? cut_all(extents, digit.size)
                  : cut_extents(forms_[static_cast<size_t>(digit.form)], extents, digit.size);
  }
  return extents;
}

// True if the pieces of a gap have one length at every coordinate. Only then a later cut of the
// whole local part cuts all pieces in the same way.
bool DimLayouts::is_even_gap(const Layout& layout, size_t at) const {
  const Digit& gap = layout.digits[at];
  if (gap.form != 0) return false;
  const auto extents = extents_after(layout, at);
  return std::all_of(extents.begin(), extents.end(),
                     [&](int64_t extent) { return extent % gap.size == 0; });
}

void DimLayouts::make_normal(Layout& layout) const {
  if (extent_ == 0) layout = {};
  auto& digits = layout.digits;
  digits.resize(static_cast<size_t>(
      std::remove_if(digits.begin(), digits.end(), [](const Digit& d) { return d.size == 1; }) -
      digits.begin()));
  for (size_t i = 0; i + 1 < digits.size();) {
    const Digit &a = digits[i], &b = digits[i + 1];
    bool merge = a.axis == kGap && b.axis == kGap && a.form == 0 && b.form == 0;
    if (merge)
      for (int64_t extent : extents_after(layout, i))
        merge = merge && may_merge(extent, a.size, b.size);
    if (!merge) {
      ++i;
      continue;
    }
    digits[i].size *= b.size;
    digits.erase(i + 1);
    if (i > 0) --i;
  }
  while (!digits.empty() && digits.back().axis == kGap) digits.pop_back();
}

// Replaces a gap by a gap of `skip`, the axis, and a gap of the rest. Returns false if the sizes do
// not divide.
bool DimLayouts::put_in_gap(Layout& layout, size_t at, int64_t skip, int axis) const {
  const int64_t size = layout.digits[at].size, ranks = axis_sizes_[static_cast<size_t>(axis)];
  if (size % (skip * ranks) != 0) return false;
  layout.digits[at] = gap_of(skip);
  layout.digits.insert(at + 1, {axis, 0, ranks});
  layout.digits.insert(at + 2, gap_of(size / skip / ranks));
  return true;
}

// Applies a cut of the whole local part to the digits. Returns false if digits cannot describe it.
bool DimLayouts::put_cut(Layout& layout, const DimCut& cut) {
  bool has_gaps = false;
  for (size_t i = 0; i < layout.digits.size(); ++i) {
    if (layout.digits[i].axis != kGap) continue;
    if (!is_even_gap(layout, i)) return false;
    has_gaps = true;
  }
  if (!cut.shard.sizes.empty()) {
    if (has_gaps) return false;
    const auto extents = extents_after(layout, layout.digits.size());
    bool chunked = extents.size() == 1;
    for (int64_t i = 0; i < cut.ranks && chunked; ++i)
      chunked = cut.shard.sizes[static_cast<size_t>(i)] == chunk_length(extents[0], cut.ranks, i);
    layout.digits.push_back({cut.axis, chunked ? 0 : form_of(cut.shard), cut.ranks});
    return true;
  }
  int64_t skip = cut.shard.split;
  for (size_t i = 0; i < layout.digits.size(); ++i) {
    const Digit& digit = layout.digits[i];
    if (digit.axis != kGap) continue;
    if (skip % digit.size != 0)
      return digit.size % skip == 0 && put_in_gap(layout, i, skip, cut.axis);
    skip /= digit.size;
  }
  if (skip > 1 && has_gaps)
    for (int64_t extent : extents_after(layout, layout.digits.size()))
      if (extent % skip != 0) return false;
  layout.digits.push_back(gap_of(skip));
  layout.digits.push_back({cut.axis, 0, cut.ranks});
  return true;
}

Layout DimLayouts::of_cuts(const CutList& cuts) {
  Layout layout;
  for (const DimCut& cut : cuts) {
    if (cut.ranks == 1) continue;
    Layout next = layout;
    if (layout.odd.empty() && put_cut(next, cut)) {
      make_normal(next);
      layout = next;
    } else {
      layout.odd.emplace_back(cut.axis, form_of(cut.shard));
    }
  }
  make_normal(layout);
  return layout;
}

int DimLayouts::of_spec(const Spec& spec) {
  Layout layout = of_cuts(cuts_of_dim(spec, dim_));
  int64_t skipped = 1;
  for (const Digit& digit : layout.digits) {
    if (digit.axis == kGap)
      add_gap(digit.size), add_gap(skipped *= digit.size);
    else if (digit.form != 0)
      axis_forms_.emplace_back(digit.axis, digit.form);
  }
  for (const auto& entry : layout.odd) axis_forms_.push_back(entry);
  Layout prefix;
  for (const Digit& digit : layout.digits) {
    prefix.digits.push_back(digit);
    spec_prefixes_.push_back(prefix);
    make_normal(spec_prefixes_.back());
  }
  return number(layout);
}

int DimLayouts::of_chain(const std::vector<int>& axes, const std::vector<int64_t>& splits) {
  CutList cuts;
  for (size_t i = 0; i < axes.size(); ++i)
    cuts.push_back({axes[i], axis_sizes_[static_cast<size_t>(axes[i])],
                    Shard{dim_, i < splits.size() ? splits[i] : 1, {}}});
  return number(of_cuts(cuts));
}

std::vector<int> DimLayouts::axis_order(int layout) const {
  std::vector<int> order;
  for (const Digit& digit : digits_of(layout))
    if (digit.axis != kGap) order.push_back(digit.axis);
  for (const auto& [axis, form] : odd_of(layout)) order.push_back(axis);
  return order;
}

const CutList& DimLayouts::cuts(int layout) {
  Facts& facts = facts_[static_cast<size_t>(layout)];
  if (facts.has_cuts) return facts.cuts;
  facts.has_cuts = true;
  CutList& cuts = facts.cuts;
  cuts.reserve(digits_of(layout).size() + odd_of(layout).size());
  int64_t split = 1;
  for (const Digit& digit : digits_of(layout)) {
    if (digit.axis == kGap) {
      split *= digit.size;
    } else if (digit.form != 0) {
      cuts.push_back({digit.axis, digit.size, forms_[static_cast<size_t>(digit.form)]});
    } else {
      cuts.push_back({digit.axis, digit.size, Shard{dim_, split, {}}});
    }
  }
  for (const auto& [axis, form] : odd_of(layout))
    cuts.push_back(
        {axis, axis_sizes_[static_cast<size_t>(axis)], forms_[static_cast<size_t>(form)]});
  return cuts;
}

// True if the digits describe what the cuts of the layout own.
bool DimLayouts::is_inverse_of_cuts(int layout) {
  const auto at = static_cast<size_t>(layout);
  if (facts_[at].inverse >= 0) return facts_[at].inverse == 1;
  const std::span<const Digit> digits = digits_of(layout);
  const bool chunks = odd_of(layout).empty() && is_plain(digits) && !has_gaps(digits);
  const bool inverse = chunks || is_stored(facts_[at].stored, of_cuts(cuts(layout)));
  facts_[at].inverse = inverse ? 1 : 0;
  return inverse;
}

bool DimLayouts::has_spec(int layout) {
  const auto at = static_cast<size_t>(layout);
  if (facts_[at].representable >= 0) return facts_[at].representable == 1;
  bool representable = is_inverse_of_cuts(layout);
  const bool plain = odd_of(layout).empty() && is_plain(digits_of(layout));
  std::vector<int64_t> extents = {extent_};
  for (const DimCut& cut : plain ? CutList{} : cuts(layout)) {
    representable = representable && can_cut(cut.shard, extents);
    extents = cut_extents(cut.shard, extents, cut.ranks);
  }
  facts_[at].representable = representable ? 1 : 0;
  return representable;
}

int64_t DimLayouts::joint_extent(int layout, uint64_t mask) {
  mask &= axes(layout);
  if (mask == 0) return max_extent(layout);
  auto& joint = facts_[static_cast<size_t>(layout)].joint;
  for (const auto& [known, extent] : joint)
    if (known == mask) return extent;
  joint.emplace_back(mask, max_joint_extent(cuts(layout), extent_, mask));
  return joint.back().second;
}

bool DimLayouts::has_digits(int layout, int64_t prime, int64_t more) const {
  for (const Digit& digit : digits_of(layout)) {
    more *= digit.size;
    if (digit.axis == kGap && !is_power(digit.size, prime)) return false;
  }
  return is_even(layout) && extent_ % more == 0;
}

bool DimLayouts::has_chunks(int layout) const {
  return odd_of(layout).empty() && parts(layout) <= extent_ && is_plain(digits_of(layout));
}

std::vector<int64_t> DimLayouts::sizes_before(int layout, int axis) const {
  std::vector<int64_t> sizes;
  for (const Digit& digit : digits_of(layout)) {
    if (digit.axis == axis) break;
    sizes.push_back(digit.size);
  }
  return sizes;
}

int64_t DimLayouts::first_place(int layout, int axis) const {
  int64_t place = 1;
  for (const Digit& digit : digits_of(layout)) {
    if (digit.axis == axis) return place;
    place *= digit.size;
  }
  return 0;
}

// Returns the length of a piece of an exchange between two even layouts. It divides the extent by
// the sizes of the places that either layout cuts. Returns -1 if their places do not nest.
int64_t DimLayouts::even_piece(int from, int to) const {
  std::vector<std::pair<int64_t, int64_t>> places;
  for (int number : {from, to})
    for_each_place(digits_of(number), ~uint64_t{0},
                   [&](int64_t first, int64_t last) { places.emplace_back(first, last); });
  std::sort(places.begin(), places.end());
  int64_t parts = 1, reached = 1;
  for (const auto& [first, last] : places) {
    const int64_t start = std::max(first, reached);
    if (start % first != 0 || start % reached != 0 ||
        std::max(last, start) % std::min(last, start) != 0)
      return -1;
    if (last > start) parts *= last / start;
    reached = std::max(reached, last);
  }
  return extent_ / parts;
}

int64_t DimLayouts::piece_extent(int from, int to, uint64_t mask) {
  mask &= axes(from) | axes(to);
  const auto [found, fresh] = pieces_.try_emplace({from, to, mask}, -1);
  if (!fresh) return found->second;
  if (is_even(from) && is_even(to)) found->second = even_piece(from, to);
  if (found->second < 0) found->second = uneven_piece(from, to, mask);
  return found->second;
}

// Returns what largest_piece does, from the pieces.
int64_t DimLayouts::uneven_piece(int from, int to, uint64_t mask) {
  const uint64_t before = axes(from), after = axes(to), stays = before & after & ~mask;
  if ((after & mask) == 0) return max_extent(from);
  if ((before & mask) == 0) return max_extent(to);
  if (ranks_along(before) * ranks_along(after & ~stays) > kMaxPairs)
    return std::min(max_extent(from), max_extent(to));
  std::vector<std::pair<std::pair<uint64_t, uint64_t>, int64_t>> parts;  // by sender, receiver
  const uint64_t shared = bits_.bits_of(stays);
  for_each_overlap(pieces(from), pieces(to), [&](int64_t length, uint64_t sender, uint64_t owner) {
    if (((sender ^ owner) & shared) == 0) parts.push_back({{sender, owner}, length});
  });
  std::sort(parts.begin(), parts.end());
  int64_t most = 0, piece = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    piece =
        i > 0 && parts[i].first == parts[i - 1].first ? piece + parts[i].second : parts[i].second;
    most = std::max(most, piece);
  }
  return most;
}

int64_t DimLayouts::ranks_along(uint64_t mask) const {
  int64_t ranks = 1;
  for (; mask != 0; mask &= mask - 1)
    ranks *= axis_sizes_[static_cast<size_t>(std::countr_zero(mask))];
  return ranks;
}

bool DimLayouts::is_balanced(int from, int to, uint64_t mask) const {
  // Odd cuts can overlap all places.
  const auto each_place = [&](int layout, const auto& each) {
    for_each_place(digits_of(layout), mask, each);
    for (const auto& [axis, form] : odd_of(layout))
      if ((mask >> axis & 1) != 0) each(int64_t{1}, std::numeric_limits<int64_t>::max());
  };
  // Digits whose places nest are independent, unlike halves and thirds. Uneven parts differ anyway.
  const auto nest = [even = is_even(from) && is_even(to)](int64_t last, int64_t first) {
    return last <= first && (!even || first % last == 0);
  };
  bool balanced = true;
  each_place(from, [&](int64_t first, int64_t last) {
    each_place(to, [&](int64_t other_first, int64_t other_last) {
      balanced = balanced && (nest(last, other_first) || nest(other_last, first));
    });
  });
  return balanced;
}

int DimLayouts::without(int layout, uint64_t mask) {
  const auto at = static_cast<size_t>(layout);
  mask &= facts_[at].axes;
  if (mask == 0) return layout;
  for (const auto& [known, rest] : facts_[at].without)
    if (known == mask) return rest;
  Layout rest = layout_of(layout);
  uint64_t left = mask;
  while (!rest.odd.empty() && (left >> rest.odd.back().first & 1) != 0) {
    left &= ~(uint64_t{1} << rest.odd.back().first);
    rest.odd.pop_back();
  }
  int result = -1;
  if (rest.odd.empty() || left == 0) {
    for (Digit& digit : rest.digits)
      if (digit.axis >= 0 && (left >> digit.axis & 1) != 0) digit.axis = kGap;
    make_normal(rest);
    result = number(rest);
  }
  auto& known = facts_[at].without;
  if (known.empty()) known.reserve(8);
  known.emplace_back(mask, result);
  return result;
}

// Calls each(layout) for the layouts in which `axis` cuts into one of the gaps of `base`.
template <typename Each>
void DimLayouts::for_each_cut_into_gaps(const Layout& base, int axis, const Each& each) const {
  const int64_t ranks = axis_sizes_[static_cast<size_t>(axis)];
  for (size_t i = 0; i < base.digits.size(); ++i) {
    const Digit& gap = base.digits[i];
    if (gap.axis != kGap || gap.size % ranks != 0) continue;
    if (gap.form != 0) {
      Layout next = base;
      next.digits[i].axis = axis;
      each(next);
      continue;
    }
    for (int64_t skip = 1; skip * ranks <= gap.size; ++skip) {
      Layout next = base;
      if (put_in_gap(next, i, skip, axis)) each(next);
    }
  }
}

// Calls each(layout) for the layouts, not all normal, in which `axis` might cut `base` further.
template <typename Each>
void DimLayouts::for_each_candidate(const Layout& base, int axis, const Each& each) {
  const int64_t ranks = axis_sizes_[static_cast<size_t>(axis)];
  std::vector<int64_t> extents = extents_after(base, base.digits.size());
  for (const auto& [cut_by, form] : base.odd)
    extents = cut_extents(forms_[static_cast<size_t>(form)], extents,
                          axis_sizes_[static_cast<size_t>(cut_by)]);
  // Strided cuts of a few elements give all of them to one rank. They are tried only if they are
  // even, or occur in a spec.
  const auto append = [&](int64_t gap, int form) {
    Layout next = base;
    next.digits.push_back(gap_of(gap));
    next.digits.push_back({axis, form, ranks});
    make_normal(next);
    const bool even = std::all_of(extents.begin(), extents.end(),
                                  [&](int64_t e) { return e % (gap * ranks) == 0; });
    if (gap == 1 || even ||
        std::find(spec_prefixes_.begin(), spec_prefixes_.end(), next) != spec_prefixes_.end())
      each(next);
  };
  const auto append_odd = [&](int form) {
    Layout next = base;
    next.odd.emplace_back(axis, form);
    each(next);
  };
  if (base.odd.empty()) {
    append(1, 0);
    bool even_gaps = true;
    for (size_t i = 0; i < base.digits.size(); ++i)
      even_gaps = even_gaps && (base.digits[i].axis != kGap || is_even_gap(base, i));
    // Otherwise digits cannot describe a further cut.
    if (!even_gaps) append_odd(form_of(Shard{dim_, 1, {}}));
    for (int64_t gap : gaps_) append(gap, 0);
    for_each_cut_into_gaps(base, axis, each);
  } else {
    append_odd(form_of(Shard{dim_, 1, {}}));
  }
  for (const auto& [owner, form] : axis_forms_) {
    if (owner != axis || !can_cut(forms_[static_cast<size_t>(form)], extents)) continue;
    if (base.odd.empty() && !forms_[static_cast<size_t>(form)].sizes.empty()) append(1, form);
    append_odd(form);
  }
}

const std::vector<int>& DimLayouts::with(int layout, int axis) {
  {
    const auto& known = facts_[static_cast<size_t>(layout)].with;
    const auto found = known.find(axis);
    if (found != known.end()) return found->second;
  }
  std::vector<int> results;
  const uint64_t bit = uint64_t{1} << axis;
  for (int offered : offered_)
    if (axes(offered) == (axes(layout) | bit) && without(offered, bit) == layout &&
        offered != layout)
      results.push_back(offered);
  for_each_candidate(layout_of(layout), axis, [&](Layout candidate) {
    make_normal(candidate);
    const int result = number(candidate);
    if (without(result, bit) != layout) return;
    if (std::find(results.begin(), results.end(), result) == results.end())
      results.push_back(result);
  });
  return facts_[static_cast<size_t>(layout)].with.emplace(axis, std::move(results)).first->second;
}

int64_t DimLayouts::parts(int layout) const { return parts_of(digits_of(layout)); }

int DimLayouts::with_place(int layout, int axis, int64_t first) {
  const int64_t ranks = axis_sizes_[static_cast<size_t>(axis)], last = first * ranks;
  Layout next = layout_of(layout);
  if (!next.odd.empty()) return -1;
  int64_t place = 1;
  size_t at = 0;
  while (at < next.digits.size() && place * next.digits[at].size <= first)
    place *= next.digits[at++].size;
  if (first % place != 0) return -1;
  if (at < next.digits.size()) {
    const Digit& gap = next.digits[at];
    const bool fits = gap.axis == kGap && gap.form == 0 && place * gap.size % last == 0;
    if (!fits || !put_in_gap(next, at, first / place, axis)) return -1;
  } else {
    next.digits.push_back(gap_of(first / place));
    next.digits.push_back({axis, 0, ranks});
  }
  make_normal(next);
  const int result = number(next);
  return without(result, uint64_t{1} << axis) == layout ? result : -1;
}

}  // namespace shardproof
