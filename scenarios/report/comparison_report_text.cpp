// Implements comparison_text of comparison_report.h. The table has a row for each line and call,
// followed by at most three differences. Below it are the step times, differing verdicts and the
// counts.
#include "shardproof/scenarios/report/comparison_report.h"

#include <algorithm>
#include <cmath>

namespace shardproof {
namespace {

constexpr size_t kTextWidth = 27;
constexpr size_t kDifferencesShown = 3;

std::string size_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string shortened(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

std::string three_digit_text(double number) {
  return number >= 999.5 ? fmt::format("{:.0f}", number) : fmt::format("{:.3g}", number);
}

std::string ratio_text(Duration a, Duration b) {
  if (a.ps <= 0 || b.ps <= 0) return "";
  return three_digit_text(to_seconds(b) / to_seconds(a));
}

struct ComparisonCells {
  std::string line, what, values, a, b, ratio, bytes, busbw, expected;
};

std::string row_text(const ComparisonCells& cells) {
  std::string text =
      fmt::format("  {:>4}  {:<{}}  {:<15} {:>10} {:>10} {:>7} {:>9} {:>7} {:>10}", cells.line,
                  shortened(cells.what, kTextWidth), kTextWidth, cells.values, cells.a, cells.b,
                  cells.ratio, cells.bytes, cells.busbw, cells.expected);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

// --- times ---------------------------------------------------------------------------------------

const std::string kUnknown = "-";

const RankTime* reported_rank(const LineTime& line) {
  return line.ranks.empty() ? nullptr : &line.ranks.at(line.deciding_rank());
}

// True if the times of work of both runs are known.
struct KnownWork {
  bool a = true, b = true;
};

void add_time_cells(ComparisonCells& cells, const TimePair& pair, KnownWork known) {
  const RankTime *a = reported_rank(pair.a), *b = reported_rank(pair.b);
  const bool call = !pair.call.empty(), knows_a = known.a || call, knows_b = known.b || call;
  if (a != nullptr) cells.a = knows_a ? rounded_text(a->time) : kUnknown;
  if (b != nullptr) cells.b = knows_b ? rounded_text(b->time) : kUnknown;
  if (a != nullptr && b != nullptr && knows_a && knows_b)
    cells.ratio = ratio_text(a->time, b->time);
  const RankTime* own = b != nullptr ? b : a;
  if (pair.call.empty() || own == nullptr) return;
  cells.bytes = size_text(own->bytes);
  if (own->bus_bytes > 0 && own->time.ps > 0)
    cells.busbw = three_digit_text(own->bus_bytes / to_seconds(own->time) * 1e-9);
  if (own->expected != Duration{}) cells.expected = rounded_text(own->expected);
}

std::string call_text(const TimePair& pair) {
  const RankTime* own = reported_rank(pair.b.ranks.empty() ? pair.a : pair.b);
  const std::string times = own->count > 1 ? fmt::format(" x{}", own->count) : "";
  return "  " + pair.call + times;
}

// --- values --------------------------------------------------------------------------------------

std::string ranks_text(const Lanes& lanes, size_t width) {
  return (lanes.size() == 1 ? "rank " : "ranks ") + shortened(to_string(lanes), width);
}

std::string difference_index_text(const ValueDifference& difference) {
  if (!difference.index) return "";
  return to_string(*difference.index) + (difference.local ? " of the shard" : "");
}

std::string short_number(double number) {
  return number < 100 ? fmt::format("{:.2g}", number) : fmt::format("{:.3g}", number);
}

// Returns, for example, "0.8 of its rounding, 2 ulps" or "wrong, no rounding moves it, 1 ulp".
std::string distance_text(const ValueDifference& difference) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const bool within = difference.match == ValueMatch::within_rounding;
  if (!within || !difference.index) add(std::string(name(difference.match)));
  if (!difference.index) return text;
  if (!difference.rounding)
    add("its rounding is not known");
  else if (*difference.rounding == 0)
    add(within ? "the same number" : "no rounding moves it");
  else
    add(short_number(difference.rounding_factor) + " of its rounding");
  if (std::isfinite(difference.ulps))
    add(fmt::format("{} ulp{}", short_number(difference.ulps), difference.ulps == 1 ? "" : "s"));
  return text;
}

// Returns the lines below the row of a program line: value, index, ranks, distance and cause.
std::string difference_text(const ValueDifference& difference) {
  const std::string of =
      difference.instance.empty() ? "" : fmt::format(" ({})", difference.instance);
  std::string text =
      fmt::format("        {}{}{} on {}: {}   {}\n",
                  difference.bound.empty() ? "inside the line " + difference.id : difference.bound,
                  difference_index_text(difference), of, ranks_text(difference.owners, 30),
                  distance_text(difference), name(difference.cause));
  if (difference.index) {
    text += fmt::format("          A {}   B {}", difference.got_a, difference.got_b);
    if (difference.rounding && *difference.rounding > 0)
      text += fmt::format("   rounding {:.2g}", *difference.rounding);
    text += fmt::format("\n          {} element{}, on {}\n", difference.elements,
                        difference.elements == 1 ? "" : "s", ranks_text(difference.ranks, 60));
  }
  if (!difference.why.empty()) text += "          " + difference.why + "\n";
  return text;
}

std::string paint_match(const TextStyle& style, ValueMatch match, const std::string& text) {
  if (!style.color || match == ValueMatch::bit_equal) return text;
  return fmt::format("\x1b[{}m{}\x1b[0m", match == ValueMatch::wrong ? "31;1" : "33", text);
}

std::string line_text(const LineComparison& line, KnownWork known, const TextStyle& style) {
  ComparisonCells cells;
  cells.line = line.line > 0 ? std::to_string(line.line) : "";
  cells.what = line.line > 0
                   ? line.text.substr(std::min(line.text.find_first_not_of(' '), line.text.size()))
                   : "inputs";
  if (line.values > 0) cells.values = name(line.match());
  for (const TimePair& pair : line.times)
    if (pair.call.empty()) add_time_cells(cells, pair, known);
  std::string text = paint_match(style, line.match(), row_text(cells));
  for (const TimePair& pair : line.times) {
    if (pair.call.empty()) continue;
    ComparisonCells call;
    call.what = call_text(pair);
    add_time_cells(call, pair, known);
    text += row_text(call);
  }
  const size_t shown = std::min(line.differences.size(), kDifferencesShown);
  for (size_t i = 0; i < shown; ++i) text += difference_text(line.differences[i]);
  if (line.differences.size() > shown)
    text += fmt::format("        and {} more\n", line.differences.size() - shown);
  return text;
}

// --- the report ----------------------------------------------------------------------------------

std::string run_side_text(const char* label, const RunSide& side) {
  const RecordedRun& run = side.head;
  if (run.is_empty()) return fmt::format("  {}{}, refused\n", label, run.backend);
  std::string text =
      fmt::format("  {}{}, {} rank{}", label, run.backend, run.ranks, run.ranks == 1 ? "" : "s");
  text += run.processes == 0 ? " simulated" : fmt::format(" in {} processes", run.processes);
  if (const std::optional<std::string> gpu = find_fact(run.environment, "gpu"))
    text += " on " + shortened(*gpu, 30);
  text += run.order == "library" ? ", sums in the library's order"
                                 : fmt::format(", sums in order {}", run.order);
  if (side.source == TimeSource::measured)
    text +=
        side.repetitions == 1 ? ", measured once" : fmt::format(", median of {}", side.repetitions);
  if (side.as_graph) text += ", each one CUDA graph";
  return text + "\n";
}

std::string head_of(const RunSide& side, const RunSide& other, const char* label) {
  if (side.source == TimeSource::none) return "";
  const std::string text(name(side.source));
  return side.source == other.source ? fmt::format("{} {}", label, text.substr(0, 4)) : text;
}

std::string steps_text(const RunComparison& comparison) {
  if (comparison.a.steps.empty() && comparison.b.steps.empty()) return "";
  const StepTime a = slowest(comparison.a.steps), b = slowest(comparison.b.steps);
  const bool known = comparison.a.has_work_times && comparison.b.has_work_times;
  const auto cell = [](const RunSide& side, Duration time) {
    if (side.steps.empty()) return std::string();
    return side.has_work_times ? rounded_text(time) : kUnknown;
  };
  const auto row = [&](const char* what, Duration own, Duration other) {
    ComparisonCells cells;
    cells.what = what;
    cells.a = cell(comparison.a, own);
    cells.b = cell(comparison.b, other);
    if (known) cells.ratio = ratio_text(own, other);
    return row_text(cells);
  };
  if (comparison.a.as_graph || comparison.b.as_graph) return row("step", a.step, b.step);
  return row("step", a.step, b.step) + row("  work", a.work, b.work) +
         row("  exposed communication", a.exposed, b.exposed) +
         row("    waiting for other ranks", a.waiting, b.waiting) +
         row("  outside calls and work", a.outside, b.outside);
}

bool has_estimates(const RunComparison& comparison) {
  for (const ListingComparison& listing : comparison.listings)
    for (const LineComparison& line : listing.lines)
      for (const TimePair& pair : line.times)
        for (const LineTime* side : {&pair.a, &pair.b})
          if (const RankTime* own = reported_rank(*side);
              own != nullptr && own->expected != Duration{})
            return true;
  return false;
}

std::string verdict_text(const RunComparison& comparison) {
  const RecordedRun &a = comparison.a.head, &b = comparison.b.head;
  std::string text;
  if (a.verdict != b.verdict)
    text += fmt::format("  verdicts differ: {} and {}\n", a.verdict, b.verdict);
  const std::string of_a = findings_text(a.findings), of_b = findings_text(b.findings);
  if (a.verdict == b.verdict && of_a != of_b)
    text += fmt::format("  findings differ\n  A {}\n  B {}\n", of_a, of_b);
  if (!a.error.empty() || !b.error.empty())
    text += fmt::format("  A {}\n  B {}\n", a.error.empty() ? "ran" : a.error,
                        b.error.empty() ? "ran" : b.error);
  return text;
}

std::string match_counts_text(const RunComparison& comparison) {
  const int64_t all = comparison.count(std::nullopt);
  std::string text = fmt::format("  {} value{}: {} bit-equal", all, all == 1 ? "" : "s",
                                 comparison.count(ValueMatch::bit_equal));
  for (const ValueMatch match :
       {ValueMatch::within_rounding, ValueMatch::not_decided, ValueMatch::wrong})
    if (const int64_t count = comparison.count(match); count > 0)
      text += fmt::format(", {} {}", count, name(match));
  std::string causes;
  for (const Cause cause : {Cause::reduction_order, Cause::precision, Cause::unknown, Cause::bug})
    if (const int64_t count = comparison.count(cause); count > 0)
      causes += fmt::format("{}{} {}", causes.empty() ? "; causes: " : ", ", count, name(cause));
  return text + causes + "\n";
}

}  // namespace

std::string comparison_text(const RunComparison& comparison, const TextStyle& style) {
  std::string out = comparison.a.head.title() + "\n";
  if (!comparison.alone) out += run_side_text("A  ", comparison.a);
  out += run_side_text(comparison.alone ? "" : "B  ", comparison.b);
  if (comparison.a.head.is_empty() || comparison.b.head.is_empty())
    return out + "\n" + verdict_text(comparison);
  ComparisonCells head;
  head.line = "line";
  if (!comparison.alone) head.values = "values";
  head.a = head_of(comparison.a, comparison.b, "A");
  head.b = head_of(comparison.b, comparison.a, "B");
  const bool timed = !head.a.empty() || !head.b.empty();
  if (!head.a.empty() && !head.b.empty()) head.ratio = comparison.alone ? "ratio" : "B/A";
  if (timed) head.bytes = "bytes";
  if (timed) head.busbw = "busGB/s";
  if (has_estimates(comparison)) head.expected = "estimate";
  out += "\n" + row_text(head);
  const KnownWork known{comparison.a.has_work_times, comparison.b.has_work_times};
  for (const ListingComparison& listing : comparison.listings) {
    if (comparison.listings.size() > 1) out += fmt::format("  {}\n", ranks_text(listing.lanes, 80));
    for (const LineComparison& line : listing.lines) out += line_text(line, known, style);
  }
  out += steps_text(comparison);
  return comparison.alone ? out : out + verdict_text(comparison) + match_counts_text(comparison);
}

}  // namespace shardproof
