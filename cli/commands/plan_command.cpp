// shardproof plan: plans one redistribution and prints its steps.
#include <charconv>
#include <cmath>
#include <sstream>

#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/commands/greedy_plan.h"
#include "shardproof/cli/commands/owners_text.h"
#include "shardproof/cli/commands/plan_matrix.h"
#include "shardproof/cli/commands/plan_text.h"
#include "shardproof/cli/options/parse_options.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/localtensor/plan/step_pieces.h"
#include "shardproof/localtensor/plan/transfer.h"
#include "shardproof/program/syntax/torch_names.h"
#include "shardproof/program/value/quantity.h"
#include "shardproof/scenarios/model/topology.h"
#include "shardproof/scenarios/record/write_file.h"
#include "shardproof/scenarios/report/pictures.h"
#include "shardproof/sim/cost/plan_price.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

po::options_description plan_options() {
  po::options_description options;
  options.add_options()                          //
      ("tensor", po::value<CommandArguments>())  //
      ("mesh", po::value<std::string>())         //
      ("from", po::value<std::string>())         //
      ("to", po::value<std::string>())           //
      ("to-mesh", po::value<std::string>())      //
      ("moves", po::value<std::string>())        //
      ("peak", po::value<std::string>())         //
      ("matrix", po::value<std::string>())       //
      ("dims", po::value<int64_t>())             //
      ("use-replicas", po::bool_switch())        //
      ("owners", po::bool_switch())              //
      ("svg", po::value<std::string>())          //
      ("topology", po::value<std::string>());
  return options;
}

std::string needed(const po::variables_map& given, const char* option) {
  if (!given.count(option))
    throw_bad_input("plan: --{} is missing; shardproof help plan describes it", option);
  return given[option].as<std::string>();
}

DType read_dtype(const std::string& text) {
  try {
    return parse_dtype_name(text);
  } catch (const Error& error) {
    throw_bad_input("plan: {}", error.message());
  }
}

Dims read_shape(const std::string& text) {
  Dims shape;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    const size_t start = std::min(word.find_first_not_of(' '), word.size());
    int64_t size = 0;
    const char* end = word.data() + word.size();
    const auto read = std::from_chars(word.data() + start, end, size);
    if (read.ec != std::errc() || read.ptr != end || size < 0)
      throw_bad_input("plan: expected a shape such as 1024,512, found \"{}\"", text);
    shape.push_back(size);
  }
  element_count(shape);
  return shape;
}

// Refuses tensors whose bytes, times the ranks that send them, may not fit 64 bits.
void check_size(const Dims& shape, DType dtype) {
  if (shape.size() > kMaxDims)
    throw_bad_input("expected a tensor of at most {} dims, found {}", kMaxDims, shape.size());
  constexpr int64_t kMostBytes = int64_t{1} << 50;
  if (element_count(shape) > kMostBytes / size_of(dtype))
    throw_bad_input("plan: expected a tensor of at most 1 PiB, found {} of {}", to_string(shape),
                    name(dtype));
}

template <typename Action>
auto of_option(const char* option, Action action) {
  try {
    return action();
  } catch (const Error& error) {
    const std::string column =
        error.where().column > 0 ? fmt::format(" column {}", error.where().column) : "";
    throw Error(error.kind(), fmt::format("--{}{}: {}", option, column, error.message()));
  }
}

std::string states_text(int64_t states) {
  return states == 1 ? "1 state" : fmt::format("{} states", states);
}

// Returns "best of 5 states, at most 2 KiB from optimal"; the gap is in bytes, or in seconds.
std::string best_text(int64_t states, double gap, bool has_times) {
  return fmt::format("best of {}, at most {} from optimal", states_text(states),
                     has_times ? rounded_text(duration_of_seconds(gap))
                               : bytes_text(Fraction(static_cast<int64_t>(std::ceil(gap)))));
}

// Returns the line about a plan between two meshes. Without partials each piece is sent directly to
// its target. With them, the search covers reductions before and after one transfer.
std::string transfer_remark(const PlannerResult& result, const Spec& from, const Spec& to,
                            bool has_times) {
  if (!from.has_partial() && !to.has_partial())
    return "  each rank receives each element that it lacks once; optimal\n";
  const double least = has_times ? 0 : least_price_across(from, to);
  const double gap = std::max(result.price.primary - least, 0.0);
  if (gap == 0) return "  optimal\n";
  return fmt::format("  {}\n", best_text(result.states, gap, has_times));
}

// Returns what a plan sends, such as "greedy would send 96 B a rank in 3 calls".
std::string baseline_text(const char* name, const Plan& plan) {
  Fraction bytes(0);
  bool differs = false;
  int64_t calls = 0;
  for (const PlanStep& step : plan.steps) {
    const std::vector<SentBytes> sent = bytes_sent(step);
    bytes = bytes + average_of(sent);
    differs = differs || sent.size() > 1;
    calls += step.kind == StepKind::local ? 0 : 1;
  }
  if (calls == 0) return fmt::format("{} would send nothing", name);
  return fmt::format("{} would send {} a rank{} in {} call{}", name, bytes_text(bytes),
                     differs ? " on average" : "", calls, calls == 1 ? "" : "s");
}

// Returns the lines that compare the plan with simpler ones and state if it is optimal.
std::string comparison(const PlannerResult& result, const Spec& from, const Spec& to,
                       bool has_times) {
  if (!(from.mesh() == to.mesh())) return transfer_remark(result, from, to, has_times);
  std::string out;
  if (const std::optional<Plan> greedy = greedy_plan(from, to))
    out = fmt::format("  {}\n", baseline_text("greedy", *greedy));
  const std::string certainty =
      result.gap == 0 ? "optimal" : best_text(result.states, result.gap, has_times);
  return out + fmt::format("  {}; {}\n",
                           baseline_text("gather then slice", gather_then_slice(from, to)),
                           certainty);
}

PlanMoves moves_of(const po::variables_map& given) {
  if (!given.count("moves")) return PlanMoves::all;
  return of_option("moves", [&] { return parse_plan_moves(given["moves"].as<std::string>()); });
}

[[noreturn]] void refuse_with_matrix(std::string_view option) {
  throw_bad_input("plan: --matrix prints all pairs of placements and accepts no --{}; write {}",
                  option,
                  option == "mesh" ? "the mesh as its value, as in --matrix a=2,b=2"
                                   : "the command without it");
}

// Prints the table of all pairs of specs: of the tensor given, or of an f32 of --dims dims of 64.
int print_matrix(const po::variables_map& given, const CommandArguments& tensor) {
  for (const char* other : {"mesh", "from", "to", "to-mesh", "peak", "svg", "topology"})
    if (given.count(other)) refuse_with_matrix(other);
  for (const char* other : {"use-replicas", "owners"})
    if (given[other].as<bool>()) refuse_with_matrix(other);
  if (tensor.empty() != (given.count("dims") > 0) || (!tensor.empty() && tensor.size() != 2))
    throw_bad_input(
        "plan: --matrix needs --dims N, or a shape and a dtype, as in shardproof plan --matrix "
        "a=2,b=2 --dims 3");
  Dims shape;
  if (tensor.empty()) {
    const int64_t dims = given["dims"].as<int64_t>();
    if (dims < 1 || dims > 6) throw_bad_input("--dims: expected 1 to 6, found {}", dims);
    for (int64_t i = 0; i < dims; ++i) shape.push_back(64);
  } else {
    shape = read_shape(tensor[0]);
  }
  const DType dtype = tensor.empty() ? DType::f32 : read_dtype(tensor[1]);
  check_size(shape, dtype);
  const Mesh mesh =
      of_option("matrix", [&] { return Mesh::parse(given["matrix"].as<std::string>()); });
  PlannerOptions options;
  options.moves = moves_of(given);
  print_out(plan_matrix(mesh, shape, dtype, options));
  return 0;
}

void write_picture(const std::string& path, const Plan& plan, const Spec& from) {
  const std::string picture = plan_picture(plan, from);
  if (picture.empty()) throw_bad_input("--svg: this plan has too many ranks or parts to draw");
  write_whole_file(path, picture);
}

}  // namespace

int plan_command(const CommandArguments& words, const Registries&) {
  const po::variables_map given = parse_words(words, plan_options(), "tensor");
  const CommandArguments tensor =
      given.count("tensor") ? given["tensor"].as<CommandArguments>() : CommandArguments{};
  if (given.count("matrix")) return print_matrix(given, tensor);
  if (given.count("dims")) throw_bad_input("plan: --dims belongs to --matrix");
  if (tensor.size() != 2)
    throw_bad_input(
        "plan: expected a shape and a dtype, found {}; write shardproof plan \"1024,512\" f32 "
        "--mesh tp=2 --from tp:R --to \"tp:S(0)\"",
        tensor.empty() ? "neither" : fmt::format("\"{}\"", fmt::join(tensor, " ")));
  const Dims shape = read_shape(tensor[0]);
  const DType dtype = read_dtype(tensor[1]);
  check_size(shape, dtype);
  const std::string mesh_text = needed(given, "mesh"), from_text = needed(given, "from"),
                    to_text = needed(given, "to");
  const Mesh mesh = of_option("mesh", [&] { return Mesh::parse(mesh_text); });
  const Mesh to_mesh =
      given.count("to-mesh")
          ? of_option("to-mesh", [&] { return Mesh::parse(given["to-mesh"].as<std::string>()); })
          : mesh;
  const Spec from = of_option("from", [&] { return Spec::parse(from_text, mesh, shape, dtype); });
  const Spec to = of_option("to", [&] { return Spec::parse(to_text, to_mesh, shape, dtype); });
  PlannerOptions options;
  options.moves = moves_of(given);
  if (given.count("peak"))
    options.peak_limit = of_option(
        "peak", [&] { return parse_quantity(given["peak"].as<std::string>(), Unit::bytes).whole; });
  options.use_replicas = given["use-replicas"].as<bool>();
  if (options.use_replicas && given.count("to-mesh"))
    throw_bad_input(
        "--use-replicas: a transfer to another mesh divides its messages among all replicas; leave "
        "it out");
  std::shared_ptr<const CostModel> machine;
  if (given.count("topology")) {
    machine = of_option("topology",
                        [&] { return parse_topology(given["topology"].as<std::string>(), ""); });
    options.price = price_by_time(machine);
  }
  const PlannerResult result = plan_redistribution(from, to, options);
  std::string out;
  for (size_t i = 0; i < result.plan.steps.size(); ++i)
    out += fmt::format(
        "  {}  {}\n", i + 1,
        step_text(result.plan.steps[i], machine.get(), retained_source_bytes(result.plan, i)));
  if (result.plan.steps.empty()) out += "  nothing to do: every rank has what it needs\n";
  if (given.count("svg")) write_picture(given["svg"].as<std::string>(), result.plan, from);
  out += comparison(result, from, to, machine != nullptr);
  if (given["owners"].as<bool>()) out += owners_text("before", from) + owners_text("after", to);
  print_out(out);
  return 0;
}

std::string plan_help() {
  return R"text(shardproof plan SHAPE DTYPE --mesh MESH --from PLACEMENTS --to PLACEMENTS [options]

Explains the cheapest redistribution between two placements of one tensor, step by step.

shardproof plan --matrix MESH --dims N [--moves MOVES]
shardproof plan SHAPE DTYPE --matrix MESH [--moves MOVES]

Prints what every redistribution between placements by R and S costs, of the tensor given or of one
with N dims of 64: by the planner, by one axis after the other (greedy, as PyTorch's DTensor), by the
cheapest sequence of changes of one axis (Dijkstra), and by gather then slice.

  shardproof plan "1024,512" f32 --mesh dp=2,tp=4 --from "dp:S(0) tp:S(0)" --to "dp:S(0) tp:S(1)"
  shardproof plan "5,6" bf16 --mesh 2x4 --from "S(0) P(sum)" --to "R S(1)"

  --mesh MESH        dp=2,tp=4 or 2x4
  --matrix MESH      print the table of all pairs instead
  --dims N           dims of 64 of the tensor of that table
  --from, --to       placements: by name of axis, where axes not named are R; or one for each axis
  --to-mesh MESH     mesh of the target if it is on other ranks: "tp=4 on 4-7"
  --moves MOVES      all (default) or collectives: named collectives alone, no exchange
  --peak SIZE        the most that a rank may hold of the tensor during a step, source, target and
                     packed copies together: "40 KiB"; steps run in pieces where that is cheaper
                     than another plan; without any plan, prints the smallest size that works
  --use-replicas     may also cut over axes that are R before and after, and gather later
  --owners           also print which global elements each rank holds before and after
  --svg FILE         draw which ranks own what before the plan and after each step
  --topology TEXT    ideal, flat(latency='5 us', bandwidth='50 GB/s') or a .json file: prints times
                     and chooses the fastest plan (default: least bytes + 64 KiB a call)
)text";
}

}  // namespace shardproof
