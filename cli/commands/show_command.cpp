// shardproof show: prints programs, redistributions and communication of one scenario without
// running it.
#include <map>
#include <utility>

#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/commands/plan_text.h"
#include "shardproof/cli/options/loading_options.h"
#include "shardproof/cli/options/parse_options.h"
#include "shardproof/engine/check/check.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

po::options_description show_options() {
  po::options_description options;
  options.add(loading_options());
  options.add_options()                        //
      ("path", po::value<CommandArguments>())  //
      ("case", po::value<std::string>());
  return options;
}

// Returns lines with the numbers of the lines in the file, which findings refer to. If one line
// became several, only the first has its number. Empty lines are part of another one and are not
// printed.
std::string numbered(const std::vector<std::string>& lines, const std::vector<int>& origins) {
  std::string out;
  int last = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const bool more = origins[i] == std::exchange(last, origins[i]);
    out += fmt::format("  {:>3}  {}\n", more ? "" : std::to_string(origins[i]), lines[i]);
  }
  return out;
}

// Communication of a program.
struct Traffic {
  std::map<std::string, Fraction> bytes;  // bytes of the busiest rank, by group
  std::map<std::string, int64_t> calls;   // calls of a rank, by kind and group
  Duration time;                          // sum over all calls
};

int64_t whole_bytes_of_item(const CallItem& item) {
  return item.step ? lower(*item.step).whole_bytes : whole_bytes_of(item.collective);
}

void add_item(const CallItem& item, const CostModel* machine, Traffic& traffic) {
  const Collective& call = item.collective;
  const int64_t whole = whole_bytes_of_item(item);
  const Fraction bytes =
      item.step ? cost_of(*item.step).bytes : bytes_sent(call.kind, call.group.size(), whole);
  Fraction& sum = traffic.bytes[call.group.name()];
  sum = sum + bytes;
  ++traffic.calls[fmt::format("{} {}", name(call.kind), call.group.name())];
  if (machine != nullptr) traffic.time += machine->collective(call, whole);
}

Traffic traffic_of(const SpmdListing& listing, const CostModel* machine) {
  Traffic traffic;
  for (const Instr& instr : listing.instrs)
    if (const auto* call = std::get_if<Communicate>(&instr.action))
      for (const CallItem& item : call->items) add_item(item, machine, traffic);
  return traffic;
}

std::string plans_text(const SpmdListing& listing, const CostModel* machine) {
  std::string out;
  const auto add = [&](const PlanStep& step, const Origin& origin) {
    out += step_text(step, origin.line, machine);
  };
  for (const Instr& instr : listing.instrs) {
    if (const auto* call = std::get_if<Communicate>(&instr.action)) {
      for (const CallItem& item : call->items)
        if (item.step) add(*item.step, instr.origin);
    } else if (const auto* local = std::get_if<Reshuffle>(&instr.action)) {
      add(local->step, instr.origin);
    }
  }
  return out;
}

std::string traffic_text(const Traffic& traffic, const CostModel* machine) {
  std::string out;
  for (const auto& [call, count] : traffic.calls) out += fmt::format("  {} x {}\n", count, call);
  for (const auto& [group, bytes] : traffic.bytes)
    if (bytes > Fraction(0))
      out += fmt::format("  a rank sends {} over {}\n", bytes_text(bytes), group);
  if (traffic.calls.empty()) out += "  nothing\n";
  if (machine != nullptr)
    out += fmt::format("  all calls after each other take {}\n", rounded_text(traffic.time));
  return out;
}

std::string listing_text(const SpmdListing& listing, const CostModel* machine) {
  const std::string ranks = to_string(listing.lanes);
  std::string out;
  const std::string plans = plans_text(listing, machine);
  if (!plans.empty()) out += fmt::format("\nredistributions, by line\n{}", plans);
  return out + fmt::format("\ncommunication of {} {}\n{}",
                           listing.lanes.size() == 1 ? "rank" : "ranks", ranks,
                           traffic_text(traffic_of(listing, machine), machine));
}

std::string job_text(const Job& job, const Registries& registries) {
  const LoweredJob lowered = lower_job(job, registries);
  std::string out;
  if (!lowered.global_lines.empty())
    out += "global program\n" + numbered(lowered.global_lines, lowered.global_origins) + "\n";
  out += "rank program\n";
  for (const std::string& line : to_lines(lowered.program)) out += "  " + line + "\n";
  for (const SpmdListing& listing : lowered.program.listings)
    out += listing_text(listing, job.cost.get());
  for (const Finding& finding : lowered.unwritten)
    out += fmt::format("\n{}: {}\n", name(finding.verdict), finding.headline);
  return out;
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
  std::string out = scenario.about.empty() ? "" : scenario.about + "\n\n";
  if (scenario.cases.size() > 1)
    out += fmt::format("case \"{}\", one of {}; --case chooses another\n\n", one.name,
                       scenario.cases.size());
  const Phase* current = nullptr;
  try {
    for (size_t i = 0; i < one.phases.size(); ++i) {
      current = &one.phases[i];
      if (one.phases.size() > 1) out += fmt::format("{}phase {}\n\n", i == 0 ? "" : "\n", i + 1);
      out += job_text(filled(*current, 0), registries);
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
communication of a rank by axis. Adds times if the file has a topology. Runs nothing.

  --case NAME        a case of a sweep (default: the first one)
  --set NAME=VALUE   override a let; may be repeated
  --max-ranks N      refuse more ranks (default 1048576)
  --max-bytes SIZE   refuse more memory for tensors, such as 8GB (default: half of the machine's)
)text";
}

}  // namespace shardproof
