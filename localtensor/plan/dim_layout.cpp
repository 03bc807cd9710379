// Implements dim_layout.h.
//
// of_cuts turns the cuts of a spec into digits, one cut after another (put_cut):
//   plain cut         an axis digit at the end
//   S(d, split=k)     cuts into an existing gap if there is one (put_in_gap), else a gap of k and
//                     the axis
//   explicit sizes    an axis digit with a form, or a plain one if the sizes follow the chunk rule
//   any other cut     goes to `odd`
// normal() makes equal layouts equal lists: it drops digits of size 1, joins neighbouring gaps and
// drops gaps at the end.
//
// Example: dim of 8, digits gap4 tp2 (tp 0 has 0 2 4 6). The cut dp:S(0, split=2) over 2 ranks
// applies to the local 4 elements. One factor of 2 stays a gap, the other becomes the dp digit:
// gap2 dp2 tp2. cuts_of is the inverse: each axis digit is a Shard whose split is the product of
// the gaps before it.
#include "shardproof/localtensor/plan/dim_layout.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

namespace {

constexpr int kGap = -1;
constexpr size_t kMaxRanksListed = 64;  // of ownership_of

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

// Returns the product of the sizes of the digits.
int64_t parts_of(const Layout& layout) {
  int64_t parts = 1;
  for (const Digit& digit : layout.digits) parts *= digit.size;
  return parts;
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
    : dim_(dim), extent_(extent), axis_sizes_(std::move(axis_sizes)), forms_(1) {
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

// Lists the axes, and the runs of each rank along them. Returns an empty list for too many ranks.
std::vector<int64_t> DimLayouts::ownership_of(const CutList& cuts) const {
  std::vector<size_t> by_axis(cuts.size());
  std::iota(by_axis.begin(), by_axis.end(), size_t{0});
  std::sort(by_axis.begin(), by_axis.end(),
            [&](size_t a, size_t b) { return cuts[a].axis < cuts[b].axis; });
  std::vector<size_t> strides(cuts.size(), 1);  // of coordinates in owned_runs
  for (size_t i = cuts.size(); i-- > 1;)
    strides[i - 1] = strides[i] * static_cast<size_t>(cuts[i].ranks);
  std::vector<size_t> numbers = {0};  // of ranks in owned_runs, by their coordinates in axis order
  std::vector<int64_t> listed;
  for (const size_t cut : by_axis) {
    std::vector<size_t> more;
    for (const size_t number : numbers)
      for (int64_t i = 0; i < cuts[cut].ranks; ++i)
        more.push_back(number + static_cast<size_t>(i) * strides[cut]);
    numbers = std::move(more);
    if (numbers.size() > kMaxRanksListed) return {};
    listed.push_back(cuts[cut].axis);
  }
  const std::vector<Runs> runs = owned_runs(cuts, extent_);
  for (const size_t number : numbers) {
    listed.push_back(-1);
    for (const Run& run : runs[number]) {
      listed.push_back(run.start);
      listed.push_back(run.length);
    }
  }
  return listed;
}

int DimLayouts::number(Layout layout) {
  const auto known = numbers_.find(layout);
  if (known != numbers_.end()) return known->second;
  Facts facts = facts_of(layout);
  auto next = static_cast<int>(layouts_.size());
  // Uneven cuts with empty parts can own the same in several ways.
  if (!facts.even && of_cuts(facts.cuts) == layout) {
    std::vector<int64_t> owned = ownership_of(facts.cuts);
    if (!owned.empty()) next = uneven_.try_emplace(std::move(owned), next).first->second;
  }
  numbers_.emplace(layout, next);
  if (next < static_cast<int>(layouts_.size())) {
    // Digits describe what is left if any axis is taken out; odd cuts do not.
    const auto at = static_cast<size_t>(next);
    const bool odd = !layouts_[at].odd.empty();
    if (odd && layout.odd.empty() && parts_of(layout) <= extent_) {
      layouts_[at] = std::move(layout);
      facts_[at] = std::move(facts);
    }
    return next;
  }
  layouts_.push_back(std::move(layout));
  facts_.push_back(std::move(facts));
  return next;
}

DimLayouts::Facts DimLayouts::facts_of(const Layout& layout) const {
  Facts facts;
  for (const Digit& digit : layout.digits)
    if (digit.axis >= 0) facts.axes |= uint64_t{1} << digit.axis;
  for (const auto& [axis, form] : layout.odd) facts.axes |= uint64_t{1} << axis;
  facts.cuts = cuts_of(layout);
  int64_t parts = 1;
  bool chunks = layout.odd.empty();
  for (const Digit& digit : layout.digits) {
    parts *= digit.size;
    chunks = chunks && digit.form == 0;
  }
  facts.even = chunks && extent_ % parts == 0;
  facts.max_extent = shardproof::max_extent(facts.cuts, extent_);
  return facts;
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

Layout DimLayouts::normal(Layout layout) const {
  if (extent_ == 0) return {};
  auto& digits = layout.digits;
  std::erase_if(digits, [](const Digit& d) { return d.size == 1; });
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
    digits.erase(digits.begin() + static_cast<int64_t>(i) + 1);
    if (i > 0) --i;
  }
  while (!digits.empty() && digits.back().axis == kGap) digits.pop_back();
  return layout;
}

// Replaces a gap by a gap of `skip`, the axis, and a gap of the rest. Returns false if the sizes do
// not divide.
bool DimLayouts::put_in_gap(Layout& layout, size_t at, int64_t skip, const DimCut& cut) const {
  const int64_t size = layout.digits[at].size;
  if (size % (skip * cut.ranks) != 0) return false;
  std::vector<Digit> parts = {
      {kGap, skip, 0}, {cut.axis, cut.ranks, 0}, {kGap, size / skip / cut.ranks, 0}};
  layout.digits.erase(layout.digits.begin() + static_cast<int64_t>(at));
  layout.digits.insert(layout.digits.begin() + static_cast<int64_t>(at), parts.begin(),
                       parts.end());
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
    layout.digits.push_back({cut.axis, cut.ranks, chunked ? 0 : form_of(cut.shard)});
    return true;
  }
  int64_t skip = cut.shard.split;
  for (size_t i = 0; i < layout.digits.size(); ++i) {
    const Digit& digit = layout.digits[i];
    if (digit.axis != kGap) continue;
    if (skip % digit.size != 0) return digit.size % skip == 0 && put_in_gap(layout, i, skip, cut);
    skip /= digit.size;
  }
  if (skip > 1 && has_gaps)
    for (int64_t extent : extents_after(layout, layout.digits.size()))
      if (extent % skip != 0) return false;
  layout.digits.push_back({kGap, skip, 0});
  layout.digits.push_back({cut.axis, cut.ranks, 0});
  return true;
}

Layout DimLayouts::of_cuts(const CutList& cuts) {
  Layout layout;
  for (const DimCut& cut : cuts) {
    if (cut.ranks == 1) continue;
    Layout next = layout;
    if (layout.odd.empty() && put_cut(next, cut))
      layout = normal(std::move(next));
    else
      layout.odd.emplace_back(cut.axis, form_of(cut.shard));
  }
  return normal(std::move(layout));
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
  for (size_t count = 1; count <= layout.digits.size(); ++count)
    spec_prefixes_.push_back(
        normal({{layout.digits.begin(), layout.digits.begin() + static_cast<int64_t>(count)}, {}}));
  return number(std::move(layout));
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
  for (const Digit& digit : layouts_[static_cast<size_t>(layout)].digits)
    if (digit.axis != kGap) order.push_back(digit.axis);
  for (const auto& [axis, form] : layouts_[static_cast<size_t>(layout)].odd) order.push_back(axis);
  return order;
}

CutList DimLayouts::cuts_of(const Layout& layout) const {
  CutList cuts;
  int64_t split = 1;
  for (const Digit& digit : layout.digits) {
    if (digit.axis == kGap) {
      split *= digit.size;
    } else if (digit.form != 0) {
      cuts.push_back({digit.axis, digit.size, forms_[static_cast<size_t>(digit.form)]});
    } else {
      cuts.push_back({digit.axis, digit.size, Shard{dim_, split, {}}});
    }
  }
  for (const auto& [axis, form] : layout.odd)
    cuts.push_back(
        {axis, axis_sizes_[static_cast<size_t>(axis)], forms_[static_cast<size_t>(form)]});
  return cuts;
}

bool DimLayouts::has_spec(int layout) {
  const auto at = static_cast<size_t>(layout);
  if (facts_[at].representable >= 0) return facts_[at].representable == 1;
  const Layout& wanted = layouts_[at];
  bool representable = of_cuts(facts_[at].cuts) == wanted;
  std::vector<int64_t> extents = {extent_};
  for (const DimCut& cut : facts_[at].cuts) {
    int64_t total = 0;
    for (int64_t size : cut.shard.sizes) total += size;
    if (!cut.shard.sizes.empty())
      for (int64_t extent : extents) representable = representable && extent == total;
    extents = cut_extents(cut.shard, extents, cut.ranks);
  }
  facts_[at].representable = representable ? 1 : 0;
  return representable;
}

const CutList& DimLayouts::cuts(int layout) { return facts_[static_cast<size_t>(layout)].cuts; }

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
  for (const Digit& digit : layouts_[static_cast<size_t>(layout)].digits) {
    more *= digit.size;
    if (digit.axis == kGap && !is_power(digit.size, prime)) return false;
  }
  return is_even(layout) && extent_ % more == 0;
}

bool DimLayouts::has_chunks(int layout) const {
  const Layout& chunks = layouts_[static_cast<size_t>(layout)];
  return chunks.odd.empty() && parts_of(chunks) <= extent_ &&
         std::all_of(chunks.digits.begin(), chunks.digits.end(),
                     [](const Digit& digit) { return digit.form == 0; });
}

std::vector<int64_t> DimLayouts::sizes_before(int layout, int axis) const {
  std::vector<int64_t> sizes;
  for (const Digit& digit : layouts_[static_cast<size_t>(layout)].digits) {
    if (digit.axis == axis) break;
    sizes.push_back(digit.size);
  }
  return sizes;
}

int64_t DimLayouts::first_place(int layout, int axis) const {
  int64_t place = 1;
  for (const Digit& digit : layouts_[static_cast<size_t>(layout)].digits) {
    if (digit.axis == axis) return place;
    place *= digit.size;
  }
  return 0;
}

// Returns the piece of an exchange between two even layouts: the extent divided by the places that
// either layout cuts, counted once. Returns -1 if their places do not nest.
int64_t DimLayouts::even_piece(int from, int to) const {
  std::vector<std::pair<int64_t, int64_t>> places;
  for (int number : {from, to}) {
    int64_t place = 1;
    for (const Digit& digit : layouts_[static_cast<size_t>(number)].digits) {
      if (digit.axis != kGap) places.emplace_back(place, place * digit.size);
      place *= digit.size;
    }
  }
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
  if (found->second < 0) found->second = largest_piece(cuts(from), cuts(to), extent_, mask);
  return found->second;
}

bool DimLayouts::is_balanced(int from, int to, uint64_t mask) const {
  using Places = std::vector<std::pair<int64_t, int64_t>>;
  // A digit takes the places [p, p * size), p the product of the sizes before it.
  const auto places_of = [&](int number) {
    const Layout& layout = layouts_[static_cast<size_t>(number)];
    Places places;
    int64_t place = 1;
    for (const Digit& digit : layout.digits) {
      if (digit.axis != kGap && (mask >> digit.axis & 1) != 0)
        places.emplace_back(place, place * digit.size);
      place *= digit.size;
    }
    for (const auto& [axis, form] : layout.odd)
      if ((mask >> axis & 1) != 0) places.emplace_back(1, std::numeric_limits<int64_t>::max());
    return places;
  };
  const Places before = places_of(from), after = places_of(to);
  for (const auto& a : before)
    for (const auto& b : after)
      if (a.first < b.second && b.first < a.second) return false;
  return true;
}

int DimLayouts::without(int layout, uint64_t mask) {
  const auto at = static_cast<size_t>(layout);
  mask &= facts_[at].axes;
  if (mask == 0) return layout;
  for (const auto& [known, rest] : facts_[at].without)
    if (known == mask) return rest;
  Layout rest = layouts_[at];
  uint64_t left = mask;
  while (!rest.odd.empty() && (left >> rest.odd.back().first & 1) != 0) {
    left &= ~(uint64_t{1} << rest.odd.back().first);
    rest.odd.pop_back();
  }
  int result = -1;
  if (rest.odd.empty() || left == 0) {
    for (Digit& digit : rest.digits)
      if (digit.axis >= 0 && (left >> digit.axis & 1) != 0) digit.axis = kGap;
    result = number(normal(std::move(rest)));
  }
  facts_[at].without.emplace_back(mask, result);
  return result;
}

// Appends the layouts in which `axis` cuts into one of the gaps of `base`.
void DimLayouts::add_cuts_into_gaps(const Layout& base, int axis,
                                    std::vector<Layout>& candidates) const {
  const int64_t ranks = axis_sizes_[static_cast<size_t>(axis)];
  for (size_t i = 0; i < base.digits.size(); ++i) {
    const Digit& gap = base.digits[i];
    if (gap.axis != kGap || gap.size % ranks != 0) continue;
    if (gap.form != 0) {
      candidates.push_back(base);
      candidates.back().digits[i].axis = axis;
      continue;
    }
    for (int64_t skip = 1; skip * ranks <= gap.size; ++skip) {
      Layout next = base;
      if (put_in_gap(next, i, skip, {axis, ranks, Shard{dim_, 1, {}}}))
        candidates.push_back(std::move(next));
    }
  }
}

// Returns the layouts in which `axis` might cut `base` further; some of them may not be legal.
std::vector<Layout> DimLayouts::cut_candidates(const Layout& base, int axis) {
  const int64_t ranks = axis_sizes_[static_cast<size_t>(axis)];
  std::vector<Layout> candidates;
  const std::vector<int64_t> extents = extents_after(base, base.digits.size());
  // Strided cuts of a few elements give all of them to one rank. They are tried only if they are
  // even, or occur in a spec.
  const auto append = [&](int64_t gap, int form) {
    Layout next = base;
    next.digits.push_back({kGap, gap, 0});
    next.digits.push_back({axis, ranks, form});
    next = normal(std::move(next));
    const bool even = std::all_of(extents.begin(), extents.end(),
                                  [&](int64_t e) { return e % (gap * ranks) == 0; });
    if (gap == 1 || even ||
        std::find(spec_prefixes_.begin(), spec_prefixes_.end(), next) != spec_prefixes_.end())
      candidates.push_back(std::move(next));
  };
  if (base.odd.empty()) {
    append(1, 0);
    bool even_gaps = true;
    for (size_t i = 0; i < base.digits.size(); ++i)
      even_gaps = even_gaps && (base.digits[i].axis != kGap || is_even_gap(base, i));
    if (!even_gaps) {  // digits cannot describe a further cut
      candidates.push_back(base);
      candidates.back().odd.emplace_back(axis, form_of(Shard{dim_, 1, {}}));
    }
    for (int64_t gap : gaps_) append(gap, 0);
    add_cuts_into_gaps(base, axis, candidates);
  } else {
    candidates.push_back(base);
    candidates.back().odd.emplace_back(axis, form_of(Shard{dim_, 1, {}}));
  }
  for (const auto& [owner, form] : axis_forms_) {
    if (owner != axis) continue;
    if (base.odd.empty() && !forms_[static_cast<size_t>(form)].sizes.empty()) append(1, form);
    candidates.push_back(base);
    candidates.back().odd.emplace_back(axis, form);
  }
  return candidates;
}

const std::vector<int>& DimLayouts::with(int layout, int axis) {
  {
    const auto& known = facts_[static_cast<size_t>(layout)].with;
    const auto found = known.find(axis);
    if (found != known.end()) return found->second;
  }
  const Layout base = layouts_[static_cast<size_t>(layout)];  // a copy: the list may be reallocated
  std::vector<Layout> candidates = cut_candidates(base, axis);
  std::vector<int> results;
  for (int offered : offered_)
    if (without(offered, uint64_t{1} << axis) == layout && offered != layout)
      results.push_back(offered);
  for (Layout& candidate : candidates) {
    const int result = number(normal(std::move(candidate)));
    if (without(result, uint64_t{1} << axis) != layout) continue;
    if (std::find(results.begin(), results.end(), result) == results.end())
      results.push_back(result);
  }
  return facts_[static_cast<size_t>(layout)].with.emplace(axis, std::move(results)).first->second;
}

int64_t DimLayouts::parts(int layout) const {
  return parts_of(layouts_[static_cast<size_t>(layout)]);
}

int DimLayouts::with_place(int layout, int axis, int64_t first) {
  const int64_t ranks = axis_sizes_[static_cast<size_t>(axis)], last = first * ranks;
  Layout next = layouts_[static_cast<size_t>(layout)];
  if (!next.odd.empty()) return -1;
  int64_t place = 1;
  size_t at = 0;
  while (at < next.digits.size() && place * next.digits[at].size <= first)
    place *= next.digits[at++].size;
  if (first % place != 0) return -1;
  if (at < next.digits.size()) {
    const Digit& gap = next.digits[at];
    const bool fits = gap.axis == kGap && gap.form == 0 && place * gap.size % last == 0;
    if (!fits || !put_in_gap(next, at, first / place, {axis, ranks, Shard{dim_, 1, {}}})) return -1;
  } else {
    next.digits.push_back({kGap, first / place, 0});
    next.digits.push_back({axis, ranks, 0});
  }
  const int result = number(normal(std::move(next)));
  return without(result, uint64_t{1} << axis) == layout ? result : -1;
}

}  // namespace shardproof
