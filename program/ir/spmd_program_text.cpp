// Implements the text form of spmd_program.h: one line for each instruction, with remarks behind
// "#".
#include <fmt/format.h>

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {
namespace {

constexpr size_t kListShown = 16;  // entries of a list that are printed; the rest is "..."

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

template <typename T>
std::string shown_list(const std::vector<T>& items) {
  std::vector<std::string> parts;
  for (const T& item : items) {
    if (parts.size() == kListShown) {
      parts.emplace_back("...");
      break;
    }
    parts.push_back(to_string(Number(item)));
  }
  return "[" + joined(parts) + "]";
}

template <typename T>
bool all_equal(const std::vector<T>& items) {
  return std::all_of(items.begin(), items.end(), [&](const T& item) { return item == items[0]; });
}

std::string ranks_text(const Lanes& lanes) {
  return fmt::format("rank{} {}", lanes.size() == 1 ? "" : "s", to_string(lanes));
}

// A statement and the remarks printed behind it.
struct Line {
  std::string statement;
  std::vector<std::string> remarks;
};

class InstrPrinter {
 public:
  explicit InstrPrinter(const SpmdProgram& program) : program_(program) {}

  Line operator()(const Compute& compute) const;
  Line operator()(const NumberValue& number) const;
  Line operator()(const Communicate& call) const;
  Line operator()(const Reshuffle& reshuffle) const;
  Line operator()(const Merge& merge) const;
  Line operator()(const SlotRead& read) const;
  Line operator()(const Snapshot& snapshot) const;
  Line operator()(const RecordEvent& record) const { return {record.event + " = record()", {}}; }
  Line operator()(const Wait& wait) const;
  Line operator()(const Free& free) const {
    return {fmt::format("free({})", name(free.value)), {}};
  }
  Line operator()(const Keep& keep) const {
    return {fmt::format("keep({}, {})", name(keep.value), keep.stream), {}};
  }
  std::string item(const CallItem& item) const;

 private:
  const SpmdValue& value(ValueId id) const;
  std::string name(ValueId id) const { return id == kNoValue ? "None" : value(id).name; }
  std::string received(ValueId id) const;

  const SpmdProgram& program_;
};

const SpmdValue& InstrPrinter::value(ValueId id) const {
  SP_CHECK(id >= 0 && static_cast<size_t>(id) < program_.values.size(), "value {} of {}", id,
           program_.values.size());
  return program_.values[static_cast<size_t>(id)];
}

Line InstrPrinter::operator()(const Compute& compute) const {
  std::vector<ValueId> inputs = compute.inputs;
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  std::vector<std::string> arguments, targets;
  for (const ValueId id : inputs) arguments.push_back(name(id));
  for (const ValueId id : compute.outputs) targets.push_back(name(id));
  Line line;
  if (!compute.attrs.empty()) {
    const std::string text = to_string(compute.attrs.front().attrs);
    if (!text.empty()) arguments.push_back(text);
  }
  for (size_t i = 1; i < compute.attrs.size(); ++i)
    line.remarks.push_back(fmt::format("{} on {}", to_string(compute.attrs[i].attrs),
                                       ranks_text(compute.attrs[i].lanes)));
  const bool in_place = compute.into != kNoValue;
  const bool into_first = in_place && !inputs.empty() && inputs.front() == compute.into;
  if (in_place && !into_first) line.remarks.push_back("into " + name(compute.into));
  const std::string target = targets.empty() ? "" : joined(targets) + " = ";
  line.statement =
      fmt::format("{}{}{}({})", target, compute.op, into_first ? "_" : "", joined(arguments));
  return line;
}

Line InstrPrinter::operator()(const NumberValue& number) const {
  const bool integers = !number.integers.empty();
  const bool one = integers ? all_equal(number.integers) : all_equal(number.values);
  const std::string list = integers ? shown_list(number.integers) : shown_list(number.values);
  if (!one) return {fmt::format("{} = {}", name(number.output), list), {"one for each rank"}};
  SP_CHECK(integers || !number.values.empty(), "number {} has no value", name(number.output));
  const Number first = value(number.output).dtype == DType::boolean
                           ? Number(number.integers[0] != 0)
                       : integers ? Number(number.integers[0])
                                  : Number(number.values[0]);
  return {fmt::format("{} = {}", name(number.output), to_string(first)), {}};
}

// Returns "tp" for one axis and "[dp, tp]" for several.
std::string group_text(std::string name) {
  if (name.find('+') == std::string::npos) return name;
  for (size_t at = 0; (at = name.find('+', at)) != std::string::npos; at += 2)
    name.replace(at, 1, ", ");
  return "[" + name + "]";
}

// Returns "next" or "prev" if every rank of the call names that neighbour, else the numbers.
std::string peer_text(const CallItem& item) {
  if (item.peers.empty() || all_equal(item.peers))
    return fmt::format("{}", item.peers.empty() ? item.collective.peer : item.peers[0]);
  const Group& group = item.collective.group;
  const auto all_at = [&](int64_t distance) {
    for (int64_t lane = 0; lane < item.lanes.size(); ++lane) {
      const int64_t index = group.index_of(item.lanes[lane]);
      const int64_t peer = item.peers[static_cast<size_t>(lane)];
      if (index < 0 || (index + distance + group.size()) % group.size() != peer) return false;
    }
    return true;
  };
  const bool sends =
      item.collective.kind == CollectiveKind::send || item.collective.kind == CollectiveKind::put;
  // With two members both words are right; the usual one for the verb is printed.
  if (all_at(sends ? 1 : -1)) return sends ? "next" : "prev";
  if (all_at(sends ? -1 : 1)) return sends ? "prev" : "next";
  return shown_list(item.peers);
}

std::string counts_text(const std::vector<std::vector<int64_t>>& by_lane,
                        const std::vector<int64_t>& of_call) {
  if (by_lane.empty()) return shown_list(of_call);
  if (all_equal(by_lane)) return shown_list(by_lane[0]);
  std::vector<std::string> rows;
  for (size_t i = 0; i < std::min(by_lane.size(), kListShown); ++i)
    rows.push_back(shown_list(by_lane[i]));
  if (by_lane.size() > kListShown) rows.emplace_back("...");
  return "[" + joined(rows) + "]";
}

std::string InstrPrinter::received(ValueId id) const {
  const SpmdValue& made = value(id);
  std::vector<Dims> shapes;
  for (const LocalShape& local : made.shapes) shapes.push_back(local.shape);
  if (shapes.empty() || !all_equal(shapes))
    return fmt::format("dtype={}", shardproof::name(made.dtype));
  return fmt::format("shape={}, dtype={}", to_string(shapes[0]), shardproof::name(made.dtype));
}

std::vector<std::string> own_arguments(const CallItem& item) {
  const Collective& call = item.collective;
  switch (call.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::gather:
    case CollectiveKind::scatter: return {fmt::format("dim={}", item.dim)};
    case CollectiveKind::all_to_all:
      return {fmt::format("split={}", item.dim), fmt::format("concat={}", item.dim2)};
    case CollectiveKind::all_to_all_v:
      return {"send=" + counts_text(item.send_counts, call.send_counts),
              "recv=" + counts_text(item.recv_counts, call.recv_counts)};
    case CollectiveKind::send: return {"to=" + peer_text(item)};
    case CollectiveKind::recv: return {"from=" + peer_text(item)};
    case CollectiveKind::put:
    case CollectiveKind::signal:
      return {"to=" + peer_text(item), fmt::format("slot={}", call.slot)};
    case CollectiveKind::wait_signal:
      return {"from=" + peer_text(item), fmt::format("slot={}", call.slot),
              fmt::format("count={}", call.repeat)};
    default: return {};
  }
}

std::string InstrPrinter::item(const CallItem& item) const {
  const Collective& call = item.collective;
  std::vector<std::string> arguments;
  if (item.input != kNoValue) arguments.push_back(name(item.input));
  if (call.kind == CollectiveKind::recv && item.output != kNoValue)
    arguments.push_back(received(item.output));
  if (reduces(call.kind)) arguments.push_back(to_string(call.reduction));
  for (std::string& own : own_arguments(item)) arguments.push_back(std::move(own));
  if (has_root(call.kind)) arguments.push_back(fmt::format("root={}", call.root));
  const std::string& group = call.group.name();
  if (!group.empty() && group != "world") arguments.push_back("group=" + group_text(group));
  const bool target = item.output != kNoValue && !item.in_place;
  return fmt::format("{}{}{}({})", target ? name(item.output) + " = " : "",
                     shardproof::name(call.kind), item.in_place ? "_" : "", joined(arguments));
}

Line InstrPrinter::operator()(const Communicate& call) const {
  if (call.items.size() == 1) return {item(call.items[0]), {}};
  std::string text;
  for (const CallItem& one : call.items) text += (text.empty() ? "" : "; ") + item(one);
  return {"group: " + text, {}};
}

std::string_view verb_of(const PlanStep& step) {
  if (step.from.same_ownership(step.to)) return "relabel";
  for (int axis = 0; axis < step.from.mesh().axis_count(); ++axis)
    if (step.from.placement(axis).is_partial() != step.to.placement(axis).is_partial())
      return "zero_fill";
  return "slice_local";
}

Line InstrPrinter::operator()(const Reshuffle& reshuffle) const {
  const PlanStep& step = reshuffle.step;
  std::string moved;
  for (int axis = 0; axis < step.from.mesh().axis_count(); ++axis) {
    const Placement& from = step.from.placement(axis);
    const Placement& to = step.to.placement(axis);
    if (from == to) continue;
    const std::string& axis_name = step.from.mesh().axes()[static_cast<size_t>(axis)].name;
    moved += fmt::format("{}{}: {} -> {}", moved.empty() ? "" : ", ", axis_name, to_string(from),
                         to_string(to));
  }
  Line line{
      fmt::format("{} = {}({})", name(reshuffle.output), verb_of(step), name(reshuffle.input)), {}};
  if (!moved.empty()) line.remarks.push_back(moved);
  return line;
}

Line InstrPrinter::operator()(const Merge& merge) const {
  if (merge.parts.size() == 1)
    return {fmt::format("{} = {}", name(merge.output), name(merge.parts[0].second)), {}};
  std::vector<std::string> parts, places;
  for (const auto& [lanes, id] : merge.parts) {
    parts.push_back(name(id));
    places.push_back(fmt::format("{} on {}", name(id), to_string(lanes)));
  }
  return {fmt::format("{} = merge({})", name(merge.output), joined(parts)), {joined(places)}};
}

Line InstrPrinter::operator()(const SlotRead& read) const {
  return {fmt::format("{} = slot({}, {})", name(read.output), read.slot, received(read.output)),
          {}};
}

Line InstrPrinter::operator()(const Snapshot& snapshot) const {
  const std::string placed = snapshot.placed.empty() ? "" : ", " + snapshot.placed;
  return {fmt::format("check({}, '{}'{})", name(snapshot.input), snapshot.name, placed), {}};
}

Line InstrPrinter::operator()(const Wait& wait) const {
  const std::string what = wait.value != kNoValue ? name(wait.value) : wait.event + wait.stream;
  return {fmt::format("{}({})", wait.who == Wait::Waiter::host ? "sync" : "wait", what), {}};
}

// True if an instruction runs on some ranks of its listing only; then its ranks are printed.
bool masked(const Instr& instr, const SpmdProgram& program) {
  for (const SpmdListing& listing : program.listings)
    if (listing.lanes == instr.lanes) return false;
  return instr.lanes.size() != program.world;
}

std::string finished(const Instr& instr, const SpmdProgram& program, Line line) {
  if (masked(instr, program)) line.remarks.insert(line.remarks.begin(), ranks_text(instr.lanes));
  std::string text = instr.stream == "main" ? "" : fmt::format("on {}: ", instr.stream);
  text += line.statement;
  std::string remarks;
  for (const std::string& remark : line.remarks) remarks += (remarks.empty() ? "" : "; ") + remark;
  return remarks.empty() ? text : text + "  # " + remarks;
}

void append_lines(std::vector<std::string>& lines, const Instr& instr, const SpmdProgram& program) {
  const Communicate* const call = std::get_if<Communicate>(&instr.action);
  if (!call || call->items.size() < 2) {
    lines.push_back(to_string(instr, program));
    return;
  }
  const bool main = instr.stream == "main";
  if (!main) lines.push_back(fmt::format("on {}:", instr.stream));
  Instr header;
  header.lanes = instr.lanes;
  const std::string indent(main ? 0 : 2, ' ');
  lines.push_back(indent + finished(header, program, {"group:", {}}));
  for (const CallItem& item : call->items) {
    std::string text = indent + "  " + InstrPrinter(program).item(item);
    if (item.lanes != instr.lanes) text += "  # " + ranks_text(item.lanes);
    lines.push_back(std::move(text));
  }
}

}  // namespace

std::string to_string(const Instr& instr, const SpmdProgram& program) {
  return finished(instr, program, std::visit(InstrPrinter(program), instr.action));
}

std::vector<std::string> to_lines(const SpmdProgram& program) {
  std::vector<std::string> lines;
  for (const SpmdListing& listing : program.listings) {
    lines.push_back("# " + ranks_text(listing.lanes));
    for (const Instr& instr : listing.instrs) append_lines(lines, instr, program);
  }
  return lines;
}

}  // namespace shardproof
