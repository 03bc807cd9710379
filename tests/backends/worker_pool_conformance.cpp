// Implements worker_pool_conformance.h: the main program, which is the coordinator or a worker.
#include <array>
#include <filesystem>
#include <tuple>

#include "shardproof/backends/remote/process/worker_monitor.h"
#include "shardproof/backends/remote/worker/worker.h"
#include "shardproof/tests/backends/conformance.h"
#include "shardproof/tests/backends/worker_pool_conformance.h"

namespace shardproof {
namespace {

std::shared_ptr<Backend> joined;  // the backend, in a worker
int own_process = 0, all_processes = 1;

}  // namespace

std::vector<ConformanceBackend> conformance_backends() {
  if (!joined) return {};
  ConformanceBackend backend;
  backend.name = crew_conformance().name;
  if (crew_conformance().unsupported_reason)
    backend.unsupported_reason = crew_conformance().unsupported_reason;
  backend.reports_records = false;
  backend.start = [](const WorldOptions& options) { return joined->start(options); };
  backend.here = [](int64_t ranks) { return RankBlocks(ranks, all_processes).of(own_process); };
  return {backend};
}

namespace {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);  // this process coordinates

// Starts the worlds that the workers want, until they have finished. Returns an error text.
std::string serve(Coordinator& pool) {
  std::string transport_errors;
  std::vector<std::optional<WorldOptions>> wanted(static_cast<size_t>(pool.processes()));
  int through = 0;
  pool.begin(0);
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

class WorkerPoolConformanceTest : public testing::TestWithParam<int> {};

TEST_P(WorkerPoolConformanceTest, Suite_PassesInEveryProcess) {
  WorkerPoolOptions options;
  options.processes = GetParam();
  options.timeout_seconds = 30;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--join-crew"};
  Coordinator pool(options, crew_conformance().starter(options));
  EXPECT_EQ(serve(pool), "");
}
INSTANTIATE_TEST_SUITE_P(Processes, WorkerPoolConformanceTest,
                         testing::ValuesIn(crew_conformance().processes));

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
  std::tie(own_process, all_processes) = crew_conformance().place();
  fork_monitored_worker(address, own_process);
  WorkerPoolOptions options;
  options.join = address;
  options.process = options.number_here = own_process;
  options.processes = all_processes;
  joined = crew_conformance().join(options);
  std::array<char, 9> name{"workers"};
  std::array<char*, 2> arguments{name.data(), nullptr};
  int count = 1;
  testing::InitGoogleTest(&count, arguments.data());
  testing::GTEST_FLAG(filter) = "Backend/Conformance.*";
  auto* failures = new Failures;
  testing::UnitTest::GetInstance()->listeners().Append(failures);
  while (joined->pool()->next()) {
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
  if (argc == 3 && std::string(argv[1]) == "--join-crew") return shardproof::work(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
