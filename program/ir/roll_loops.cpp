// Implements roll_loops.h: lines with one loop variable are cut into passes, the passes are
// compared (loop_pass.h), and the body is searched for inner loops.
#include "shardproof/program/ir/roll_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "shardproof/program/ir/loop_pass.h"

namespace shardproof {
namespace {

using detail::LoopBody;
using detail::LoopPasses;
using detail::LoopState;

struct LoopPass {
  std::string variable;
  int64_t number = 0;
  bool operator==(const LoopPass&) const = default;
};

// Returns the loop at a depth of "i=2, j=0"; nullopt if there is none.
std::optional<LoopPass> loop_at(const std::string& instance, size_t depth) {
  size_t at = 0;
  for (; depth > 0 && at != std::string::npos; --depth) {
    at = instance.find(", ", at);
    if (at != std::string::npos) at += 2;
  }
  if (at == std::string::npos || at >= instance.size()) return std::nullopt;
  const size_t equal = instance.find('=', at);
  if (equal == std::string::npos) return std::nullopt;
  LoopPass pass{instance.substr(at, equal - at), 0};
  std::from_chars(instance.data() + equal + 1, instance.data() + instance.size(), pass.number);
  return pass;
}

// Returns the instance without its entry at a depth.
std::string without_loop(const std::string& instance, size_t depth) {
  std::string out;
  for (size_t at = 0, entry = 0; at < instance.size(); ++entry) {
    const size_t end = std::min(instance.find(", ", at), instance.size());
    if (entry != depth) out += (out.empty() ? "" : ", ") + instance.substr(at, end - at);
    at = std::min(end + 2, instance.size());
  }
  return out;
}

class LoopRoller {
 public:
  LoopRoller(const std::vector<std::string>& bound)
      : bound_(bound), next_id_(static_cast<ValueId>(bound.size())) {}

  std::vector<PrintedLine> roll(const std::vector<PrintedLine>& lines, size_t depth,
                                const std::set<ValueId>& read_after);
  RolledLines result;

 private:
  using Reads = std::set<ValueId>;
  std::vector<PrintedLine> roll_one(const LoopPasses& loop, size_t depth, const Reads& read_after);
  std::vector<PrintedLine> expanded(const LoopPasses& loop, size_t from, size_t to, size_t depth,
                                    const Reads& read_after);
  std::vector<PrintedLine> written(LoopBody body, const LoopPasses& loop, size_t depth,
                                   const Reads& read_after);
  ValueId state_id(const LoopState& state, const LoopBody& body, const Reads& read_after);

  const std::vector<std::string>& bound_;
  ValueId next_id_;
  size_t loops_ = 0;
};

void add_reads(const std::vector<PrintedLine>& lines, std::set<ValueId>& reads) {
  for (const PrintedLine& line : lines)
    named_text(line.text, [&](ValueId id, bool binds) {
      if (!binds) reads.insert(id);
      return std::string();
    });
}

// Joins parts that are in reverse order.
std::vector<PrintedLine> in_order(std::vector<std::vector<PrintedLine>> parts) {
  std::vector<PrintedLine> out;
  for (size_t i = parts.size(); i-- > 0;)
    for (PrintedLine& line : parts[i]) out.push_back(std::move(line));
  return out;
}

// Passes are rolled from the last to the first, because a pass reads values of those before it.
std::vector<PrintedLine> LoopRoller::expanded(const LoopPasses& loop, size_t from, size_t to,
                                              size_t depth, const Reads& read_after) {
  Reads reads = read_after;
  std::vector<std::vector<PrintedLine>> passes;
  for (size_t k = loop.lines.size(); k-- > from;) {
    if (k < to) passes.push_back(roll(loop.lines[k], depth + 1, reads));
    add_reads(loop.lines[k], reads);
  }
  return in_order(std::move(passes));
}

// A state needs no name of its own if its first value has the author's name of its results and
// nothing else reads that value.
ValueId LoopRoller::state_id(const LoopState& state, const LoopBody& body,
                             const Reads& read_after) {
  const auto name_of = [&](ValueId id) {
    return static_cast<size_t>(id) < bound_.size() ? bound_[static_cast<size_t>(id)] : "";
  };
  if (static_cast<size_t>(state.first) >= bound_.size()) return state.id;
  if (name_of(state.first).empty() || name_of(state.first) != name_of(state.made)) return state.id;
  if (read_after.contains(state.first)) return state.id;
  Reads reads;
  add_reads(body.lines, reads);
  if (reads.contains(state.first)) return state.id;
  const auto uses = std::count_if(body.states.begin(), body.states.end(),
                                  [&](const LoopState& s) { return s.first == state.first; });
  return uses == 1 ? state.first : state.id;
}

std::vector<PrintedLine> LoopRoller::written(LoopBody body, const LoopPasses& loop, size_t depth,
                                             const Reads& read_after) {
  std::vector<PrintedLine> before, ends;
  Reads reads = read_after;
  for (const LoopState& state : body.states) {
    const ValueId id = state_id(state, body, read_after);
    reads.insert(state.made);
    for (const size_t bound : state.lines) {
      PrintedLine line;
      for (const std::string& block : body.lines[bound].blocks)
        if (header_of(block).starts_with("if ")) line.blocks.push_back(block);
      line.text = mark_value(id, true) + " = " + mark_value(state.made, false);
      line.origin.instance = body.lines[bound].origin.instance;
      ends.push_back(line);
      if (id != state.id) continue;
      line.text = mark_value(id, true) + " = " + mark_value(state.first, false);
      line.origin.instance = without_loop(line.origin.instance, depth);
      before.push_back(line);
    }
    if (id == state.id)
      result.states[id] = bound_[static_cast<size_t>(state.made)];
    else
      result.same[state.id] = id;
  }
  add_reads(ends, reads);
  const int64_t last = loop.first + static_cast<int64_t>(loop.lines.size());
  const std::string header =
      loop.first == 0 ? fmt::format("for {} in range({})", loop.variable, last)
                      : fmt::format("for {} in range({}, {})", loop.variable, loop.first, last);
  result.same.insert(body.same.begin(), body.same.end());
  result.named_by_author.insert(body.named_by_author.begin(), body.named_by_author.end());
  std::vector<PrintedLine> lines = roll(body.lines, depth + 1, reads);
  lines.insert(lines.end(), ends.begin(), ends.end());
  const std::string block = begin_block(header, loops_++);
  for (PrintedLine& line : lines) {
    line.origin.instance = without_loop(line.origin.instance, depth);
    // Inner loops have their blocks already.
    line.blocks.insert(line.blocks.begin(), block);
    before.push_back(std::move(line));
  }
  return before;
}

std::vector<PrintedLine> LoopRoller::roll_one(const LoopPasses& loop, size_t depth,
                                              const Reads& read_after) {
  const size_t count = loop.lines.size();
  const std::pair<size_t, size_t> parts[] = {{0, count}, {1, count}, {0, count - 1}};
  for (const auto& [from, to] : parts) {
    if (to < from + 2) continue;
    LoopPasses part{loop.variable, loop.first + static_cast<int64_t>(from), {}};
    part.lines.assign(loop.lines.begin() + static_cast<std::ptrdiff_t>(from),
                      loop.lines.begin() + static_cast<std::ptrdiff_t>(to));
    Reads reads = read_after;
    for (size_t k = to; k < count; ++k) add_reads(loop.lines[k], reads);
    const ValueId unused = next_id_;
    std::optional<LoopBody> body = body_of(part, bound_, reads, next_id_);
    if (!body) {
      next_id_ = unused;
      continue;
    }
    std::vector<PrintedLine> out = expanded(loop, 0, from, depth, read_after);
    for (PrintedLine& line : written(std::move(*body), part, depth, reads))
      out.push_back(std::move(line));
    for (PrintedLine& line : expanded(loop, to, count, depth, read_after))
      out.push_back(std::move(line));
    return out;
  }
  return expanded(loop, 0, count, depth, read_after);
}

// Returns the end of the loop that begins at a line, and its passes.
size_t read_passes(const std::vector<PrintedLine>& lines, size_t at, size_t depth,
                   LoopPasses& passes) {
  const LoopPass first = *loop_at(lines[at].origin.instance, depth);
  passes.variable = first.variable;
  passes.first = first.number;
  int64_t number = first.number - 1;
  for (; at < lines.size(); ++at) {
    const std::optional<LoopPass> next = loop_at(lines[at].origin.instance, depth);
    if (!next || next->variable != first.variable) break;
    if (next->number != number && next->number != number + 1) break;
    if (next->number != number) passes.lines.emplace_back();
    number = next->number;
    passes.lines.back().push_back(lines[at]);
  }
  return at;
}

std::vector<PrintedLine> LoopRoller::roll(const std::vector<PrintedLine>& lines, size_t depth,
                                          const Reads& read_after) {
  struct Segment {
    size_t from = 0, to = 0;
    std::optional<LoopPasses> loop;
  };
  std::vector<Segment> segments;
  for (size_t at = 0; at < lines.size();) {
    Segment segment{at, at + 1, {}};
    if (loop_at(lines[at].origin.instance, depth))
      segment.to = read_passes(lines, at, depth, segment.loop.emplace());
    at = segment.to;
    segments.push_back(std::move(segment));
  }
  Reads reads = read_after;
  std::vector<std::vector<PrintedLine>> parts;
  for (size_t s = segments.size(); s-- > 0;) {
    const std::vector<PrintedLine> part(
        lines.begin() + static_cast<std::ptrdiff_t>(segments[s].from),
        lines.begin() + static_cast<std::ptrdiff_t>(segments[s].to));
    parts.push_back(segments[s].loop ? roll_one(*segments[s].loop, depth, reads) : part);
    add_reads(part, reads);
  }
  return in_order(std::move(parts));
}

}  // namespace

RolledLines roll_loops(std::vector<PrintedLine> lines, const std::vector<std::string>& bound,
                       const std::set<ValueId>& read_at_end) {
  LoopRoller roller(bound);
  const bool loops = std::any_of(lines.begin(), lines.end(), [](const PrintedLine& line) {
    return loop_at(line.origin.instance, 0).has_value();
  });
  if (!loops) return {std::move(lines), {}, {}, {}};
  std::vector<PrintedLine> rolled = roller.roll(lines, 0, read_at_end);
  roller.result.lines = std::move(rolled);
  return std::move(roller.result);
}

}  // namespace shardproof
