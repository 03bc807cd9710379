#include <array>
#include <filesystem>
#include <tuple>

#include "shardproof/backends/remote/process/worker_monitor.h"
#include "shardproof/backends/remote/worker/worker.h"
#include "shardproof/tests/backends/conformance.h"
#include "shardproof/tests/backends/worker_pool_conformance.h"

namespace shardproof {
namespace {

std::shared_ptr<Launcher> joined;  // in a worker
int own_process = 0, all_processes = 1;

}  // namespace

std::vector<ConformanceBackend> conformance_backends() {
  if (!joined) return {};
  ConformanceBackend backend;
  backend.name = crew_conformance().name;
  if (crew_conformance().refuses) backend.refuses = crew_conformance().refuses;
  backend.reports_records = false;
  backend.start = [](const WorldOptions& options) { return joined->start(options); };
  backend.here = [](int64_t ranks) { return RankBlocks(ranks, all_processes).of(own_process); };
  return {backend};
}

namespace {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);  // this process coordinates

// The worlds that the workers ask for, until they are through.
std::string serve(Coordinator& crew) {
  std::string troubles;
  std::vector<std::optional<WorldOptions>> wanted(static_cast<size_t>(crew.processes()));
  int through = 0;
  crew.begin(0);
  auto heard = std::chrono::steady_clock::now();
  const auto hear = [&](int process, WireReader& in) {
    heard = std::chrono::steady_clock::now();
    const Announce kind = static_cast<Announce>(in.number());
    if (kind == Announce::case_done) {
      ++through;
      troubles += in.text();
    } else if (kind == Announce::want) {
      wanted[static_cast<size_t>(process)] = read_options(in);
    }
  };
  while (through < crew.processes()) {
    if (crew.find_loss()) return "a process was lost: " + crew.output();
    if (crew.waits_too_long(heard)) return troubles + "nothing comes any more\n" + crew.output();
    crew.listen(std::chrono::milliseconds(20), hear);
    bool all = true;
    for (const auto& options : wanted) all = all && options.has_value();
    if (!all) continue;
    for (const auto& options : wanted)
      if (options->ranks != wanted.front()->ranks)
        return troubles + "processes ask for different worlds\n" + crew.output();
    std::unique_ptr<World> world = crew.start(*wanted.front());
    wanted.assign(wanted.size(), std::nullopt);
    while (world->progress()) {
    }
    if (world->close().broken) return "a process was lost: " + crew.output();
  }
  crew.end();
  return troubles;
}

class CrewConformanceTest : public testing::TestWithParam<int> {};

TEST_P(CrewConformanceTest, the_suite_holds_in_every_process) {
  CrewOptions options;
  options.processes = GetParam();
  options.timeout_seconds = 30;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--join-crew"};
  Coordinator crew(options, crew_conformance().starter(options));
  EXPECT_EQ(serve(crew), "");
}
INSTANTIATE_TEST_SUITE_P(Processes, CrewConformanceTest,
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
  keep_worker(address, own_process);
  CrewOptions options;
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
  while (joined->crew()->next()) {
    const bool good = RUN_ALL_TESTS() == 0;
    const bool some = testing::UnitTest::GetInstance()->successful_test_count() > 10;
    joined->crew()->done(good && some ? "" : "failed\n" + failures->text);
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
