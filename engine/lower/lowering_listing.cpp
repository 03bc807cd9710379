// Implements the statements and names of lowering.h.
//
// Loops are expanded: each pass is lowered with the loop variable bound to its number. An `if` with
// a condition that is equal on all lanes lowers one branch; otherwise both, each for its lanes.
//
// Example: `for i in range(index(pp)):` on a mesh pp=3 has the ranges 0..-1, 0..0 and 0..1 (empty
// on rank 0). The passes are i=0 for ranks 1-2 and i=1 for rank 2.
//
// bind() removes the current lanes from the old parts of a name (name_table.h) and adds the new
// part. It frees each value that no name has any more.
#include <algorithm>
#include <limits>
#include <optional>

#include "shardproof/engine/lower/lowering.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int64_t kMaxSteps = 4'000'000;  // statements after loops are expanded

Error at(const Error& error, const SourceLocation& place) {
  Where where;
  where.line = place.line;
  where.column = place.column;
  return error.inside(where);
}

// Returns the least number from `from` on that lies in the range of some rank.
std::optional<int64_t> next_pass(const PerRankNumber& low, const PerRankNumber& high,
                                 int64_t from) {
  std::optional<int64_t> next;
  for (size_t i = 0; i < std::max(low.values.size(), high.values.size()); ++i) {
    const int64_t at = std::max(from, low.values[low.uniform() ? 0 : i].integer());
    if (at < high.values[high.uniform() ? 0 : i].integer()) next = std::min(next.value_or(at), at);
  }
  return next;
}

Lanes lanes_in_range(const Lanes& all, const PerRankNumber& low, const PerRankNumber& high,
                     int64_t i) {
  if (low.uniform() && high.uniform()) return all;
  std::vector<int32_t> taken;
  for (int64_t lane = 0; lane < all.size(); ++lane)
    if (low.on(all[lane]).integer() <= i && i < high.on(all[lane]).integer())
      taken.push_back(all[lane]);
  return Lanes::of(std::move(taken));
}

// Returns the number of passes of the rank with most passes.
uint64_t passes_of(const PerRankNumber& low, const PerRankNumber& high) {
  uint64_t most = 0;
  for (size_t i = 0; i < std::max(low.values.size(), high.values.size()); ++i) {
    const int64_t from = low.values[low.uniform() ? 0 : i].integer();
    const int64_t to = high.values[high.uniform() ? 0 : i].integer();
    // The difference of any two integers fits an unsigned one.
    if (from < to) most = std::max(most, static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
  }
  return most;
}

[[noreturn]] void fail_too_many_steps(const SourceLocation& place) {
  throw Error(ErrorKind::limit,
              fmt::format("the loops expand to more than {} lines; write fewer passes", kMaxSteps),
              Where{"", "", place.line, place.column});
}

}  // namespace

void Lowering::fail(const SourceLocation& place, const std::string& message) const {
  throw at(Error(ErrorKind::bad_input, message), place);
}

Origin Lowering::origin() const { return {place_.line, place_.column, instance_}; }

void Lowering::walk(const std::vector<Statement>& statements) {
  for (const Statement& statement : statements) {
    if (lanes_.empty()) return;
    if (++steps_ > kMaxSteps) fail_too_many_steps(statement.place);
    place_ = statement.place;
    try {
      const std::vector<Lanes> classes = equal_dtypes(statement);
      if (classes.empty()) walk_one(statement);
      const Lanes all = lanes_;
      for (const Lanes& lanes : classes) {
        lanes_ = lanes;
        walk_one(statement);
      }
      lanes_ = all;
    } catch (const Error& error) {
      throw at(error, place_);
    }
  }
}

void Lowering::walk_one(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::assign: return walk_assign(statement);
    case StatementKind::assign_index: return walk_assign_index(statement);
    case StatementKind::call: {
      lower_call(*statement.value, 0);
      return;
    }
    case StatementKind::for_range: return walk_for(statement);
    case StatementKind::if_else: return walk_if(statement);
    case StatementKind::on_stream: {
      enter_stream(name_of(statement.targets.at(0)));
      walk(statement.body);
      return leave_stream();
    }
    case StatementKind::group: {
      enter_group();
      walk(statement.body);
      place_ = statement.place;
      return leave_group();
    }
  }
}

// A range may differ by rank. A pass is lowered for the ranks that have it in their range.
void Lowering::walk_for(const Statement& statement) {
  PerRankNumber low{lanes_, {Number(int64_t{0})}};
  if (statement.range.size() == 2) low = lane_number(statement.range[0]);
  const PerRankNumber high = lane_number(statement.range.back());
  // Checked before the first pass, because a range that is far too long would fill the memory
  // first.
  if (passes_of(low, high) > static_cast<uint64_t>(kMaxSteps - steps_))
    fail_too_many_steps(statement.place);
  const std::string name = name_of(statement.targets.at(0));
  const SharedText outer = instance_;
  const std::string pass_prefix = fmt::format("{}{}{}=", outer, outer.empty() ? "" : ", ", name);
  const Lanes all = lanes_;
  std::optional<int64_t> pass = next_pass(low, high, std::numeric_limits<int64_t>::min());
  for (; pass; pass = next_pass(low, high, *pass + 1)) {
    lanes_ = lanes_in_range(all, low, high, *pass);
    instance_ = pass_prefix + std::to_string(*pass);
    place_ = statement.place;
    bind(name, PerRankNumber{lanes_, {Number(*pass)}});
    walk(statement.body);
  }
  lanes_ = all;
  instance_ = outer;
}

void Lowering::walk_if(const Statement& statement) {
  const Lanes all = lanes_;
  lanes_ = lanes_where(*statement.value);
  const Lanes others = statement.otherwise.empty() ? Lanes() : all.minus(lanes_);
  walk(statement.body);
  lanes_ = others;
  walk(statement.otherwise);
  lanes_ = all;
}

// Returns the value that a line binds. The line made the values from number `first` on. If the
// value existed before, the line is `y = x`, and an alias of the value is returned.
ValueId Lowering::value_of_line(ValueId result, size_t first) {
  const bool existed = static_cast<size_t>(result) < first;
  return existed && !meta_of(result).weak ? emit_alias(result) : result;
}

void Lowering::walk_assign(const Statement& statement) {
  const size_t first = value_count();
  if (statement.has_claim) begin_claim(statement);
  const Expr& value = *statement.value;
  if (statement.targets.size() > 1) {
    if (value.kind != ExprKind::call)
      fail(value.place,
           fmt::format("expected a call that returns {} values, such as topk(x, 2), found {}",
                       statement.targets.size(), to_string(value)));
    const std::vector<ValueId> results = lower_call(value, statement.targets.size());
    if (results.size() != statement.targets.size())
      fail(statement.place,
           fmt::format("{} gives {}; expected as many names before \"=\", found {}", value.symbol,
                       results.size() == 1 ? "one value" : fmt::format("{} values", results.size()),
                       statement.targets.size()));
    for (size_t i = 0; i < results.size(); ++i)
      bind(name_of(statement.targets[i]), statement.has_claim ? end_claim(results[i], statement)
                                                              : value_of_line(results[i], first));
    return;
  }
  const std::string name = name_of(statement.targets.at(0));
  if (define(name, value)) return;
  Binding result = lower(value);
  if (statement.has_claim) {
    if (std::holds_alternative<PerRankNumber>(result))
      result = value_of(std::get<PerRankNumber>(result));
    result = end_claim(std::get<ValueId>(result), statement);
  } else if (const ValueId* id = std::get_if<ValueId>(&result)) {
    result = value_of_line(*id, first);
  }
  bind(name, std::move(result));
}

void Lowering::walk_assign_index(const Statement& statement) {
  const NameTemplate& target = statement.targets.at(0);
  const std::string name = name_of(target);
  const std::optional<Binding> bound = find(name, target.place);
  if (!bound || !std::holds_alternative<ValueId>(*bound))
    fail(target.place, fmt::format("{} is not a tensor here", name));
  Expr base;
  base.kind = ExprKind::name;
  base.place = target.place;
  base.name = target;
  for (const IndexItem& item : statement.target_index)
    if (item.kind == IndexKind::at && !indexes_by_place(item))
      fail(item.at[0].place,
           "expected indices or slices to write to, found a list or a tensor; use index_copy or "
           "scatter_along_dim");
  const ValueId view = lower_index(base, statement.target_index, target.place);
  const ValueId value = lower_value(*statement.value);
  write_in_place(view, value);
}

std::string Lowering::name_of(const NameTemplate& name) {
  if (name.plain()) return name.texts.at(0);
  const std::string filled = fill_name(name, scope(lanes_[0]));
  for (const Expr& hole : name.holes) {
    if (!differs_by_rank(hole)) continue;
    for (int64_t i = 1; i < lanes_.size(); ++i)
      if (const std::string other = fill_name(name, scope(lanes_[i])); other != filled)
        fail(name.place,
             fmt::format(
                 "a name must be equal on all ranks: this is {} on rank {} and {} on rank {}",
                 filled, lanes_[0], other, lanes_[i]));
  }
  return filled;
}

std::optional<Binding> Lowering::find(const std::string& name, const SourceLocation& place) {
  const NameTable::Parts* found = names_.find(name);
  if (found == nullptr) return std::nullopt;
  if (found->size() == 1 && found->front().lanes == lanes_) return found->front().binding;
  std::vector<const NameTable::Part*> here;
  Lanes covered;
  for (const NameTable::Part& part : *found) {
    if (lie_apart(part.lanes, lanes_)) continue;
    const Lanes held = part.lanes.intersect(lanes_);
    if (held.empty()) continue;
    here.push_back(&part);
    covered = covered.unite(held);
  }
  if (here.empty()) return std::nullopt;
  const Lanes missing = lanes_.minus(covered);
  // Inputs have line 0.
  if (!missing.empty() && std::all_of(found->begin(), found->end(),
                                      [](const NameTable::Part& part) { return part.line == 0; }))
    fail(place, fmt::format("rank {0} does not hold {1}: the key \"on\" of /tensors/{1} leaves it "
                            "out",
                            missing[0], name));
  if (!missing.empty())
    fail(place, fmt::format("{} is used before it is bound on rank {}", name, missing[0]));
  if (here.size() == 1) return here[0]->binding;
  const bool numbers = std::holds_alternative<PerRankNumber>(here[0]->binding);
  for (const NameTable::Part* part : here)
    if (std::holds_alternative<PerRankNumber>(part->binding) != numbers)
      fail(place, fmt::format("{} is a number on some ranks and a tensor on others", name));
  if (numbers) {
    PerRankNumber joined{lanes_, {}};
    for (int64_t i = 0; i < lanes_.size(); ++i)
      for (const NameTable::Part* part : here)
        if (part->lanes.contains(lanes_[i]))
          joined.values.push_back(std::get<PerRankNumber>(part->binding).on(lanes_[i]));
    return joined;
  }
  std::vector<std::pair<Lanes, ValueId>> parts;
  int line = 0;
  for (const NameTable::Part* part : here) {
    const ValueId id = std::get<ValueId>(part->binding);
    const Lanes lanes = part->lanes.intersect(lanes_);
    line = std::max(line, part->line);
    const auto same =
        std::find_if(parts.begin(), parts.end(), [&](auto& p) { return p.second == id; });
    if (same == parts.end())
      parts.emplace_back(lanes, id);
    else
      same->first = same->first.unite(lanes);
  }
  if (parts.size() == 1) return parts[0].second;
  const ValueId merged = merge(parts);
  bind(name, merged);
  names_.set_line(name, lanes_, line);
  return merged;
}

bool Lowering::release_if_unheld(ValueId value, const Lanes& lanes) {
  const Lanes loose = lanes.minus(names_.lanes_of(value));
  if (loose.empty()) return false;
  unnamed(value, loose);
  return true;
}

// The new part is added before old values are released, because it may have the same value
// (`m = m`).
void Lowering::bind(const std::string& name, Binding binding) {
  if (std::holds_alternative<ValueId>(binding)) named(std::get<ValueId>(binding), name);
  const NameTable::Values dropped =
      names_.rebind(name, {lanes_, std::move(binding), place_.line, instance_});
  for (const auto& [value, lanes] : dropped) release_if_unheld(value, lanes);
}

void Lowering::forget(const std::string& name) {
  for (const auto& [value, lanes] : names_.remove(name, lanes_)) release_if_unheld(value, lanes);
}

}  // namespace shardproof
