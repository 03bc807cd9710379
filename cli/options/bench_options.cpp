// Implements bench_options.h with the options of nccl-tests.
#include "shardproof/cli/options/bench_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "shardproof/cli/options/loading_options.h"
#include "shardproof/cli/processes/process_options.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/scenarios/model/topology.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMaxRows = 10000;
constexpr int kMaxRepetitions = 100'000'000;

std::string text_option(const po::variables_map& given, const char* option) {
  return given[option].as<std::string>();
}

int read_number(const po::variables_map& given, const char* option, int least, int most) {
  const int number = given[option].as<int>();
  if (number < least || number > most)
    throw_bad_input("--{}: expected {} to {}, found {}", option, least, most, number);
  return number;
}

int64_t read_size(const po::variables_map& given, const char* option) {
  try {
    return parse_size(text_option(given, option));
  } catch (const Error& error) {
    throw_bad_input("--{}: {}", option, error.message());
  }
}

// Reads a collective of nccl-tests; `sendrecv` is a ring of messages.
CollectiveKind read_collective_kind(const std::string& text) {
  if (text == "sendrecv") return CollectiveKind::send;
  NearestName nearest(text);
  std::string known = "sendrecv";
  nearest.offer(known);
  for (int i = 0; i < static_cast<int>(CollectiveKind::barrier); ++i) {
    const CollectiveKind kind = static_cast<CollectiveKind>(i);
    if (has_counts(kind)) continue;
    if (name(kind) == text) return kind;
    nearest.offer(name(kind));
    known += fmt::format(" {}", name(kind));
  }
  throw_bad_input("--collective: unknown \"{}\"{}", text,
                  nearest.best().empty() ? "; expected one of " + known : nearest.hint());
}

// Reads a dtype by its name here or in NCCL.
DType read_nccl_dtype(const std::string& text) {
  struct Alias {
    std::string_view name;
    DType dtype;
  };
  constexpr Alias kAliases[] = {
      {"double", DType::f64},    {"float", DType::f32},       {"half", DType::f16},
      {"bfloat16", DType::bf16}, {"f8e4m3", DType::f8e4m3},   {"f8e5m2", DType::f8e5m2},
      {"int64", DType::i64},     {"int32", DType::i32},       {"int8", DType::i8},
      {"uint8", DType::u8},      {"fp8_e4m3", DType::f8e4m3}, {"fp8_e5m2", DType::f8e5m2}};
  if (const std::optional<DType> dtype = parse_dtype(text)) return *dtype;
  NearestName nearest(text);
  for (const Alias& alias : kAliases) {
    if (alias.name == text) return alias.dtype;
    nearest.offer(alias.name);
  }
  for (int i = 0; i < kDTypeCount; ++i) nearest.offer(name(static_cast<DType>(i)));
  throw_bad_input("--datatype: unknown \"{}\"{}", text, nearest.hint());
}

Reduction read_reduction(const po::variables_map& given, const Collective& c) {
  constexpr ReduceOp kMeasured[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                                    ReduceOp::avg, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor};
  const std::string text = text_option(given, "op");
  NearestName nearest(text);
  for (const ReduceOp op : kMeasured) {
    nearest.offer(name(op));
    if (text != name(op)) continue;
    try {
      if (reduces(c.kind)) check_reduction({op}, c.dtype);
    } catch (const Error& error) {
      throw_bad_input("--op: {}", error.message());
    }
    return {op};
  }
  throw_bad_input("--op: expected sum, prod, min, max, avg, band, bor or bxor, found \"{}\"{}",
                  text, nearest.hint());
}

int64_t read_ranks(const po::variables_map& given) {
  constexpr int kByDefault = 2;
  const int gpus = gpus_per_process(given);
  if (!given.count("ranks") && given.count("processes"))
    return int64_t{check_process_count(given["processes"].as<int>())} * gpus;
  if (!given.count("ranks"))
    return launched_process_count() > 0 ? launched_process_count() * gpus
                                        : std::max(kByDefault, gpus);
  return read_number(given, "ranks", 1, 1 << 20);
}

Collective read_collective(const po::variables_map& given) {
  Collective c;
  c.kind = read_collective_kind(text_option(given, "collective"));
  c.dtype = read_nccl_dtype(text_option(given, "datatype"));
  c.reduction = read_reduction(given, c);
  c.group = Group::world(read_ranks(given));
  const int root = given["root"].as<int>();
  if (root < 0 || root >= c.group.size())
    throw_bad_input("--root: expected 0 to {}, found {}", c.group.size() - 1, root);
  c.root = has_root(c.kind) ? root : 0;
  return c;
}

// Returns the count of a collective for a size in bytes, rounded down to a count that it can
// divide.
int64_t count_of(const Collective& c, int64_t bytes) {
  const int64_t elements = bytes / size_of(c.dtype), n = c.group.size();
  switch (c.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::gather:
    case CollectiveKind::scatter: return elements / n;
    case CollectiveKind::all_to_all: return elements / n * n;
    default: return elements;
  }
}

std::vector<int64_t> read_sizes(const po::variables_map& given) {
  const int64_t first = read_size(given, "minbytes"), last = read_size(given, "maxbytes");
  if (first > last)
    throw_bad_input("--minbytes {} is greater than --maxbytes {}", text_option(given, "minbytes"),
                    text_option(given, "maxbytes"));
  const bool grows = given.count("stepfactor") != 0;
  const int factor = grows ? read_number(given, "stepfactor", 2, 1 << 20) : 1;
  if (grows && given.count("stepbytes"))
    throw_bad_input("expected one of --stepfactor and --stepbytes, found both");
  const int64_t step = given.count("stepbytes") ? read_size(given, "stepbytes") : 1 << 20;
  if (!grows && step == 0) throw_bad_input("--stepbytes: expected more than 0 bytes");
  if (grows && first == 0)
    throw_bad_input("--minbytes: expected more than 0 bytes with --stepfactor, found 0");
  if (!grows && (last - first) / step >= kMaxRows)
    throw_bad_input("expected at most {1} sizes, found {0}; --stepfactor 2 makes fewer",
                    (last - first) / step, kMaxRows);
  std::vector<int64_t> sizes;
  for (int64_t size = first;;) {
    sizes.push_back(size);
    if (grows ? size > last / factor : size > last - step) return sizes;
    size = grows ? size * factor : size + step;
  }
}

void check_bytes(const po::variables_map& given, const Collective& c) {
  const int64_t given_bytes = read_max_bytes(given),
                most = given_bytes > 0 ? given_bytes : default_max_bytes();
  // A rank has an input, an output and as much in transit.
  const double bytes =
      3.0 * static_cast<double>(size_in_bytes(c)) * static_cast<double>(c.group.size());
  if (bytes > static_cast<double>(most))
    throw Error(ErrorKind::limit,
                fmt::format("{} bytes on {} ranks need about {:.3g} bytes, the limit is {}; "
                            "--max-bytes sets it",
                            size_in_bytes(c), c.group.size(), bytes, most));
}

}  // namespace

int64_t parse_size(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view unit(read.ptr, static_cast<size_t>(end - read.ptr));
  double factor = 0;
  if (unit.empty()) factor = 1;
  if (unit == "K" || unit == "k") factor = 1024;
  if (unit == "M" || unit == "m") factor = 1024.0 * 1024;
  if (unit == "G" || unit == "g") factor = 1024.0 * 1024 * 1024;
  const double bytes = number * factor;
  if (read.ec != std::errc() || factor == 0 || !(bytes >= 0) || bytes > 0x1p53 ||
      bytes != std::floor(bytes))
    throw_bad_input("expected bytes such as 8, 128K, 32M or 1G, found \"{}\"", text);
  return static_cast<int64_t>(bytes);
}

po::options_description bench_options() {
  po::options_description options;
  options.add_options()                                                      //
      ("backend", po::value<std::string>()->default_value("local"))          //
      ("collective", po::value<std::string>()->default_value("all_reduce"))  //
      ("ranks", po::value<int>())                                            //
      ("minbytes,b", po::value<std::string>()->default_value("32M"))         //
      ("maxbytes,e", po::value<std::string>()->default_value("32M"))         //
      ("stepbytes,i", po::value<std::string>())                              //
      ("stepfactor,f", po::value<int>())                                     //
      ("iters,n", po::value<int>()->default_value(20))                       //
      ("warmup,w", po::value<int>()->default_value(1))                       //
      ("check,c", po::value<int>()->default_value(1))                        //
      ("op,o", po::value<std::string>()->default_value("sum"))               //
      ("datatype,d", po::value<std::string>()->default_value("f32"))         //
      ("root,r", po::value<int>()->default_value(0))                         //
      ("average,a", po::value<int>()->default_value(1))                      //
      ("topology", po::value<std::string>())                                 //
      ("machine", po::value<std::string>())                                  //
      ("json", po::value<std::string>())                                     //
      ("max-bytes", po::value<std::string>())                                //
      ("word", po::value<CommandArguments>());
  options.add(pool_options());
  return options;
}

BenchPlan read_bench_plan(const po::variables_map& given) {
  if (given.count("word"))
    throw_bad_input("bench: expected options only, found \"{}\"",
                    given["word"].as<CommandArguments>().front());
  BenchPlan plan;
  plan.backend = text_option(given, "backend");
  const Collective c = read_collective(given);
  for (const int64_t bytes : read_sizes(given)) {
    plan.sizes.push_back(c);
    plan.sizes.back().count = count_of(c, bytes);
  }
  check_bytes(given, plan.sizes.back());
  plan.times = read_number(given, "iters", 1, kMaxRepetitions);
  plan.warmup = read_number(given, "warmup", 0, kMaxRepetitions);
  plan.averaging = static_cast<Averaging>(read_number(given, "average", 0, 3));
  plan.checking = read_number(given, "check", 0, kMaxRepetitions) == 0 ? ResultCheck::none
                                                                       : ResultCheck::reference;
  if (!given.count("topology")) return plan;
  plan.machine_text = text_option(given, "topology");
  try {
    plan.machine = parse_topology(plan.machine_text, "");
  } catch (const Error& error) {
    throw Error(error.kind(), "--topology: " + error.message());
  }
  return plan;
}

}  // namespace shardproof
