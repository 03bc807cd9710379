// Implements causes.h: tries candidates from the most to the least specific, and stops at the first
// kind that explains the value.
#include "shardproof/engine/causes/causes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/causes/explaining.h"
#include "shardproof/engine/execute/call_lines.h"
#include "shardproof/engine/explain/cause_lines.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/call/communicator.h"

namespace shardproof {
namespace {

// True if a call sums over an axis of a size.
bool sums_over_size(const RankCase& about, const Mesh& mesh, double size) {
  for (const SpmdListing& listing : about.ranks.program.listings)
    for (const Instr& instr : listing.instrs) {
      const auto* call = std::get_if<Communicate>(&instr.action);
      if (call == nullptr) continue;
      for (const CallItem& item : call->items)
        for (int axis = 0; axis < mesh.axis_count(); ++axis)
          if (reduces(item.collective.kind) &&
              static_cast<double>(mesh.axis_size(axis)) == std::round(size) &&
              is_over_axis(item.collective.group, mesh, axis, item.lanes))
            return true;
    }
  return false;
}

// A ratio is a hint to a sum only if there is one, and if no edit has tested the same factor.
void drop_ratio_hint(const RankCase& about, const ComparedValue& value, bool is_tested,
                     Finding& finding) {
  const bool no_sum = finding.ratio && *finding.ratio > 1 &&
                      !sums_over_size(about, value.spec.mesh(), *finding.ratio);
  if (is_tested || no_sum)
    std::erase_if(finding.details, [](const std::string& text) {
      return text.starts_with(std::string(kHintLabel) + "the ratio is");
    });
}

// Returns nullopt if no lines were added to the finding.
std::optional<ExplainedKeys> explain_case(const RankCase& about, const ComparedValue& value,
                                          Finding& finding, bool is_long_search,
                                          SharedSearch& shared) {
  // For long programs, only the instructions before the value run again.
  constexpr double kLongWork = 2.5e6;
  const bool is_long = work_of(about) > kLongWork;
  const RankProgram part =
      is_long ? up_to(about.ranks, way_to(about.ranks, value).ends) : RankProgram();
  const RankCase shorter{about.job,     about.inputs,     is_long ? part : about.ranks,
                         about.truth,   about.registries, about.dtypes,
                         about.integers};
  Explaining explaining(shorter, value, finding.ratio, shared);
  if (!explaining.run(is_long_search ? Explaining::Search::long_search
                                     : Explaining::Search::short_search)) {
    drop_ratio_hint(shorter, value, explaining.has_tested_factors(), finding);
    return std::nullopt;
  }
  remove_causes(finding);
  finding.details.insert(finding.details.end(), explaining.lines.begin(), explaining.lines.end());
  finding.fix = explaining.fix;
  ExplainedKeys keys{explaining.made_right, {}};
  if (!keys.made_right.empty()) keys.left_wrong = explaining.wrong_values();
  std::erase_if(keys.left_wrong,
                [&](const std::string& key) { return keys.made_right.contains(key); });
  return keys;
}

// Returns the job with merged listings. Recorded whole numbers belong to the values of one
// lowering, so then there is none.
std::optional<Job> merged_job(const RankCase& about) {
  if (about.integers != nullptr && !about.integers->of_ranks.empty()) return std::nullopt;
  return with_merged_listings(about.job);
}

// Returns the cause of an output that wrong ranks bind on no line while others do; "" if it is
// none.
std::string never_bound(const RankCase& about, const ComparedValue& value, const Finding& finding) {
  const auto found = about.ranks.names.find(value.key);
  if (found == about.ranks.names.end() || finding.ranks.empty()) return "";
  Lanes unbound, bound;
  int line = 0;
  for (const NamedPart& part : found->second) {
    if (part.line == 0) unbound = unbound.unite(part.lanes);
    if (part.line == 0) continue;
    bound = bound.unite(part.lanes);
    line = part.line;
  }
  if (line == 0 || !unbound.contains(finding.ranks)) return "";
  return fmt::format("{}{} is still the tensor of the file on {}; line {} binds it on {} alone",
                     kCauseLabel, value.key, ranks_text(unbound), line, ranks_text(bound));
}

// Returns the first call that members of a group make on different lines; "" if there is none.
std::string calls_on_other_lines(const SpmdProgram& program) {
  std::set<std::string> groups;
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs) {
      const auto* call = std::get_if<Communicate>(&instr.action);
      if (call == nullptr) continue;
      for (const CallItem& item : call->items)
        for (int64_t sibling = 0; sibling < item.collective.group.count(); ++sibling)
          groups.insert(sibling_text(item.collective.group, sibling));
    }
  for (const std::string& group : groups) {
    std::string found =
        first_call_on_other_lines(program, group, std::numeric_limits<int64_t>::max());
    if (!found.empty()) return fmt::format("{} ({})", found, group);
  }
  return "";
}

}  // namespace

void CauseSearch::prepare() {
  if (std::exchange(is_prepared_, true)) return;
  try {
    merged_ = merged_job(about_);
    if (merged_) {
      ranks_ = lower_ranks_of(*merged_, about_);
    } else {
      ranks_ = about_.ranks;
      separate_grouped_calls(ranks_->program);
    }
  } catch (const Error&) {
    // The merged listings are no program.
    ranks_.reset();
  }
}

std::optional<ExplainedKeys> CauseSearch::search(const ComparedValue& value, Finding& finding,
                                                 bool is_long) {
  prepare();
  if (!ranks_) return std::nullopt;
  shared_.budget.begin_search();
  const RankCase one{merged_ ? *merged_ : about_.job,
                     about_.inputs,
                     *ranks_,
                     about_.truth,
                     about_.registries,
                     about_.dtypes,
                     about_.integers};
  try {
    return explain_case(one, value, finding, is_long, shared_);
  } catch (const Error&) {
    // The program does not run a second time as it did the first, so no cause is confirmed.
    return std::nullopt;
  }
}

ExplainedKeys CauseSearch::explain(const ComparedValue& value, Finding& finding, bool is_long) {
  if (std::string cause = never_bound(about_, value, finding); !cause.empty()) {
    remove_causes(finding);
    finding.details.push_back(std::move(cause));
    return {{value.key}, {}};
  }
  if (auto explained = search(value, finding, is_long)) return *std::move(explained);
  causes_to_hints(finding);
  if (const std::string calls = calls_on_other_lines(about_.ranks.program); !calls.empty())
    finding.details.push_back(kHintLabel + calls);
  return {};
}

}  // namespace shardproof
