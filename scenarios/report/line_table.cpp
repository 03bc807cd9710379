// Implements line_table.h. A line may represent several instructions: passes of a loop, steps of a
// redistribution. The row shows the last value that the line binds, and adds up the calls.
#include "shardproof/scenarios/report/line_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "shardproof/sim/call/sent_bytes.h"

namespace shardproof {
namespace {

constexpr size_t kShownShapes = 3;

std::string local_text(const SpmdValue& value, const Lanes& lanes) {
  if (value.shapes.size() == 1) return to_string(value.shapes[0].shape);
  std::string out;
  size_t shown = 0;
  for (const LocalShape& shape : value.shapes) {
    const Lanes both = shape.lanes.intersect(lanes);
    if (both.empty()) continue;
    if (shown++ == kShownShapes) return out + ", ...";
    out +=
        fmt::format("{}{} on {}", out.empty() ? "" : ", ", to_string(shape.shape), to_string(both));
  }
  return out;
}

// Calls of one line: their number for each rank, by kind and group.
struct LineCalls {
  std::map<std::string, std::map<int32_t, int64_t>> counts;
  std::map<int32_t, Fraction> bytes;
};

// Returns the bytes that the ranks of an item send.
std::vector<SentBytes> bytes_sent_by(const CallItem& item) {
  const bool by_rank =
      item.step && (item.step->kind == StepKind::exchange || item.step->kind == StepKind::transfer);
  if (by_rank) return bytes_sent(*item.step);
  const int64_t pieces = item.step ? item.step->pieces : 1;
  std::vector<int32_t> senders;
  for (int64_t i = 0; i < item.lanes.size(); ++i)
    if (!only_receives(item.collective, item.lanes[i])) senders.push_back(item.lanes[i]);
  return {{Lanes::of(std::move(senders)), bytes_sent(item.collective) * Fraction(pieces)}};
}

void add_call(const CallItem& item, LineCalls& calls) {
  const Collective& call = item.collective;
  const std::string key = fmt::format("{} over {}", name(call.kind), call.group.name());
  for (int64_t i = 0; i < item.lanes.size(); ++i)
    calls.counts[key][item.lanes[i]] += item.step ? item.step->pieces : 1;
  for (const SentBytes& part : bytes_sent_by(item)) {
    const Lanes here = part.ranks.intersect(item.lanes);
    for (int64_t i = 0; i < here.size(); ++i) {
      Fraction& sum = calls.bytes[here[i]];
      sum = sum + part.bytes;
    }
  }
}

std::map<int, LineCalls> calls_of(const SpmdListing& listing) {
  std::map<int, LineCalls> lines;
  for (const Instr& instr : listing.instrs)
    if (const auto* call = std::get_if<Communicate>(&instr.action))
      for (const CallItem& item : call->items)
        add_call(item, lines[item.origin.line > 0 ? item.origin.line : instr.origin.line]);
  return lines;
}

void set_calls(const LineCalls& calls, LineRow& row) {
  for (const auto& [kind, ranks] : calls.counts) {
    int64_t most = 0;
    for (const auto& [rank, count] : ranks) most = std::max(most, count);
    row.calls += (row.calls.empty() ? "" : ", ") + kind;
    if (most > 1) row.calls += fmt::format(" x {}", most);
  }
  Fraction bytes(0);
  for (const auto& [rank, sum] : calls.bytes) bytes = std::max(bytes, sum);
  if (bytes > Fraction(0)) row.bytes = to_string(bytes) + " B";
}

// Returns by line the last value with a name of the author that a line of this listing binds.
std::map<int, const SpmdValue*> values_by_line(const SpmdProgram& program, const Lanes& lanes) {
  std::map<int, const SpmdValue*> out;
  for (const SpmdValue& value : program.values) {
    const bool here =
        std::any_of(value.shapes.begin(), value.shapes.end(),
                    [&](const LocalShape& s) { return !s.lanes.intersect(lanes).empty(); });
    if (here && !value.bound.empty() && value.origin.line > 0) out[value.origin.line] = &value;
  }
  return out;
}

}  // namespace

std::vector<LineTable> line_tables(const LoweredJob& lowered) {
  std::vector<LineTable> tables;
  for (const SpmdListing& listing : lowered.program.listings) {
    LineTable& table = tables.emplace_back();
    table.listing = to_string(listing.lanes);
    const auto values = values_by_line(lowered.program, listing.lanes);
    const auto calls = calls_of(listing);
    for (size_t i = 0; i < listing.lines.size(); ++i) {
      LineRow row;
      row.line = static_cast<int>(i) + 1;
      row.source = listing.lines[i];
      if (const auto value = values.find(row.line); value != values.end()) {
        if (value->second->spec) row.placements = placements_text(*value->second->spec);
        row.local = local_text(*value->second, listing.lanes);
      }
      if (const auto call = calls.find(row.line); call != calls.end()) set_calls(call->second, row);
      table.rows.push_back(std::move(row));
    }
  }
  return tables;
}

}  // namespace shardproof
