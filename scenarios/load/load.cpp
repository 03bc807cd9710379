// Implements load.h (load_text, load_file) and scenario.h (filled). Steps: parse the JSON text,
// check the version, expand the sweep, apply --set, read each case. If a case expects bad input,
// its Error is stored in the case.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/load/load_context.h"
#include "shardproof/scenarios/load/sweep.h"

namespace shardproof {
namespace {

void check_version(const JsonReader& root) {
  if (root.kind() != JsonKind::object) root.expected("a scenario, which is an object");
  const JsonReader version = root.at("version", "\"version\": 1");
  const int64_t number = version.integer();
  if (number > kLanguageVersion)
    throw Error(
        ErrorKind::unsupported,
        fmt::format("version {} of the scenario language is newer than this tool, which reads {}",
                    number, kLanguageVersion),
        {"", version.path(), 0, 0});
  if (number < 1) version.expected("1");
}

// Refuses --set of a name that the sweep sets too.
void check_overrides(const LoadOptions& options, const std::vector<SweepCase>& cases) {
  for (const auto& [name, text] : options.set)
    for (const SweepCase& one : cases)
      for (const auto& [key, value] : one.settings)
        if (key == name)
          throw_bad_input("--set {}: the sweep sets this let; choose one of its cases with --case",
                          name);
}

// True if the path lies in an `expect`. An error there is never the bad input that it expects.
bool is_in_expect(std::string_view path) {
  constexpr std::string_view kPhases = "/phases/";
  if (path.starts_with(kPhases)) {
    path.remove_prefix(kPhases.size());
    path.remove_prefix(std::min(path.find('/'), path.size()));
  }
  return path == "/expect" || path.starts_with("/expect/");
}

Case read_case(const JsonTree& root, const SweepCase& one, const LoadOptions& options) {
  Case out;
  out.name = one.name;
  const JsonTree tree = apply_case(root, one);
  const JsonTree* expect = tree.find("expect");
  if (expect != nullptr) out.refusal = read_refusal(JsonReader(*expect, "/expect"));
  try {
    out.phases = load_phases(tree, options);
  } catch (const Error& error) {
    const bool expected =
        out.refusal.verdict == Verdict::bad_input && !is_in_expect(error.where().path);
    if (expected && error.kind() != ErrorKind::unsupported) {
      check_expect_keys(JsonReader(*expect, "/expect"));  // load_phases has not read it yet
      out.refused = error;
      return out;
    }
    if (one.name.empty()) throw;
    throw Error(error.kind(), fmt::format("{} (case {})", error.message(), one.name),
                error.where());
  }
  return out;
}

// A tensor placed as P(norm(p)) has no negative elements: takes the absolute value of drawn
// elements and refuses given ones.
void make_norms(const Fill& fill, JobInput& input) {
  const bool is_norm = std::any_of(
      input.spec.placements().begin(), input.spec.placements().end(), [](const Placement& own) {
        return own.is_partial() && own.partial().reduction.op == ReduceOp::norm;
      });
  if (!is_norm) return;
  const bool drawn = fill.kind == FillKind::ints || fill.kind == FillKind::uniform ||
                     fill.kind == FillKind::normal;
  std::vector<double> values = values_of(input.data);
  for (double& value : values) {
    if (value < 0 && !drawn)
      throw Error(ErrorKind::bad_input,
                  fmt::format("expected no negative element in a tensor placed as {1}, found {0}",
                              value, placements_text(input.spec)),
                  Where{"", "/tensors/" + input.name, 0, 0});
    value = std::fabs(value);
  }
  input.data = tensor_of(input.spec.dtype(), input.spec.shape(), values);
}

}  // namespace

Scenario load_text(std::string_view text, const std::string& file, const LoadOptions& options) {
  try {
    JsonTree root = read_json(text);
    const JsonReader reader(root, "");
    check_version(reader);
    std::vector<SweepCase> cases = expand_sweep(reader, options.max_cases);
    check_overrides(options, cases);
    for (const auto& [name, value] : options.set) override_let(root, name, value);

    Scenario scenario;
    scenario.file = file;
    scenario.text = text;
    if (reader.has("about")) scenario.about = reader.at("about").text();
    for (const SweepCase& one : cases) scenario.cases.push_back(read_case(root, one, options));
    return scenario;
  } catch (const Error& error) {
    throw error.inside({file, "", 0, 0});
  }
}

Scenario load_file(const std::string& path, const std::string& file, const LoadOptions& options) {
  Scenario scenario = load_text(read_file(path, file), file, options);
  scenario.path = path;
  return scenario;
}

Job filled(const Phase& phase, uint64_t seed) {
  Job job = phase.job;
  job.seed = seed;
  for (size_t i = 0; i < job.inputs.size(); ++i) {
    JobInput& input = job.inputs[i];
    input.data =
        fill_tensor(phase.fills[i], input.name, input.spec.dtype(), input.spec.shape(), seed);
    make_norms(phase.fills[i], input);
  }
  return job;
}

int64_t default_max_bytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? pages * page / 2 : int64_t{1} << 32;
}

}  // namespace shardproof
