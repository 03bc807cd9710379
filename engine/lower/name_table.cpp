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
  insert(*names_.try_emplace(name).first, std::move(part));
}

NameTable::Values NameTable::remove(const std::string& name, const Lanes& lanes) {
  return cut(*names_.try_emplace(name).first, lanes);
}

NameTable::Values NameTable::rebind(const std::string& name, Part&& part) {
  Names::value_type& holder = *names_.try_emplace(name).first;
  Values removed = cut(holder, part.lanes);
  insert(holder, std::move(part));
  return removed;
}

void NameTable::insert(Names::value_type& name, Part&& part) {
  if (const ValueId* value = std::get_if<ValueId>(&part.binding)) {
    const auto [first, end] = names_of_.equal_range(*value);
    if (std::none_of(first, end, [&](const auto& it) { return it.second == &name; }))
      names_of_.emplace(*value, &name);
  }
  name.second.push_back(std::move(part));
}

// A name may have as many parts as there are ranks, so parts on other lanes stay where they are.
NameTable::Values NameTable::cut(Names::value_type& name, const Lanes& lanes) {
  Parts& parts = name.second;
  Values removed;
  if (parts.size() == 1 && parts[0].lanes == lanes) {
    if (const ValueId* value = std::get_if<ValueId>(&parts[0].binding)) {
      drop_holder(*value, name);
      removed.emplace_back(*value, lanes);
    }
    parts.clear();
    return removed;
  }
  for (Part& part : parts) {
    if (lie_apart(part.lanes, lanes)) continue;
    Lanes gone = part.lanes.intersect(lanes);
    if (gone.empty()) continue;
    part.lanes = part.lanes.minus(gone);
    if (const ValueId* value = std::get_if<ValueId>(&part.binding))
      removed.emplace_back(*value, std::move(gone));
  }
  std::erase_if(parts, [](const Part& part) { return part.lanes.empty(); });
  for (const auto& [value, gone] : removed)
    if (!has_value(parts, value)) drop_holder(value, name);
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
