// Implements comparison_json of comparison_report.h, whose header lists the keys.
#include "shardproof/scenarios/report/comparison_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace shardproof {
namespace {

using Json = nlohmann::ordered_json;

// If the times of work are not known, those of calls are left.
Json rank_times(const LineTime& line, bool has_work_times) {
  Json out = Json::object();
  for (const auto& [rank, own] : line.ranks) {
    Json one;
    if (has_work_times || line.is_call()) one["time"] = to_string(own.time);
    one["count"] = own.count;
    if (line.is_call()) {
      one["bytes"] = static_cast<int64_t>(own.bytes);
      if (own.expected != Duration{}) one["expected"] = to_string(own.expected);
      if (own.time.ps > 0) one["busbw"] = own.bus_bytes / to_seconds(own.time) * 1e-9;
    }
    out[std::to_string(rank)] = std::move(one);
  }
  return out;
}

// Adds the distance. JSON has no infinity: infinite and unknown numbers are null.
void add_distance(const ValueDifference& difference, Json& out) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  out["rounding"] = difference.rounding ? number(*difference.rounding) : Json();
  out["rounding_factor"] = difference.rounding ? number(difference.rounding_factor) : Json();
  out["ulps"] = number(difference.ulps);
}

Json difference_json(const ValueDifference& difference) {
  Json out;
  out["value"] = difference.id;
  if (!difference.bound.empty()) out["name"] = difference.bound;
  if (!difference.instance.empty()) out["instance"] = difference.instance;
  out["match"] = name(difference.match);
  out["cause"] = name(difference.cause);
  if (!difference.why.empty()) out["why"] = difference.why;
  if (difference.index) {
    out["first"] = std::vector<int64_t>(difference.index->begin(), difference.index->end());
    out["of"] = difference.local ? "shard" : "value";
    out["a"] = difference.got_a;
    out["b"] = difference.got_b;
    add_distance(difference, out);
    out["elements"] = difference.elements;
  }
  out["owners"] = to_string(difference.owners);
  out["ranks"] = to_string(difference.ranks);
  return out;
}

Json compared_line_json(const LineComparison& line, const RunComparison& comparison) {
  Json out;
  out["line"] = line.line;
  out["source"] = line.text;
  if (line.values > 0) {
    out["values"] = line.values;
    out["match"] = name(line.match());
  }
  if (!line.differences.empty()) out["differences"] = Json::array();
  for (const ValueDifference& difference : line.differences)
    out["differences"].push_back(difference_json(difference));
  out["times"] = Json::array();
  for (const TimePair& pair : line.times)
    out["times"].push_back({{"call", pair.call},
                            {"a", rank_times(pair.a, comparison.a.has_work_times)},
                            {"b", rank_times(pair.b, comparison.b.has_work_times)}});
  return out;
}

Json run_side_json(const RunSide& side) {
  Json out;
  out["backend"] = side.head.backend;
  out["processes"] = side.head.processes;
  out["order"] = side.head.order;
  out["verdict"] = side.head.verdict;
  if (!side.head.error.empty()) out["error"] = side.head.error;
  out["repeat"] = side.head.repeat;
  out["times"] = name(side.source);
  if (side.source == TimeSource::measured) out["repetitions"] = side.repetitions;
  if (side.steps.empty() || !side.has_work_times) return out;
  const StepTime whole = slowest(side.steps);
  out["step"] = to_string(whole.step);
  if (side.as_graph) {
    out["cuda_graph"] = true;
    return out;
  }
  out["work"] = to_string(whole.work);
  out["exposed"] = to_string(whole.exposed);
  out["waiting"] = to_string(whole.waiting);
  out["outside"] = to_string(whole.outside);
  out["ranks"] = Json::object();
  for (const auto& [rank, own] : side.steps)
    out["ranks"][std::to_string(rank)] = {{"step", to_string(own.step)},
                                          {"work", to_string(own.work)},
                                          {"exposed", to_string(own.exposed)},
                                          {"waiting", to_string(own.waiting)},
                                          {"outside", to_string(own.outside)}};
  return out;
}

Json comparison_object(const RunComparison& comparison) {
  Json out;
  out["file"] = comparison.a.head.file;
  if (!comparison.a.head.name.empty()) out["case"] = comparison.a.head.name;
  out["phase"] = comparison.a.head.phase;
  out["agrees"] = comparison.agrees();
  out["values"] = comparison.count(std::nullopt);
  for (const ValueMatch match : {ValueMatch::bit_equal, ValueMatch::within_rounding,
                                 ValueMatch::not_decided, ValueMatch::wrong})
    out[std::string(name(match))] = comparison.count(match);
  out["a"] = run_side_json(comparison.a);
  out["b"] = run_side_json(comparison.b);
  out["listings"] = Json::array();
  for (const ListingComparison& listing : comparison.listings) {
    Json lines = Json::array();
    for (const LineComparison& line : listing.lines)
      lines.push_back(compared_line_json(line, comparison));
    out["listings"].push_back({{"ranks", to_string(listing.lanes)}, {"lines", std::move(lines)}});
  }
  return out;
}

}  // namespace

std::string comparison_json(const std::vector<RunComparison>& comparisons,
                            const std::string& tool_version) {
  Json out;
  out["tool"] = "shardproof";
  out["version"] = tool_version;
  out["comparisons"] = Json::array();
  for (const RunComparison& comparison : comparisons)
    out["comparisons"].push_back(comparison_object(comparison));
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardproof
