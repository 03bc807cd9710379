// The law of grouping: findings, values, calls, bytes, memory and times depend neither on how ranks
// are grouped into cohorts nor on the schedule, and the same job gives the same outcome twice.
// Programs that race are the exception that schedules exist to find; none is among these.
#include <gtest/gtest.h>

#include <filesystem>

#include "shardproof/localtensor/error.h"
#include "shardproof/scenarios/load.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCasesOfAFile = 2;

struct Way {
  const char* name;
  Grouping grouping;
  Schedule schedule;
};
const std::vector<Way>& ways() {
  static const std::vector<Way> kWays = {
      {"one by one", Grouping::one_by_one, {ScheduleKind::fifo, 0}},
      {"seeded 1", Grouping::coarse_first, {ScheduleKind::seeded, 1}},
      {"seeded 2", Grouping::one_by_one, {ScheduleKind::seeded, 2}},
      {"seeded 77", Grouping::coarse_first, {ScheduleKind::seeded, 77}},
      {"adversarial", Grouping::coarse_first, {ScheduleKind::adversarial, 3}},
      {"again", Grouping::coarse_first, {ScheduleKind::fifo, 0}},
  };
  return kWays;
}

std::string bits_of(const Tensor& tensor) {
  std::string text = to_string(tensor.shape);
  for (const double value : values_of(tensor)) text += fmt::format(" {:a}", value);
  return text;
}

// Everything an outcome says, as text: the first line that differs is the failure.
std::string text_of(const Outcome& outcome) {
  std::string text;
  for (const Finding& finding : outcome.findings) text += to_string(finding) + "\n";
  for (const CallCount& call : outcome.calls)
    text += fmt::format("{} {} {} {} {}\n", call.kind, call.group, to_string(call.lanes),
                        call.count, to_string(call.bytes));
  for (const auto& [name, info] : outcome.values)
    if (info.value) text += fmt::format("{} {}\n", name, bits_of(*info.value));
  text += fmt::format("compared {}\npeak {} on {}\n", outcome.values_compared,
                      outcome.world.peak_bytes, outcome.world.peak_rank);
  for (const int64_t bytes : outcome.world.peak_by_category) text += fmt::format(" {}", bytes);
  text += fmt::format("\ntime {}\n", to_string(outcome.world.time));
  for (const Duration& time : outcome.world.rank_times) text += to_string(time) + " ";
  return text;
}

std::string run(const Job& job) {
  try {
    return text_of(check(job, builtin_registries()));
  } catch (const Error& error) {
    return "error " + error.message();
  }
}

void expect_one_outcome(Job job, const std::string& what) {
  job.grouping = Grouping::coarse_first;
  job.schedule = {ScheduleKind::fifo, 0};
  const std::string first = run(job);
  for (const Way& way : ways()) {
    // A rank that dies takes with it what it had issued: how much, the schedule decides.
    if (!job.faults.empty() && way.schedule.kind != ScheduleKind::fifo) continue;
    job.grouping = way.grouping;
    job.schedule = way.schedule;
    EXPECT_EQ(run(job), first) << what << ", " << way.name;
  }
}

std::vector<ScenarioPath> files() {
  const std::string root = std::string(SHARDPROOF_SOURCE_DIR);
  std::vector<ScenarioPath> all = find_scenarios(root + "/scenarios/corpus");
  for (const ScenarioPath& path : find_scenarios(root + "/tests/scenarios"))
    if (fs::path(path.path).filename().string().starts_with("a")) all.push_back(path);
  return all;
}

TEST(Grouping, ScenariosEndTheSameWay) {
  int64_t jobs = 0;
  for (const ScenarioPath& path : files()) {
    SCOPED_TRACE(path.path);
    int64_t taken = 0;
    for (const Case& one : load_file(path.path, path.file).cases)
      for (const Phase& phase : one.phases) {
        if (++taken > kCasesOfAFile) break;
        Job job = filled(phase, 0);
        if (job.world > 16) continue;  // the law is not about size
        for (const JobInput& input : job.inputs) job.keep.push_back(input.name);
        for (const JobOutput& output : job.outputs) job.keep.push_back(output.name);
        expect_one_outcome(std::move(job), one.name);
        ++jobs;
      }
  }
  std::printf("grouping: %lld jobs of scenarios, each %zu ways\n", static_cast<long long>(jobs),
              ways().size() + 1);
  EXPECT_GT(jobs, 30);
}

struct Program {
  const char* mesh;
  std::vector<std::string> lines;
};

TEST(Grouping, GlobalPrograms) {
  const std::vector<Program> programs = {
      {"tp=2", {"y = x @ w", "z = softmax(y, dim=-1)", "s = sum(z)"}},
      {"tp=3",
       {"y = redistribute(x, tp:S(1))", "z = mean(y, dim=1)", "q = y - reshape(z, [6, 1])"}},
      {"dp=2, tp=2", {"y = gelu(x @ w)", "z = y @ w as tp:P(sum)", "u = redistribute(z, R)"}},
      {"dp=2, tp=3",
       {"for i in range(3):", "  x = redistribute(x, dp:R tp:S(1))",
        "  x = redistribute(x + w, dp:S(1) tp:S(0))"}},
      {"tp=4", {"y = x as tp:R", "z = y + 1"}},
      {"tp=4", {"y = cumsum(x, dim=0)", "v = amax(y, dim=0)", "t, i = topk(x, 2, dim=0)"}},
  };
  for (const Program& program : programs) {
    Job job = job_of(program.mesh, program.lines);
    add_input(job, "x", Dims{6, 6}, "tp:S(0)");
    add_input(job, "w", Dims{6, 6}, "tp:S(0)");
    job.keep = {"x", "y", "z", "u", "q", "s", "t", "v"};
    expect_one_outcome(job, program.lines[0]);
  }
}

TEST(Grouping, RankPrograms) {
  const std::vector<std::vector<std::string>> programs = {
      {"y = all_reduce(x, sum, group=tp)", "z = all_gather(y, dim=0, group=tp)"},
      {"send(x, to=next)", "y = recv(like=x, from=prev)"},
      {"group:", "  send(x, to=next)", "  y = recv(like=x, from=prev)"},
      {"on comm:", "  y = all_reduce(x, sum)", "z = x * 2", "wait(y)", "u = y + z"},
      {"if rank == 0:", "  y = all_reduce(x, sum)", "else:", "  y = all_reduce(x, max)"},
      {"if rank < 2:", "  barrier(group=tp)", "y = x"},
      {"y = x * (rank + 1)", "for i in range(3):", "  y = all_reduce(y, avg, group=dp)"},
      {"y = reduce_scatter(x, sum, dim=0)", "free(x)", "z = all_gather(y, dim=0)"},
  };
  for (const std::vector<std::string>& lines : programs) {
    Job job = job_of("dp=2, tp=2", {});
    add_input(job, "x", Dims{8, 3});
    add_ranks(job, "all", Lanes::range(0, 4), lines);
    job.keep = {"x", "y", "z", "u"};
    expect_one_outcome(job, lines[0]);
  }
}

}  // namespace
}  // namespace shardproof::testing
