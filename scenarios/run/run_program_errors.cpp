// Implements program_errors of run.h. Lowering stops at the first error of a program. To find
// others, this file blanks the line of the error and all lines that depend on it, and lowers again.
// Example: line 1 binds `h` and is wrong, and line 2 is "y = h @ w". Both are blanked. Line 3,
// which reads neither h nor y, is lowered.
#include <set>

#include "shardproof/engine/check/check.h"
#include "shardproof/scenarios/load/error_list.h"
#include "shardproof/scenarios/load/listing_names.h"
#include "shardproof/scenarios/load/load_context.h"
#include "shardproof/scenarios/run/impossible_expectations.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof {
namespace {

bool begins_block(const std::string& line) { return !line.empty() && line.front() != ' '; }

// A line without indentation and the lines of its block: [begin, end).
struct LineBlock {
  size_t begin, end;
};

std::vector<LineBlock> blocks_of(const std::vector<std::string>& lines) {
  std::vector<LineBlock> blocks;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool other_branch = lines[i].starts_with("else");
    if (blocks.empty() || (begins_block(lines[i]) && !other_branch))
      blocks.push_back({i, i + 1});
    else
      blocks.back().end = i + 1;
  }
  return blocks;
}

// Blanks blocks of a listing, and then each later block that reads a name which they bind.
class DependentLines {
 public:
  explicit DependentLines(Listing& listing) : listing_(listing) {}

  // Returns false if names with holes hide which lines depend on the line.
  bool blank(size_t line) {
    for (const LineBlock& block : blocks_of(listing_.lines)) {
      if (block.end <= line) continue;
      const std::vector<std::string> lines(listing_.lines.begin() + static_cast<long>(block.begin),
                                           listing_.lines.begin() + static_cast<long>(block.end));
      const Listing part = parse_listing(lines);
      const bool lost = (block.begin <= line && line < block.end) || reads_lost_name(part);
      for (const NameTemplate& name : names_bound(part)) {
        if (!name.plain()) return false;
        if (lost)
          lost_.insert(name.texts[0]);
        else
          lost_.erase(name.texts[0]);
      }
      if (lost)
        for (size_t i = block.begin; i < block.end; ++i) listing_.lines[i].clear();
    }
    listing_ = parse_listing(listing_.lines);
    return true;
  }
  const std::set<std::string>& lost() const { return lost_; }

 private:
  bool reads_lost_name(const Listing& part) const {
    const std::vector<NameUse> read = names_read(part);
    return std::any_of(read.begin(), read.end(),
                       [&](const NameUse& use) { return lost_.contains(use.first); });
  }

  Listing& listing_;
  std::set<std::string> lost_;
};

Listing* find_listing(Job& job, const std::string& path) {
  if (path == "/program" && job.program) return &*job.program;
  for (JobListing& listing : job.ranks)
    if (listing.path == path) return &listing.listing;
  return nullptr;
}

// Removes the line of an error and the lines that depend on it. Returns false if that is not
// possible.
bool remove_line(Job& job, const Where& where) {
  Listing* const listing = find_listing(job, where.path);
  if (listing == nullptr || where.line < 1 ||
      static_cast<size_t>(where.line) > listing->lines.size())
    return false;
  DependentLines lines(*listing);
  try {
    // The lines of a training step are inside loops that their text does not show.
    if (!(parse_listing(listing->lines).statements == listing->statements)) return false;
    if (!lines.blank(static_cast<size_t>(where.line) - 1)) return false;
  } catch (const Error&) {
    return false;  // a line that is malformed on its own
  }
  std::erase_if(job.outputs,
                [&](const JobOutput& output) { return lines.lost().contains(output.name); });
  std::erase_if(job.precision_limits, [](const PrecisionLimit&) { return true; });
  return true;
}

// Returns the lowered rank programs, or null if the job has none or if expectations have to be
// checked. Throws Error if the phase expects what its program cannot meet.
std::shared_ptr<const RankProgram> lower_and_check(const Job& job, const Expect& expect,
                                                   const Registries& registries) {
  if (job.precision_limits.empty() && !job.program && !expect.time)
    return lower_rank_programs(job, registries);
  const LoweredJob lowered = lower_job(job, registries);
  check_limited_values(job, lowered);
  refuse_time_without_rates(expect, job, lowered.program, registries.ops);
  return nullptr;
}

// Adds the errors of a phase; only the first one if `all` is false. Returns the rank programs of a
// phase without errors.
std::shared_ptr<const RankProgram> add_phase_errors(const Phase& phase,
                                                    const Registries& registries, bool all,
                                                    ErrorList& errors) {
  Job job = phase.job;
  bool changed = false;
  while (!errors.full()) {
    try {
      const std::shared_ptr<const RankProgram> lowered =
          lower_and_check(job, phase.expect, registries);
      return changed ? nullptr : lowered;
    } catch (const Error& error) {
      errors.add(placed_in(phase, error));
      if (!all || !remove_line(job, error.where())) return nullptr;
      changed = true;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<Error> program_errors(Scenario& scenario, const Registries& registries,
                                  LoweredPrograms programs) {
  ErrorList first;
  const Case* first_case = nullptr;
  for (Case& one : scenario.cases) {
    if (one.refused || expected_verdict(one) == Verdict::bad_input) return {};
    ErrorList errors;
    for (Phase& phase : one.phases) {
      std::shared_ptr<const RankProgram> lowered =
          add_phase_errors(phase, registries, first_case == nullptr, errors);
      if (programs == LoweredPrograms::stored) phase.lowered = std::move(lowered);
    }
    if (errors.empty()) return {};
    if (first_case != nullptr) continue;
    first = errors;
    first_case = &one;
  }
  std::vector<Error> out;
  for (const Error& error : first.errors()) out.push_back(placed_in(scenario, *first_case, error));
  return out;
}

}  // namespace shardproof
