// Tests runs whose processes were started by mpirun, by srun or by hand. Each test runs the binary.
// A script below mpirun imitates the other launchers, because MPI must know its processes.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "shardproof/tests/cli/run_tool.h"
#include "shardproof/tests/cli/running_workers.h"

namespace shardproof::join_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMpirun = "mpirun --allow-run-as-root --oversubscribe -q -n ";
constexpr const char* kClean =
    R"json({"version": 1, "mesh": "tp=4", "tensors": {"x": {"shape": [8]}},
  "ranks": {"all": ["y = all_reduce(x, sum)"]}})json";
constexpr const char* kMismatch = R"json({"version": 1, "mesh": "tp=4",
  "tensors": {"x": {"shape": [8]}},
  "ranks": {"0": ["y = all_reduce(x, sum)"], "rest": ["y = all_reduce(x, max)"]}})json";
// Sets R to the number of the process and N to their count, and removes the variables of mpirun.
constexpr const char* kScript = R"(R=$OMPI_COMM_WORLD_RANK N=$OMPI_COMM_WORLD_SIZE
unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK
)";

size_t count_of(const std::string& text, const std::string& words) {
  size_t count = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
    ++count;
  return count;
}

class Join : public testing::Test {
 protected:
  Join() : clean_(folder_.write("clean.json", kClean)) {}
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  static Ran mpirun(int processes, const std::string& words) {
    return shell(kMpirun + std::to_string(processes) + " '" SHARDPROOF_PROGRAM "' " + words +
                 " </dev/null");
  }
  // Starts three processes, each by a shell line.
  Ran played(const std::string& line, const std::string& more = "") const {
    const std::string script = folder_.write("script.sh", kScript + line + "\n");
    return shell(std::string(kMpirun) + "3 sh '" + script + "' '" SHARDPROOF_PROGRAM "' run " +
                 clean_ + " --backend mpi " + more + " </dev/null");
  }
  static void expect_clean(const Ran& ran) {
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_EQ(count_of(ran.out, "0 unexpected results"), 1u) << ran.out;
    EXPECT_EQ(count_of(ran.out, "\033"), 0u) << ran.out;  // a colour
  }
  static void expect_refused(const Ran& ran, const std::string& message) {
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_EQ(count_of(ran.out, message), 1u) << message << "\n" << ran.out;
  }
  ScenarioFolder folder_;
  std::string clean_;
};

TEST_F(Join, ProcessesOfMpirun_BecomeTheWorkers) {
  for (const int processes : {1, 2, 4})  // 1: starts others itself
    expect_clean(mpirun(processes, "run " + clean_ + " --backend mpi"));
  EXPECT_EQ(mpirun(6, "run " + clean_ + " --backend mpi").code, 2);  // more than ranks
  const std::string report = path("report.json");
  expect_clean(mpirun(3, "run scenarios/corpus/collectives --backend mpi --json " + report));
  const std::string simulated = path("simulated.json");
  EXPECT_EQ(tool("run scenarios/corpus/collectives --json " + simulated).code, 0);
  EXPECT_EQ(report_without_backend(report), report_without_backend(simulated));
}

TEST_F(Join, Verdict_IsPrintedByOneProcess) {
  const Ran ran = mpirun(4, "run " + folder_.write("mismatch.json", kMismatch) + " --backend mpi");
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_EQ(count_of(ran.out, "mismatch in group world"), 1u) << ran.out;
}

TEST_F(Join, Error_IsPrintedByOneProcess) {
  const std::string bad = folder_.write("bad.json", "{");
  expect_refused(mpirun(4, "run " + bad + " --backend mpi"), "bad.json:1:2: /: ");
  const std::string run = "run " + clean_ + " --backend mpi ";
  expect_refused(mpirun(3, run + "--processes 2"), "--processes 2, but mpirun started 3");
  expect_refused(mpirun(3, run + "--json /dev/null/x"), "/dev/null/x: cannot be written");
  expect_refused(mpirun(2, run + "--hosts x"), "--hosts: the processes of this run");
}

TEST_F(Join, Bench_MeasuresJoinedProcesses) {
  const Ran ran = mpirun(3, "bench --backend mpi -b 8 -e 64 -f 8");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(count_of(ran.out, "3 ranks in 3 processes"), 1u) << ran.out;
}

TEST_F(Join, ProcessesOfSrun_MeetByTheirJob) {
  const std::string srun =
      "SLURM_PROCID=$R SLURM_NTASKS=$N SLURM_LOCALID=$R SLURM_JOB_ID=" + std::to_string(getpid()) +
      " SLURM_STEP_ID=3 SLURM_STEP_NUM_NODES=";
  expect_clean(played(srun + "1 exec \"$@\""));
  expect_clean(played(srun + "1 exec env PATH=/nowhere \"$@\""));  // an mpirun is not needed
  expect_refused(played(srun + "2 exec \"$@\""), "srun started 3 processes");
  expect_clean(played(srun + "2 exec \"$@\"", "--rendezvous file:" + path("meet")));
}

TEST_F(Join, RendezvousFile_IsUsedAndRemoved) {
  const std::string exec = "exec \"$@\" --process $R --processes $N";
  const std::string meet = "--rendezvous file:" + path("meet");
  expect_clean(played(exec, meet));
  EXPECT_FALSE(fs::exists(path("meet")));
  // A rendezvous file of a run that was killed while it waited.
  folder_.write("meet", "shardproof rendezvous 1\ntcp:127.0.0.1:1:" + std::string(32, '0') + "\n");
  expect_clean(played(exec, meet));
  EXPECT_FALSE(fs::exists(path("meet")));
  folder_.write("meet", "something of somebody");
  expect_refused(played(exec, meet), "not a rendezvous file of shardproof");
  EXPECT_EQ(read_whole(path("meet")), "something of somebody");
  expect_refused(played(exec, "--rendezvous file:/dev/null/meet"), "/dev/null/meet: cannot be");
}

// Returns a listening socket at a port outside the ephemeral range. Another process could get an
// ephemeral port as soon as the socket is closed.
std::pair<int, std::string> listening_at_a_port() {
  for (int port = 20000 + getpid() % 10000; port < 32768; ++port) {
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
        listen(listening, 1) == 0)
      return {listening, std::to_string(port)};
    close(listening);
  }
  return {-1, ""};
}

TEST_F(Join, RendezvousPort_IsUsed) {
  const auto [other, port] = listening_at_a_port();
  ASSERT_GE(other, 0);
  const std::string exec = "exec \"$@\" --process $R --processes $N",
                    meet = "--rendezvous tcp:127.0.0.1:" + port;
  expect_refused(played(exec, meet), " is in use: Address already in use");
  close(other);
  expect_clean(played(exec, meet));
}

TEST_F(Join, DifferentOptions_AreRefused) {
  const std::string numbered = "exec \"$@\" --process $R --processes $N ";
  const std::string meet = "--rendezvous file:" + path("meet");
  const Ran seeds = played(numbered + "--seed $((R / 2 * 7))", meet);
  expect_refused(seeds, "process 2 runs with --seed 7, process 0 with --seed 0");
  const std::string other = path("other");
  fs::create_directories(other);
  std::ofstream(other + "/clean.json") << kMismatch;
  const Ran files =
      played("[ $R = 2 ] && exec '" SHARDPROOF_PROGRAM "' run " + other +
                 "/clean.json --backend mpi " + meet + " --process 2 --processes 3\n" + numbered,
             meet);
  expect_refused(files, "process 2 reads a different clean.json than process 0");
  const Ran twice = played("[ $R = 2 ] && R=1\n" + numbered, meet);
  expect_refused(twice, "two processes connected as number 1");
  const Ran broken = played("[ $R = 2 ] && set -- '" SHARDPROOF_PROGRAM "' run " + path("none") +
                                " --backend mpi " + meet + "\n" + numbered,
                            meet);
  expect_refused(broken, "process 2: " + path("none") + ": no such file or folder");
}

TEST_F(Join, UselessOptions_AreRefused) {
  const std::string run = "run " + clean_ + " --backend mpi ";
  expect_refused(tool(run + "--rendezvous tcp:here"), "expected file:PATH or tcp:HOST:PORT");
  expect_refused(tool(run + "--rendezvous tcp:here:70000"), "expected file:PATH or tcp:HOST:PORT");
  expect_refused(tool(run + "--rendezvous file:x"),
                 "--rendezvous needs --process I and --processes N");
  expect_refused(tool(run + "--process 1 --processes 2"),
                 "--process needs --rendezvous file:PATH or tcp:HOST:PORT");
  expect_refused(tool(run + "--rendezvous file:x --process 2 --processes 2"), "expected 0 to 1");
  expect_refused(tool("run " + clean_ + " --rendezvous file:x"),
                 "--rendezvous needs a backend of several processes");
}

// Kills the worker, not its monitor. The verdict states the signal.
TEST_F(Join, KilledProcess_IsAMissingRank_AndNoProcessIsLeft) {
  const std::string endless = folder_.endless();
  for (const char* process : {"0", "2"}) {
    std::string out;
    std::thread run([&] {
      const Ran ran = mpirun(3, "run " + endless + " --backend mpi --timeout 20s");
      EXPECT_EQ(ran.code, 1) << ran.out;
      out = ran.out;
    });
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::vector<pid_t> workers;
    while (workers.size() < 3 && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      workers = mpi_processes_of(endless);
    }
    wait_for_work(workers, 0.5);
    const std::string number = std::string("OMPI_COMM_WORLD_RANK=") + process + '\0';
    for (const pid_t pid : workers) {
      const fs::path own = fs::path("/proc") / std::to_string(pid);
      if (read_whole(own / "environ").find(number) == std::string::npos) continue;
      EXPECT_EQ(kill(pid, SIGKILL), 0);
    }
    run.join();
    EXPECT_EQ(count_of(out, "missing rank"), 1u) << out;
    EXPECT_NE(out.find("was killed by signal 9 (SIGKILL)"), std::string::npos) << out;
    EXPECT_TRUE(mpi_processes_of(endless).empty());
  }
}

// Processes leave MPI together with mpirun. Killing them earlier would fail a clean run.
TEST_F(Join, MpirunStoppedAtTheEnd_DoesNotFailTheRun) {
  const std::string file = folder_.write("long.json", R"json({"version": 1, "mesh": "tp=3",
    "tensors": {"x": {"shape": [256, 256]}},
    "ranks": {"all": ["h = x", "for i in range(0, 8000):", "  h = all_reduce(h, max)"]}})json");
  Ran ran;
  std::thread run([&] {
    ran = shell(kMpirun + std::string("3 '" SHARDPROOF_PROGRAM "' run ") + file +
                " --backend mpi --json " + path("report.json") + " </dev/null & echo $! >" +
                path("pid") + "; wait $!");
  });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (mpi_processes_of(file).size() < 3 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  wait_for_work(mpi_processes_of(file), 0.4);
  const pid_t mpirun = std::atoi(read_whole(path("pid")).c_str());
  EXPECT_GT(mpirun, 0);
  if (mpirun > 0) kill(mpirun, SIGSTOP);
  while (read_whole(path("report.json")).empty() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::this_thread::sleep_for(std::chrono::seconds(7));
  if (mpirun > 0) kill(mpirun, SIGCONT);
  run.join();
  expect_clean(ran);
}

// A process that never joins gives no verdict about the program.
TEST_F(Join, ProcessStoppedBeforeJoining_IsNamed) {
  const std::string script =
      folder_.write("late.sh", "[ $OMPI_COMM_WORLD_RANK = 2 ] && kill -STOP $$\nexec \"$@\"\n");
  const Ran ran =
      shell(std::string(kMpirun) + "3 sh '" + script + "' '" SHARDPROOF_PROGRAM "' run " + clean_ +
            " --backend mpi --timeout 1s </dev/null");
  expect_refused(ran, "process 2 could not be started: it is stopped (silent for 1 s)");
}

TEST_F(Join, KilledMpirun_EndsAllProcesses) {
  const std::string endless = folder_.endless();
  const std::string own = "--mca btl_vader_backing_directory " + folder_.path().string() +
                          " --mca orte_tmpdir_base " +
                          folder_.path().string();  // files that a killed mpirun leaves
  std::thread run([&] {
    shell(kMpirun + ("3 " + own + " '" SHARDPROOF_PROGRAM "' run ") + endless +
          " --backend mpi </dev/null & echo $! >" + path("pid") + "; wait $!");
  });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (mpi_processes_of(endless).size() < 3 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  wait_for_work(mpi_processes_of(endless), 0.4);
  const pid_t mpirun = std::atoi(read_whole(path("pid")).c_str());
  EXPECT_GT(mpirun, 0);
  if (mpirun > 0) kill(mpirun, SIGKILL);
  const auto began = std::chrono::steady_clock::now();
  while (any_process_of(endless) && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  run.join();
}

}  // namespace
}  // namespace shardproof::join_test
