// shardproof list: prints ops, backends, scenarios or examples.
#include <algorithm>

#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/commands/op_text.h"
#include "shardproof/cli/options/loading_options.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

struct VerbLine {
  std::string_view form, summary;
};

// The verbs of rank programs, and the verbs of both kinds of program that are not ops.
constexpr VerbLine kVerbs[] = {
    {"redistribute(x, tp:S(0))", "global programs: moves to other placements"},
    {"grad(loss, [w])", "gradients"},
    {"all_reduce(x, sum, group=tp)", "the reduction on every rank"},
    {"all_gather(x, dim=0, group=tp)", "shards joined on a dim"},
    {"reduce_scatter(x, sum, dim=0, group=tp)", "this rank's part of the reduction"},
    {"all_to_all(x, split=1, concat=0, group=tp)", "even exchange"},
    {"all_to_all_v(x, send=[..], recv=[..], group=ep)", "exchange of rows by counts"},
    {"broadcast(x, root=0), scatter(x, dim=0, root=0)", "from the root"},
    {"reduce(x, sum, root=0), gather(x, dim=0, root=0)", "to the root"},
    {"barrier(group=dp)", "waits for the group"},
    {"send(x, to=1), recv(like=x, from=0)", "messages"},
    {"put(x, to=next, slot=0), slot(0, like=x)", "one-sided write, and its read"},
    {"signal(to=next, slot=0), wait_signal(from=prev, slot=0)", "one-sided signals"},
    {"record(), wait(x), sync(x)", "events and waits"},
    {"free(x), keep(x, comm), copy_(dst, src)", "memory"},
    {"check(x, 'h', dp:S(0))", "compares with the truth"},
    {"enter(x, group=tp)", "x; its backward is an all_reduce"},
    {"slice_local(x, shards='R of [8] -> tp:S(0) of [8]')",
     "a part of the tensor that the rank holds"},
    {"zero_fill(x, shards='tp:S(0) of [8] -> tp:P(sum) of [8]')", "a partial value of shards"},
    {"relabel(x, shards='a:S(0) of [8] -> b:S(0) of [8]')",
     "the same shards under other placements"},
    {"exchange(x, shards='a:S(0) of [8] -> b:S(0) of [8]', group=[a, b])", "what the others lack"},
    {"transfer(x, shards='R of [8] on enc -> R of [8] on dec')", "to another mesh"},
};

std::string list_ops(const Registries& registries) {
  std::vector<std::string> families;
  for (const OpRecord* op : registries.ops.all())
    if (std::find(families.begin(), families.end(), op->family) == families.end())
      families.push_back(op->family);
  std::string out;
  for (const std::string& family : families) {
    out += family + "\n";
    for (const OpRecord* op : registries.ops.all())
      if (op->family == family) out += fmt::format("  {:<44} {}\n", signature(*op), op->summary);
  }
  out += "verbs that are not ops\n";
  for (const VerbLine& verb : kVerbs) {
    // A longer form has its text on the next line, in the same column.
    const std::string between = verb.form.size() > 44 ? "\n" + std::string(47, ' ') : " ";
    out += fmt::format("  {:<44}{}{}\n", verb.form, between, verb.summary);
  }
  return out;
}

std::string list_backends(const Registries& registries) {
  std::string out;
  for (const auto& backend : registries.backends) {
    const auto reason = backend->not_viable();
    out += fmt::format("  {:<8} {}{}\n", backend->name(), backend->summary(),
                       reason ? fmt::format("; not here: {}", *reason) : "");
  }
  return out;
}

std::string list_examples() {
  std::string out;
  for (const Example& example : examples())
    out += fmt::format("  shardproof new {:<10} {}\n", example.name, example.summary);
  return out;
}

// Prints one line for each case, to copy into a command.
int list_cases(const CommandArguments& words) {
  if (words.size() < 2) throw_bad_input("list cases: expected files or folders, found none");
  std::vector<LoadedFile> files =
      load_all(find_all_scenarios(CommandArguments(words.begin() + 1, words.end())).paths, {});
  const size_t count = files.size();
  const std::vector<Scenario> scenarios = print_refused(std::move(files));
  std::string out;
  for (const Scenario& scenario : scenarios)
    for (const Case& one : scenario.cases)
      out += one.name.empty() ? scenario.file + "\n"
                              : fmt::format("{} --case \"{}\"\n", scenario.file, one.name);
  print_out(out);
  return scenarios.size() == count ? 0 : 2;
}

int list_scenarios(const CommandArguments& words) {
  if (words.size() != 2)
    throw_bad_input("list scenarios: expected one file or folder, found {}", words.size() - 1);
  std::vector<LoadedFile> files = load_all(find_all_scenarios({words[1]}).paths, {});
  const size_t count = files.size();
  const std::vector<Scenario> scenarios = print_refused(std::move(files));
  std::string out;
  for (const Scenario& scenario : scenarios) {
    out += fmt::format("{}   {} case{}\n", scenario.file, scenario.cases.size(),
                       scenario.cases.size() == 1 ? "" : "s");
    if (!scenario.about.empty()) out += "  " + scenario.about + "\n";
  }
  print_out(out);
  return scenarios.size() == count ? 0 : 2;
}

}  // namespace

int list_command(const CommandArguments& words, const Registries& registries) {
  const std::string what = words.empty() ? "" : words[0];
  if (what == "scenarios") return list_scenarios(words);
  if (what == "cases") return list_cases(words);
  if (words.size() > 1)
    throw_bad_input("list {}: expected no other argument, found \"{}\"", what, words[1]);
  if (what == "ops") {
    print_out(list_ops(registries));
  } else if (what == "backends") {
    print_out(list_backends(registries));
  } else if (what == "examples") {
    print_out(list_examples());
  } else {
    NearestName nearest(what);
    for (const char* known : {"ops", "backends", "scenarios", "cases", "examples"})
      nearest.offer(known);
    throw_bad_input(
        "list: expected ops, backends, scenarios FOLDER, cases FILE or examples, found {}{}",
        what.empty() ? "nothing" : "\"" + what + "\"", nearest.hint());
  }
  return 0;
}

std::string list_help() {
  return R"text(shardproof list ops | backends | scenarios FOLDER | cases FILE ... | examples

Prints one line for each op, backend or example. For the scenario files of a folder prints file, number
of cases and the sentence of "about". For the cases of files prints file and --case option.
)text";
}

}  // namespace shardproof
