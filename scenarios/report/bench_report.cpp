// Implements bench_report.h in the formats of nccl-tests.
#include "shardproof/scenarios/report/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace shardproof {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGiga = 1e9;
constexpr size_t kTimeWidth = 7, kBandwidthWidth = 6;

std::string_view kind_text(CollectiveKind kind) {
  return kind == CollectiveKind::send ? "sendrecv" : name(kind);
}

// nccl-tests writes "none" and -1 for a collective without reduction or root.
std::string reduction_text(const Collective& c) {
  return reduces(c.kind) ? to_string(c.reduction) : "none";
}
int64_t root_number(const Collective& c) { return has_root(c.kind) ? c.root : -1; }

// Returns the number with 2, 1 or 0 decimals, the most that fit `width`.
std::string fitted(double value, size_t width) {
  for (int digits = 2; digits >= 0; --digits) {
    const std::string text = fmt::format("{:.{}f}", value, digits);
    if (text.size() <= width) return text;
  }
  return fmt::format("{:.1e}", value);
}

std::string microseconds_text(double seconds) { return fitted(seconds * 1e6, kTimeWidth); }

std::string bench_side_text(const Collective& c, const BenchSide& side) {
  return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", microseconds_text(side.seconds),
                     fitted(algorithm_bandwidth(c, side.seconds) / kGiga, kBandwidthWidth),
                     fitted(bus_bandwidth(c, side.seconds) / kGiga, kBandwidthWidth),
                     side.wrong ? fmt::format("{}", *side.wrong) : "N/A");
}

std::string_view averaging_text(Averaging averaging) {
  switch (averaging) {
    case Averaging::first: return "of process 0";
    case Averaging::average: return "averaged over processes";
    case Averaging::least: return "of the fastest process";
    case Averaging::most: return "of the slowest process";
  }
  return "";
}

// Returns a line of column names: five of the row, four for each output buffer, then `last`.
std::string columns_text(const std::array<const char*, 5>& row,
                         const std::array<const char*, 4>& side, const std::string& last) {
  const std::string one =
      fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", side[0], side[1], side[2], side[3]);
  return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}{}\n", row[0], row[1], row[2],
                     row[3], row[4], one, one, last);
}

std::string predicted_text(const BenchHead& head, std::string_view time, std::string_view ratio) {
  return head.machine.empty() ? "" : fmt::format("  {:>9}  {:>7}", time, ratio);
}

std::string expected_text(const BenchHead& head, std::string_view time) {
  return head.estimator.empty() ? "" : fmt::format("  {:>9}", time);
}

// Returns the lines below the table that state which clock timed the rows.
std::string clock_text(const std::vector<BenchRow>& rows) {
  size_t by_device = 0, with_launch = 0;
  for (const BenchRow& row : rows)
    for (const BenchSide* side : {&row.out_of_place, &row.in_place}) {
      by_device += side->clock != TimedBy::world;
      with_launch += side->clock == TimedBy::device_and_launch;
    }
  if (by_device == 0) return "";
  std::string text = "# Times by the devices' own events\n";
  if (by_device != 2 * rows.size())
    text = fmt::format("# {} of {} times by the devices' own events, the others by the host\n",
                       by_device, 2 * rows.size());
  if (with_launch > 0)
    text +=
        fmt::format("# {} of {} may include the launch of calls\n", with_launch, 2 * rows.size());
  return text;
}

double average_bus_bandwidth(const std::vector<BenchRow>& rows) {
  double sum = 0;
  for (const BenchRow& row : rows)
    for (const BenchSide* side : {&row.out_of_place, &row.in_place})
      sum += bus_bandwidth(row.collective, side->seconds) / kGiga;
  return rows.empty() ? 0 : sum / static_cast<double>(2 * rows.size());
}

int64_t all_wrong(const std::vector<BenchRow>& rows) {
  int64_t wrong = 0;
  for (const BenchRow& row : rows)
    wrong += row.out_of_place.wrong.value_or(0) + row.in_place.wrong.value_or(0);
  return wrong;
}

// Returns the count column of nccl-tests: elements for one rank in an all_to_all.
int64_t shown_count(const Collective& c) {
  return c.kind == CollectiveKind::all_to_all ? c.count / c.group.size() : c.count;
}

Json bench_side_json(const Collective& c, const BenchSide& side) {
  Json out;
  out["time"] = side.seconds * 1e6;
  out["alg_bw"] = algorithm_bandwidth(c, side.seconds) / kGiga;
  out["bus_bw"] = bus_bandwidth(c, side.seconds) / kGiga;
  out["nwrong"] = side.wrong ? Json(*side.wrong) : Json();
  if (side.clock != TimedBy::world)
    out["clock"] = side.clock == TimedBy::device ? "device" : "device+launch";
  return out;
}

Json bench_row_json(const BenchRow& row) {
  const Collective& c = row.collective;
  Json out;
  out["size"] = size_in_bytes(c);
  out["count"] = shown_count(c);
  out["type"] = name(c.dtype);
  out["redop"] = reduction_text(c);
  out["root"] = fmt::format("{}", root_number(c));
  out["out_of_place"] = bench_side_json(c, row.out_of_place);
  out["in_place"] = bench_side_json(c, row.in_place);
  if (row.predicted_seconds) out["predicted"] = Json{{"time", *row.predicted_seconds * 1e6}};
  if (row.expected_seconds) out["expected"] = Json{{"time", *row.expected_seconds * 1e6}};
  return out;
}

}  // namespace

int64_t size_in_bytes(const Collective& c) {
  const int64_t elements = std::max(input_elements(c), output_elements(c, c.root));
  return elements * size_of(c.dtype);
}

double algorithm_bandwidth(const Collective& c, double seconds) {
  return seconds > 0 ? static_cast<double>(size_in_bytes(c)) / seconds : 0;
}

double bus_bandwidth(const Collective& c, double seconds) {
  const double n = static_cast<double>(c.group.size()), others = (n - 1) / n;
  const double bandwidth = algorithm_bandwidth(c, seconds);
  switch (c.kind) {
    case CollectiveKind::all_reduce: return bandwidth * 2 * others;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::send: return bandwidth;
    default: return bandwidth * others;
  }
}

std::string bench_head_text(const BenchHead& head) {
  const Collective& c = head.collective;
  std::string text = fmt::format("# shardproof {}: {} on {}, {} ranks", head.version,
                                 kind_text(c.kind), head.backend, c.group.size());
  if (!head.simulated) text += fmt::format(" in {} processes", head.processes);
  text += fmt::format(", {} warmup, {} iterations\n", head.warmup, head.times);
  text += head.simulated ? "# time: of the simulator itself on this machine\n"
                         : fmt::format("# time: {}\n", averaging_text(head.averaging));
  if (!head.machine.empty())
    text += fmt::format("# predicted: one call on {}; ratio: out-of-place time by predicted\n",
                        head.machine);
  if (!head.estimator.empty())
    text += fmt::format("# estimate: the library's own, by {}\n", head.estimator);
  text += fmt::format("#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:^31}  {:^31}\n", "", "", "", "",
                      "", "out-of-place", "in-place");
  text +=
      columns_text({"size", "count", "type", "redop", "root"}, {"time", "algbw", "busbw", "#wrong"},
                   predicted_text(head, "predicted", "ratio") + expected_text(head, "estimate"));
  text += columns_text({"(B)", "(elements)", "", "", ""}, {"(us)", "(GB/s)", "(GB/s)", ""},
                       predicted_text(head, "(us)", "") + expected_text(head, "(us)"));
  return text;
}

std::string bench_row_text(const BenchHead& head, const BenchRow& row) {
  const Collective& c = row.collective;
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", size_in_bytes(c),
                                 shown_count(c), name(c.dtype), reduction_text(c), root_number(c));
  text += bench_side_text(c, row.out_of_place) + bench_side_text(c, row.in_place);
  if (row.predicted_seconds) {
    const double predicted = *row.predicted_seconds;
    text += predicted_text(
        head, microseconds_text(predicted),
        predicted > 0 ? fitted(row.out_of_place.seconds / predicted, kTimeWidth) : "-");
  }
  if (!head.estimator.empty())
    text += expected_text(
        head, row.expected_seconds ? microseconds_text(*row.expected_seconds) : std::string("-"));
  return text + "\n";
}

std::string bench_foot_text(const std::vector<BenchRow>& rows) {
  const int64_t wrong = all_wrong(rows);
  return clock_text(rows) +
         fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}\n", wrong,
                     wrong == 0 ? "OK" : "FAILED", average_bus_bandwidth(rows));
}

std::string bench_json(const BenchHead& head, const std::vector<BenchRow>& rows) {
  Json out;
  out["version"] = 3;
  out["tool"] = "shardproof " + head.version;
  out["config"] = Json{{"collective", kind_text(head.collective.kind)},
                       {"backend", head.backend},
                       {"simulated", head.simulated},
                       {"nranks", head.collective.group.size()},
                       {"nprocesses", head.processes},
                       {"warmup_iters", head.warmup},
                       {"iterations", head.times}};
  if (!head.machine.empty()) out["config"]["topology"] = head.machine;
  if (!head.estimator.empty()) out["config"]["estimator"] = head.estimator;
  out["results"] = Json::array();
  for (const BenchRow& row : rows) out["results"].push_back(bench_row_json(row));
  const int64_t wrong = all_wrong(rows);
  out["out_of_bounds"] = Json{{"count", wrong}, {"okay", wrong == 0 ? "true" : "false"}};
  out["average_bus_bandwidth"] =
      Json{{"bandwidth", average_bus_bandwidth(rows)}, {"okay", "unchecked"}};
  return out.dump(2) + "\n";
}

}  // namespace shardproof
