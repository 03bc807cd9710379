// Implements right_result_of_call of source_changes.h: puts the result of a collective call in
// place of its input on later lines.
#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/causes/same_lines.h"
#include "shardproof/engine/causes/source_changes.h"

namespace shardproof {
namespace {

// "g = all_reduce(h, sum, group=dp)" and the lines after it that read h.
struct CallOfName {
  std::string input, result;
  ListedLine at;
  std::string text;  // of the call
};

std::vector<CallOfName> calls_of_names(const Job& job) {
  std::vector<CallOfName> calls;
  Job copy = job;
  visit_statements(copy, [&](const TextPlace& place, Statement& statement) {
    if (statement.kind != StatementKind::assign || statement.targets.size() != 1 ||
        !statement.targets[0].plain() || statement.value->kind != ExprKind::call ||
        statement.value->args.empty() || !parse_collective_kind(statement.value->symbol))
      return;
    const Expr& input = statement.value->args[0];
    const std::string& result = statement.targets[0].texts[0];
    if (input.kind != ExprKind::name || !input.name.plain() || input.name.texts[0] == result)
      return;
    calls.push_back({input.name.texts[0],
                     result,
                     {place.listing, statement.place.line},
                     statement.value->symbol});
  });
  return calls;
}

// The expressions that are a plain name, by that name.
struct NameRead {
  int number = 0;
  ListedLine line;
};
using NameReads = std::map<std::string, std::vector<NameRead>>;

NameReads reads_of_names(const Job& job) {
  NameReads reads;
  Job copy = job;
  visit_expressions(copy, [&](const TextPlace& place, Expr& expr) {
    if (expr.kind == ExprKind::name && expr.name.plain())
      reads[expr.name.texts[0]].push_back({place.number, {place.listing, expr.place.line}});
  });
  return reads;
}

// Returns the numbers of the later expressions that read the input, by line.
std::map<ListedLine, std::set<int>> reads_after(const NameReads& reads, const CallOfName& call) {
  std::map<ListedLine, std::set<int>> later;
  if (const auto found = reads.find(call.input); found != reads.end())
    for (const auto& [number, line] : found->second)
      if (line.listing == call.at.listing && line.line > call.at.line) later[line].insert(number);
  return later;
}

// A change of lines to try.
struct Lines {
  std::set<ListedLine> lines;
  std::set<int> numbers;
};

// Returns each line, then all lines together.
std::vector<Lines> choices_of(const std::map<ListedLine, std::set<int>>& reads) {
  std::vector<Lines> choices;
  Lines all;
  for (const auto& [line, numbers] : reads) {
    choices.push_back({{line}, numbers});
    all.lines.insert(line);
    all.numbers.insert(numbers.begin(), numbers.end());
  }
  if (choices.size() > 1) choices.push_back(std::move(all));
  return choices;
}

}  // namespace

std::optional<SourceCause> right_result_of_call(const RankCase& about, const std::string& target,
                                                Confirmation& confirmation) {
  const SpmdProgram& program = about.ranks.program;
  const std::vector<CallOfName> calls = calls_of_names(about.job);
  const NameReads reads = reads_of_names(about.job);
  std::map<std::pair<std::string, std::string>, Lines> together;  // in all listings
  size_t tried = 0;
  std::optional<SourceCause> best;
  const auto test = [&](const CallOfName& call, const Lines& choice) {
    if (++tried > kMostChanges) return;
    const auto read_result = [&](Expr& name) { name.name.texts = {call.result}; };
    if (!confirmation.confirms_job(change_of(choice.numbers, read_result)) ||
        (best && confirmation.made_right().size() <= best->made_right.size()))
      return;
    const std::string lines = lines_text(program, choice.lines);
    best = SourceCause{fmt::format("{} {}, and {} is right with {}, the result of its {} on {}",
                                   lines_with_verb(lines, "reads"), call.input, target, call.result,
                                   call.text, line_text(program, call.at)),
                       fmt::format("{} in place of {} on {}", call.result, call.input, lines),
                       choice.lines, confirmation.made_right()};
  };
  for (const CallOfName& call : calls)
    for (const Lines& choice : choices_of(reads_after(reads, call))) {
      Lines& all = together[{call.input, call.result}];
      all.lines.insert(choice.lines.begin(), choice.lines.end());
      all.numbers.insert(choice.numbers.begin(), choice.numbers.end());
      test(call, choice);
    }
  if (program.listings.size() > 1)
    for (const CallOfName& call : calls)
      if (const auto all = together.find({call.input, call.result}); all != together.end()) {
        test(call, all->second);
        together.erase(all);
      }
  return best;
}

}  // namespace shardproof
