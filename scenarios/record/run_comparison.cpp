// Implements run_comparison.h except compare_recorded_values. compare_runs refuses runs of
// different programs and chooses the times of each side (measured, else predicted). For each
// listing it pairs values by id, and times by line and call. It sorts the differences of a line,
// worst first.
#include "shardproof/scenarios/record/run_comparison.h"

#include <algorithm>
#include <map>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

std::string_view name(ValueMatch match) {
  switch (match) {
    case ValueMatch::bit_equal: return "bit-equal";
    case ValueMatch::within_rounding: return "within rounding";
    case ValueMatch::not_decided: return "not decided";
    case ValueMatch::wrong: return "wrong";
  }
  return "?";
}

std::string_view name(Cause cause) {
  switch (cause) {
    case Cause::none: return "none";
    case Cause::reduction_order: return "reduction order";
    case Cause::precision: return "precision";
    case Cause::unknown: return "unknown";
    case Cause::bug: return "bug";
  }
  return "?";
}

std::string_view name(TimeSource source) {
  switch (source) {
    case TimeSource::none: return "none";
    case TimeSource::predicted: return "predicted";
    case TimeSource::measured: return "measured";
  }
  return "?";
}

ValueMatch LineComparison::match() const {
  return differences.empty() ? ValueMatch::bit_equal : differences.front().match;
}

int64_t RunComparison::count(std::optional<ValueMatch> match) const {
  int64_t all = 0, differing = 0, alike = 0;
  for (const ListingComparison& listing : listings)
    for (const LineComparison& line : listing.lines) {
      all += line.values;
      differing += static_cast<int64_t>(line.differences.size());
      for (const ValueDifference& difference : line.differences)
        if (difference.match == match) ++alike;
    }
  if (!match) return all;
  return *match == ValueMatch::bit_equal ? all - differing : alike;
}

int64_t RunComparison::count(Cause cause) const {
  int64_t sum = 0;
  for (const ListingComparison& listing : listings)
    for (const LineComparison& line : listing.lines)
      for (const ValueDifference& difference : line.differences)
        if (difference.cause == cause) ++sum;
  return sum;
}

bool RunComparison::agrees() const {
  return a.head.verdict == b.head.verdict && a.head.error == b.head.error &&
         findings_text(a.head.findings) == findings_text(b.head.findings) &&
         count(Cause::bug) == 0 && count(Cause::precision) == 0;
}

namespace {

// --- times ---------------------------------------------------------------------------------------

// Returns the records from which the times of a side are taken, one list a repetition.
std::vector<std::vector<Record>> timed_records(const RecordedRun& run, TimeSource source) {
  if (source == TimeSource::measured) return run.measured;
  if (source == TimeSource::predicted) return {run.flight};
  return {};
}

TimeSource best_source(const RecordedRun& run) {
  if (!run.measured.empty()) return TimeSource::measured;
  return run.timed ? TimeSource::predicted : TimeSource::none;
}

bool is_graph(const std::vector<Record>& records) {
  return !records.empty() && records.front().kind == kGraphRecord;
}

// The times of one run. Those of several repetitions are of the one whose step is the median, so
// that they add up to it.
struct Times {
  TimeSource source = TimeSource::none;
  bool has_work_times = true, as_graph = false;
  std::vector<LineTime> lines;
  std::map<int32_t, StepTime> steps;
};

Times times_of(const RecordedRun& run, TimeSource source) {
  Times times;
  times.source = source;
  times.has_work_times = source != TimeSource::predicted || run.prices_work;
  const std::vector<std::vector<Record>> repetitions = timed_records(run, source);
  if (repetitions.empty()) return times;
  std::vector<std::map<int32_t, StepTime>> steps;
  for (const std::vector<Record>& records : repetitions) {
    times.as_graph = times.as_graph || is_graph(records);
    steps.push_back(step_times(records));
  }
  const size_t median = median_repetition(steps);
  times.lines = line_times(repetitions[median]);
  times.steps = std::move(steps[median]);
  return times;
}

LineTime on_ranks(const LineTime& line, const Lanes& lanes) {
  LineTime own = line;
  std::erase_if(own.ranks, [&](const auto& entry) { return !lanes.contains(entry.first); });
  return own;
}

void add_line_times(const Times& times, const Lanes& lanes, LineTime TimePair::*side,
                    std::map<int, LineComparison>& lines) {
  if (times.as_graph) return;
  for (const LineTime& line : times.lines) {
    LineTime own = on_ranks(line, lanes);
    if (own.ranks.empty()) continue;
    const std::string call = line.is_call() ? line.kind + " " + line.group : "";
    std::vector<TimePair>& pairs = lines[line.line].times;
    auto pair = std::find_if(pairs.begin(), pairs.end(),
                             [&](const TimePair& known) { return known.call == call; });
    if (pair == pairs.end()) pair = pairs.insert(pairs.end(), {call, {}, {}});
    (*pair).*side = std::move(own);
  }
}

// --- values --------------------------------------------------------------------------------------

class ValuesById {
 public:
  explicit ValuesById(const std::vector<RecordedValue>& values) {
    for (const RecordedValue& value : values) known_.emplace(value.id, &value);
  }
  const RecordedValue* find(const std::string& id) const {
    const auto found = known_.find(id);
    return found == known_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::string, const RecordedValue*> known_;
};

ValueDifference one_sided_difference(const RecordedValue& value, const char* side) {
  ValueDifference difference;
  difference.id = value.id;
  difference.bound = value.bound;
  difference.instance = value.instance;
  difference.ranks = difference.owners = value.lanes;
  difference.why = fmt::format("only run {} computed it", side);
  return difference;
}

void add_values(const RecordedRun& a, const RecordedRun& b, const SourceListing& listing,
                std::map<int, LineComparison>& lines) {
  // A run with findings may stop early, so missing values are reported only if both are clean.
  const bool whole = a.findings.empty() && b.findings.empty();
  const ValuesById by_id_a(a.values), by_id_b(b.values);
  const auto here = [&](const RecordedValue& value) {
    return !value.lanes.empty() && listing.lanes.contains(value.lanes[0]);
  };
  for (const RecordedValue& value : a.values) {
    const RecordedValue* other = by_id_b.find(value.id);
    if (!here(value) || (other == nullptr && !whole)) continue;
    LineComparison& line = lines[value.line];
    ++line.values;
    if (other == nullptr)
      line.differences.push_back(one_sided_difference(value, "A"));
    else if (std::optional<ValueDifference> difference =
                 compare_recorded_values(value, *other, a, b))
      line.differences.push_back(std::move(*difference));
  }
  for (const RecordedValue& value : b.values) {
    if (!whole || !here(value) || by_id_a.find(value.id) != nullptr) continue;
    LineComparison& line = lines[value.line];
    ++line.values;
    line.differences.push_back(one_sided_difference(value, "B"));
  }
}

RunSide side_of(const RecordedRun& run, const Times& times) {
  RunSide side;
  side.head = run;
  side.head.values.clear();
  side.head.flight.clear();
  side.head.measured.clear();
  side.source = times.source;
  side.repetitions = run.measured.size();
  side.steps = times.steps;
  side.as_graph = times.as_graph;
  side.has_work_times = times.has_work_times;
  return side;
}

}  // namespace

namespace {

bool has_race(const RecordedRun& run) {
  return std::any_of(run.findings.begin(), run.findings.end(),
                     [](const Finding& finding) { return finding.verdict == Verdict::race; });
}

// No difference of a program with a race is decided: each run may have another order of accesses.
void leave_undecided(LineComparison& line) {
  for (ValueDifference& difference : line.differences) {
    difference.match = ValueMatch::not_decided;
    difference.cause = Cause::unknown;
    difference.why = "the program has a race";
  }
}

}  // namespace

RunComparison compare_runs(const RecordedRun& a, const RecordedRun& b) {
  if (const std::optional<std::string> why = a.differs_from(b))
    throw_bad_input("{}: expected two runs of one program, found different {}", a.title(), *why);
  if (a.is_empty() || b.is_empty()) return {side_of(a, {}), side_of(b, {}), false, {}};
  TimeSource source_a = best_source(a);
  const TimeSource source_b = best_source(b);
  // A predicted time does not depend on the run, so the topology of B predicts for A too.
  const RecordedRun* timed_a = &a;
  if (source_a == TimeSource::none && source_b == TimeSource::measured && b.timed) {
    source_a = TimeSource::predicted;
    timed_a = &b;
  }
  const Times times_a = times_of(*timed_a, source_a), times_b = times_of(b, source_b);
  RunComparison comparison;
  comparison.a = side_of(a, times_a);
  comparison.b = side_of(b, times_b);
  for (const SourceListing& listing : a.source) {
    std::map<int, LineComparison> lines;
    add_values(a, b, listing, lines);
    add_line_times(times_a, listing.lanes, &TimePair::a, lines);
    add_line_times(times_b, listing.lanes, &TimePair::b, lines);
    ListingComparison& own = comparison.listings.emplace_back();
    own.lanes = listing.lanes;
    for (auto& [number, line] : lines) {
      line.line = number;
      if (has_race(a) && has_race(b)) leave_undecided(line);
      if (number > 0 && static_cast<size_t>(number) <= listing.lines.size())
        line.text = listing.lines[static_cast<size_t>(number - 1)];
      std::stable_sort(line.differences.begin(), line.differences.end(),
                       [](const ValueDifference& x, const ValueDifference& y) {
                         return std::pair(x.match, x.cause) > std::pair(y.match, y.cause);
                       });
      own.lines.push_back(std::move(line));
    }
  }
  return comparison;
}

RunComparison times_of_run(const RecordedRun& run) {
  RecordedRun measured = run;
  measured.values.clear();
  RecordedRun predicted = measured;
  predicted.measured.clear();
  RunComparison comparison = compare_runs(predicted, measured);
  comparison.alone = true;
  return comparison;
}

}  // namespace shardproof
