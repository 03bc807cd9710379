#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "shardproof/scenarios/report.h"

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

constexpr size_t kShownRemarks = 8;

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

// The line of the program stands first, unless what follows shows it beside the ranks.
std::string finding_text(const PhaseResult& phase, const Finding& finding, bool in_title) {
  std::string source = phase.line_text(finding);
  source.erase(0, source.find_first_not_of(' '));
  const bool of_values = finding.verdict == Verdict::wrong_values;
  std::string details;
  bool shown = source.empty();
  for (const std::string& detail : finding.details) {
    const bool repeats = !source.empty() && detail.ends_with(source) &&
                         (detail.starts_with("first wrong line") || detail.starts_with("line "));
    if (repeats) continue;
    shown = shown || detail.find(source) != std::string::npos;
    details += "  " + detail + "\n";
  }
  std::string out;
  if (!shown) {
    out += fmt::format("  {}   {}   {}", of_values ? "first wrong line" : "line", finding.line,
                       source);
    out += finding.instance.empty() ? "\n" : fmt::format("   ({})\n", finding.instance);
  }
  if (!finding.headline.empty() && !in_title) out += "  " + finding.headline + "\n";
  out += details;
  if (!finding.fix.empty()) add_label(out, "fix", finding.fix);
  return out;
}

void add_missed(std::string& out, const std::vector<Missed>& misses) {
  for (const Missed& miss : misses)
    out += fmt::format("  {}: expected {}, got {}\n", miss.what, miss.expected, miss.got);
}

std::string phase_label(const CaseResult& result, size_t phase) {
  return result.phases.size() > 1 ? fmt::format("  phase {}\n", phase + 1) : "";
}

// A finding of the expected verdict may be followed by one of another.
bool misses_verdict(const CaseResult& result) {
  for (const PhaseResult& phase : result.phases)
    for (const Missed& miss : phase.missed)
      if (miss.what == "verdict") return true;
  return false;
}

// Findings whose verdict was expected are no news when something else was missed.
bool worth_telling(const CaseResult& result) {
  return result.status == CaseStatus::as_expected || result.verdict() != result.expected ||
         result.expected == Verdict::clean || misses_verdict(result);
}

const Finding* first_finding(const CaseResult& result) {
  for (const PhaseResult& phase : result.phases)
    if (!phase.outcome.findings.empty()) return &phase.outcome.findings.front();
  return nullptr;
}

// The verdict that the first line of a case shows, in the words of its first finding where they
// name it.
std::string headline_of(const CaseResult& result) {
  if (result.status == CaseStatus::refused) return "refused";
  const Finding* finding = worth_telling(result) ? first_finding(result) : nullptr;
  const std::string got = finding != nullptr && tells_verdict(*finding)
                              ? finding->headline
                              : std::string(name(result.verdict()));
  if (result.verdict() == result.expected)
    return result.status == CaseStatus::surprise ? got + ", but not as expected" : got;
  if (result.expected == Verdict::clean) return got;
  return fmt::format("{}; expected {}", got, name(result.expected));
}

std::vector<Missed> without_verdict(std::vector<Missed> misses) {
  misses.erase(std::remove_if(misses.begin(), misses.end(),
                              [](const Missed& miss) { return miss.what == "verdict"; }),
               misses.end());
  return misses;
}

std::string failure_text(const CaseResult& result) {
  const Finding* titled = first_finding(result);
  std::string out;
  if (result.error) out += fmt::format("  {}\n", result.error->what());
  add_missed(out, without_verdict(result.missed_refusal));
  for (size_t i = 0; i < result.phases.size(); ++i) {
    const PhaseResult& phase = result.phases[i];
    if (phase.missed.empty() && phase.outcome.findings.empty()) continue;
    out += phase_label(result, i);
    if (worth_telling(result) || phase.missed.empty())
      for (const Finding& finding : phase.outcome.findings)
        out += finding_text(phase, finding, &finding == titled && tells_verdict(finding));
    add_missed(out, without_verdict(phase.missed));
  }
  return out;
}

struct Row {
  int64_t scenarios = 0, good = 0, with_finding = 0, clean = 0;
};

std::string row_words(const Row& row) {
  if (row.good < row.scenarios) return fmt::format("{} not as expected", row.scenarios - row.good);
  if (row.with_finding == 0) return "clean";
  return row.clean == 0 ? "caught as expected" : "clean or caught as expected";
}

std::string table_text(const RunResult& result, const TextStyle& style) {
  std::vector<std::string> order;
  std::map<std::string, Row> rows;
  size_t width = 12;
  for (const ScenarioResult& scenario : result.scenarios) {
    const std::string group = scenario.group.empty() ? "files" : scenario.group;
    if (rows.emplace(group, Row{}).second) order.push_back(group);
    width = std::max(width, group.size());
    Row& row = rows[group];
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
    const Row& row = rows[group];
    const std::string words = row_words(row);
    out += fmt::format("  {:<{}}   {:>3} of {:<3}  {}\n", group, width, row.good, row.scenarios,
                       row.good == row.scenarios ? green(style, words) : red(style, words));
  }
  return out;
}

std::string counted(int64_t number, const char* noun) {
  return fmt::format("{} {}{}", grouped_number(number), noun, number == 1 ? "" : "s");
}

// On a device, what did not run there.
std::string host_text(const RunResult& result) {
  std::set<std::string> ops;
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases)
      for (const PhaseResult& phase : one.phases)
        ops.insert(phase.outcome.on_host.begin(), phase.outcome.on_host.end());
  return ops.empty() ? "" : fmt::format("  on the host: {}\n", fmt::join(ops, ", "));
}

// What each phase says of itself beside its findings, with the case it is said in.
std::string remarks_text(const RunResult& result, const char* what,
                         std::vector<std::string> Outcome::*remarks) {
  std::vector<std::string> lines;
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases)
      for (const PhaseResult& phase : one.phases)
        for (const std::string& remark : phase.outcome.*remarks)
          lines.push_back(fmt::format("  {}: {}   {}\n", what, remark, title(one)));
  const size_t all = lines.size(), shown = std::min(all, kShownRemarks);
  lines.resize(shown);
  if (shown < all) lines.push_back(fmt::format("  and {} more that {}\n", all - shown, what));
  return fmt::format("{}", fmt::join(lines, ""));
}

// A run without such faults, or with such values, shows less than its author thinks.
std::string unshown_text(const RunResult& result) {
  return remarks_text(result, "never happened", &Outcome::unfired_faults) +
         remarks_text(result, "could not be judged", &Outcome::unjudged);
}

std::string summary_text(const RunResult& result, const TextStyle& style) {
  const int64_t surprises = result.surprises();
  const std::string words = counted(surprises, "surprise");
  std::string out =
      fmt::format("  {}, {}, {} compared, {}",
                  counted(static_cast<int64_t>(result.scenarios.size()), "scenario"),
                  counted(result.cases(), "case"), counted(result.values_compared(), "value"),
                  surprises == 0 ? green(style, words) : red(style, words));
  if (style.seconds >= 0) out += fmt::format("   {:.1f} s", style.seconds);
  return out + "\n";
}

// A single file that went well: what it found when that was expected, else one line.
std::string success_text(const ScenarioResult& scenario, const TextStyle& style) {
  std::string out;
  for (const CaseResult& one : scenario.cases)
    if (one.expected != Verdict::clean) out += case_text(one, style);
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
  if (style.table) out += table_text(result, style);
  for (const ScenarioResult& scenario : result.scenarios) {
    bool good = true;
    for (const CaseResult& one : scenario.cases) {
      if (one.status == CaseStatus::as_expected) continue;
      good = false;
      out += (out.empty() ? "" : "\n") + case_text(one, style);
    }
    if (good && !style.table) out += (out.empty() ? "" : "\n") + success_text(scenario, style);
  }
  out += "  " + std::string(60, '-') + "\n";
  for (const std::string& note : result.notes) out += "  " + note + "\n";
  return out + host_text(result) + unshown_text(result) + summary_text(result, style);
}

std::string grouped_number(int64_t number) {
  std::string digits = std::to_string(number);
  const size_t first = digits.front() == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) digits.insert(i -= 3, ",");
  return digits;
}

}  // namespace shardproof
