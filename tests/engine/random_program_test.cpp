// Generated programs are honest and legal, without the judge: what the ranks hold is assembled here
// and laid beside what one device computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "shardproof/engine/generate/line_writer.h"
#include "shardproof/engine/generate/one_device.h"
#include "shardproof/engine/generate/random_program.h"
#include "shardproof/engine/partition.h"
#include "shardproof/engine/rank_lowering.h"
#include "shardproof/engine/run_program.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/split.h"
#include "shardproof/scenarios/load.h"
#include "shardproof/scenarios/write_scenario.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing {
namespace {

// A value as the ranks hold it, beside that of one device.
struct Pair {
  std::string name;
  int line = 0;
  Tensor ranks, one;
};

std::vector<Pair> run_global(const Job& job) {
  const Registries& all = builtin_registries();
  const GlobalProgram program = lower_one_device(job, all.ops);
  const std::vector<Tensor> one = run_one_device(program, all.ops, input_tensors(job));
  const Partitioned parts = partition(program, job, all.ops);
  std::map<ValueId, Tensor> held;
  const auto probe = [&]() -> ProbeFunction {
    held.clear();
    return [&](ValueId id, const LocalTensor& value) {
      const std::optional<Spec>& spec = parts.program.values[static_cast<size_t>(id)].spec;
      if (spec) held[id] = assemble(value, *spec);
    };
  };
  const ProgramRun run =
      run_program(parts.program, job, all, {[](ValueId) { return true; }, {}}, probe);
  EXPECT_TRUE(run.outcome.findings.empty());
  std::vector<Pair> pairs;
  for (size_t id = 0; id < program.values.size(); ++id) {
    const GlobalValue& value = program.values[id];
    const ValueId placed = parts.placed[id];
    if (value.name.empty() || !held.contains(placed)) continue;
    pairs.push_back({value.name, value.origin.line, held.at(placed), one[id]});
  }
  return pairs;
}

std::vector<Pair> run_ranks(const Job& job) {
  const Registries& all = builtin_registries();
  const GlobalProgram program = lower_one_device(job, all.ops);
  const std::vector<Tensor> one = run_one_device(program, all.ops, input_tensors(job));
  const RankProgram ranks = lower_ranks(job, all.ops);
  std::vector<ValueId> ids;
  for (const JobOutput& output : job.outputs)
    ids.push_back(ranks.names.at(output.name).front().value);
  const ProgramRun run =
      run_program(ranks.program, job, all, {{}, ids}, [] { return ProbeFunction{}; });
  EXPECT_TRUE(run.outcome.findings.empty());
  std::vector<Pair> pairs;
  for (size_t i = 0; i < ids.size(); ++i) {
    const JobOutput& output = job.outputs[i];
    const Tensor& truth = one[static_cast<size_t>(program.names.at(output.name))];
    const LocalTensor value = run.value(ids[i]);
    const Spec spec =
        Spec::parse(output.placements, job.meshes[0].second, truth.shape, truth.dtype);
    pairs.push_back({output.name, ranks.names.at(output.name).front().line,
                     assemble(value, spec), truth});
  }
  return pairs;
}

std::vector<Pair> run_both(const Job& job) { return job.program ? run_global(job) : run_ranks(job); }

// Largest difference over the largest element; a NaN is equal to a NaN.
double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = values_of(a), right = values_of(b);
  if (left.size() != right.size() || a.dtype != b.dtype) return INFINITY;
  double largest = 0, most = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    if (std::isfinite(right[i])) largest = std::max(largest, std::abs(right[i]));
    if (left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i]))) continue;
    const double difference = std::abs(left[i] - right[i]);
    most = std::max(most, std::isfinite(difference) ? difference : INFINITY);
  }
  return most == 0 ? 0 : most / largest;
}

std::string listing(const ProgramText& text) { return scenario_text(text); }

uint64_t seeds() {
  const char* given = std::getenv("SEEDS");
  return given ? std::strtoull(given, nullptr, 10) : 100;
}

TEST(RandomProgram, Audit) {
  std::map<std::string, int> forms;
  int64_t lines = 0, refused = 0, apart = 0, values = 0, longest = 0;
  const uint64_t first = std::getenv("FIRST") ? std::strtoull(std::getenv("FIRST"), nullptr, 10) : 1;
  for (uint64_t seed = first; seed < first + seeds(); ++seed) {
    ProgramOptions options;
    if (const char* kind = std::getenv("KIND"))
      options.kind = kind[0] == 'g' ? ProgramKind::global : ProgramKind::ranks;
    if (const char* dtype = std::getenv("DTYPE")) options.dtype = parse_dtype(dtype);
    if (const char* c = std::getenv("COND"))
      options.conditioning = static_cast<Conditioning>(std::atoi(c));
    const RandomProgram program = random_program(seed, options, builtin_registries().ops);
    for (const std::string& form : program.forms) ++forms[form];
    lines += std::ssize(program.text.one_device());
    longest = std::max(longest, static_cast<int64_t>(std::ssize(program.text.one_device())));
    try {
      const Job job = job_of(program.text);
      for (const Pair& pair : run_both(job)) {
        ++values;
        const double off = distance(pair.ranks, pair.one);
        const double limit = std::getenv("LIMIT") ? std::atof(std::getenv("LIMIT")) : 1e-6;
        if (off > limit) {
          ++apart;
          std::printf("seed %lu line %d %s off %g\n", static_cast<unsigned long>(seed), pair.line,
                      pair.name.c_str(), off);
          if (std::getenv("SHOW")) std::printf("%s\n", listing(program.text).c_str());
          break;
        }
      }
    } catch (const Error& error) {
      ++refused;
      std::printf("seed %lu: %s\n%s\n", static_cast<unsigned long>(seed), error.what(),
                  std::getenv("SHOW") ? listing(program.text).c_str() : "");
    }
  }
  for (const auto& [form, count] : forms) std::printf("  %s %d\n", form.c_str(), count);
  std::printf("%ld lines, longest %ld, %ld values, %ld refused, %ld apart\n", lines, longest,
              values, refused, apart);
}

}  // namespace
}  // namespace shardproof::testing
