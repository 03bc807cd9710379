// Implements printed_fixes.h: one function for each form of a fix.
#include "shardproof/tests/scenarios/printed_fixes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "shardproof/localtensor/base/error.h"

namespace shardproof::printed_fixes {
namespace {

using Lines = std::vector<std::string>;

std::string indent_of(const std::string& line) {
  return line.substr(0, line.find_first_not_of(' '));
}

bool replace_once(std::string& line, const std::string& from, const std::string& to) {
  const size_t at = line.find(from);
  if (at == std::string::npos) return false;
  line.replace(at, from.size(), to);
  return true;
}

// Adds an argument to the first call of a verb.
bool add_argument(std::string& line, const std::string& verb, const std::string& argument) {
  size_t at = line.find(verb + "(");
  if (at == std::string::npos) return false;
  int open = 0;
  do {
    at = line.find_first_of("()", at);
    open += line[at] == '(' ? 1 : -1;
    ++at;
  } while (open > 0);
  line.insert(at - 1, ", " + argument);
  return true;
}

// Applies "add backward=identity to the all_reduce on line 2"; nullopt for another fix.
std::optional<Lines> with_added_word(Lines lines, const std::string& fix) {
  const std::regex form(R"(add (backward=\w+) to the (\w+) on line (\d+))");
  std::smatch part;
  if (!std::regex_match(fix, part, form)) return std::nullopt;
  const bool found = add_argument(lines.at(std::stoul(part[3]) - 1), part[2], part[1]);
  return found ? std::optional(lines) : std::nullopt;
}

// Returns the numbers of "2", "1 and 3" or "1, 2".
std::vector<size_t> numbers_in(const std::string& text) {
  std::vector<size_t> numbers;
  const std::regex number("[0-9]+");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), number);
       at != std::sregex_iterator(); ++at)
    numbers.push_back(std::stoul(at->str()));
  return numbers;
}

// Inserts a line after line `after`, with its indentation.
void insert_after(Lines& lines, size_t after, const std::string& text) {
  const std::string indented = indent_of(lines.at(after - 1)) + text;
  lines.insert(lines.begin() + static_cast<long>(after), indented);
}

// Applies "add g = c * g after line 2"; nullopt for another fix.
std::optional<Lines> with_added_line(Lines lines, const std::string& fix) {
  const std::regex form(R"(add (\w[\w{}]* = .*) (after|before) line (\d+))");
  std::smatch part;
  if (!std::regex_match(fix, part, form)) return std::nullopt;
  const size_t line = std::stoul(part[3]);
  const std::string indented = indent_of(lines.at(line - 1)) + part[1].str();
  lines.insert(lines.begin() + static_cast<long>(part[2] == "after" ? line : line - 1), indented);
  return lines;
}

// Puts a text in place of a name or a number in lines. False if a line has none.
bool replace_words(Lines& lines, const std::string& numbers, const std::string& from,
                   const std::string& to) {
  const std::string quoted = std::regex_replace(from, std::regex(R"([()*])"), R"(\$&)");
  const std::regex word(R"((^|[^\w(]|\())" + quoted + R"((?!\w))");
  for (const size_t at : numbers_in(numbers)) {
    std::string& line = lines.at(at - 1);
    const size_t value = line.find('=') + 1;
    const std::string before = line.substr(value);
    const std::string after = std::regex_replace(before, word, "$1" + to);
    if (after == before) return false;
    line = line.substr(0, value) + after;
  }
  return true;
}

// Changes the lines as a fix states. nullopt: the fix leaves a choice, or its text does not fit the
// line.
std::optional<Lines> with_fix(Lines lines, const std::string& whole) {
  if (const size_t next = whole.rfind(", and "); next != std::string::npos) {
    // The later lines first, so that the numbers of the others hold.
    const std::optional<Lines> later = with_fix(std::move(lines), whole.substr(next + 6));
    return later ? with_fix(*later, whole.substr(0, next)) : std::nullopt;
  }
  const std::string fix = whole.substr(0, whole.find(", or "));
  std::smatch part;
  if (std::regex_match(fix, part,
                       std::regex(R"(add (all_reduce\((\w+), .*\)) after line (\d+))"))) {
    insert_after(lines, std::stoul(part[3]), fmt::format("{} = {}", part[2].str(), part[1].str()));
    return lines;
  }
  if (std::optional<Lines> changed = with_added_line(lines, fix)) return changed;
  if (std::regex_match(fix, part,
                       std::regex(R"((all_reduce\(.*\)) in place of (.*) on line (\d+))")))
    return replace_once(lines.at(std::stoul(part[3]) - 1), part[2], part[1]) ? std::optional(lines)
                                                                             : std::nullopt;
  if (std::regex_match(fix, part, std::regex(R"(group=(.*) on lines? (.*))"))) {
    for (const size_t at : numbers_in(part[2])) {
      std::string& line = lines.at(at - 1);
      // A call without a group is over the world.
      if (line.find("group=") == std::string::npos)
        replace_once(line, ", sum", ", sum, group=world");
      line = std::regex_replace(line, std::regex(R"(group=(\w+|\[[^\]]*\]))"),
                                "group=" + part[1].str());
    }
    return lines;
  }
  const std::regex reduction(R"((sum|avg|max|min) in place of (sum|avg|max|min) on line (\d+))");
  if (std::regex_match(fix, part, reduction))
    return replace_once(lines.at(std::stoul(part[3]) - 1), fmt::format(", {},", part[2].str()),
                        fmt::format(", {},", part[1].str()))
               ? std::optional(lines)
               : std::nullopt;
  const std::regex word(R"((enter\(.*\)|\(?size\(.*\)|\w+) in place of (.*) on lines? (.*))");
  if (std::regex_match(fix, part, word))
    return replace_words(lines, part[3], part[2], part[1]) ? std::optional(lines) : std::nullopt;
  if (std::regex_match(fix, part, std::regex(R"((.*) in place of (.*) on line (\d+))")))
    return replace_once(lines.at(std::stoul(part[3]) - 1), part[2], part[1]) ? std::optional(lines)
                                                                             : std::nullopt;
  if (std::optional<Lines> changed = with_added_word(lines, fix)) return changed;
  if (std::regex_match(fix, part, std::regex(R"(backward=(\w+) on lines? (.*))"))) {
    for (const size_t line : numbers_in(part[2]))
      lines.at(line - 1) = std::regex_replace(lines[line - 1], std::regex(R"(backward=\w+)"),
                                              "backward=" + part[1].str());
    return lines;
  }
  if (std::regex_match(fix, part, std::regex(R"(divide (\w+) by (.*) on line (\d+))"))) {
    insert_after(lines, std::stoul(part[3]),
                 fmt::format("{0} = {0} / {1}", part[1].str(), part[2].str()));
    return lines;
  }
  if (std::regex_match(fix, part, std::regex(R"(add (.*) to (\w+) on line (\d+))"))) {
    insert_after(lines, std::stoul(part[3]),
                 fmt::format("{0} = {0} + {1}", part[2].str(), part[1].str()));
    return lines;
  }
  if (std::regex_match(fix, part, std::regex(R"(remove the factor (\S+) on line (\d+))"))) {
    std::string& line = lines.at(std::stoul(part[2]) - 1);
    const std::string factor = part[1];
    return replace_once(line, " * " + factor, "") || replace_once(line, factor + " * ", "")
               ? std::optional(lines)
               : std::nullopt;
  }
  if (std::regex_match(fix, part, std::regex(R"(remove the sum over \w+ on line (\d+))")))
    return replace_once(lines.at(std::stoul(part[1]) - 1), ", sum", ", avg") ? std::optional(lines)
                                                                             : std::nullopt;
  return std::nullopt;
}

// Returns the findings of a scenario of one case. A changed program must not be refused.
std::vector<Finding> findings_of(const Scenario& changed, const Registries& registries) {
  RunOptions options;
  options.searches_causes = false;
  const RunResult result = run_scenarios({changed}, {""}, options, registries);
  const CaseResult& one = result.scenarios.at(0).cases.at(0);
  if (one.error) ADD_FAILURE() << changed.file << ": " << one.error->message();
  return one.phases.empty() ? std::vector<Finding>() : one.phases[0].outcome.findings;
}

// Follows "declare it as tp:P(sum)". False if the fix is another one.
bool declare(const Finding& finding, Job& job) {
  const std::string start = "declare it as ";
  const bool declares =
      finding.fix.starts_with(start) && finding.fix.find(',') == std::string::npos;
  if (!declares) return false;
  const std::string placements = finding.fix.substr(start.size());
  for (JobOutput& output : job.outputs)
    if (output.name == finding.name) output.placements = placements;
  const std::regex check(R"(check\((\w+), ')" + finding.name + R"(', .*\)$)");
  for (std::string& line : job.ranks[0].listing.lines)
    line = std::regex_replace(line, check,
                              fmt::format("check($1, '{}', {})", finding.name, placements));
  return true;
}

bool is_caused(const Finding& finding) {
  return finding.verdict == Verdict::wrong_values &&
         std::any_of(finding.details.begin(), finding.details.end(),
                     [](const std::string& text) { return text.starts_with("cause"); });
}

// True if the fix could be applied. Expects that the value of the finding is right then.
bool applies(const Finding& finding, Scenario scenario, const Registries& registries) {
  Phase& phase = scenario.cases[0].phases[0];
  Listing& listing = phase.job.ranks[0].listing;
  const bool declares = declare(finding, phase.job);
  const std::optional<Lines> lines =
      declares ? listing.lines : with_fix(listing.lines, finding.fix);
  if (!lines) return false;
  try {
    listing = parse_listing(*lines);
    phase.lowered = nullptr;
    for (const Finding& after : findings_of(scenario, registries))
      EXPECT_NE(after.name, finding.name) << scenario.file << ": " << finding.fix;
  } catch (const Error& error) {
    ADD_FAILURE() << scenario.file << ": " << finding.fix << ": " << error.message();
  }
  return true;
}

}  // namespace

void FixCounts::check(const Scenario& scenario, const ScenarioResult& result,
                      const Registries& registries) {
  for (size_t i = 0; i < scenario.cases.size(); ++i) {
    const Case& one = scenario.cases[i];
    if (one.phases.size() != 1 || one.phases[0].job.ranks.size() != 1) continue;
    if (result.cases.at(i).phases.empty()) continue;
    Scenario alone = scenario;
    alone.cases = {one};
    for (const Finding& finding : result.cases[i].phases[0].outcome.findings)
      if (is_caused(finding)) ++(applies(finding, alone, registries) ? applied : left_out);
  }
}

}  // namespace shardproof::printed_fixes
