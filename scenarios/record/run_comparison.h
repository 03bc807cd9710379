// RunComparison: two runs of one program laid side by side, line by line: are values the same, and
// if not, why; what time was predicted, what was measured. Made by compare_runs from recorded runs,
// whether they come from disk or were made a moment ago.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/scenarios/record/recorded_run.h"
#include "shardproof/sim/analysis/line_times.h"

namespace shardproof {

// How near two runs of one value are, by its measured rounding (engine/check/measure_rounding.h).
// The larger of both runs' roundings counts: each has measured its own order of addition.
enum class ValueMatch : uint8_t {
  bit_equal,
  within_rounding,  // no element is farther apart than kWithinRounding of its roundings
  not_decided,      // no element is farther apart than kNotDecided, or a rounding is not known
  wrong,
};
// Two honest runs are two samples of one distribution, and the rounding of an element is the
// largest of eight, four of each run. Were errors normal and independent, two honest runs would lie
// more than 8 roundings apart in one of 60,000 values of one element, and more than 64 in one of
// 10^12. Values of more elements share the median of their distances as the least rounding of each.
inline constexpr double kWithinRounding = 8;
inline constexpr double kNotDecided = 64;
// Why values differ.
enum class Cause : uint8_t {
  none,
  reduction_order,  // floats were added over ranks in another order
  precision,        // products of one run have fewer bits
  unknown,          // the rounding does not decide: an order, or a bug
  bug,
};
std::string_view name(ValueMatch match);
std::string_view name(Cause cause);

struct ValueDifference {
  std::string id, bound, instance;  // as RecordedValue
  ValueMatch match = ValueMatch::wrong;
  Cause cause = Cause::bug;
  std::string why;
  // The element that is the most of its roundings apart; absent where only digests are known.
  std::optional<Dims> index;
  bool local = false;  // counted in the owners' own shard
  std::string got_a, got_b;
  std::optional<double> rounding;  // of that element; nothing where it is not known, 0: exact
  double rounding_factor = 0;      // its distance, of its rounding; infinite for an exact one
  double ulps = 0;                 // its distance, in units in the last place of the larger one
  Lanes owners;                    // of that element
  Lanes ranks;                     // that hold any element that is as bad as the value
  int64_t elements = 0;            // of those, each counted once
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
  ValueMatch match() const;
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
  // Values that match so; all of them when it is not given.
  int64_t count(std::optional<ValueMatch> match) const;
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
std::optional<ValueDifference> compare_seen(const RecordedValue& a, const RecordedValue& b,
                                            const RecordedRun& run_a, const RecordedRun& run_b);

}  // namespace shardproof
