// Implements text_report and case_text of report.h. Parts of a report: (1) for a folder the table
// of groups; (2) the cases that are not as expected, or for a single file its findings; (3) a
// horizontal line; (4) notes of backends, ops on the host, remarks; (5) the summary.
#include "shardproof/scenarios/report/report.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/number_text.h"
#include "shardproof/scenarios/report/remarks.h"
#include "shardproof/scenarios/report/shared_findings.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {
namespace {

std::string paint(const TextStyle& style, const char* code, const std::string& text) {
  return style.color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}
std::string red(const TextStyle& style, const std::string& text) {
  return paint(style, "31;1", text);
}
std::string green(const TextStyle& style, const std::string& text) {
  return paint(style, "32", text);
}

constexpr size_t kShownRemarks = 8, kShownCases = 8, kWidth = 100;
constexpr int kShownInFull = 5;  // findings of a case; the others get one line each

std::string title(const CaseResult& result) {
  std::string text = result.file;
  if (!result.name.empty()) text += fmt::format(" [{}]", result.name);
  if (!result.backend.empty()) text += " on " + result.backend;
  return text;
}

void add_label(std::string& out, const std::string& label, const std::string& text) {
  out += fmt::format("  {:<7} {}\n", label, text);
}

bool tells_verdict(const Finding& finding) {
  return finding.headline.starts_with(name(finding.verdict));
}

// Returns "first wrong line" for the first finding of values and "wrong line" for later ones.
std::string line_label(const Finding& finding, bool first) {
  if (finding.verdict == Verdict::wrong_values) return first ? "first wrong line" : "wrong line";
  if (finding.verdict == Verdict::imprecise)
    return first ? "first imprecise line" : "imprecise line";
  return "line";
}

std::string instance_text(const Finding& finding) {
  return finding.instance.empty() ? "" : fmt::format("   ({})", finding.instance);
}

// Returns the ranks that run the line if other ranks have another listing.
std::string listing_text(const PhaseResult& phase, const Finding& finding) {
  const JobListing* const listing = phase.listing_of(finding);
  return listing == nullptr || phase.listings.size() < 2 ? ""
                                                         : "   of " + ranks_text(listing->lanes);
}

// True if the engine quotes the line of the finding in this detail.
bool quotes_line(const std::string& detail) {
  return detail.starts_with("first wrong line") || detail.starts_with("first imprecise line") ||
         detail.starts_with("line ");
}

// The position of a finding among those of its case.
struct FindingPlace {
  bool first = false;     // the first finding of its verdict
  bool in_title = false;  // the first line of the case shows its headline
};

// Returns the lines of a finding. The program line is printed first, unless a detail quotes it.
std::string finding_text(const PhaseResult& phase, const Finding& finding,
                         const FindingPlace& place) {
  std::string source = phase.line_text(finding);
  source.erase(0, source.find_first_not_of(' '));
  std::string details;
  bool shown = source.empty();
  const std::string pass = finding.instance.empty() ? "" : fmt::format("({})", finding.instance);
  for (std::string detail : finding.details) {
    if (!source.empty() && detail.ends_with(source) && quotes_line(detail)) continue;
    shown = shown ||
            (detail.find(source) != std::string::npos && detail.find(pass) != std::string::npos);
    if (!place.first && quotes_line(detail) && detail.starts_with("first ")) detail.erase(0, 6);
    details += "  " + detail + "\n";
  }
  std::string out;
  if (!shown)
    out += fmt::format("  {}   {}   {}{}{}\n", line_label(finding, place.first), finding.line,
                       source, instance_text(finding), listing_text(phase, finding));
  if (!finding.headline.empty() && !place.in_title) out += "  " + finding.headline + "\n";
  out += details;
  if (!finding.fix.empty()) add_label(out, "fix", finding.fix);
  return out;
}

void add_missed(std::string& out, const std::vector<ExpectationFailure>& misses) {
  for (const ExpectationFailure& miss : misses)
    out += fmt::format("  {}: expected {}, got {}\n", miss.what, miss.expected, miss.got);
}

std::string phase_label(const CaseResult& result, size_t phase) {
  return result.phases.size() > 1 ? fmt::format("  phase {}\n", phase + 1) : "";
}

// True if an unmet expectation is the verdict itself. A finding of the expected verdict may be
// followed by a finding of another one.
bool misses_verdict(const CaseResult& result) {
  for (const PhaseResult& phase : result.phases)
    for (const ExpectationFailure& miss : phase.missed)
      if (miss.what == "verdict") return true;
  return false;
}

// True if the report prints the findings. Findings of the expected verdict are not printed if
// another expectation is not met.
bool worth_telling(const CaseResult& result) {
  return result.status == CaseStatus::as_expected || result.verdict() != result.expected ||
         result.expected == Verdict::clean || misses_verdict(result);
}

// Returns the verdict in the first line of a case. It is the headline of the leading finding if
// that begins with the name of the verdict, else the name.
std::string headline_of(const CaseResult& result) {
  if (result.status == CaseStatus::refused) return std::string(result.status_text());
  const Finding* finding = worth_telling(result) ? result.leading() : nullptr;
  const std::string got = finding != nullptr && tells_verdict(*finding)
                              ? finding->headline
                              : std::string(name(result.verdict()));
  if (result.verdict() == result.expected)
    return result.status == CaseStatus::unexpected ? got + ", but not as expected" : got;
  if (result.expected == Verdict::clean) return got;
  return fmt::format("{}; expected {}", got, name(result.expected));
}

std::vector<ExpectationFailure> without_verdict(std::vector<ExpectationFailure> misses) {
  misses.erase(
      std::remove_if(misses.begin(), misses.end(),
                     [](const ExpectationFailure& miss) { return miss.what == "verdict"; }),
      misses.end());
  return misses;
}

// "  line   9   y[0] on all ranks: expected 1, got 2"
std::string short_finding_text(const Finding& finding) {
  const std::string line =
      finding.line > 0 ? fmt::format("{}   {}   ", line_label(finding, false), finding.line) : "";
  const std::string& headline = finding.headline;
  return fmt::format("  {}{}{}\n", line,
                     headline.empty() ? std::string(name(finding.verdict)) : headline,
                     instance_text(finding));
}

// Writes the findings of one case, phase by phase: the first kShownInFull in full, others in one
// line.
class FindingsText {
 public:
  explicit FindingsText(const CaseResult& result) : leading_(result.leading()) {}

  std::string of(const PhaseResult& phase) {
    std::string out;
    for (const Finding& finding : phase.outcome.findings) {
      const bool first = verdicts_.insert(finding.verdict).second;
      if (++told_ <= kShownInFull)
        out +=
            finding_text(phase, finding, {first, &finding == leading_ && tells_verdict(finding)});
      else
        out += short_finding_text(finding);
    }
    return out;
  }

 private:
  const Finding* leading_;
  std::set<Verdict> verdicts_;
  int told_ = 0;
};

std::string failure_text(const CaseResult& result) {
  FindingsText findings(result);
  std::string out;
  if (result.error) out += fmt::format("  {}\n", result.error->what());
  for (const Error& error : result.more_errors) out += fmt::format("  {}\n", error.what());
  add_missed(out, without_verdict(result.missed_refusal));
  for (size_t i = 0; i < result.phases.size(); ++i) {
    const PhaseResult& phase = result.phases[i];
    if (phase.missed.empty() && phase.outcome.findings.empty()) continue;
    out += phase_label(result, i);
    if (worth_telling(result) || phase.missed.empty()) out += findings.of(phase);
    add_missed(out, without_verdict(phase.missed));
  }
  return out;
}

struct GroupRow {
  int64_t scenarios = 0, good = 0, with_finding = 0, clean = 0;
};

std::string row_words(const GroupRow& row) {
  if (row.good < row.scenarios) return fmt::format("{} not as expected", row.scenarios - row.good);
  if (row.with_finding == 0) return "clean";
  return row.clean == 0 ? "found as expected" : "clean or found as expected";
}

std::string table_text(const RunResult& result, const TextStyle& style) {
  std::vector<std::string> order;
  std::map<std::string, GroupRow> rows;
  size_t width = 12;
  for (const ScenarioResult& scenario : result.scenarios) {
    const std::string group = scenario.group.empty() ? "files" : scenario.group;
    if (rows.emplace(group, GroupRow{}).second) order.push_back(group);
    width = std::max(width, group.size());
    GroupRow& row = rows[group];
    bool good = true, found = false;
    for (const CaseResult& one : scenario.cases) {
      good = good && one.status == CaseStatus::as_expected;
      found = found || one.expected != Verdict::clean;
    }
    ++row.scenarios;
    row.good += good ? 1 : 0;
    ++(found ? row.with_finding : row.clean);
  }
  std::string out;
  for (const std::string& group : order) {
    const GroupRow& row = rows[group];
    const std::string words = row_words(row);
    out += fmt::format("  {:<{}}   {:>3} of {:<3}  {}\n", group, width, row.good, row.scenarios,
                       row.good == row.scenarios ? green(style, words) : red(style, words));
  }
  return out;
}

std::string counted(int64_t number, const char* noun) {
  return fmt::format("{} {}{}", grouped_number(number), noun, number == 1 ? "" : "s");
}

// Returns the ops that ran on the host although a device was chosen.
std::string host_text(const RunResult& result) {
  std::set<std::string> ops;
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases)
      for (const PhaseResult& phase : one.phases)
        ops.insert(phase.outcome.on_host.begin(), phase.outcome.on_host.end());
  return ops.empty() ? "" : fmt::format("  on the host: {}\n", fmt::join(ops, ", "));
}

std::string skipped_text(const RunResult& result) {
  std::string out;
  const size_t shown = std::min(result.skipped.size(), kShownRemarks);
  for (size_t i = 0; i < shown; ++i)
    out +=
        fmt::format("  skipped {}: no key of a scenario, such as \"version\"\n", result.skipped[i]);
  if (result.skipped.size() > shown)
    out += fmt::format("  and {} more skipped files\n", result.skipped.size() - shown);
  return out;
}

std::vector<std::string> unfired_lines(const Outcome& outcome) {
  std::vector<std::string> lines;
  for (const std::string& fault : outcome.unfired_faults)
    lines.push_back("never happened: " + fault);
  return lines;
}

// A remark of one file, with the first case that has it.
struct Remark {
  std::string text;
  const CaseResult* first = nullptr;
  int64_t times = 0;
};

// Collects the lines of all phases. Cases of one file with the same line share one remark.
std::vector<Remark> collect_remarks(const RunResult& result,
                                    std::vector<std::string> (*lines_of)(const Outcome&)) {
  std::vector<Remark> remarks;
  for (const ScenarioResult& scenario : result.scenarios) {
    std::map<std::string, size_t> known;
    for (const CaseResult& one : scenario.cases)
      for (const PhaseResult& phase : one.phases)
        for (const std::string& line : lines_of(phase.outcome)) {
          const size_t at = known.emplace(line, remarks.size()).first->second;
          if (at == remarks.size()) remarks.push_back({line, &one, 0});
          ++remarks[at].times;
        }
  }
  return remarks;
}

// Writes the first kShownRemarks remarks and counts the others, which `rest` describes.
std::string remarks_text(const RunResult& result, const char* rest,
                         std::vector<std::string> (*lines_of)(const Outcome&)) {
  std::string out;
  int64_t counted = 0, shown = 0;
  for (const Remark& remark : collect_remarks(result, lines_of)) {
    if (++shown > static_cast<int64_t>(kShownRemarks)) {
      counted += remark.times;
      continue;
    }
    out += fmt::format("  {}   {}", remark.text, title(*remark.first));
    out += remark.times > 1 ? fmt::format(" and {} more\n", remark.times - 1) : "\n";
  }
  return counted == 0
             ? out
             : out + fmt::format("  and {} more {}, which --json FILE lists\n", counted, rest);
}

// Returns faults that no rank reached, values not decided, and notes: what the run did not check.
std::string unshown_text(const RunResult& result) {
  return remarks_text(result, "that never happened", unfired_lines) +
         remarks_text(result, "not decided", undecided_lines) +
         remarks_text(result, "notes", note_lines);
}

std::string summary_text(const RunResult& result, const TextStyle& style) {
  const int64_t unexpected = result.unexpected_results();
  const std::string words = counted(unexpected, "unexpected result");
  std::string out =
      fmt::format("  {}, {}, {} compared, {}",
                  counted(static_cast<int64_t>(result.scenarios.size()), "scenario"),
                  counted(result.cases(), "case"), counted(result.values_compared(), "value"),
                  unexpected == 0 ? green(style, words) : red(style, words));
  if (const int64_t empty = result.cases_without_values(); empty > 0)
    out += fmt::format(", {} without compared values", counted(empty, "case"));
  if (result.not_run > 0) out += fmt::format(", {} not run", counted(result.not_run, "case"));
  if (style.seconds >= 0) out += fmt::format("   {:.1f} s", style.seconds);
  return out + "\n";
}

std::string case_label(const CaseResult& one) {
  const std::string backend = one.backend.empty() ? "" : "on " + one.backend;
  if (one.name.empty()) return backend;
  return fmt::format("[{}]{}{}", one.name, backend.empty() ? "" : " ", backend);
}

// Returns words after a label, in lines of at most kWidth columns.
std::string wrapped(const std::string& label, const std::vector<std::string>& words) {
  std::string out, line;
  for (const std::string& word : words) {
    if (!line.empty() && 10 + line.size() + 1 + word.size() > kWidth) {
      add_label(out, out.empty() ? label : "", line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) add_label(out, out.empty() ? label : "", line);
  return out;
}

// Returns the lines that name the cases whose findings equal those of the first case.
std::string others_text(const SharedCases& shared, const ScenarioResult& scenario) {
  if (shared.others.empty()) return "";
  std::vector<std::string> names;
  for (const CaseResult* other : shared.others)
    if (names.size() < kShownCases) names.push_back(case_label(*other));
  const size_t rest = shared.others.size() - names.size();
  if (rest > 0) names.push_back(fmt::format("and {} more", rest));
  const auto cases =
      std::count_if(scenario.cases.begin(), scenario.cases.end(),
                    [&](const CaseResult& one) { return one.backend == shared.first->backend; });
  return fmt::format("  {} of {} cases, first: {}\n", shared.others.size() + 1, cases,
                     case_label(*shared.first)) +
         wrapped("others", names);
}

// Writes the chosen cases of a file. Cases with the same findings are written once.
std::string cases_text(const ScenarioResult& scenario, const TextStyle& style,
                       bool (*chosen)(const CaseResult&), const char* between) {
  std::vector<const CaseResult*> cases;
  for (const CaseResult& one : scenario.cases)
    if (chosen(one)) cases.push_back(&one);
  std::string out;
  for (const SharedCases& shared : group_findings(cases))
    out += (out.empty() ? "" : between) + case_text(*shared.first, style) +
           others_text(shared, scenario);
  return out;
}

bool has_failed(const CaseResult& one) { return one.status != CaseStatus::as_expected; }
bool expects_finding(const CaseResult& one) { return one.expected != Verdict::clean; }

// Writes a file whose cases are all as expected: its expected findings, or one line.
std::string success_text(const ScenarioResult& scenario, const TextStyle& style) {
  const std::string out = cases_text(scenario, style, expects_finding, "");
  if (!out.empty()) return out;
  return fmt::format("{}   {}   clean\n", green(style, "ok"), scenario.file);
}

}  // namespace

std::string case_text(const CaseResult& result, const TextStyle& style) {
  const bool good = result.status == CaseStatus::as_expected;
  std::string out = fmt::format("{} {}   {}{}\n", good ? green(style, "ok  ") : red(style, "FAIL"),
                                title(result), headline_of(result),
                                good && result.expected != Verdict::clean ? ", as expected" : "");
  out += failure_text(result);
  if (!good) add_label(out, "repeat", style.here ? result.repeat_here : result.repeat);
  return out;
}

std::string text_report(const RunResult& result, const TextStyle& style) {
  std::string out;
  if (style.table && !style.quiet) out += table_text(result, style);
  for (const ScenarioResult& scenario : result.scenarios) {
    std::string text = cases_text(scenario, style, has_failed, "\n");
    if (text.empty() && !style.table && !style.quiet) text = success_text(scenario, style);
    if (!text.empty()) out += (out.empty() ? "" : "\n") + text;
  }
  if (style.quiet) return out;
  out += "  " + std::string(60, '-') + "\n";
  for (const std::string& report_note : result.notes) out += "  " + report_note + "\n";
  out += skipped_text(result);
  return out + host_text(result) + unshown_text(result) + summary_text(result, style);
}

}  // namespace shardproof
