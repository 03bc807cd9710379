#include "shardproof/engine/widen_job.h"

#include <algorithm>

namespace shardproof {
namespace {

constexpr double kTellsNothing = 1e-3;  // of a value's largest element

DType wider(DType dtype) {
  if (is_floating(dtype)) return DType::f64;
  return dtype == DType::c64 ? DType::c128 : dtype;
}

Tensor converted(const Tensor& data, DType dtype) {
  const Tensor dense = data.contiguous() ? data : contiguous_copy(data);
  Tensor result = Tensor::empty(dtype, data.shape, dense.buffer->lanes, dense.buffer->slots);
  for (int64_t slot = 0; slot < dense.buffer->slots.count(); ++slot)
    convert(dense.data(slot), data.dtype, result.mutate(slot), dtype, dense.elements());
  return result;
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
    input.data = converted(input.data, dtype);
    input.spec = input.spec.with_dtype(dtype);
  }
  wide.dtype = wider(job.dtype);
  wide.backend = "local";
  wide.cost = nullptr;
  wide.order = {};
  wide.keep.clear();
  wide.sees = false;
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
  std::erase_if(outcome.findings, is_wrong);
  outcome.findings.insert(outcome.findings.begin(), wrong.begin(), wrong.end());
}

}  // namespace shardproof
