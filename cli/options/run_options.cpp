// Implements run_options.h.
#include "shardproof/cli/options/run_options.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "shardproof/backends/api/library_choice.h"
#include "shardproof/cli/options/loading_options.h"
#include "shardproof/cli/processes/process_options.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/reduction_schedule.h"
#include "shardproof/scenarios/run/tensor_text.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

// Reads digits only: a parser that accepts a sign would read -1 as the largest number.
uint64_t read_seed(const std::string& text) {
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, seed);
  if (read.ec != std::errc() || read.ptr != end)
    throw_bad_input("--seed: expected a whole number from 0 to {}, found \"{}\"",
                    std::numeric_limits<uint64_t>::max(), text);
  return seed;
}

PlanMoves read_moves(const std::string& text) {
  try {
    return parse_plan_moves(text);
  } catch (const Error& error) {
    throw_bad_input("--moves: {}", error.message());
  }
}

ScheduleKind read_schedule(const std::string& text) {
  if (const std::optional<ScheduleKind> kind = parse_schedule_kind(text)) return *kind;
  throw_bad_input(
      "--schedule: expected fifo, seeded, adversarial, side-first or main-first, found \"{}\"",
      text);
}

ReductionSchedule read_order(const std::string& text) {
  try {
    return parse_reduction_schedule(text);
  } catch (const Error& error) {
    throw_bad_input("--order: {}", error.message());
  }
}

CompareScope read_compared(const std::string& text) {
  if (text == "lines") return CompareScope::lines;
  if (text == "outputs") return CompareScope::outputs;
  throw_bad_input("--compare: expected lines or outputs, found \"{}\"", text);
}

int read_repetitions(const po::variables_map& given, const char* option, int least) {
  constexpr int kMaxRepetitions = 1000000;
  const int count = given[option].as<int>();
  if (count < least || count > kMaxRepetitions)
    throw_bad_input("--{}: expected {} to {}, found {}", option, least, kMaxRepetitions, count);
  return count;
}

// Refuses --device cuda before any case runs if there is no GPU or a backend cannot use it.
std::string read_device(const std::string& text, const std::vector<std::string>& backends,
                        const Registries& registries) {
  if (text == "host") return text;
  if (text != "cuda") throw_bad_input("--device: expected host or cuda, found \"{}\"", text);
  for (const auto& backend : registries.backends)
    if (std::find(backends.begin(), backends.end(), backend->name()) != backends.end())
      if (const auto reason = backend->refuses_device())
        throw_bad_input("--device cuda with the backend {}: {}", backend->name(), *reason);
  if (const auto reason = why_no_device(registries.cuda))
    throw Error(ErrorKind::unsupported, fmt::format("--device cuda: {}", *reason));
  return text;
}

// Refuses --matmul-precision if no GPU computes products.
MatmulPrecision read_matmul(const po::variables_map& given, const RunOptions& options,
                            const Registries& registries) {
  const MatmulPrecision precision = matmul_precision(given);
  bool on_gpus = options.device == "cuda";
  for (const auto& backend : registries.backends)
    if (std::find(options.backends.begin(), options.backends.end(), backend->name()) !=
        options.backends.end())
      on_gpus = on_gpus || backend->with_libraries({}) != nullptr;
  if (given.count("matmul-precision") && !on_gpus)
    throw_bad_input("--matmul-precision needs a GPU; add --device cuda or --backend nccl");
  return precision;
}

// Returns the parts of "y,h@3".
std::vector<std::string> words_of_list(const std::string& list) {
  std::vector<std::string> words;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    if (end == at) throw_bad_input("--print: expected names such as y or y@3, found \"{}\"", list);
    words.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace

po::options_description run_options() {
  po::options_description options;
  options.add(loading_options());
  options.add(pool_options());
  options.add_options()                                              //
      ("path", po::value<CommandArguments>())                        //
      ("case", po::value<std::string>())                             //
      ("filter", po::value<std::string>())                           //
      ("fail-fast", po::bool_switch())                               //
      ("no-causes", po::bool_switch())                               //
      ("quiet", po::bool_switch())                                   //
      ("watch", po::bool_switch())                                   //
      ("accept", po::bool_switch())                                  //
      ("seed", po::value<std::string>()->default_value("0"))         //
      ("schedule", po::value<std::string>()->default_value("fifo"))  //
      ("order", po::value<std::string>()->default_value("rank"))     //
      ("backend", po::value<std::string>()->default_value("local"))  //
      ("device", po::value<std::string>()->default_value("host"))    //
      ("matmul-precision", po::value<std::string>())                 //
      ("moves", po::value<std::string>())                            //
      ("jobs", po::value<int>())                                     //
      ("record", po::value<std::string>())                           //
      ("compare", po::value<std::string>())                          //
      ("warmup", po::value<int>())                                   //
      ("iters", po::value<int>())                                    //
      ("cuda-graph", po::bool_switch())                              //
      ("json", po::value<std::string>())                             //
      ("junit", po::value<std::string>())                            //
      ("junit-times", po::bool_switch())                             //
      ("sarif", po::value<std::string>())                            //
      ("html", po::value<std::string>())                             //
      ("print", po::value<CommandArguments>())                       //
      ("annotate", po::value<std::string>());
  return options;
}

RunOptions read_run_options(const po::variables_map& given, const Registries& registries,
                            Availability viability) {
  RunOptions options;
  options.seed = read_seed(given["seed"].as<std::string>());
  options.schedule = read_schedule(given["schedule"].as<std::string>());
  options.schedule_is_chosen = !given["schedule"].defaulted();
  options.order = read_order(given["order"].as<std::string>());
  options.backends = read_backends(given["backend"].as<std::string>(), registries, viability);
  options.device = read_device(given["device"].as<std::string>(), options.backends, registries);
  options.matmul = read_matmul(given, options, registries);
  if (given.count("moves")) options.moves = read_moves(given["moves"].as<std::string>());
  if (given.count("jobs")) {
    options.jobs = given["jobs"].as<int>();
    if (options.jobs < 1) throw_bad_input("--jobs: expected at least 1, found {}", options.jobs);
  }
  if (given.count("case")) options.only_case = given["case"].as<std::string>();
  if (given.count("filter")) options.filter = given["filter"].as<std::string>();
  options.draws = given.count("html") > 0;
  options.fail_fast = given["fail-fast"].as<bool>();
  options.searches_causes = !given["no-causes"].as<bool>();
  if (given.count("annotate") && given["annotate"].as<std::string>() != "github")
    throw_bad_input("--annotate: expected github, found \"{}\"",
                    given["annotate"].as<std::string>());
  if (given.count("print"))
    for (const std::string& list : given["print"].as<CommandArguments>())
      for (const std::string& name : words_of_list(list)) {
        parse_printed_name(name);  // refuses a bad rank before any case runs
        options.print.push_back(name);
      }
  if (given.count("set")) options.set = given["set"].as<CommandArguments>();
  return options;
}

void read_watching(const po::variables_map& given, size_t files, RunOptions& options) {
  const bool compares_times =
      given.count("iters") + given.count("warmup") > 0 || given["cuda-graph"].as<bool>();
  options.records_values =
      given.count("record") > 0 || (files == 1 && (compares_times || options.backends.size() > 1));
  if (given.count("compare")) options.compared = read_compared(given["compare"].as<std::string>());
  if (options.records_values || compares_times) options.timing.iterations = 1;
  if (given.count("warmup")) options.timing.warmup = read_repetitions(given, "warmup", 0);
  if (given.count("iters")) options.timing.iterations = read_repetitions(given, "iters", 1);
  options.timing.as_graph = given["cuda-graph"].as<bool>();
}

}  // namespace shardproof
