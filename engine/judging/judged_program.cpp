// Implements the functions of judged_program.h that both kinds of program share.
#include "shardproof/engine/judging/judged_program.h"

#include <algorithm>
#include <cmath>

#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/explain/explain_precision.h"
#include "shardproof/engine/reference/f64_job.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/engine/reference/recompute_compared.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/sim/cost/plan_price.h"

namespace shardproof {

std::unique_ptr<JudgedProgram> JudgedProgram::make(const Job& job, const Registries& registries,
                                                   std::shared_ptr<const RankProgram> lowered) {
  const OpRegistry& ops = registries.ops;
  if (job.program) {
    GlobalProgram program = lower_global(*job.program, context_of(job, ops), "/program");
    return make_judged_global(job, split_inputs(job), std::move(program), registries);
  }
  std::optional<GlobalProgram> truth;
  if (!lowered) lowered = std::make_shared<RankProgram>(lower_ranks(job, ops));
  if (job.truth) {
    truth = lower_global(*job.truth, context_of(job, ops), "/truth");
    recompute_compared(*truth, ops);
  }
  return make_judged_ranks(job, split_inputs(job), std::move(lowered), std::move(truth),
                           registries);
}

namespace {

// The ranks' shards lie in the input as they are, so that cutting it copies nothing.
bool shares_contents(const LocalTensor& shards, const Tensor& whole) {
  return std::all_of(shards.blocks().begin(), shards.blocks().end(), [&](const Block& block) {
    return block.tensor.buffer->bytes.shares_with(whole.buffer->bytes);
  });
}

}  // namespace

RangeCause JudgedProgram::range_cause_in(const SpmdProgram& own,
                                         const std::vector<ValueId>& targets) const try {
  const Job simulated = on_simulated_ranks(job_), wider = with_wider_floats(job_);
  const std::vector<LocalTensor> wider_inputs = lifted_inputs(wider);
  SpmdProgram program = own;
  widen_floats(program, registries_.ops);
  return range_cause({simulated, inputs_, own}, {wider, wider_inputs, program}, targets,
                     registries_);
} catch (const Error&) {
  return {};
}

std::vector<LocalTensor> JudgedProgram::lifted_inputs(const Job& lifted) const {
  std::vector<LocalTensor> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const JobInput& input = lifted.inputs[i];
    if (shares_contents(inputs_[i], job_.inputs[i].data)) {
      inputs.push_back(split(input.data, input.spec, PartialFill::exact, lifted.seed));
      if (!(input.on == input.spec.mesh().ranks()))
        inputs.back() = inputs.back().restrict_to(input.on);
      continue;
    }
    std::vector<Block> blocks;
    for (const Block& block : inputs_[i].blocks())
      blocks.push_back({block.lanes, as_dtype(block.tensor, input.spec.dtype())});
    inputs.emplace_back(std::move(blocks));
  }
  return inputs;
}

std::unique_ptr<LiftedReference> JudgedProgram::lifted_reference() const {
  GlobalProgram program = reference()->program();
  widen_floats(program, registries_.ops);
  return std::make_unique<LiftedReference>(std::move(program), registries_.ops);
}

namespace {

// True if the ranks hold parts of the input, all of them.
bool lies_in_parts(const JobInput& input) {
  return input.spec.has_partial() && input.on == input.spec.mesh().ranks();
}

}  // namespace

std::vector<Tensor> JudgedProgram::reference_inputs() const {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const JobInput& input = job_.inputs[i];
    tensors.push_back(lies_in_parts(input) ? whole_value(inputs_[i], input.spec) : input.data);
  }
  return tensors;
}

std::map<ValueId, ComparedValue> JudgedProgram::inputs_in_parts() const {
  std::map<ValueId, ComparedValue> found;
  if (reference() == nullptr) return found;
  const std::vector<ValueId>& ids = reference()->program().inputs;
  for (size_t i = 0; i < ids.size(); ++i) {
    const JobInput& input = job_.inputs[i];
    if (lies_in_parts(input))
      found.emplace(ids[i], ComparedValue{ids[i], "", input.spec, inputs_[i], {}});
  }
  return found;
}

bool is_out_of_range(const MeasuredPrecision& measured) {
  return measured.nothing_left || is_lost(measured) || !std::isfinite(measured.precision.error);
}

std::vector<NarrowStep> imprecision_candidates(const MeasuredPrecision& measured,
                                               const SpmdProgram& program,
                                               const std::vector<ValueId>& targets) {
  // One device that loses less than this part of one rounding to a dtype does not round to it.
  constexpr double kRoundingShare = 64;
  const bool rounds_as_narrow =
      !is_floating(measured.dtype) ||
      kRoundingShare * measured.precision.device_error >= unit_roundoff(measured.narrowest);
  std::vector<NarrowStep> steps =
      narrow_steps(program, targets, rounds_as_narrow ? measured.narrowest : measured.dtype);
  if (measured.precision.ratio < kPrecisionNote)
    std::erase_if(steps, [](const NarrowStep& step) { return !step.is_call; });
  std::stable_partition(steps.begin(), steps.end(),
                        [](const NarrowStep& step) { return step.is_call; });
  return steps;
}

std::string precision_cause(const MeasuredPrecision& measured, const SpmdProgram& program,
                            const std::vector<ValueId>& targets, std::string step) {
  if (step.empty() && measured.precision.ratio < kPrecisionNote) return "";
  if (step.empty()) return long_sum(program, targets, measured.precision.error);
  const std::string what = measured.nothing_left
                               ? "all of it is rounded to 0:"
                               : fmt::format("it is {}, but", name(measured.dtype));
  return fmt::format("{} {}", what, step);
}

PartitionOptions partition_options(const Job& job) {
  PartitionOptions options;
  options.explicit_only = job.explicit_only;
  options.moves = job.moves;
  options.peak_limit = job.peak_limit;
  if (job.cost) {
    options.price = price_by_time(job.cost);
    options.choice_price = nullptr;
  }
  return options;
}

void reduce_in_order(SpmdProgram& program, const ReductionSchedule& order) {
  for (SpmdListing& listing : program.listings)
    for (Instr& instr : listing.instrs)
      if (Communicate* call = std::get_if<Communicate>(&instr.action))
        for (CallItem& item : call->items) item.collective.schedule = order;
}

bool is_kept_by_job(const Job& job, const std::string& name) {
  return std::count(job.keep.begin(), job.keep.end(), name) > 0;
}

std::string line_text(const std::vector<std::string>& lines, int line) {
  const size_t index = static_cast<size_t>(line - 1);
  return line > 0 && index < lines.size() ? lines[index] : "";
}

void rethrow(const Error& error, const std::string& path) { throw error.inside({"", path, 0, 0}); }

bool is_narrow_float(DType dtype) { return is_floating(dtype) && size_of(dtype) < 4; }

bool has_unfinished_ranks(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Verdict::mismatch || finding.verdict == Verdict::deadlock ||
           finding.verdict == Verdict::missing_rank || finding.verdict == Verdict::not_a_member;
  });
}

}  // namespace shardproof
