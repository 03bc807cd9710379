// Implements record_phase.h and the functions of recorded_run.h. A tensor text ends with a hash of
// the contents: "x bf16[16, 64] dp:S(0) on dp=2, tp=4 contents 0123456789abcdef".
#include "shardproof/scenarios/run/record_phase.h"

#include "shardproof/backends/api/library_choice.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof {

namespace {

constexpr std::string_view kContents = " contents ";

std::string recorded_tensor_text(const JobInput& input) {
  std::string text = input.name + " " + to_string(input.spec);
  if (input.data.buffer == nullptr) return text;
  const int64_t bytes = input.data.elements() * size_of(input.data.dtype);
  const std::string_view contents(reinterpret_cast<const char*>(input.data.data()),
                                  static_cast<size_t>(bytes));
  return text + fmt::format("{}{:016x}", kContents, hash_text(contents));
}

// Returns the differences between two lists of tensor texts. The hash of contents is compared only
// if both have one.
std::optional<std::string> other_tensors(const std::vector<std::string>& a,
                                         const std::vector<std::string>& b) {
  if (a.size() != b.size()) return "tensors";
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t end = a[i].rfind(kContents), other_end = b[i].rfind(kContents);
    if (a[i].substr(0, end) != b[i].substr(0, other_end)) return "tensors";
    const bool known = end != std::string::npos && other_end != std::string::npos;
    if (known && a[i] != b[i]) return "contents of " + a[i].substr(0, a[i].find(' '));
  }
  return std::nullopt;
}

}  // namespace

RecordedRun make_recorded_run(const Job& job, PhaseResult& phase) {
  Outcome& outcome = phase.outcome;
  RecordedRun run;
  run.ranks = job.world;
  if (job.device)
    run.environment = {{"gpu", job.device->description()},
                       {"matmul", matmul_fact(job.device->matmul())}};
  run.findings = outcome.findings;
  for (const JobListing& listing : phase.listings)
    run.source.push_back({listing.lanes, listing.listing.lines});
  for (const JobInput& input : job.inputs) run.tensors.push_back(recorded_tensor_text(input));
  run.program = std::move(outcome.program);
  run.values = std::move(outcome.recorded);
  run.flight = outcome.world.records;
  run.timed = outcome.world.timed;
  run.prices_work = !outcome.world.unpriced_work;
  run.measured = std::move(outcome.timed);
  outcome.timed.clear();
  return run;
}

std::optional<std::string> find_fact(const Environment& environment, std::string_view name) {
  for (const auto& [known, value] : environment)
    if (known == name) return value;
  return std::nullopt;
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += fmt::format("{}{} (line {}, ranks {})", text.empty() ? "" : "; ", name(finding.verdict),
                        finding.line, to_string(finding.ranks));
  return text.empty() ? "clean" : text;
}

std::string RecordedRun::title() const {
  std::string text = name.empty() ? file : file + " [" + name + "]";
  return phase > 1 ? fmt::format("{}, phase {}", text, phase) : text;
}

std::optional<std::string> RecordedRun::differs_from(const RecordedRun& other) const {
  if (seed != other.seed) return fmt::format("values: seed {} and {}", seed, other.seed);
  if (is_empty() || other.is_empty()) return std::nullopt;
  if (ranks != other.ranks) return fmt::format("{} and {} ranks", ranks, other.ranks);
  if (const auto what = other_tensors(tensors, other.tensors)) return what;
  if (source != other.source) return "lines of the program";
  if (program != other.program && !program.empty() && !other.program.empty())
    return "programs of the ranks";
  return std::nullopt;
}

}  // namespace shardproof
