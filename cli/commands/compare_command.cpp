#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "shardproof/cli/commands/command.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/record/record_directory.h"
#include "shardproof/scenarios/report/comparison_report.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

po::options_description compare_options() {
  po::options_description options;
  options.add_options()                          //
      ("record", po::value<CommandArguments>())  //
      ("backend", po::value<std::string>())      //
      ("case", po::value<std::string>())         //
      ("json", po::value<std::string>());
  return options;
}

// One of the two records, and which of its runs are meant.
struct Side {
  const Recording& recording;
  std::string backend;
  std::vector<const RecordEntry*> entries;
};

std::set<std::string> backends_of(const Recording& recording) {
  std::set<std::string> names;
  for (const RecordEntry& entry : recording.entries) names.insert(entry.backend);
  return names;
}

[[noreturn]] void ask_for_backends(const std::set<std::string>& a, const std::set<std::string>& b) {
  throw_bad_input("compare: the records hold runs on {} and on {}; say which with --backend A,B",
                  fmt::join(a, ", "), fmt::join(b, ", "));
}

// Which runs of A stand beside which of B: as asked; else the one that each has, else the same, in
// one record the first two.
std::vector<std::pair<std::string, std::string>> pair_backends(const po::variables_map& given,
                                                               const Recording& a,
                                                               const Recording& b) {
  const bool alone = &a == &b;
  const std::set<std::string> in_a = backends_of(a), in_b = backends_of(b);
  if (given.count("backend")) {
    const std::string text = given["backend"].as<std::string>();
    const size_t comma = text.find(',');
    const std::string first = text.substr(0, comma);
    const std::string second = comma == std::string::npos ? first : text.substr(comma + 1);
    for (const auto& [name, known] : {std::pair(first, in_a), std::pair(second, in_b)})
      if (!known.contains(name))
        throw_bad_input("--backend: no run on \"{}\"; there are runs on {}", name,
                        fmt::join(known, ", "));
    return {{first, second}};
  }
  if (alone) {
    if (in_a.size() < 2)
      throw_bad_input("compare: expected a second record, or one of runs on several backends");
    std::vector<std::pair<std::string, std::string>> pairs;
    const std::string first = a.entries.front().backend;
    for (const std::string& other : in_a)
      if (other != first) pairs.emplace_back(first, other);
    return pairs;
  }
  if (in_a.size() == 1 && in_b.size() == 1) return {{*in_a.begin(), *in_b.begin()}};
  if (in_a != in_b) ask_for_backends(in_a, in_b);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& name : in_a) pairs.emplace_back(name, name);
  return pairs;
}

Side side_of(const Recording& recording, const std::string& backend,
             const po::variables_map& given) {
  Side side{recording, backend, {}};
  for (const RecordEntry& entry : recording.entries)
    if (entry.backend == backend &&
        (!given.count("case") || entry.name == given["case"].as<std::string>()))
      side.entries.push_back(&entry);
  return side;
}

struct LaidBeside {
  std::vector<RunComparison> comparisons;
  std::vector<std::string> alone;  // runs without a partner
};

// A file may have been opened by another path on another machine: then its name has to do.
std::string last_name(const std::string& file) {
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? file : file.substr(slash + 1);
}

const RecordEntry* partner(const RecordEntry& entry, const Side& side) {
  const RecordEntry* found = nullptr;
  for (const RecordEntry* other : side.entries) {
    if (other->name != entry.name || other->phase != entry.phase) continue;
    if (other->file == entry.file) return other;
    if (found == nullptr && last_name(other->file) == last_name(entry.file)) found = other;
  }
  return found;
}

std::string label(const RecordEntry& entry) {
  return entry.name.empty() ? entry.file : fmt::format("{} [{}]", entry.file, entry.name);
}

void compare_sides(const Side& a, const Side& b, LaidBeside& into) {
  std::set<const RecordEntry*> met;
  for (const RecordEntry* entry : a.entries) {
    const RecordEntry* other = partner(*entry, b);
    if (other == nullptr) {
      into.alone.push_back(fmt::format("only in A: {} on {}", label(*entry), a.backend));
      continue;
    }
    met.insert(other);
    into.comparisons.push_back(
        compare_runs(read_run(a.recording, *entry), read_run(b.recording, *other)));
  }
  for (const RecordEntry* entry : b.entries)
    if (!met.contains(entry))
      into.alone.push_back(fmt::format("only in B: {} on {}", label(*entry), b.backend));
}

LaidBeside compare_all(const po::variables_map& given, const Recording& a, const Recording& b) {
  LaidBeside result;
  for (const auto& [first, second] : pair_backends(given, a, b))
    compare_sides(side_of(a, first, given), side_of(b, second, given), result);
  if (result.comparisons.empty())
    throw_bad_input("compare: {} and {} have no case in common", a.path, b.path);
  return result;
}

}  // namespace

int compare_command(const CommandArguments& words, const Registries&) {
  const po::variables_map given = parse_words(words, compare_options(), "record");
  const CommandArguments paths =
      given.count("record") ? given["record"].as<CommandArguments>() : CommandArguments{};
  if (paths.empty() || paths.size() > 2)
    throw_bad_input("compare: expected one or two recorded runs, found {}", paths.size());
  const Recording a = read_recording(paths.front());
  const std::optional<Recording> second =
      paths.size() == 1 ? std::nullopt : std::optional(read_recording(paths.back()));
  check_reports(given);
  const LaidBeside result = compare_all(given, a, second ? *second : a);
  TextStyle style;
  style.color = stdout_is_terminal();
  std::string out;
  bool agrees = result.alone.empty();
  for (const RunComparison& comparison : result.comparisons) {
    agrees = agrees && comparison.agrees();
    out += (out.empty() ? "" : "\n") + comparison_text(comparison, style);
  }
  for (const std::string& line : result.alone) out += line + "\n";
  if (prints_for_terminal(given)) print_out(out);
  write_report(given, "json",
               [&] { return comparison_json(result.comparisons, SHARDPROOF_VERSION); });
  return agrees ? 0 : 1;
}

std::string compare_help() {
  return R"text(shardproof compare A [B] [options]

Lays two recorded runs (run --record) of the same program side by side, from this machine or another.
With one record of runs on several backends, lays these side by side. For each line: whether values are
bit-equal, within the rounding that was measured when they were recorded, not decided, or wrong, with the
worst element, its distance as a factor of that rounding and in units in the last place (ulps), the ranks
that hold it, and the cause: reduction order, precision or bug; times that were predicted or measured (of
work on the slowest rank, of a call on the rank that came last), their ratio, and bytes and bus bandwidth
as nccl-tests count them. For the run: its longest step, and communication that no work hides.

  --backend A,B      which runs of the records, when there are several: --backend local,mpi
  --case NAME        only this case of a sweep
  --json FILE        write the comparison for programs, with the times of every
                     rank; "-": to standard output, and nothing else there

Exit code: 0 nothing is wrong: what differs is a reduction order, or is not decided; 1 a bug, other
precision, or verdicts or findings that differ; 2 bad input: no whole record, or runs of different
programs.
)text";
}

}  // namespace shardproof
