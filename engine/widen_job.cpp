#include "shardproof/engine/widen_job.h"

#include <algorithm>

#include "shardproof/engine/adopt.h"

namespace shardproof {
namespace {

constexpr double kTellsNothing = 1e-3;  // of a value's largest element

DType wider(DType dtype) {
  if (is_floating(dtype)) return DType::f64;
  return dtype == DType::c64 ? DType::c128 : dtype;
}

}  // namespace

bool needs_wider_floats(const Job& job, const Outcome& outcome) {
  const auto narrow = [](const JobInput& input) {
    return wider(input.spec.dtype()) != input.spec.dtype();
  };
  const auto of_values = [](const Finding& finding) {
    return finding.verdict == Verdict::wrong_values || finding.verdict == Verdict::replicas_differ;
  };
  return std::all_of(outcome.findings.begin(), outcome.findings.end(), of_values) &&
         outcome.widest > kTellsNothing && job.functions.empty() &&
         std::any_of(job.inputs.begin(), job.inputs.end(), narrow);
}

Job with_wider_floats(const Job& job) {
  Job wide = job;
  for (JobInput& input : wide.inputs) {
    const DType dtype = wider(input.spec.dtype());
    if (dtype == input.spec.dtype()) continue;
    input.data = as_dtype(input.data, dtype);
    input.spec = input.spec.with_dtype(dtype);
  }
  wide.dtype = wider(job.dtype);
  wide.backend = "local";
  wide.cost = nullptr;
  wide.order = {};
  wide.keep.clear();
  wide.sees = false;
  wide.anchors = true;
  wide.compared = Compared::lines;
  wide.timing = {};
  return wide;
}

void tell_what_wider_floats_show(const Outcome& wide, Outcome& outcome) {
  const auto is_wrong = [](const Finding& finding) {
    return finding.verdict == Verdict::wrong_values;
  };
  std::vector<Finding> wrong;
  for (const Finding& finding : wide.findings)
    if (is_wrong(finding)) wrong.push_back(finding);
  if (wrong.empty()) return;
  for (Finding& finding : wrong)
    finding.details.push_back(
        "compared with all floats in f64: in their own dtypes rounding might explain most of it");
  // What only narrow floats show, on an earlier line, comes before it.
  const auto is_told = [&](const Finding& finding) {
    return is_wrong(finding) && finding.line >= wrong.front().line;
  };
  std::erase_if(outcome.findings, is_told);
  const auto at = std::find_if_not(outcome.findings.begin(), outcome.findings.end(), is_wrong);
  outcome.findings.insert(at, wrong.begin(), wrong.end());
}

}  // namespace shardproof
