// Implements worker_pool_conformance.h: the main program, which is the coordinator or a worker.
#include <array>
#include <deque>
#include <filesystem>
#include <tuple>

#include "shardproof/backends/remote/process/worker_monitor.h"
#include "shardproof/backends/remote/worker/worker.h"
#include "shardproof/tests/backends/conformance.h"
#include "shardproof/tests/backends/worker_pool_conformance.h"

namespace shardproof {
namespace {

enum Case : int64_t { conformance_suite, repetitions };

std::shared_ptr<Backend> joined;  // the backend, in a worker
int own_process = 0, all_processes = 1;

}  // namespace

std::vector<ConformanceBackend> conformance_backends() {
  if (!joined) return {};
  ConformanceBackend backend;
  backend.name = pool_conformance().name;
  if (pool_conformance().unsupported_reason)
    backend.unsupported_reason = pool_conformance().unsupported_reason;
  backend.reports_records = false;
  backend.start = [](const WorldOptions& options) { return joined->start(options); };
  backend.here = [](int64_t ranks) { return RankBlocks(ranks, all_processes).of(own_process); };
  return {backend};
}

namespace {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);  // this process coordinates

// Starts the worlds that the workers request, until they have finished. Returns an error text.
std::string serve(Coordinator& pool) {
  std::string transport_errors;
  std::vector<std::optional<WorldOptions>> wanted(static_cast<size_t>(pool.processes()));
  int through = 0;
  pool.begin(Case::conformance_suite);
  auto heard = std::chrono::steady_clock::now();
  const auto hear = [&](int process, WireReader& in) {
    heard = std::chrono::steady_clock::now();
    const WorkerMessage kind = static_cast<WorkerMessage>(in.number());
    if (kind == WorkerMessage::case_done) {
      ++through;
      transport_errors += in.text();
    } else if (kind == WorkerMessage::want) {
      wanted[static_cast<size_t>(process)] = read_options(in);
    }
  };
  while (through < pool.processes()) {
    if (pool.find_lost_worker()) return "a process was lost: " + pool.output();
    if (pool.timed_out(heard)) return transport_errors + "nothing comes any more\n" + pool.output();
    pool.listen(std::chrono::milliseconds(20), hear);
    bool all = true;
    for (const auto& options : wanted) all = all && options.has_value();
    if (!all) continue;
    for (const auto& options : wanted)
      if (options->ranks != wanted.front()->ranks)
        return transport_errors + "processes ask for different worlds\n" + pool.output();
    std::unique_ptr<World> world = pool.start(*wanted.front());
    wanted.assign(wanted.size(), std::nullopt);
    while (world->progress()) {
    }
    if (world->close().broken) return "a process was lost: " + pool.output();
  }
  pool.end();
  return transport_errors;
}

// --- repetitions ---------------------------------------------------------------------------------

constexpr int64_t kRepeatedRanks = 8, kRepeatedElements = 5;

// One rank: twice an all_reduce in place, with work that counts between them. The input is
// overwritten, so without restored inputs each repetition would compute another sum.
struct RepeatedRank {
  LocalTensor x;
  int worked = 0;

  RepeatedRank(ExecutionContext& context, int32_t rank) {
    Tensor input =
        Tensor::empty(DType::i64, Dims{kRepeatedElements}, Lanes::one(rank), Slots::shared(1));
    for (int64_t i = 0; i < kRepeatedElements; ++i)
      store_i64(input.mutate() + i * size_of(DType::i64), DType::i64, rank + i);
    x = LocalTensor(input);
    context.provide(x);
    reduce(context, rank);
    Work work;
    work.lanes = Lanes::one(rank);
    work.name = "count";
    work.body = [this] { ++worked; };
    context.launch(std::move(work));
    reduce(context, rank);
    context.finish();
  }
  int64_t wrong() const {
    int64_t wrong = 0;
    for (int64_t i = 0; i < kRepeatedElements; ++i) {
      int64_t sum = 0;
      for (int64_t rank = 0; rank < kRepeatedRanks; ++rank) sum += rank + i;
      if (element_f64(x.blocks()[0].tensor, 0, Dims{i}) !=
          static_cast<double>(sum * kRepeatedRanks))
        ++wrong;
    }
    return wrong;
  }

 private:
  void reduce(ExecutionContext& context, int32_t rank) {
    Call call;
    call.collective.kind = CollectiveKind::all_reduce;
    call.collective.dtype = DType::i64;
    call.collective.count = kRepeatedElements;
    call.collective.group = Group::world(kRepeatedRanks);
    call.lanes = Lanes::one(rank);
    call.input = &x;
    call.output = &x;
    context.submit({&call, 1}, kMainStream);
  }
};

// The coordinator and each worker call it. Returns an error text. The coordinator has no ranks to
// check.
std::string repeat_in_place(Backend& backend, Repetitions::Mode mode) {
  WorldOptions options;
  options.ranks = kRepeatedRanks;
  options.measures = options.repeats = true;
  const std::unique_ptr<World> world = backend.start(options);
  WorldProcesses& processes = *world->processes();
  const Lanes here = processes.local_ranks();
  std::deque<RepeatedRank> ranks;
  for (int64_t i = 0; i < here.size(); ++i)
    ranks.emplace_back(world->open(Lanes::one(here[i])), here[i]);
  while (world->progress()) {
  }
  processes.conclude({});
  int measured = 0;
  Repetitions wanted;
  wanted.warmup = 2;
  wanted.iterations = 3;
  wanted.mode = mode;
  wanted.measured = [&] { ++measured; };
  wanted.count_wrong = [&] {
    int64_t wrong = 0;
    for (const RepeatedRank& rank : ranks) wrong += rank.wrong();
    return wrong;
  };
  std::string errors;
  for (const BenchmarkResult& result : processes.repeat(wanted))
    if (result.wrong != 0 || !(result.seconds > 0))
      errors += fmt::format("{} wrong elements, {} s\n", result.wrong, result.seconds);
  for (const RepeatedRank& rank : ranks)
    if (rank.worked != 1 + 2 + 3 + 1) errors += fmt::format("work ran {} times\n", rank.worked);
  if (!ranks.empty() && measured != (mode == Repetitions::Mode::each ? 3 : 0))
    errors += fmt::format("{} iterations were read\n", measured);
  if (!world->close().findings.empty()) errors += "there are findings\n";
  return errors;
}

std::string repeat_in_each_mode(Backend& backend) {
  return repeat_in_place(backend, Repetitions::Mode::each) +
         repeat_in_place(backend, Repetitions::Mode::back_to_back);
}

// The coordinator as a backend.
class CoordinatorOnly : public Backend {
 public:
  explicit CoordinatorOnly(Coordinator& pool) : pool_(pool) {}
  std::string name() const override { return pool_conformance().name; }
  std::string summary() const override { return ""; }
  std::optional<std::string> not_viable() const override { return std::nullopt; }
  std::optional<std::string> unsupported_reason(const Collective&) const override {
    return std::nullopt;
  }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    return pool_.start(options);
  }

 private:
  Coordinator& pool_;
};

class WorkerPoolConformanceTest : public testing::TestWithParam<int> {};

TEST_P(WorkerPoolConformanceTest, Suite_PassesInEveryProcess) {
  WorkerPoolOptions options;
  options.processes = GetParam();
  options.timeout_seconds = 30;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--join-workers"};
  Coordinator pool(options, pool_conformance().starter(options));
  EXPECT_EQ(serve(pool), "");
}

TEST_P(WorkerPoolConformanceTest, Repetitions_ComputeTheSame_FromRestoredInputs) {
  WorkerPoolOptions options;
  options.processes = GetParam();
  options.timeout_seconds = 30;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--join-workers"};
  Coordinator pool(options, pool_conformance().starter(options));
  pool.begin(Case::repetitions);
  CoordinatorOnly backend(pool);
  EXPECT_EQ(repeat_in_each_mode(backend), "");
  std::string errors;
  int through = 0;
  while (through < pool.processes() && !pool.find_lost_worker())
    pool.listen(std::chrono::milliseconds(20), [&](int, WireReader& in) {
      if (static_cast<WorkerMessage>(in.number()) != WorkerMessage::case_done) return;
      ++through;
      errors += in.text();
    });
  EXPECT_EQ(through, pool.processes()) << pool.output();
  EXPECT_EQ(errors, "");
  pool.end();
}
INSTANTIATE_TEST_SUITE_P(Processes, WorkerPoolConformanceTest,
                         testing::ValuesIn(pool_conformance().processes));

class Failures : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      text += fmt::format("process {}: {}:{}: {}\n", own_process, result.file_name(),
                          result.line_number(), result.message());
  }
  std::string text;
};

int work(const std::string& address) {
  std::tie(own_process, all_processes) = pool_conformance().place();
  fork_monitored_worker(address, own_process);
  WorkerPoolOptions options;
  options.join = address;
  options.process = options.number_on_machine = own_process;
  options.processes = all_processes;
  joined = pool_conformance().join(options);
  std::array<char, 9> name{"workers"};
  std::array<char*, 2> arguments{name.data(), nullptr};
  int count = 1;
  testing::InitGoogleTest(&count, arguments.data());
  testing::GTEST_FLAG(filter) = "Backend/Conformance.*";
  auto* failures = new Failures;
  testing::UnitTest::GetInstance()->listeners().Append(failures);
  while (const std::optional<int64_t> index = joined->pool()->next()) {
    if (*index == Case::repetitions) {
      joined->pool()->done(repeat_in_each_mode(*joined));
      continue;
    }
    const bool good = RUN_ALL_TESTS() == 0;
    const bool some = testing::UnitTest::GetInstance()->successful_test_count() > 10;
    joined->pool()->done(good && some ? "" : "failed\n" + failures->text);
  }
  joined.reset();
  return 0;
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--join-workers") return shardproof::work(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
