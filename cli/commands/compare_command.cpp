// shardproof compare: compares the runs of one or two records. Steps: read the manifests, choose
// the backends, pair the runs by file, case and phase, compare each pair, print the tables.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/commands/write_reports.h"
#include "shardproof/cli/options/parse_options.h"
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

// One of the two records with the entries of one backend.
struct RecordSide {
  const Recording& recording;
  std::string backend;
  std::vector<const RecordEntry*> entries;
};

std::set<std::string> backends_of(const Recording& recording) {
  std::set<std::string> names;
  for (const RecordEntry& entry : recording.entries) names.insert(entry.backend);
  return names;
}

[[noreturn]] void refuse_ambiguous_backends(const std::set<std::string>& a,
                                            const std::set<std::string>& b) {
  throw_bad_input("compare: the records have runs on {} and on {}; choose with --backend A,B",
                  fmt::join(a, ", "), fmt::join(b, ", "));
}

// Returns the pairs of backends of A and B to compare. With --backend it is the given pair. In one
// record, the first backend is paired with each other one. In two records, the only backends are
// paired, or each with the equal one.
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
      throw_bad_input("compare: expected two records, or one with runs on several backends");
    std::vector<std::pair<std::string, std::string>> pairs;
    const std::string first = a.entries.front().backend;
    for (const std::string& other : in_a)
      if (other != first) pairs.emplace_back(first, other);
    return pairs;
  }
  if (in_a.size() == 1 && in_b.size() == 1) return {{*in_a.begin(), *in_b.begin()}};
  if (in_a != in_b) refuse_ambiguous_backends(in_a, in_b);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& name : in_a) pairs.emplace_back(name, name);
  return pairs;
}

RecordSide record_side_of(const Recording& recording, const std::string& backend,
                          const po::variables_map& given) {
  RecordSide side{recording, backend, {}};
  for (const RecordEntry& entry : recording.entries)
    if (entry.backend == backend &&
        (!given.count("case") || entry.name == given["case"].as<std::string>()))
      side.entries.push_back(&entry);
  return side;
}

struct ComparedRecords {
  std::vector<RunComparison> comparisons;
  std::vector<std::string> alone;  // lines about runs without a partner
};

// Returns the last part of a path. Other machines may open a file by another path.
std::string last_name(const std::string& file) {
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? file : file.substr(slash + 1);
}

const RecordEntry* partner(const RecordEntry& entry, const RecordSide& side) {
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

void compare_sides(const RecordSide& a, const RecordSide& b, ComparedRecords& into) {
  std::set<const RecordEntry*> matched;
  for (const RecordEntry* entry : a.entries) {
    const RecordEntry* other = partner(*entry, b);
    if (other == nullptr) {
      into.alone.push_back(fmt::format("only in A: {} on {}", label(*entry), a.backend));
      continue;
    }
    matched.insert(other);
    into.comparisons.push_back(
        compare_runs(read_run(a.recording, *entry), read_run(b.recording, *other)));
  }
  for (const RecordEntry* entry : b.entries)
    if (!matched.contains(entry))
      into.alone.push_back(fmt::format("only in B: {} on {}", label(*entry), b.backend));
}

ComparedRecords compare_all(const po::variables_map& given, const Recording& a,
                            const Recording& b) {
  ComparedRecords result;
  for (const auto& [first, second] : pair_backends(given, a, b))
    compare_sides(record_side_of(a, first, given), record_side_of(b, second, given), result);
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
  const ComparedRecords result = compare_all(given, a, second ? *second : a);
  TextStyle style;
  style.color = stdout_has_colors();
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

Compares two records (run --record) of the same program, made on this machine or another. With one
record of runs on several backends, compares these runs. Prints for each line:

  values    bit-equal; within rounding, which was measured when the values were recorded; not decided; or
            wrong. A difference is described by its worst element: the distance as a factor of that
            rounding and in units in the last place (ulps), the ranks that hold it, and the cause:
            reduction order, precision or bug.
  times     predicted or measured: of work on the slowest rank, of a call on the rank that came last;
            their ratio; bytes and bus bandwidth as nccl-tests defines them.

Prints for the run its longest step and the communication that no work overlaps.

  --backend A,B      which runs of the records if they have several backends: --backend local,mpi
  --case NAME        only this case of a sweep
  --json FILE        write the comparison as JSON, with the times of every rank; "-": to standard
                     output, which then has nothing else

Exit code: 0 all differences have a reduction order as cause, or are not decided; 1 a bug, another
precision, or different verdicts or findings; 2 bad input: an incomplete record, or runs of different
programs.
)text";
}

}  // namespace shardproof
