// Implements sarif_report and github_annotations of report.h.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "shardproof/scenarios/report/problems.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof {
namespace {

using SarifJson = nlohmann::ordered_json;

// Returns the identifier of a rule: "wrong-values".
std::string rule_id(std::string rule) {
  for (char& c : rule)
    if (c == ' ') c = '-';
  return rule;
}

// Returns a path as a URI reference: bytes that RFC 3986 does not allow in a segment, and colons,
// are percent-encoded.
std::string uri_of(const std::string& path) {
  constexpr std::string_view kAllowed = "/-._~!$&'()*+,;=@";
  std::string uri;
  for (const char c : path) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       kAllowed.find(c) != std::string_view::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

SarifJson location_json(const Problem& problem) {
  SarifJson place;
  place["artifactLocation"] = {{"uri", uri_of(problem.file)}};
  if (problem.line > 0) place["region"] = {{"startLine", problem.line}};
  if (problem.column > 0) place["region"]["startColumn"] = problem.column;
  return {{"physicalLocation", std::move(place)}};
}

SarifJson problem_json(const Problem& problem, const char* level) {
  SarifJson out;
  out["ruleId"] = rule_id(problem.rule);
  out["level"] = level;
  out["message"] = {{"text", problem.message}};
  out["locations"] = SarifJson::array({location_json(problem)});
  return out;
}

// Escapes a text for a workflow command of GitHub; `property`: within "file=".
std::string command_text(const std::string& text, bool property) {
  std::string out;
  for (const char c : text) {
    const bool special = c == '%' || c == '\n' || c == '\r' || (property && (c == ',' || c == ':'));
    out += special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string sarif_report(const RunResult& result, const ReportHead& head) {
  SarifJson rules = SarifJson::array(), results = SarifJson::array();
  std::set<std::string> known;
  const auto add = [&](const Problem& problem, const char* level) {
    results.push_back(problem_json(problem, level));
    if (known.insert(problem.rule).second)
      rules.push_back(
          {{"id", rule_id(problem.rule)}, {"shortDescription", {{"text", problem.rule}}}});
  };
  for (const Problem& problem : problems_of(result))
    add(problem, problem.rule == name(Verdict::imprecise) ? "warning" : "error");
  for (const Problem& remark : remarks_of(result)) add(remark, "note");
  SarifJson out;
  out["$schema"] = "https://json.schemastore.org/sarif-2.1.0.json";
  out["version"] = "2.1.0";
  const SarifJson driver = {
      {"name", "shardproof"}, {"version", head.version}, {"rules", std::move(rules)}};
  out["runs"] = SarifJson::array({{{"tool", {{"driver", driver}}},
                                   {"columnKind", "unicodeCodePoints"},
                                   {"results", results}}});
  return out.dump(1, ' ', false, SarifJson::error_handler_t::replace) + "\n";
}

std::string github_annotations(const RunResult& result) {
  std::string out;
  for (const Problem& problem : problems_of(result)) {
    out += "::error file=" + command_text(problem.file, true);
    if (problem.line > 0) out += fmt::format(",line={}", problem.line);
    if (problem.column > 0) out += fmt::format(",col={}", problem.column);
    out += fmt::format(",title={}::{}\n", command_text(problem.rule, true),
                       command_text(problem.message, false));
  }
  return out;
}

}  // namespace shardproof
