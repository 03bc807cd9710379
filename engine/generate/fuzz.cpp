// Implements fuzz.h. Threads take seeds in order; each failure is shrunk by the thread that finds
// it.
#include "shardproof/engine/generate/fuzz.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "shardproof/engine/check/check.h"
#include "shardproof/engine/check/print_job.h"
#include "shardproof/engine/generate/add_gradient.h"
#include "shardproof/engine/generate/forms/draw.h"
#include "shardproof/engine/generate/forms/one_device.h"
#include "shardproof/engine/generate/numerical_gradient.h"
#include "shardproof/engine/generate/random_program.h"
#include "shardproof/engine/generate/registry_program.h"
#include "shardproof/engine/generate/run_on_ranks.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/ir/global_text.h"

namespace shardproof {
namespace {

constexpr int64_t kMostFuzzLines = 24;  // longer programs find no more, and take longer to shrink
constexpr double kRankGradientShare = 1.0 / 3;  // of the rank programs

bool same_values(const std::vector<HeldValue>& a, const std::vector<HeldValue>& b,
                 std::string& message) {
  if (a.size() != b.size()) {
    message = fmt::format("{} values, {} before", b.size(), a.size());
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].ranks.shape != b[i].ranks.shape || !bit_equal(a[i].ranks, 0, b[i].ranks, 0)) {
      message = fmt::format("{} (line {}) differs in bits", b[i].name, b[i].line);
      return false;
    }
  return true;
}

bool same_value(const Tensor& a, const Tensor& b) {
  return b.buffer && a.shape == b.shape && bit_equal(a, 0, b, 0);
}

// Returns the message of a program whose printed form is not equal to it; "" if it is.
std::string text_trouble(const Job& job, const OpRegistry& ops) {
  const GlobalProgram program = lower_one_device(job, ops);
  const std::vector<std::string> lines = with_remarks(global_text(program, {}));
  if (lines.empty()) return "";
  Job printed = job;
  (job.program ? printed.program : printed.truth) = parse_listing(lines);
  printed.numbers.clear();
  const GlobalProgram again = lower_one_device(printed, ops);
  const std::vector<Tensor> want = run_one_device(program, ops, input_tensors(job));
  const std::vector<Tensor> got = run_one_device(again, ops, input_tensors(job));
  for (const auto& [name, id] : program.names) {
    const auto found = again.names.find(name);
    if (found == again.names.end()) return fmt::format("{} is not bound in the printed form", name);
    const Tensor& value = want[static_cast<size_t>(id)];
    if (value.buffer && !same_value(value, got[static_cast<size_t>(found->second)]))
      return fmt::format("{} differs at the end of the printed form", name);
  }
  // The printed form names temporaries too, and renames a name that is bound again. So its values
  // must hold the named ones in their order.
  std::vector<ValueId> after;
  for (const GlobalInstr& instr : again.instrs)
    after.insert(after.end(), instr.outputs.begin(), instr.outputs.end());
  auto next = after.begin();
  for (const GlobalInstr& instr : program.instrs)
    for (const ValueId id : instr.outputs) {
      const std::string& name = program.values[static_cast<size_t>(id)].name;
      const Tensor& value = want[static_cast<size_t>(id)];
      if (name.empty() || !value.buffer) continue;
      next = std::find_if(next, after.end(), [&](ValueId other) {
        return same_value(value, got[static_cast<size_t>(other)]);
      });
      if (next == after.end()) return fmt::format("{} differs in the printed form", name);
      ++next;
    }
  return "";
}

// Returns the message of ranks whose printed form holds other bits; "" if it holds the same.
std::string ranks_text_trouble(const Job& job, const std::vector<HeldValue>& values,
                               const Registries& registries) {
  std::string message;
  const Job printed = job_of_printed(job, print_job(job, registries));
  const bool same = same_values(values, run_on_ranks(printed, registries), message);
  return same ? "" : message + " in the printed form of the ranks";
}

std::string findings_text(const Outcome& outcome) {
  std::string text;
  for (const Finding& finding : outcome.findings)
    if (finding.verdict != Verdict::imprecise && text.size() < 1000)
      text += to_string(finding) + "\n";
  return text;
}

}  // namespace

ProgramText fuzz_program(uint64_t seed, const OpRegistry& ops) {
  Draw draw(seed, "kind of program");
  ProgramText text;
  if (draw.chance(0.25)) {
    text = registry_program(seed, ops);
  } else {
    ProgramOptions options;
    options.max_lines = kMostFuzzLines;
    options.has_gradients = Draw(seed, "gradients of ranks").chance(kRankGradientShare);
    text = random_program(seed, options, ops).text;
  }
  if (text.is_global() && draw.chance(0.5)) add_gradient(text, draw, ops);
  return text;
}

FuzzTrial try_program(const ProgramText& text, uint64_t seed, const Registries& registries) {
  FuzzTrial trial;
  try {
    Job job = job_of(text);
    job.searches_causes = false;
    const Outcome outcome = check(job, registries);
    trial.values = outcome.values_compared;
    trial.message = findings_text(outcome);
    if (!trial.message.empty()) {
      trial.oracle = "value";
      return trial;
    }
    trial.message = numerical_gradient_error(text, seed, registries.ops);
    if (!trial.message.empty()) {
      trial.oracle = "gradient";
      return trial;
    }
    const std::vector<HeldValue> values = run_on_ranks(job, registries);
    Job alone = job;
    alone.grouping = CohortPolicy::one_by_one;
    if (!same_values(values, run_on_ranks(alone, registries), trial.message)) {
      trial.oracle = "grouping";
      return trial;
    }
    Job shuffled = job;
    shuffled.schedule = {ScheduleKind::seeded, seed};
    if (!same_values(values, run_on_ranks(shuffled, registries), trial.message)) {
      trial.oracle = "schedule";
      return trial;
    }
    trial.message = text_trouble(job, registries.ops);
    if (trial.message.empty() && !job.program)
      trial.message = ranks_text_trouble(job, values, registries);
    if (!trial.message.empty()) trial.oracle = "text";
  } catch (const Error& error) {
    trial.oracle = "error";
    trial.message = error.what();
  }
  return trial;
}

FuzzCounts fuzz(const FuzzOptions& options, const Registries& registries) {
  FuzzCounts counts;
  std::mutex mutex;  // guards `counts`
  std::atomic<int64_t> next{0};
  const auto may_take = [&](int64_t i) {
    if ((options.programs > 0 && i >= options.programs) || !options.may_go_on()) return false;
    const std::lock_guard lock(mutex);
    return counts.failures.size() < options.most_failures;
  };
  const auto work = [&] {
    for (int64_t i = next++; may_take(i); i = next++) {
      const uint64_t seed = options.seed + static_cast<uint64_t>(i);
      set_repeat_command(fmt::format("shardproof fuzz --seed {} --programs 1", seed));
      FuzzFailure failure{seed, "error", "", {}, {}};
      FuzzTrial trial;
      try {
        failure.text = fuzz_program(seed, registries.ops);
        trial = try_program(failure.text, seed, registries);
      } catch (const Error& error) {
        trial = {"error", error.what(), 0};
      }
      if (!trial.oracle.empty()) {
        failure.oracle = trial.oracle;
        failure.message = trial.message;
        failure.smallest = smallest_failing(failure.text, trial, seed, registries);
      }
      const std::lock_guard lock(mutex);
      ++counts.programs;
      counts.values += trial.values;
      if (!trial.oracle.empty()) counts.failures.push_back(std::move(failure));
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < options.threads; ++i) threads.emplace_back(work);
  work();
  threads.clear();  // joins
  std::sort(counts.failures.begin(), counts.failures.end(),
            [](const FuzzFailure& a, const FuzzFailure& b) { return a.seed < b.seed; });
  return counts;
}

}  // namespace shardproof
