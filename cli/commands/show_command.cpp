// shardproof show: prints programs, redistributions and communication of one scenario without
// running it.
#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/commands/owners_text.h"
#include "shardproof/cli/commands/show_text.h"
#include "shardproof/cli/options/loading_options.h"
#include "shardproof/cli/options/parse_options.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/record/write_file.h"
#include "shardproof/scenarios/report/pictures.h"
#include "shardproof/scenarios/run/impossible_expectations.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

po::options_description show_options() {
  po::options_description options;
  options.add(loading_options());
  options.add_options()                        //
      ("path", po::value<CommandArguments>())  //
      ("program", "")                          //
      ("rank-program", "")                     //
      ("communication", "")                    //
      ("owners", po::value<std::string>())     //
      ("svg", po::value<std::string>())        //
      ("case", po::value<std::string>());
  return options;
}

ShownParts shown_parts(const po::variables_map& given) {
  const ShownParts parts{given.count("program") > 0, given.count("rank-program") > 0,
                         given.count("communication") > 0};
  if (!parts.program && !parts.rank_program && !parts.communication) return {};
  return parts;
}

// Returns the text of --owners, and writes the picture of --svg.
std::string owners(const Job& job, const PrintedJob& printed, const po::variables_map& given,
                   const Registries& registries) {
  const std::string name = given["owners"].as<std::string>();
  const std::optional<Spec> spec = spec_of_name(name, job, printed, registries);
  if (given.count("svg")) {
    const std::string picture = spec ? owners_picture(name, *spec, true) : "";
    if (picture.empty())
      throw_bad_input("--svg: {}", spec ? "this value has too many ranks or parts to draw"
                                        : "the place of this value in a whole tensor is not known");
    write_whole_file(given["svg"].as<std::string>(), picture);
  }
  return spec ? owners_text(name, *spec) : holders_text(name, printed);
}

const Case& choose_case(const Scenario& scenario, const po::variables_map& given) {
  if (!given.count("case")) return scenario.cases.front();
  const std::string wanted = given["case"].as<std::string>();
  const std::vector<size_t> chosen = choose_cases(scenario.cases, wanted);
  if (!chosen.empty()) return scenario.cases[chosen.front()];
  NearestName nearest(wanted);
  for (const Case& one : scenario.cases) nearest.offer(one.name);
  std::string hint = nearest.hint();
  if (hint.empty() && !scenario.cases[0].name.empty())
    hint = fmt::format("; the first is \"{}\"", scenario.cases[0].name);
  if (hint.empty()) hint = "; the file has no sweep";
  throw_bad_input("--case \"{}\": no such case{}", wanted, hint);
}

}  // namespace

int show_command(const CommandArguments& words, const Registries& registries) {
  const po::variables_map given = parse_words(words, show_options(), "path");
  const CommandArguments paths =
      given.count("path") ? given["path"].as<CommandArguments>() : CommandArguments{};
  if (paths.size() != 1)
    throw_bad_input("show: expected one scenario file, found {}", paths.size());
  const std::vector<Scenario> scenarios =
      print_refused(load_all(find_scenarios(paths[0]).paths, read_loading_options(given)));
  if (scenarios.empty()) return 2;
  if (scenarios.size() > 1) throw_bad_input("show: expected one scenario file, found a folder");
  const Scenario& scenario = scenarios.front();
  const Case& one = choose_case(scenario, given);
  if (one.refused) throw placed_in(scenario, one, *one.refused);
  if (given.count("svg") && !given.count("owners"))
    throw_bad_input("--svg draws the value that --owners names; add --owners y");
  for (const char* part : {"program", "rank-program", "communication"})
    if (given.count("owners") && given.count(part))
      throw_bad_input("--owners prints one value and nothing else; leave --{} out", part);
  const ShownParts parts = shown_parts(given);
  std::string out = scenario.about.empty() ? "" : scenario.about + "\n\n";
  if (scenario.cases.size() > 1)
    out += fmt::format("case \"{}\", one of {}; --case chooses another\n\n", one.name,
                       scenario.cases.size());
  const Phase* current = nullptr;
  try {
    for (size_t i = 0; i < one.phases.size(); ++i) {
      current = &one.phases[i];
      if (one.phases.size() > 1) out += fmt::format("{}phase {}\n\n", i == 0 ? "" : "\n", i + 1);
      const Job& job = current->job;  // values of tensors change nothing here
      const PrintedJob printed = print_job(job, registries);
      refuse_time_without_rates(current->expect, job, printed.program, registries.ops);
      out += given.count("owners") ? owners(job, printed, given, registries)
                                   : shown_text(job, printed, parts);
    }
  } catch (const Error& error) {
    throw placed_in(scenario, one, placed_in(*current, error));
  }
  print_out(out);
  return 0;
}

std::string show_help() {
  return R"text(shardproof show FILE [--case NAME] [--set NAME=VALUE]

Prints the global program, the program of each rank, each redistribution with its bytes, and the
communication of the ranks. Adds times if the file has a topology. Runs nothing.
Remarks after "#": placements, dtype and local shape of each value, and its line in the file.
Both programs parse back: the rank program runs as "ranks" of a scenario file.

  --program          print the global program alone
  --rank-program     print the rank program alone
  --communication    print redistributions and communication alone
  --owners NAME      print which global elements each rank holds of a value, and nothing else
  --svg FILE         draw them
  --case NAME        a case of a sweep (default: the first one)
  --set NAME=VALUE   override a let; may be repeated
  --max-ranks N      refuse more ranks (default 1048576)
  --max-bytes SIZE   refuse more memory for tensors, such as 8GB (default: half of the machine's)
)text";
}

}  // namespace shardproof
