// Implements name_lines.h.
#include "shardproof/program/ir/name_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/ir/roll_loops.h"
#include "shardproof/program/ir/value_names.h"

namespace shardproof {
namespace {

// Adds the names of loop variables: "for i in range(3)" has i.
void reserve_variables(const std::vector<PrintedLine>& lines, ValueNames& names) {
  for (const PrintedLine& line : lines)
    for (const std::string& block : line.blocks)
      if (block.starts_with("for ")) names.reserve(block.substr(4, block.find(' ', 4) - 4));
}

}  // namespace

NamedLines name_lines(std::vector<PrintedLine> lines, const LineValues& values) {
  RolledLines rolled = roll_loops(std::move(lines), values.bound, values.read_at_end);
  const auto same = [&](ValueId id) {
    for (auto found = rolled.same.find(id); found != rolled.same.end();
         found = rolled.same.find(id))
      id = found->second;
    return id;
  };
  const auto bound = [&](ValueId id) {
    const auto state = rolled.states.find(id);
    return state != rolled.states.end() ? state->second : values.bound[static_cast<size_t>(id)];
  };
  ValueNames names;
  for (const std::string& name : values.bound) names.reserve(name);
  for (const std::string& name : values.reserved) names.reserve(name);
  reserve_variables(rolled.lines, names);
  NamedLines result;
  for (const ValueId id : values.inputs) result.names[id] = names.next(bound(id));
  for (const ValueId id : rolled.named_by_author) result.names[id] = bound(id);
  const std::function<std::string(ValueId, bool)> name_of = [&](ValueId id, bool binds) {
    id = same(id);
    const auto known = result.names.find(id);
    if (known != result.names.end()) return known->second;
    SP_CHECK(binds, "value {} is read before it is bound", id);
    return result.names.emplace(id, names.next(bound(id))).first->second;
  };
  for (PrintedLine& line : rolled.lines) line.text = named_text(line.text, name_of);
  for (const auto& [id, other] : rolled.same) {
    const auto known = result.names.find(same(other));
    if (known != result.names.end() && static_cast<size_t>(id) < values.bound.size())
      result.names[id] = known->second;
  }
  result.lines = with_blocks(std::move(rolled.lines));
  return result;
}

void bind_names_at_end(const std::vector<NameAtEnd>& names, NamedLines& named) {
  struct Move {
    const NameAtEnd* to;
    std::string from;
  };
  std::vector<Move> moves;
  std::set<std::string> targets;
  for (const NameAtEnd& name : names) {
    const auto known = named.names.find(name.value);
    if (known == named.names.end() || known->second == name.name) continue;
    moves.push_back({&name, known->second});
    targets.insert(name.name);
  }
  const auto add = [&](const Move& move, const std::string& to) {
    named.lines.push_back({fmt::format("{}{} = {}", move.to->condition, to, move.from), "", {}});
  };
  if (std::any_of(moves.begin(), moves.end(), [&](auto& m) { return targets.contains(m.from); }))
    for (Move& move : moves) {
      const std::string early = "end_of_" + move.to->name;
      add(move, early);
      move.from = early;
    }
  for (const Move& move : moves) add(move, move.to->name);
}

}  // namespace shardproof
