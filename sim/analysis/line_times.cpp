// Implements line_times.h.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/sim/analysis/line_times.h"

namespace shardproof {

double nccl_factor(std::string_view kind, int64_t members) {
  const double n = static_cast<double>(members);
  const std::optional<CollectiveKind> known = parse_collective_kind(kind);
  if (!known || members < 1) return 0;
  switch (*known) {
    case CollectiveKind::all_reduce: return 2 * (n - 1) / n;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_v:
    case CollectiveKind::exchange:
    case CollectiveKind::gather:
    case CollectiveKind::scatter: return (n - 1) / n;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::send:
    case CollectiveKind::recv:
    case CollectiveKind::put: return 1;
    default: return 0;
  }
}

// A record has the size of a rank's input. A call's size is the larger of input and output.
double nccl_bytes(const Record& call) {
  if (!call.dtype) return 0;
  const int64_t elements = std::accumulate(call.sizes.begin(), call.sizes.end(), int64_t{0});
  const bool gathers = call.kind == "all_gather" || call.kind == "gather";
  return static_cast<double>(elements * size_of(*call.dtype)) *
         static_cast<double>(gathers ? std::max<int64_t>(call.members, 1) : 1);
}

int32_t LineTime::deciding_rank() const {
  const auto less = [](const auto& a, const auto& b) { return a.second.time < b.second.time; };
  const auto deciding = is_call() ? std::min_element(ranks.begin(), ranks.end(), less)
                                  : std::max_element(ranks.begin(), ranks.end(), less);
  return deciding->first;
}

std::vector<LineTime> line_times(const std::vector<Record>& records) {
  std::map<std::tuple<int, bool, std::string, std::string>, LineTime> lines;
  for (const Record& record : records) {
    if (record.state != RecordState::done) continue;
    const bool call = !record.group.empty();
    LineTime& line = lines[{record.line, call, call ? record.kind : "", record.group}];
    line.line = record.line;
    line.group = record.group;
    if (call) line.kind = record.kind;
    const double bytes = nccl_bytes(record);
    for (int64_t i = 0; i < record.ranks.size(); ++i) {
      RankTime& rank = line.ranks[record.ranks[i]];
      rank.time += record.end - record.start;
      // A prediction for some of the calls only is not a prediction for the line.
      const bool of_all =
          record.expected != Duration{} && (rank.count == 0 || rank.expected != Duration{});
      rank.expected = of_all ? rank.expected + record.expected : Duration{};
      rank.by_device += record.clock != TimedBy::world;
      rank.with_launch += record.clock == TimedBy::device_and_launch;
      ++rank.count;
      if (!call) continue;
      rank.bytes += bytes;
      rank.bus_bytes += bytes * nccl_factor(record.kind, record.members);
    }
  }
  std::vector<LineTime> result;
  for (auto& [key, line] : lines) result.push_back(std::move(line));
  return result;
}

const LineTime* find_line(const std::vector<LineTime>& lines, const LineTime& like) {
  const auto key = [](const LineTime& line) {
    return std::tie(line.line, line.kind, line.group);  // work has an empty kind
  };
  const auto found =
      std::lower_bound(lines.begin(), lines.end(), like,
                       [&](const LineTime& a, const LineTime& b) { return key(a) < key(b); });
  return found != lines.end() && key(*found) == key(like) ? &*found : nullptr;
}

Duration median_of(std::vector<Duration> times) {
  if (times.empty()) return {};
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::vector<LineTime> median_of(const std::vector<std::vector<LineTime>>& repetitions) {
  if (repetitions.empty()) return {};
  std::vector<LineTime> result = repetitions.front();
  for (LineTime& line : result)
    for (auto& [rank, time] : line.ranks) {
      std::vector<Duration> times;
      for (const std::vector<LineTime>& repetition : repetitions)
        if (const LineTime* other = find_line(repetition, line); other != nullptr)
          if (const auto own = other->ranks.find(rank); own != other->ranks.end()) {
            times.push_back(own->second.time);
            time.with_launch = std::max(time.with_launch, own->second.with_launch);
          }
      time.time = median_of(std::move(times));
    }
  return result;
}

// --- the step
// -----------------------------------------------------------------------------------

namespace {

using Span = std::pair<Duration, Duration>;

// Returns the union of the spans as disjoint spans, in order.
std::vector<Span> united(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end());
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (!result.empty() && span.first <= result.back().second)
      result.back().second = std::max(result.back().second, span.second);
    else
      result.push_back(span);
  }
  return result;
}

Duration length(const std::vector<Span>& spans) {
  Duration sum;
  for (const Span& span : spans) sum += span.second - span.first;
  return sum;
}

}  // namespace

std::map<int32_t, StepTime> step_times(const std::vector<Record>& records) {
  struct Activity {
    std::vector<Span> all, work;
  };
  std::map<int32_t, Activity> ranks;
  for (const Record& record : records) {
    if (record.state != RecordState::done) continue;
    for (int64_t i = 0; i < record.ranks.size(); ++i) {
      Activity& own = ranks[record.ranks[i]];
      own.all.emplace_back(record.start, record.end);
      if (record.group.empty()) own.work.emplace_back(record.start, record.end);
    }
  }
  std::map<int32_t, StepTime> result;
  for (auto& [rank, own] : ranks) {
    const std::vector<Span> all = united(std::move(own.all));
    StepTime& step = result[rank];
    step.step = all.back().second - all.front().first;
    step.work = length(united(std::move(own.work)));
    step.exposed = length(all) - step.work;
    step.outside = step.step - length(all);
  }
  for (const LineTime& line : line_times(records)) {
    if (!line.is_call()) continue;
    const Duration least = line.ranks.at(line.deciding_rank()).time;
    for (const auto& [rank, own] : line.ranks) result[rank].waiting += own.time - least;
  }
  for (auto& [rank, step] : result) step.waiting = std::min(step.waiting, step.exposed);
  return result;
}

StepTime slowest(const std::map<int32_t, StepTime>& ranks) {
  StepTime result;
  for (const auto& [rank, own] : ranks)
    if (result.step < own.step) result = own;
  return result;
}

size_t median_repetition(const std::vector<std::map<int32_t, StepTime>>& repetitions) {
  std::vector<Duration> steps;
  for (const auto& ranks : repetitions) steps.push_back(slowest(ranks).step);
  const auto median = std::find(steps.begin(), steps.end(), median_of(steps));
  SP_CHECK(median != steps.end(), "no repetitions");
  return static_cast<size_t>(median - steps.begin());
}

}  // namespace shardproof
