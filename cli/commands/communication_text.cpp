// Implements communication_text.h. The sets of ranks of all calls are cut into classes, whose ranks
// make the same calls. The calls of one rank of each class are counted.
#include "shardproof/cli/commands/communication_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "shardproof/cli/commands/plan_text.h"
#include "shardproof/sim/call/sent_bytes.h"

namespace shardproof {
namespace {

// Communication of one rank.
struct Traffic {
  std::map<std::string, Fraction> bytes;  // that it sends, by group
  // By kind and group.
  std::map<std::pair<std::string_view, std::string>, int64_t> calls;
  Duration time;  // of all its calls, one after the other
  bool operator==(const Traffic&) const = default;
};

// Ranks that send equal bytes in an exchange, and whose group takes this time.
struct ExchangePart {
  Lanes lanes;
  Fraction bytes;
  Duration time;
};

// Equal calls of one step.
struct CountedItem {
  const CallItem* item;
  int64_t times;
};

class TrafficCounter {
 public:
  TrafficCounter(const SpmdProgram& program, const CostModel* machine)
      : program_(program), machine_(machine) {}
  std::vector<std::pair<Lanes, Traffic>> by_ranks();

 private:
  std::vector<Lanes> classes(const std::vector<CountedItem>& items) const;
  const std::vector<ExchangePart>& parts_of(const PlanStep& step) const;
  void add(const CallItem& item, int32_t rank, Traffic& traffic) const;
  void add_transfer(const PlanStep& step, int32_t rank, Traffic& traffic) const;
  void add_call(const Collective& call, Fraction bytes, Duration time, Traffic& traffic) const;
  void add_exchange(const CallItem& item, int32_t rank, Traffic& traffic) const;
  void add_counts(const CallItem& item, int32_t rank, Traffic& traffic) const;
  int64_t row_bytes(const CallItem& item, int32_t rank) const;

  const SpmdProgram& program_;
  const CostModel* machine_;
  mutable std::map<const PlanStep*, std::vector<ExchangePart>> exchanges_;
};

bool is_exchange(const CallItem& item) {
  return item.step && item.step->kind == StepKind::exchange;
}

// Returns the ranks that send nothing in a call with a root.
Lanes receivers_of(const CallItem& item) {
  std::vector<int32_t> receivers;
  for (int64_t i = 0; i < item.lanes.size(); ++i)
    if (only_receives(item.collective, item.lanes[i])) receivers.push_back(item.lanes[i]);
  return Lanes::of(std::move(receivers));
}

// True for calls of which each rank sends bytes of its own.
bool differs_by_rank(const CallItem& item) {
  return !item.send_counts.empty() || (item.step && item.step->kind == StepKind::transfer);
}

std::vector<Lanes> TrafficCounter::classes(const std::vector<CountedItem>& items) const {
  std::vector<Lanes> classes{Lanes::range(0, program_.world)};
  const auto cut_by = [&](const Lanes& lanes) {
    std::vector<Lanes> finer;
    for (const Lanes& one : classes)
      for (const Lanes& part : {one.intersect(lanes), one.minus(lanes)})
        if (!part.empty()) finer.push_back(part);
    classes = std::move(finer);
  };
  std::vector<Lanes> seen;
  for (const auto& [item, times] : items) {
    if (std::find(seen.begin(), seen.end(), item->lanes) != seen.end() && !differs_by_rank(*item) &&
        !is_exchange(*item) && !sends_by_role(item->collective.kind))
      continue;
    seen.push_back(item->lanes);
    cut_by(item->lanes);
    if (sends_by_role(item->collective.kind)) cut_by(receivers_of(*item));
    if (is_exchange(*item))
      for (const ExchangePart& part : parts_of(*item->step)) cut_by(part.lanes);
    if (differs_by_rank(*item))
      for (int64_t i = 0; i < item->lanes.size(); ++i) cut_by(Lanes::one(item->lanes[i]));
  }
  return classes;
}

void TrafficCounter::add_call(const Collective& call, Fraction bytes, Duration time,
                              Traffic& traffic) const {
  if (bytes > Fraction(0)) {
    Fraction& sum = traffic.bytes[call.group.name()];
    sum = sum + bytes;
  }
  ++traffic.calls[{name(call.kind), call.group.name()}];
  traffic.time += time;
}

void TrafficCounter::add_transfer(const PlanStep& step, int32_t rank, Traffic& traffic) const {
  Collective call;
  call.group = Group::world(program_.world);
  for (int64_t number = 0; number < step.pieces; ++number) {
    Duration sending, receiving;
    for (const TransferPiece& piece : transfer_pieces(step, number)) {
      if (piece.from_rank == piece.to_rank) continue;
      const int64_t bytes = piece.elements * size_of(step.to.dtype());
      const Duration time = machine_ != nullptr ? machine_->messages(1, bytes) : Duration{};
      call.kind = CollectiveKind::send;
      if (piece.from_rank == rank) {
        add_call(call, Fraction(bytes), Duration{}, traffic);
        sending += time;
      }
      call.kind = CollectiveKind::recv;
      if (piece.to_rank == rank) {
        add_call(call, Fraction(0), Duration{}, traffic);
        receiving += time;
      }
    }
    traffic.time += std::max(sending, receiving);
  }
}

// The counts of each piece are made once for all ranks.
const std::vector<ExchangePart>& TrafficCounter::parts_of(const PlanStep& step) const {
  std::vector<ExchangePart>& parts = exchanges_[&step];
  if (!parts.empty()) return parts;
  const Lanes ranks = step.from.mesh().ranks();
  const Group group = Group::of_axes(step.from.mesh(), step.axes);
  const auto n = static_cast<size_t>(group.size());
  std::vector<int64_t> sent(static_cast<size_t>(ranks.size()), 0);
  std::vector<Duration> times(static_cast<size_t>(group.count()));  // of each sibling
  for (int64_t piece = 0; piece < step.pieces; ++piece) {
    const Collective call = *largest_call(step, piece);
    std::vector<Duration> longest(times.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      const int32_t rank = ranks[static_cast<int64_t>(i)];
      const int64_t self = group.index_of(rank);
      const auto sends = std::span(call.send_counts).subspan(i * n, n);
      sent[i] += std::accumulate(sends.begin(), sends.end(), int64_t{0}) -
                 sends[static_cast<size_t>(self)];
      Duration& time = longest[static_cast<size_t>(group.sibling_of(rank))];
      for (const auto counts : {sends, std::span(call.recv_counts).subspan(i * n, n)})
        if (machine_ != nullptr)
          time = std::max(time, time_of_counts(*machine_, counts, self, size_of(call.dtype)));
    }
    for (size_t g = 0; g < times.size(); ++g) times[g] += longest[g];
  }
  std::map<std::pair<int64_t, Duration>, std::vector<int32_t>> equal;
  for (size_t i = 0; i < sent.size(); ++i) {
    const int32_t rank = ranks[static_cast<int64_t>(i)];
    equal[{sent[i], times[static_cast<size_t>(group.sibling_of(rank))]}].push_back(rank);
  }
  for (auto& [key, list] : equal)
    parts.push_back(
        {Lanes::of(std::move(list)), Fraction(key.first * size_of(step.from.dtype())), key.second});
  return parts;
}

void TrafficCounter::add_exchange(const CallItem& item, int32_t rank, Traffic& traffic) const {
  for (const ExchangePart& part : parts_of(*item.step)) {
    if (!part.lanes.contains(rank)) continue;
    add_call(item.collective, part.bytes, part.time, traffic);
    for (int64_t piece = 1; piece < item.step->pieces; ++piece)
      add_call(item.collective, Fraction(0), Duration{}, traffic);
  }
}

// Returns the bytes of one row of the tensor that a rank sends in an all_to_all_v.
int64_t TrafficCounter::row_bytes(const CallItem& item, int32_t rank) const {
  int64_t row = size_of(item.collective.dtype);
  for (const LocalShape& local : program_.values[static_cast<size_t>(item.input)].shapes)
    if (local.lanes.contains(rank))
      for (int d = 1; d < local.shape.size(); ++d) row *= local.shape[d];
  return row;
}

void TrafficCounter::add_counts(const CallItem& item, int32_t rank, Traffic& traffic) const {
  const Group& group = item.collective.group;
  const std::vector<int64_t>& counts =
      item.send_counts[static_cast<size_t>(item.lanes.index_of(rank))];
  int64_t rows = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    if (static_cast<int64_t>(i) != group.index_of(rank)) rows += counts[i];
  Duration time;  // of the member of the rank's group that takes longest
  for (const int32_t member : group.members(group.sibling_of(rank))) {
    const int64_t lane = item.lanes.index_of(member);
    for (const auto* each : {&item.send_counts, &item.recv_counts})
      if (machine_ != nullptr && lane >= 0)
        time = std::max(time, time_of_counts(*machine_, (*each)[static_cast<size_t>(lane)],
                                             group.index_of(member), row_bytes(item, member)));
  }
  add_call(item.collective, Fraction(rows * row_bytes(item, rank)), time, traffic);
}

void TrafficCounter::add(const CallItem& item, int32_t rank, Traffic& traffic) const {
  if (item.step && item.step->kind == StepKind::transfer)
    return add_transfer(*item.step, rank, traffic);
  const Collective& call = item.collective;
  if (!is_point_to_point(call.kind) && call.group.size() == 1) return;
  if (is_exchange(item)) return add_exchange(item, rank, traffic);
  if (!item.send_counts.empty()) return add_counts(item, rank, traffic);
  const Fraction bytes = only_receives(call, rank) ? Fraction(0) : bytes_sent(call);
  for (int64_t piece = 0, n = item.step ? item.step->pieces : 1; piece < n; ++piece)
    add_call(call, bytes, machine_ != nullptr ? time_of_call(*machine_, call) : Duration{},
             traffic);
}

// The instructions of equal redistributions share their steps.
std::vector<CountedItem> counted_items(const SpmdProgram& program) {
  std::vector<CountedItem> items;
  std::unordered_multimap<const PlanStep*, size_t> known;
  const auto add = [&](const CallItem& item) {
    const auto [first, last] = known.equal_range(item.step.get());
    const auto same = std::find_if(first, last, [&](const auto& entry) {
      const CallItem& other = *items[entry.second].item;
      return other.lanes == item.lanes && other.collective == item.collective;
    });
    if (same != last) {
      ++items[same->second].times;
      return;
    }
    if (item.step && item.send_counts.empty()) known.emplace(item.step.get(), items.size());
    items.push_back({&item, 1});
  };
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs)
      if (const auto* call = std::get_if<Communicate>(&instr.action))
        for (const CallItem& item : call->items) add(item);
  return items;
}

void add_times(const Traffic& once, int64_t times, Traffic& traffic) {
  for (const auto& [group, bytes] : once.bytes) {
    Fraction& sum = traffic.bytes[group];
    sum = sum + bytes * Fraction(times);
  }
  for (const auto& [call, count] : once.calls) traffic.calls[call] += count * times;
  traffic.time += once.time * times;
}

std::vector<std::pair<Lanes, Traffic>> TrafficCounter::by_ranks() {
  const std::vector<CountedItem> items = counted_items(program_);
  std::vector<std::pair<Lanes, Traffic>> result;
  for (const Lanes& lanes : classes(items)) {
    Traffic traffic;
    for (const auto& [item, times] : items) {
      if (!item->lanes.contains(lanes[0])) continue;
      Traffic once;
      add(*item, lanes[0], once);
      add_times(once, times, traffic);
    }
    const auto same = std::find_if(result.begin(), result.end(),
                                   [&](const auto& known) { return known.second == traffic; });
    if (same == result.end())
      result.emplace_back(lanes, std::move(traffic));
    else
      same->first = same->first.unite(lanes);
  }
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.first[0] < b.first[0]; });
  return result;
}

std::string traffic_text(const Traffic& traffic, const CostModel* machine) {
  std::string out;
  for (const auto& [call, count] : traffic.calls)
    out += fmt::format("  {} x {} {}\n", count, call.first, call.second);
  for (const auto& [group, bytes] : traffic.bytes)
    out += fmt::format("  a rank sends {} over {}\n", bytes_text(bytes), group);
  if (machine != nullptr)
    out += fmt::format("  all calls, one after the other, take {}\n", rounded_text(traffic.time));
  return out;
}

// Steps with equal texts are listed once, with their number.
std::string plans_text(const SpmdProgram& program, const CostModel* machine) {
  struct StepLine {
    int line;
    const std::string* text;
    int count;
  };
  std::vector<StepLine> lines;
  std::set<std::string> texts;
  std::map<const PlanStep*, const std::string*> known_steps;
  std::map<std::pair<int, const std::string*>, size_t> places;  // in `lines`
  const auto add = [&](const PlanStep& step, const Origin& origin) {
    const std::string*& text = known_steps[&step];
    if (text == nullptr) text = &*texts.insert(step_text(step, machine)).first;
    const auto [place, fresh] = places.try_emplace({origin.line, text}, lines.size());
    if (fresh) lines.push_back({origin.line, text, 0});
    ++lines[place->second].count;
  };
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs) {
      if (const auto* call = std::get_if<Communicate>(&instr.action)) {
        // The items of a step share it.
        const PlanStep* last = nullptr;
        for (const CallItem& item : call->items)
          if (item.step && item.step.get() != std::exchange(last, item.step.get()))
            add(*item.step, instr.origin);
      } else if (const auto* local = std::get_if<Reshuffle>(&instr.action)) {
        add(*local->step, instr.origin);
      }
    }
  std::string out;
  for (const auto& [line, text, count] : lines) {
    out.append("  ").append(std::to_string(line)).append("  ").append(*text);
    out += count == 1 ? "\n" : fmt::format("   {} times\n", count);
  }
  return out;
}

}  // namespace

std::string communication_text(const SpmdProgram& program, const CostModel* machine) {
  std::string out;
  if (const std::string plans = plans_text(program, machine); !plans.empty())
    out += "redistributions, by line\n" + plans + "\n";
  bool any = false;
  for (const auto& [lanes, traffic] : TrafficCounter(program, machine).by_ranks()) {
    if (traffic.calls.empty()) continue;
    out +=
        fmt::format("{}communication of rank{} {}\n{}", any ? "\n" : "",
                    lanes.size() == 1 ? "" : "s", to_string(lanes), traffic_text(traffic, machine));
    any = true;
  }
  return any ? out : out + "communication\n  none\n";
}

}  // namespace shardproof
