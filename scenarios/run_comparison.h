// RunComparison: two runs of one program laid side by side, line by line: are values the same, and
// if not, why; what time was predicted, what was measured. Made by compare_runs from recorded runs,
// whether they come from disk or were made a moment ago.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/scenarios/recorded_run.h"
#include "shardproof/sim/line_times.h"

namespace shardproof {

enum class Likeness : uint8_t {
  equal,    // to the bit
  within,   // as far apart as two honest computations may be
  differs,  // nobody knows a bound
  wrong,    // farther apart
};
// Why values differ.
enum class Cause : uint8_t {
  none,
  reduction_order,  // floats were added over ranks in another order
  precision,        // products of one run have fewer bits
  unknown,          // no bound: an order, or a bug
  bug,
};
std::string_view name(Likeness likeness);
std::string_view name(Cause cause);

struct ValueDifference {
  std::string id, bound, instance;  // as SeenValue
  Likeness likeness = Likeness::wrong;
  Cause cause = Cause::bug;
  std::string why;
  // The first element that is as bad as the whole; absent where only digests are known.
  std::optional<Dims> index;
  bool local = false;  // counted in the owners' own shard
  std::string got_a, got_b;
  double error = 0;      // what two honest computations may differ there
  Lanes owners;          // of that element
  Lanes ranks;           // that hold any element that is as bad
  int64_t elements = 0;  // of those, each counted once
};

enum class TimeSource : uint8_t { none, predicted, measured };
std::string_view name(TimeSource source);

// One activity of a line, on both sides; a side without times has no ranks.
struct TimePair {
  std::string call;  // "all_reduce tp"; empty: the line's own work
  LineTime a, b;
};

struct LineComparison {
  int line = 0;
  std::string text;
  int64_t values = 0;
  std::vector<ValueDifference> differences;  // worst first
  std::vector<TimePair> times;
  Likeness likeness() const;
};

struct ListingComparison {
  Lanes lanes;
  std::vector<LineComparison> lines;
};

struct RunSide {
  RecordedRun head;  // without what is compared
  TimeSource source = TimeSource::none;
  size_t repetitions = 0;
  std::map<int32_t, StepTime> steps;  // per rank
};

struct RunComparison {
  RunSide a, b;
  bool alone = false;  // both are one run: only its times are told
  std::vector<ListingComparison> listings;
  // Values of `likeness`; all of them when it is not given.
  int64_t count(std::optional<Likeness> likeness) const;
  int64_t count(Cause cause) const;
  // Nothing is known to be wrong: what differs may be honest.
  bool agrees() const;
};

// Of a run that was refused only the heads are compared. Throws Error(bad_input) for runs of
// different programs.
RunComparison compare_runs(const RecordedRun& a, const RecordedRun& b);
// What was predicted of a run beside what was measured, without values.
RunComparison times_of_run(const RecordedRun& run);
// Nothing when equal to the bit.
std::optional<ValueDifference> compare_seen(const SeenValue& a, const SeenValue& b,
                                            const RecordedRun& run_a, const RecordedRun& run_b);

}  // namespace shardproof
