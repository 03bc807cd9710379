// Implements name_table.h.
//
// Example: ranks 0-3 bind y to v5 on line 2, so y has one part {0-3: v5}. Then ranks 0-1 bind y to
// v6 on line 4. remove(y, 0-1) leaves {2-3: v5} and returns (v5, 0-1); add() makes the parts {2-3:
// v5} and {0-1: v6}. lanes_of(v5) is 2-3, so the caller frees v5 on ranks 0-1.
#include "shardproof/engine/lower/name_table.h"

#include <algorithm>

namespace shardproof {
namespace {

bool is_bound_to(const NameTable::Part& part, ValueId value) {
  const ValueId* bound = std::get_if<ValueId>(&part.binding);
  return bound != nullptr && *bound == value;
}

bool has_value(const NameTable::Parts& parts, ValueId value) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const NameTable::Part& part) { return is_bound_to(part, value); });
}

}  // namespace

const NameTable::Parts* NameTable::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second;
}

void NameTable::add(const std::string& name, Part part) {
  Names::value_type& holder = *names_.try_emplace(name).first;
  if (const ValueId* value = std::get_if<ValueId>(&part.binding))
    if (!has_value(holder.second, *value)) names_of_.emplace(*value, &holder);
  holder.second.push_back(std::move(part));
}

NameTable::Values NameTable::remove(const std::string& name, const Lanes& lanes) {
  Names::value_type& holder = *names_.try_emplace(name).first;
  Parts& parts = holder.second;
  Values removed;
  if (parts.size() == 1 && parts.front().lanes == lanes) {
    if (const ValueId* value = std::get_if<ValueId>(&parts.front().binding))
      removed.emplace_back(*value, lanes);
    parts.clear();
    for (const auto& [value, cut] : removed) drop_holder(value, holder);
    return removed;
  }
  Parts kept;
  for (Part& part : parts) {
    const Lanes cut = part.lanes.intersect(lanes);
    if (!cut.empty() && std::holds_alternative<ValueId>(part.binding))
      removed.emplace_back(std::get<ValueId>(part.binding), cut);
    part.lanes = part.lanes.minus(lanes);
    if (!part.lanes.empty()) kept.push_back(std::move(part));
  }
  parts = std::move(kept);
  for (const auto& [value, cut] : removed)
    if (!has_value(parts, value)) drop_holder(value, holder);
  return removed;
}

void NameTable::erase_if_unbound(const std::string& name) {
  const auto found = names_.find(name);
  if (found != names_.end() && found->second.empty()) names_.erase(found);
}

void NameTable::drop_holder(ValueId value, const Names::value_type& name) {
  const auto [first, end] = names_of_.equal_range(value);
  const auto holder = std::find_if(first, end, [&](const auto& it) { return it.second == &name; });
  if (holder != end) names_of_.erase(holder);
}

Lanes NameTable::lanes_of(ValueId value) const {
  Lanes lanes;
  const auto [first, end] = names_of_.equal_range(value);
  for (auto holder = first; holder != end; ++holder)
    for (const Part& part : holder->second->second)
      if (is_bound_to(part, value)) lanes = lanes.unite(part.lanes);
  return lanes;
}

void NameTable::set_line(const std::string& name, const Lanes& lanes, int line) {
  for (Part& part : names_[name])
    if (part.lanes == lanes) part.line = line;
}

}  // namespace shardproof
