#include "shardproof/engine/widen_job.h"

#include <algorithm>

#include "shardproof/engine/adopt.h"
#include "shardproof/ops/wider_floats.h"

namespace shardproof {
namespace {

constexpr double kTellsNothing = 1e-3;  // of a value's largest element

}  // namespace

bool needs_wider_floats(const Job& job, const Outcome& outcome) {
  const auto of_values = [](const Finding& finding) {
    return finding.verdict == Verdict::wrong_values || finding.verdict == Verdict::replicas_differ;
  };
  return std::all_of(outcome.findings.begin(), outcome.findings.end(), of_values) &&
         outcome.widest > kTellsNothing && job.functions.empty();
}

Job on_simulated_ranks(const Job& job) {
  Job simulated = job;
  simulated.backend = "local";
  simulated.cost = nullptr;
  simulated.order = {};
  simulated.keep.clear();
  simulated.sees = false;
  simulated.compared = Compared::lines;
  simulated.timing = {};
  return simulated;
}

Job with_wider_floats(const Job& job) {
  Job wide = on_simulated_ranks(job);
  for (JobInput& input : wide.inputs) {
    const DType dtype = wider(input.spec.dtype());
    if (dtype == input.spec.dtype()) continue;
    input.data = as_dtype(input.data, dtype);
    input.spec = input.spec.with_dtype(dtype);
  }
  wide.dtype = wider(job.dtype);
  wide.anchors = true;
  return wide;
}

std::set<ValueId> denied_values(const std::map<ValueId, Sides>& wide,
                                const std::map<ValueId, Sides>& narrow) {
  std::set<ValueId> denied;
  for (const auto& [id, sides] : wide)
    if (const auto found = narrow.find(id); found != narrow.end() && denies(found->second, sides))
      denied.insert(id);
  return denied;
}

void tell_what_wider_floats_show(const Job& job, const Outcome& wide, Outcome& outcome) {
  const auto is_wrong = [](const Finding& finding) {
    return finding.verdict == Verdict::wrong_values;
  };
  std::vector<Finding> wrong;
  for (const Finding& finding : wide.findings)
    if (is_wrong(finding)) wrong.push_back(finding);
  if (wrong.empty()) return;
  const bool widened = (job.inputs.empty() && wider(job.dtype) != job.dtype) ||
                       std::any_of(job.inputs.begin(), job.inputs.end(), [](const JobInput& input) {
                         return wider(input.spec.dtype()) != input.spec.dtype();
                       });
  for (Finding& finding : wrong) {
    if (!widened) break;
    finding.details.push_back(
        "compared with all floats in f64: in their own dtypes rounding might explain most of it");
  }
  // What only narrow floats show, on an earlier line, comes before it.
  const auto is_told = [&](const Finding& finding) {
    return is_wrong(finding) && finding.line >= wrong.front().line;
  };
  std::erase_if(outcome.findings, is_told);
  const auto at = std::find_if_not(outcome.findings.begin(), outcome.findings.end(), is_wrong);
  outcome.findings.insert(at, wrong.begin(), wrong.end());
}

}  // namespace shardproof
