// Implements load.h (read_scenario, load_text, load_file) and scenario.h (filled, placed_in of a
// case). Steps: parse the JSON text, check the version, expand the sweep, apply --set, read each
// case. Errors get their places in the text at the end. If a case expects bad input, its Error is
// stored in the case.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/json/json_spans.h"
#include "shardproof/scenarios/load/error_list.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/load/load_context.h"
#include "shardproof/scenarios/load/sweep.h"

namespace shardproof {
namespace {

void check_version(const JsonReader& root) {
  if (root.kind() != JsonKind::object) root.expected("a scenario, which is an object");
  if (is_own_format(root.tree()))
    root.refuse("expected a scenario, found a file that shardproof wrote, such as a report");
  const JsonReader version = root.at("version", "\"version\": 1");
  if (version.kind() == JsonKind::text) version.expected("the number 1");
  const int64_t number = version.integer();
  if (number > kLanguageVersion)
    throw Error(
        ErrorKind::unsupported,
        fmt::format("version {} of the scenario language is newer than this tool, which reads {}",
                    number, kLanguageVersion),
        {"", version.path(), 0, 0});
  if (number < 1) version.expected("the number 1");
}

// Refuses --set of a name that the sweep sets too.
void check_overrides(const LoadOptions& options, const std::vector<SweepCase>& cases) {
  for (const auto& [name, text] : options.set)
    for (const SweepCase& one : cases)
      for (const SweepSetting& setting : one.settings)
        if (setting.key == name)
          throw_bad_input("--set {}: the sweep sets this let; choose one of its cases with --case",
                          name);
}

// True if the path lies in an `expect`. An error in an `expect` itself never counts as the bad
// input that it expects.
bool is_in_expect(std::string_view path) {
  constexpr std::string_view kPhases = "/phases/";
  if (path.starts_with(kPhases)) {
    path.remove_prefix(kPhases.size());
    path.remove_prefix(std::min(path.find('/'), path.size()));
  }
  return path == "/expect" || path.starts_with("/expect/");
}

// Reads a case. If it expects bad input and its first error is outside of `expect`, stores that
// error in the case.
Case read_case(const JsonTree& root, const SweepCase& one, const LoadOptions& options,
               ErrorList& errors) {
  Case out;
  out.name = one.name;
  out.labels = one.labels;
  for (const SweepSetting& setting : one.settings)
    out.settings.emplace_back(setting.target(), setting.path);
  const JsonTree tree = apply_case(root, one);
  const JsonTree* expect = tree.find("expect");
  if (expect != nullptr) out.refusal = read_refusal(JsonReader(*expect, "/expect"));
  ErrorList own;
  own.attempt([&] { out.phases = load_phases(tree, options, own); });
  if (own.empty()) return out;
  const Error& first = own.errors().front();
  const bool expected =
      out.refusal.verdict == Verdict::bad_input && !is_in_expect(first.where().path);
  if (expected && first.kind() != ErrorKind::unsupported) {
    check_expect_keys(JsonReader(*expect, "/expect"));  // load_phases has not read it yet
    out.refused = first;
    return out;
  }
  errors.add_all(own.errors());
  return out;
}

// Reads the cases up to the one that fills `errors`. An error that several cases have is added
// once, with the name of the first of them.
void read_cases(const JsonTree& root, const std::vector<SweepCase>& cases,
                const LoadOptions& options, Scenario& scenario, ErrorList& errors) {
  ErrorList plain;  // without names of cases
  for (const SweepCase& one : cases) {
    const size_t before = plain.errors().size();
    Case read;
    plain.attempt([&] { read = read_case(root, one, options, plain); });
    for (size_t i = before; i < plain.errors().size(); ++i) {
      const Error& error = plain.errors()[i];
      const std::string which = one.name.empty() ? "" : fmt::format(" (case {})", one.name);
      errors.add(placed_in(scenario, read, {error.kind(), error.message() + which, error.where()}));
    }
    if (plain.full()) return;
    scenario.cases.push_back(std::move(read));
  }
}

// Returns the pointer in the file of a pointer in the tree of a case.
std::string file_pointer(const Case& one, const std::string& pointer) {
  for (const auto& [target, setting] : one.settings)
    if (pointer == target || pointer.starts_with(target + "/"))
      return setting + pointer.substr(target.size());
  return pointer;
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

LoadedFile read_scenario(std::string_view text, const std::string& file,
                         const LoadOptions& options) {
  ErrorList errors;
  LoadedFile out;
  Scenario& scenario = out.scenario;
  scenario.file = file;
  scenario.text = text;
  try {
    JsonTree root = read_json(text);
    const JsonReader reader(root, "");
    errors.attempt([&] {
      check_version(reader);
      std::vector<SweepCase> cases = expand_sweep(reader, options.max_cases);
      check_overrides(options, cases);
      for (const auto& [name, value] : options.set) override_let(root, name, value);
      if (reader.has("about")) scenario.about = reader.at("about").text();
      read_cases(root, cases, options, scenario, errors);
    });
  } catch (const Error& error) {
    errors.add(error.inside({.file = file}));
  }
  if (!errors.empty()) scenario.cases.clear();
  for (const Error& error : errors.errors())
    out.errors.push_back(placed_in(scenario, Case{}, error));
  return out;
}

Scenario load_text(std::string_view text, const std::string& file, const LoadOptions& options) {
  LoadedFile loaded = read_scenario(text, file, options);
  if (!loaded.errors.empty()) throw Error(loaded.errors.front());
  return std::move(loaded.scenario);
}

Scenario load_file(const std::string& path, const std::string& file, const LoadOptions& options) {
  Scenario scenario = load_text(read_file(path, file), file, options);
  scenario.path = path;
  return scenario;
}

Error placed_in(const Scenario& scenario, const Case& one, const Error& error) {
  Where where = error.where();
  const bool own_file = where.file.empty() || where.file == scenario.file;
  if (!own_file || where.file_line > 0) return error.inside({.file = scenario.file});
  where.file = scenario.file;
  where.path = file_pointer(one, where.path);
  // An option such as --set has no place in the file, and no pointer.
  const bool of_option = where.path.empty() && error.message().starts_with("--");
  if (!of_option && !scenario.text.empty()) where = JsonSpans(scenario.text).placed(where);
  return {error.kind(), error.message(), where};
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
