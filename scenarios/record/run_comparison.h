// RunComparison: two runs of one program, compared line by line: which values differ and why, and
// which times were predicted or measured. compare_runs makes it from two recorded runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/scenarios/record/recorded_run.h"
#include "shardproof/sim/analysis/line_times.h"

namespace shardproof {

// The distance class of two runs of one value, by its measured rounding
// (engine/check/measure_rounding.h). The larger rounding of both runs counts, because each run
// has measured its own order of addition.
enum class ValueMatch : uint8_t {
  bit_equal,
  within_rounding,  // the distance of every element is at most kWithinRounding times its rounding
  not_decided,      // at most kNotDecided times, or a rounding is unknown
  wrong,
};
// Two correct runs are two samples of one distribution, and the rounding of an element is the
// largest of eight distances, four of each run. Assume normal, independent errors and values of one
// element: two correct runs are more than 8 roundings apart in one of 60,000 values. They are more
// than 64 apart in one of 10^12. All elements of a value have at least the median rounding, so
// larger values exceed the limits less often.
inline constexpr double kWithinRounding = 8;
inline constexpr double kNotDecided = 64;
// The cause of a difference.
enum class Cause : uint8_t {
  none,
  reduction_order,  // floats were added over ranks in another order
  precision,        // matrix products of one run have fewer bits
  unknown,          // the rounding cannot distinguish reduction_order from bug
  bug,
};
std::string_view name(ValueMatch match);
std::string_view name(Cause cause);

struct ValueDifference {
  std::string id, bound, instance;  // as RecordedValue
  ValueMatch match = ValueMatch::wrong;
  Cause cause = Cause::bug;
  std::string why;
  // Index of the worst element; absent if only digests were recorded.
  std::optional<Dims> index;
  bool local = false;  // true: `index` counts in the shard of `owners`
  std::string got_a, got_b;
  std::optional<double> rounding;  // of that element; 0: exact; nullopt: unknown
  double rounding_factor = 0;      // distance by rounding; infinite for an exact element
  double ulps = 0;                 // distance in units in the last place of the larger element
  Lanes owners;                    // ranks that hold that element
  Lanes ranks;                     // ranks that hold an element of the same class
  int64_t elements = 0;            // number of these elements, each counted once
};

enum class TimeSource : uint8_t { none, predicted, measured };
std::string_view name(TimeSource source);

// The times of one activity of a line in both runs. A run without times has no ranks.
struct TimePair {
  std::string call;  // "all_reduce tp"; empty: the work of the line itself
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
  RecordedRun head;  // without values and records
  TimeSource source = TimeSource::none;
  size_t repetitions = 0;
  // True: each repetition ran as one CUDA graph, so only the steps have times.
  bool as_graph = false;
  std::map<int32_t, StepTime> steps;  // per rank
  // False: the times of work, and so of the step, are not predicted. Those in `steps` and in lines
  // of work mean nothing.
  bool has_work_times = true;
};

struct RunComparison {
  RunSide a, b;
  bool alone = false;  // true: A and B are one run, and only its times are reported
  std::vector<ListingComparison> listings;
  // Returns the number of values of a class, or of all values.
  int64_t count(std::optional<ValueMatch> match) const;
  int64_t count(Cause cause) const;
  // True if verdicts, findings and errors are equal and no difference is a bug or another
  // precision.
  bool agrees() const;
};

// Compares two runs. If one was refused, only the heads are compared. Throws Error(bad_input) for
// runs of different programs.
RunComparison compare_runs(const RecordedRun& a, const RecordedRun& b);
// Returns predicted and measured times of one run, without values.
RunComparison times_of_run(const RecordedRun& run);
// Compares one value of two runs. Returns nothing if all bits are equal.
std::optional<ValueDifference> compare_recorded_values(const RecordedValue& a,
                                                       const RecordedValue& b,
                                                       const RecordedRun& run_a,
                                                       const RecordedRun& run_b);

}  // namespace shardproof
