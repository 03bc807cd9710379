// Implements report_html.h. Each part of the page is a function that returns HTML.
#include "shardproof/scenarios/report/report_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardproof/scenarios/report/line_table.h"
#include "shardproof/scenarios/report/pictures.h"
#include "shardproof/scenarios/report/problems.h"
#include "shardproof/scenarios/report/remarks.h"

namespace shardproof {
namespace {

constexpr std::string_view kStyle = R"css(
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; border-top: 1px solid #ccc; padding-top: .6em; }
table { border-collapse: collapse; margin: .6em 0; } th, td { text-align: left; padding: .15em .8em .15em 0; vertical-align: top; }
th { color: #666; font-weight: normal; } code, pre, td.code { font-family: monospace; font-size: 13px; }
pre { background: #f6f6f6; padding: .6em; overflow-x: auto; } td.code { white-space: pre; }
tr.found td { background: #fde8e8; } .good { color: #17722d; } .bad { color: #b3161b; }
.pictures { display: flex; flex-wrap: wrap; gap: 1.5em; } figure { margin: 0; }
details { margin: .5em 0; } summary { cursor: pointer; }
)css";

std::string element(const char* tag, const std::string& text) {
  return fmt::format("<{0}>{1}</{0}>\n", tag, escaped_xml(text));
}

std::string verdict_html(const CaseResult& one) {
  const bool good = one.status == CaseStatus::as_expected;
  const std::string text = one.status == CaseStatus::refused ? std::string(one.status_text())
                                                             : std::string(name(one.verdict()));
  return fmt::format("<span class=\"{}\">{}{}</span>", good ? "good" : "bad", escaped_xml(text),
                     good && one.expected != Verdict::clean ? ", as expected" : "");
}

std::string case_title(const CaseResult& one) {
  std::string title = one.name.empty() ? one.file : fmt::format("{} [{}]", one.file, one.name);
  return one.backend.empty() ? title : title + " on " + one.backend;
}

std::string finding_html(const PhaseResult& phase, size_t index) {
  const Finding& finding = phase.outcome.findings[index];
  std::string out =
      fmt::format("<section class=\"finding\"><p><b class=\"bad\">{}</b> {}</p>\n<table>\n",
                  escaped_xml(name(finding.verdict)), escaped_xml(finding.headline));
  const auto row = [&](const char* label, const std::string& text) {
    if (!text.empty())
      out += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", label, escaped_xml(text));
  };
  const int file_line = index < phase.places.size() ? phase.places[index].file_line : 0;
  if (finding.line > 0)
    row("line",
        fmt::format("{}   {}{}", finding.line, phase.line_text(finding),
                    file_line > 0 ? fmt::format("   (line {} of the file)", file_line) : ""));
  row("ranks", to_string(finding.ranks));
  row("cause", cause_of(finding));
  row("fix", finding.fix);
  out += "</table>\n";
  std::string details;
  for (const std::string& detail : finding.details) details += detail + "\n";
  if (!details.empty()) out += element("pre", details);
  if (finding.verdict == Verdict::deadlock || finding.verdict == Verdict::missing_rank)
    out += wait_graph_picture(finding);
  return out + "</section>\n";
}

std::string phase_html(const PhaseResult& phase) {
  std::string out;
  for (size_t i = 0; i < phase.outcome.findings.size(); ++i) out += finding_html(phase, i);
  for (const ExpectationFailure& miss : phase.missed)
    out += element("p", fmt::format("{}: expected {}, got {}", miss.what, miss.expected, miss.got));
  std::string remarks;
  for (const auto lines_of : {undecided_lines, note_lines})
    for (const std::string& line : lines_of(phase.outcome)) remarks += line + "\n";
  if (!remarks.empty()) out += element("pre", remarks);
  if (phase.outcome.world.timed) {
    out += element("p", "time of the step: " + rounded_text(phase.outcome.world.time));
    out += timeline_picture(phase.outcome.world.records);
  }
  return out;
}

std::string row_html(const LineRow& row, bool found) {
  return fmt::format(
      "<tr{}><td>{}</td><td class=\"code\">{}</td><td class=\"code\">{}</td>"
      "<td class=\"code\">{}</td><td>{}</td><td>{}</td></tr>\n",
      found ? " class=\"found\"" : "", row.line, escaped_xml(row.source),
      escaped_xml(row.placements), escaped_xml(row.local), escaped_xml(row.calls), row.bytes);
}

std::string lines_html(const LoweredJob& lowered, const PhaseResult* result) {
  std::string out;
  for (const LineTable& table : line_tables(lowered)) {
    out +=
        element("h4", "ranks " + table.listing) +
        "<table class=\"lines\"><tr><th></th><th>line</th><th>placements</th><th>local shape</th>"
        "<th>calls</th><th>bytes a rank sends</th></tr>\n";
    for (const LineRow& row : table.rows) {
      const bool found =
          result != nullptr &&
          std::any_of(result->outcome.findings.begin(), result->outcome.findings.end(),
                      [&](const Finding& finding) {
                        return finding.line == row.line && result->line_text(finding) == row.source;
                      });
      out += row_html(row, found);
    }
    out += "</table>\n";
  }
  return out;
}

std::string pictures_html(const Job& job) {
  constexpr size_t kShownTensors = 12;
  std::string out = "<div class=\"pictures\">\n";
  const auto figure = [&](const std::string& svg) {
    if (!svg.empty()) out += "<figure>" + svg + "</figure>\n";
  };
  for (const auto& [name, mesh] : job.meshes) figure(mesh_picture(mesh));
  for (size_t i = 0; i < std::min(job.inputs.size(), kShownTensors); ++i)
    figure(owners_picture(
        fmt::format("{} {}", job.inputs[i].name, placements_text(job.inputs[i].spec)),
        job.inputs[i].spec));
  out += "</div>\n";
  if (job.inputs.size() > kShownTensors)
    out += element("p",
                   fmt::format("{} more tensors are not drawn", job.inputs.size() - kShownTensors));
  return out;
}

std::string program_html(const Case& one, const CaseResult& result, const Registries& registries) {
  std::string out;
  for (size_t i = 0; i < one.phases.size(); ++i) {
    if (one.phases.size() > 1) out += element("h4", fmt::format("phase {}", i + 1));
    out += pictures_html(one.phases[i].job);
    try {
      out += lines_html(lower_job(one.phases[i].job, registries),
                        i < result.phases.size() ? &result.phases[i] : nullptr);
    } catch (const Error& error) {  // the case lists this error
    }
  }
  return fmt::format("<details{}><summary>mesh, shards and lines</summary>\n{}</details>\n",
                     result.leading() != nullptr ? " open" : "", out);
}

std::string case_html(const CaseResult& one) {
  std::string out =
      fmt::format("<h3>{} {}</h3>\n", escaped_xml(case_title(one)), verdict_html(one));
  if (one.error && one.status != CaseStatus::as_expected) {
    std::string errors = std::string(one.error->what()) + "\n";
    for (const Error& error : one.more_errors) errors += std::string(error.what()) + "\n";
    out += element("pre", errors);
  }
  for (const ExpectationFailure& miss : one.missed_refusal)
    out += element("p", fmt::format("{}: expected {}, got {}", miss.what, miss.expected, miss.got));
  for (const PhaseResult& phase : one.phases) out += phase_html(phase);
  if (one.status != CaseStatus::as_expected) out += element("pre", "repeat  " + one.repeat);
  return out;
}

const Case* find_case(const std::vector<Scenario>& scenarios, const CaseResult& result) {
  for (const Scenario& scenario : scenarios)
    if (scenario.file == result.file)
      for (const Case& one : scenario.cases)
        if (one.name == result.name) return &one;
  return nullptr;
}

std::string scenario_html(const ScenarioResult& scenario, size_t number,
                          const std::vector<Scenario>& scenarios, const Registries& registries) {
  std::string out = fmt::format("<h2 id=\"file{}\">{}</h2>\n", number, escaped_xml(scenario.file));
  if (!scenario.about.empty()) out += element("p", scenario.about);
  size_t drawn = 0;
  for (const CaseResult& one : scenario.cases) {
    out += "<article class=\"case\">\n" + case_html(one);
    if (drawn < kDrawnCases)
      if (const Case* const described = find_case(scenarios, one)) {
        out += program_html(*described, one, registries);
        ++drawn;
      }
    out += "</article>\n";
  }
  if (drawn == kDrawnCases && scenario.cases.size() > drawn)
    out += element("p", fmt::format("mesh, shards and lines are shown for the first {} of {} cases",
                                    drawn, scenario.cases.size()));
  return out;
}

std::string index_html(const RunResult& result) {
  std::string out =
      "<table><tr><th>file</th><th>cases</th><th>not as expected</th><th></th></tr>\n";
  for (size_t i = 0; i < result.scenarios.size(); ++i) {
    const ScenarioResult& scenario = result.scenarios[i];
    const auto bad =
        std::count_if(scenario.cases.begin(), scenario.cases.end(),
                      [](const CaseResult& one) { return one.status != CaseStatus::as_expected; });
    const CaseResult* first = nullptr;
    for (const CaseResult& one : scenario.cases)
      if (first == nullptr && (bad == 0 || one.status != CaseStatus::as_expected)) first = &one;
    out += fmt::format(
        "<tr><td><a href=\"#file{}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td></tr>\n", i,
        escaped_xml(scenario.file), scenario.cases.size(), bad,
        first == nullptr ? "" : verdict_html(*first));
  }
  return out + "</table>\n";
}

}  // namespace

std::string html_report(const RunResult& result, const ReportHead& head,
                        const std::vector<Scenario>& scenarios, const Registries& registries) {
  std::string notes;
  for (const std::string& text : result.notes) notes += text + "\n";
  for (const std::string& file : result.skipped) notes += "skipped " + file + "\n";
  std::string body = fmt::format(
      "<h1>shardproof report</h1>\n<p>{} scenarios, {} cases, {} values compared, "
      "{} cases without compared values, <b "
      "class=\"{}\">{} unexpected results</b>; backend {}, seed {}, shardproof {}</p>\n",
      result.scenarios.size(), result.cases(), result.values_compared(),
      result.cases_without_values(), result.unexpected_results() == 0 ? "good" : "bad",
      result.unexpected_results(),
      escaped_xml(fmt::format("{}", fmt::join(head.options.backends, ","))), head.options.seed,
      escaped_xml(head.version));
  if (!notes.empty()) body += element("pre", notes);
  body += index_html(result);
  for (size_t i = 0; i < result.scenarios.size(); ++i)
    body += scenario_html(result.scenarios[i], i, scenarios, registries);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>shardproof report</title>\n"
      "<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      kStyle, body);
}

}  // namespace shardproof
