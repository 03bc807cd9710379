// shardproof list: prints ops, backends, scenarios or examples.
#include <algorithm>

#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/options/loading_options.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

std::string signature(const OpRecord& op) {
  std::string out = op.name + "(";
  for (size_t i = 0; i < op.params.size(); ++i) {
    const Param& param = op.params[i];
    if (i > 0) out += ", ";
    out += param.name;
    if (param.required) continue;
    const bool none = std::holds_alternative<std::monostate>(param.fallback);
    out += "=" + (none ? std::string("none") : to_string(param.fallback));
  }
  out += ")";
  return op.infix.empty() ? out : out + "  " + op.infix;
}

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
