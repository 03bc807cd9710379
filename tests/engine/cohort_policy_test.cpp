// Tests the law of grouping: findings, values, calls, bytes, memory and times depend neither on the
// grouping of ranks into cohorts nor on the schedule. Equal jobs have equal outcomes. None of the
// programs has a race, which schedules exist to find.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "shardproof/engine/check/check.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/sim/cost/cost_model.h"
#include "shardproof/tests/engine/outcome_text.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::testing::cohort_policy_test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCasesOfAFile = 2;
// One of each kFewerFiles files runs.
constexpr int64_t kFewerFiles = kFewDraws ? 8 : 1;

struct Way {
  const char* name;
  CohortPolicy grouping;
  Schedule schedule;
};
const std::vector<Way>& ways() {
  static const std::vector<Way> kWays = {
      {"by branch", CohortPolicy::by_branch, {ScheduleKind::fifo, 0}},
      {"one by one", CohortPolicy::one_by_one, {ScheduleKind::fifo, 0}},
      {"seeded 1", CohortPolicy::coarse_first, {ScheduleKind::seeded, 1}},
      {"seeded 2", CohortPolicy::one_by_one, {ScheduleKind::seeded, 2}},
      {"seeded 77", CohortPolicy::coarse_first, {ScheduleKind::seeded, 77}},
      {"adversarial", CohortPolicy::coarse_first, {ScheduleKind::adversarial, 3}},
      {"again", CohortPolicy::coarse_first, {ScheduleKind::fifo, 0}},
  };
  return kWays;
}

std::string run(const Job& job) {
  try {
    return text_of(check(job, builtin_registries()));
  } catch (const Error& error) {
    return "error " + error.message();
  }
}

// Returns the outcome as text. The values of a race may differ, because they depend on the
// schedule.
std::string expect_one_outcome(Job job, const std::string& what,
                               const std::vector<Way>& others = ways()) {
  job.grouping = CohortPolicy::coarse_first;
  job.schedule = {ScheduleKind::fifo, 0};
  const std::string first = run(job);
  if (first.find("verdict=race") != std::string::npos) return first;
  for (const Way& way : others) {
    job.grouping = way.grouping;
    job.schedule = way.schedule;
    EXPECT_EQ(run(job), first) << what << ", " << way.name;
  }
  return first;
}

// Every second way: two jobs in a row run in all of them.
std::vector<Way> half_of_the_ways(int64_t job) {
  std::vector<Way> half;
  for (size_t i = static_cast<size_t>(job % 2); i < ways().size(); i += 2)
    half.push_back(ways()[i]);
  return half;
}

std::vector<ScenarioPath> files() {
  const std::string root = std::string(SHARDPROOF_SOURCE_DIR);
  std::vector<ScenarioPath> all = find_scenarios(root + "/scenarios/corpus").paths;
  for (const ScenarioPath& path : find_scenarios(root + "/tests/scenarios").paths)
    if (fs::path(path.path).filename().string().starts_with("a")) all.push_back(path);
  return all;
}

TEST(CohortPolicy, Scenarios_InAnyGroupingAndSchedule_HaveOneOutcome) {
  int64_t jobs = 0, file = 0;
  for (const ScenarioPath& path : files()) {
    if (file++ % kFewerFiles != 0) continue;
    SCOPED_TRACE(path.path);
    int64_t taken = 0;
    for (const Case& one : load_file(path.path, path.file).cases)
      for (const Phase& phase : one.phases) {
        if (++taken > kCasesOfAFile) break;
        Job job = filled(phase, 0);
        job.searches_causes = false;   // a search follows from the findings, which are compared
        if (job.world > 16) continue;  // larger worlds add time but no case
        for (const JobInput& input : job.inputs) job.keep.push_back(input.name);
        for (const JobOutput& output : job.outputs) job.keep.push_back(output.name);
        expect_one_outcome(std::move(job), one.name, half_of_the_ways(jobs));
        ++jobs;
      }
  }
  std::printf("grouping: %lld jobs of scenarios, each %zu ways\n", static_cast<long long>(jobs),
              ways().size() / 2 + 1);
  EXPECT_GT(jobs, 30);
}

struct Program {
  const char* mesh;
  std::vector<std::string> lines;
};

TEST(CohortPolicy, GlobalPrograms_InAnyGroupingAndSchedule_HaveOneOutcome) {
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

TEST(CohortPolicy, RankPrograms_InAnyGroupingAndSchedule_HaveOneOutcome) {
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

struct Step {
  enum Kind : uint8_t { compute, call, barrier, wait, sync, record } kind = compute;
  int64_t stream = 0;
  std::string made, from;  // names; `from` of a wait is the value that it waits for
  std::string how = "sum", group = "dp";
};

std::string line_of(const Step& step) {
  switch (step.kind) {
    case Step::compute: return fmt::format("{} = {} * 2", step.made, step.from);
    case Step::call:
      return fmt::format("{} = all_reduce({}, {}, group={})", step.made, step.from, step.how,
                         step.group);
    case Step::barrier: return fmt::format("barrier(group={})", step.group);
    case Step::wait: return fmt::format("wait({})", step.from);
    case Step::sync: return fmt::format("sync({})", step.from);
    case Step::record: return step.made + " = record()";
  }
  return "";
}

// Writes a random program of several streams that is right and has no race. A stream waits for each
// value of another stream that it reads. Then it changes the lines of some ranks.
class RandomStreams {
 public:
  explicit RandomStreams(uint64_t seed) : rng_(seed, hash_text("streams")), known_(2 + draw(3)) {
    for (std::set<std::string>& names : known_) names.insert("x");
    for (int64_t left = 6 + draw(10); left > 0; --left) add_step();
    ranks_.assign(kRanks, steps_);
    for (int64_t left = draw(4); left > 0; --left) spoil(ranks_[at(draw(kRanks))]);
  }

  Job job() {
    Job job = job_of("dp=2, tp=2", {});
    add_input(job, "x", Dims{4});
    job.groups = {{"pair", {0, 1}}};
    job.cost = flat_machine({Duration{10'000'000}, 1e9});
    for (int64_t rank = 0; rank < kRanks; ++rank)
      add_ranks(job, std::to_string(rank), Lanes::one(rank), lines_of(ranks_[at(rank)]));
    static constexpr const char* kFaults[] = {"die(rank={}, call={})", "hang(rank={}, call={})",
                                              "skip(rank={}, call={})",
                                              "delay(rank={}, call={}, by='1 ms')"};
    if (draw(3) == 0)
      job.faults = {fmt::format(fmt::runtime(kFaults[draw(4)]), draw(kRanks), 1 + draw(4))};
    return job;
  }

 private:
  static constexpr int64_t kRanks = 4;
  static size_t at(int64_t index) { return static_cast<size_t>(index); }
  int64_t draw(int64_t below) { return rng_.integer(draws_++, 0, below); }
  std::string fresh(const char* letter) { return fmt::format("{}{}", letter, ++names_); }
  int64_t any_stream() { return draw(static_cast<int64_t>(known_.size())); }
  const char* any_group() {
    static constexpr const char* kGroups[] = {"dp", "tp", "[dp, tp]"};
    return kGroups[draw(3)];
  }

  // Returns one of the last values, and adds a wait if the stream needs one.
  std::string value_on(int64_t stream) {
    const int64_t count = static_cast<int64_t>(values_.size());
    const std::string name = values_[at(count - 1 - draw(std::min<int64_t>(count, 4)))];
    if (known_[at(stream)].insert(name).second)
      steps_.push_back({Step::wait, stream, "", name, "", ""});
    return name;
  }

  void add_value(Step step, const char* letter) {
    step.from = value_on(step.stream);
    step.made = fresh(letter);
    values_.push_back(step.made);
    known_[at(step.stream)].insert(step.made);
    steps_.push_back(std::move(step));
  }

  void add_wait(Step::Kind kind) {
    const int64_t stream = any_stream();
    if (events_.empty()) return;
    const auto& [event, seen] = events_[at(draw(static_cast<int64_t>(events_.size())))];
    steps_.push_back({kind, stream, "", event, "", ""});
    for (int64_t s = 0; s < static_cast<int64_t>(known_.size()); ++s)
      if (kind == Step::sync || s == stream) known_[at(s)].insert(seen.begin(), seen.end());
  }

  void add_step() {
    const int64_t stream = any_stream(), kind = draw(10);
    if (kind == 0) return add_value({Step::compute, stream, "", "", "", ""}, "c");
    if (kind <= 5)
      return add_value({Step::call, stream, "", "", draw(2) == 0 ? "sum" : "max", any_group()},
                       "v");
    if (kind == 6) return steps_.push_back({Step::barrier, stream, "", "", "", any_group()});
    if (kind == 7) return add_wait(Step::wait);
    if (kind == 8) return add_wait(Step::sync);
    events_.emplace_back(fresh("e"), known_[at(stream)]);
    steps_.push_back({Step::record, stream, events_.back().first, "", "", ""});
  }

  void spoil(std::vector<Step>& steps) {
    std::vector<size_t> calls;
    for (size_t i = 0; i < steps.size(); ++i)
      if (steps[i].kind == Step::call) calls.push_back(i);
    if (calls.empty()) return;
    const size_t index = calls[at(draw(static_cast<int64_t>(calls.size())))];
    Step& step = steps[index];
    const auto place = steps.begin() + static_cast<std::ptrdiff_t>(index);
    switch (draw(6)) {
      case 0: step.kind = Step::compute; return;
      case 1: step.group = step.group == "dp" ? "tp" : "dp"; return;
      case 2: steps.erase(place, steps.end()); return;
      case 3: steps.insert(place, {Step::barrier, any_stream(), "", "", "", any_group()}); return;
      case 4:
        steps.insert(place, {Step::call, any_stream(), fresh("q"), "x", "sum", "pair"});
        return;
      default: step.how = step.how == "sum" ? "max" : "sum";
    }
  }

  static std::vector<std::string> lines_of(const std::vector<Step>& steps) {
    std::vector<std::string> lines;
    for (const Step& step : steps)
      lines.push_back((step.stream == 0 ? "" : fmt::format("on s{}: ", step.stream)) +
                      line_of(step));
    return lines;
  }

  Rng rng_;
  uint64_t draws_ = 0;
  int64_t names_ = 0;
  std::vector<std::set<std::string>> known_;  // values that each stream may read
  std::vector<std::string> values_ = {"x"};
  std::vector<std::pair<std::string, std::set<std::string>>> events_;
  std::vector<Step> steps_;
  std::vector<std::vector<Step>> ranks_;
};

TEST(CohortPolicy, FindingOnOneStream_FoundAtAnyTime_IsTheSame) {
  constexpr uint64_t kPrograms = 400;
  std::map<std::string, int64_t> told;
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    const std::string text =
        expect_one_outcome(RandomStreams(seed).job(), fmt::format("seed {}", seed));
    for (const char* word : {"mismatch", "deadlock", "missing rank", "not a member"})
      told[word] += text.find(word) != std::string::npos ? 1 : 0;
    told["clean"] += text.starts_with("all_reduce") ? 1 : 0;
    told["refused"] += text.starts_with("error") ? 1 : 0;
  }
  for (const auto& [word, count] : told)
    std::printf("%s: %lld programs\n", word.c_str(), static_cast<long long>(count));
  for (const char* word : {"mismatch", "deadlock", "missing rank", "not a member", "clean"})
    EXPECT_GT(told[word], static_cast<int64_t>(kPrograms) / 50) << word;
  EXPECT_EQ(told["refused"], 0);
}

}  // namespace
}  // namespace shardproof::testing::cohort_policy_test
