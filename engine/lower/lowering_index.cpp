// Implements x[...] of lowering.h, in torch's order:
//
// 1. "..." becomes whole slices;
// 2. each single index becomes a `select`, from the last dim to the first, so that the numbers of
//    the dims before it stay valid;
// 3. all slices become one `slice`;
// 4. each None becomes a new dim;
// 5. a list or tensors of indices become one gather.
//
// Example: x of shape [4, 6, 8], x[1, ..., 2:5, None] is spelled out as x[1, :, 2:5, None]. Then
// select(dim=0, index=1) gives [6, 8], slice([0, 2], [max, 5]) gives [6, 3], the new dim [6, 3, 1].
#include <algorithm>
#include <limits>

#include "shardproof/engine/lower/bind_arguments.h"
#include "shardproof/engine/lower/lowering.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

bool cuts_dim(const IndexItem* item) {
  return !item->low.empty() || !item->high.empty() || !item->step.empty();
}

}  // namespace

// True for x[2], false for x[[0, 2]] and x[ids].
bool Lowering::indexes_by_place(const IndexItem& item) {
  return item.kind == IndexKind::at && is_number(item.at.at(0)) &&
         !lane_number(item.at[0]).values.at(0).is_list();
}

// Returns the items with "..." replaced by whole slices.
std::vector<IndexItem> Lowering::spelled_out(const std::vector<IndexItem>& items, int dims,
                                             SourceLocation place) {
  const auto count = [&](IndexKind kind) {
    return static_cast<int>(std::count_if(items.begin(), items.end(),
                                          [&](const IndexItem& i) { return i.kind == kind; }));
  };
  const int others = count(IndexKind::all_others);
  if (others > 1) fail(place, "expected at most one \"...\" in an index, found two");
  const int named = count(IndexKind::at) + count(IndexKind::slice);
  if (named > dims)
    fail(place, fmt::format("found {} indices for a tensor of {} dims", named, dims));
  std::vector<IndexItem> all;
  IndexItem whole;
  whole.kind = IndexKind::slice;
  for (const IndexItem& item : items)
    if (item.kind == IndexKind::all_others)
      all.insert(all.end(), static_cast<size_t>(dims - named), whole);
    else
      all.push_back(item);
  return all;
}

ValueId Lowering::lower_index(const Expr& base, const std::vector<IndexItem>& items,
                              const SourceLocation& place) {
  ValueId result = lower_value(base);
  const SourceLocation outer = place_;
  place_.column = place.column;
  const std::vector<IndexItem> all = spelled_out(items, meta_of(result).shape.size(), place);
  std::vector<const IndexItem*> kept, sliced;
  int64_t dim = std::count_if(all.begin(), all.end(), [](const IndexItem& item) {
    return item.kind != IndexKind::new_dim;
  });
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i].kind != IndexKind::new_dim) --dim;
    if (indexes_by_place(all[i]))
      result = select(result, dim, lane_number(all[i].at[0]));
    else
      kept.insert(kept.begin(), &all[i]);
  }
  for (const IndexItem* item : kept)
    if (item->kind != IndexKind::new_dim) sliced.push_back(item);
  if (std::any_of(sliced.begin(), sliced.end(), cuts_dim)) result = slice(result, sliced);
  for (size_t d = 0; d < kept.size(); ++d)
    if (kept[d]->kind == IndexKind::new_dim)
      result = infix("[None]", {result}, Attrs{{"dim", static_cast<int64_t>(d)}}, place);
  result = gather_by_index(result, kept, place);
  place_ = outer;
  return result;
}

ValueId Lowering::select(ValueId value, int64_t dim, const PerRankNumber& index) {
  LaneClasses classes(lanes_);
  classes.refine(index);
  std::vector<LaneAttrs> attrs;
  for (const Lanes& lanes : classes.lanes())
    attrs.push_back({lanes, Attrs{{"dim", dim}, {"index", index.on(lanes[0]).integer()}}});
  const OpRecord* op = ops_.find_infix("[]");
  SP_CHECK(op, "no op means x[i]");
  return emit(*op, std::move(attrs), {value}, 1).at(0);
}

ValueId Lowering::slice(ValueId value, const std::vector<const IndexItem*>& items) {
  LaneClasses classes(lanes_);
  const auto numbers = [&](auto part, int64_t fallback) {
    std::vector<PerRankNumber> found;
    for (const IndexItem* item : items) {
      const std::vector<Expr>& written = item->*part;
      found.push_back(written.empty() ? PerRankNumber{lanes_, {Number(fallback)}}
                                      : lane_number(written[0]));
      classes.refine(found.back());
    }
    return found;
  };
  const auto lows = numbers(&IndexItem::low, 0);
  const auto highs = numbers(&IndexItem::high, std::numeric_limits<int64_t>::max());
  const auto steps = numbers(&IndexItem::step, 1);
  const bool stepped =
      std::any_of(items.begin(), items.end(), [](auto* item) { return !item->step.empty(); });
  std::vector<LaneAttrs> attrs;
  for (const Lanes& lanes : classes.lanes()) {
    const auto on = [&](const std::vector<PerRankNumber>& of) {
      std::vector<int64_t> list;
      for (const PerRankNumber& number : of) list.push_back(number.on(lanes[0]).integer());
      return list;
    };
    Attrs cut{{"start", on(lows)}, {"stop", on(highs)}, {"step", std::monostate{}}};
    if (stepped) cut.set("step", on(steps));
    attrs.push_back({lanes, std::move(cut)});
  }
  const OpRecord* op = ops_.find_infix("[:]");
  SP_CHECK(op, "no op means x[a:b]");
  return emit(*op, std::move(attrs), {value}, 1).at(0);
}

// Lowers the lists and tensors of an index. The item at `d` belongs to dim d.
ValueId Lowering::gather_by_index(ValueId value, const std::vector<const IndexItem*>& items,
                                  const SourceLocation& place) {
  std::vector<int64_t> dims;
  std::vector<ValueId> inputs = {value};
  bool listed = false;
  for (size_t d = 0; d < items.size(); ++d) {
    if (items[d]->kind != IndexKind::at) continue;
    const Expr& index = items[d]->at.at(0);
    dims.push_back(static_cast<int64_t>(d));
    if (is_number(index)) {
      listed = true;
      continue;
    }
    inputs.push_back(lower_value(index));
    const DType dtype = meta_of(inputs.back()).dtype;
    if (dtype == DType::boolean)
      fail(index.place,
           "a mask as an index gives a shape that depends on data; use where(mask, x, 0) or "
           "masked_fill(x, mask, value)");
    if (!is_integral(dtype))
      fail(index.place, fmt::format("expected an index of integers, found {}", name(dtype)));
  }
  if (dims.empty()) return value;
  if (!listed) return infix("[ids]", std::move(inputs), Attrs{{"dims", dims}}, place);
  const Expr& list = items[static_cast<size_t>(dims[0])]->at[0];
  if (dims.size() > 1)
    fail(list.place, "a list cannot be combined with other lists or tensors; use tensors alone");
  LaneClasses classes(lanes_);
  const PerRankNumber numbers = lane_number(list);
  classes.refine(numbers);
  std::vector<LaneAttrs> attrs;
  for (const Lanes& lanes : classes.lanes()) {
    std::vector<int64_t> index;
    for (const Number& number : numbers.on(lanes[0]).list()) index.push_back(number.integer());
    attrs.push_back({lanes, Attrs{{"dim", dims[0]}, {"index", index}, {"from_end", true}}});
  }
  const OpRecord* op = ops_.find_infix("[list]");
  SP_CHECK(op, "no op means x[[i, j]]");
  return emit(*op, std::move(attrs), {value, kNoValue}, 1).at(0);
}

}  // namespace shardproof
