// Implements json_report of report.h, whose header lists the keys.
#include "shardproof/scenarios/report/report.h"

#include <fmt/format.h>
#include <cmath>
#include <nlohmann/json.hpp>

#include "shardproof/localtensor/collective/reduction_schedule.h"
#include "shardproof/scenarios/model/own_formats.h"
#include "shardproof/scenarios/report/problems.h"

namespace shardproof {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity, so it is written as text.
Json number_json(double number) {
  return std::isfinite(number) ? Json(number) : Json(fmt::format("{}", number));
}

// Adds text under a key unless it is empty.
void add_text(Json& out, const char* key, const std::string& text) {
  if (!text.empty()) out[key] = text;
}

Json finding_json(const PhaseResult& phase, size_t index) {
  const Finding& finding = phase.outcome.findings[index];
  const SourcePlace place = index < phase.places.size() ? phase.places[index] : SourcePlace{};
  Json out;
  out["verdict"] = name(finding.verdict);
  if (finding.line > 0) out["line"] = finding.line;
  add_text(out, "source", phase.line_text(finding));
  add_text(out, "listing", place.listing);
  if (place.file_line > 0) out["file_line"] = place.file_line;
  out["ranks"] = to_string(finding.ranks);
  add_text(out, "name", finding.name);
  add_text(out, "element", finding.element);
  add_text(out, "expected", finding.expected);
  add_text(out, "got", finding.got);
  if (finding.ratio) out["ratio"] = number_json(*finding.ratio);
  add_text(out, "group", finding.group);
  if (finding.call > 0) out["call"] = finding.call;
  add_text(out, "instance", finding.instance);
  out["headline"] = finding.headline;
  add_text(out, "cause", cause_of(finding));
  out["details"] = finding.details;
  add_text(out, "fix", finding.fix);
  return out;
}

Json missed_json(const std::vector<ExpectationFailure>& misses) {
  Json out = Json::array();
  for (const ExpectationFailure& miss : misses)
    out.push_back({{"what", miss.what}, {"expected", miss.expected}, {"got", miss.got}});
  return out;
}

Json call_json(const CallCount& call) {
  return {{"kind", call.kind},
          {"group", call.group},
          {"ranks", to_string(call.lanes)},
          {"count", call.count},
          {"bytes", to_string(call.bytes)}};
}

// Returns name, line and instance of a value; empty ones are omitted.
template <typename Value>
Json place_json(const Value& value) {
  Json out;
  if (!value.name.empty()) out["name"] = value.name;
  if (value.line > 0) out["line"] = value.line;
  if (!value.instance.empty()) out["instance"] = value.instance;
  return out;
}

Json undecided_json(const std::vector<UndecidedValue>& values) {
  Json out = Json::array();
  for (const UndecidedValue& value : values) {
    Json one = place_json(value);
    one["elements"] = value.elements;
    one["of"] = value.of;
    one["reason"] = value.reason;
    out.push_back(std::move(one));
  }
  return out;
}

Json precision_json(const std::vector<ValuePrecision>& values) {
  Json out = Json::array();
  for (const ValuePrecision& value : values) {
    Json one = place_json(value);
    one["ratio"] = number_json(value.ratio);
    one["error"] = number_json(value.error);
    one["device_error"] = number_json(value.device_error);
    if (!value.cause.empty()) one["cause"] = value.cause;
    out.push_back(std::move(one));
  }
  return out;
}

Json phase_json(const PhaseResult& phase) {
  Json out;
  out["findings"] = Json::array();
  for (size_t i = 0; i < phase.outcome.findings.size(); ++i)
    out["findings"].push_back(finding_json(phase, i));
  out["missed"] = missed_json(phase.missed);
  out["values_compared"] = phase.outcome.values_compared;
  out["calls"] = Json::array();
  for (const CallCount& call : phase.outcome.calls) out["calls"].push_back(call_json(call));
  const WorldReport& world = phase.outcome.world;
  if (world.timed && !world.unpriced_work) out["time"] = to_string(world.time);
  out["peak_bytes"] = world.peak_bytes;
  if (!phase.outcome.on_host.empty()) out["on_host"] = phase.outcome.on_host;
  if (!phase.outcome.unfired_faults.empty()) out["unfired_faults"] = phase.outcome.unfired_faults;
  out["undecided"] = undecided_json(phase.outcome.undecided);
  if (!phase.outcome.precision.empty()) out["precision"] = precision_json(phase.outcome.precision);
  if (!phase.outcome.notes.empty()) out["notes"] = phase.outcome.notes;
  return out;
}

std::string_view error_kind_text(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::bad_input: return "bad input";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::limit: return "limit";
    case ErrorKind::io: return "file";
  }
  return "?";
}

Json error_json(const Error& error) {
  const Where& where = error.where();
  Json out;
  out["kind"] = error_kind_text(error.kind());
  out["message"] = error.message();
  if (where.file_line > 0) {
    out["file_line"] = where.file_line;
    out["file_column"] = where.file_column;
  }
  add_text(out, "path", where.path);
  if (where.line > 0) out["line"] = where.line;
  if (where.column > 0) out["column"] = where.column;
  return out;
}

Json case_json(const CaseResult& one, const RunOptions& options) {
  Json out;
  out["name"] = one.name;
  out["backend"] = one.backend.empty() ? options.backends.front() : one.backend;
  out["status"] = one.status_text();
  out["expected"] = name(one.expected);
  out["verdict"] = name(one.verdict());
  if (one.error) {
    out["errors"] = Json::array({error_json(*one.error)});
    for (const Error& error : one.more_errors) out["errors"].push_back(error_json(error));
  }
  if (!one.missed_refusal.empty()) out["missed"] = missed_json(one.missed_refusal);
  out["phases"] = Json::array();
  for (const PhaseResult& phase : one.phases) out["phases"].push_back(phase_json(phase));
  out["repeat"] = one.repeat;
  return out;
}

}  // namespace

std::string json_report(const RunResult& result, const ReportHead& head) {
  Json out;
  out["format"] = kReportFormat;
  out["version"] = kReportVersion;
  out["tool"] = "shardproof " + head.version;
  out["backend"] = fmt::format("{}", fmt::join(head.options.backends, ","));
  out["processes"] = head.options.processes;
  if (head.options.device != "host") out["device"] = head.options.device;
  if (head.options.matmul == MatmulPrecision::high) out["matmul_precision"] = "high";
  out["schedule"] = name(head.options.schedule);
  out["order"] = to_string(head.options.order);
  out["seed"] = head.options.seed;
  if (!result.notes.empty()) out["notes"] = result.notes;
  if (!result.skipped.empty()) out["skipped"] = result.skipped;
  out["exit_code"] = result.exit_code();
  out["summary"] = {{"scenarios", result.scenarios.size()},
                    {"cases", result.cases()},
                    {"values_compared", result.values_compared()},
                    {"cases_without_values", result.cases_without_values()},
                    {"unexpected_results", result.unexpected_results()}};
  out["scenarios"] = Json::array();
  for (const ScenarioResult& scenario : result.scenarios) {
    Json cases = Json::array();
    for (const CaseResult& one : scenario.cases) cases.push_back(case_json(one, head.options));
    out["scenarios"].push_back(
        {{"file", scenario.file}, {"about", scenario.about}, {"cases", std::move(cases)}});
  }
  // File names may contain any bytes; malformed UTF-8 becomes U+FFFD.
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardproof
