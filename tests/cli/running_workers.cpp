#include "shardproof/tests/cli/running_workers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "shardproof/tests/few_draws.h"

namespace shardproof {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string read_whole(const fs::path& path) {
  std::string text;
  FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return text;
  std::array<char, 4096> chunk;
  while (const size_t n = std::fread(chunk.data(), 1, chunk.size(), file))
    text.append(chunk.data(), n);
  std::fclose(file);
  return text;
}

namespace {

// Waits until a condition holds; a busy machine may need long.
constexpr std::chrono::seconds kPatience{60};

// Returns the processes, without zombies, whose command line contains the text.
std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (fs::directory_iterator at("/proc", ignored), end; at != end; at.increment(ignored)) {
    const pid_t pid = std::atoi(at->path().filename().c_str());
    if (pid > 0 && pid != getpid() &&
        read_whole(at->path() / "cmdline").find(text) != std::string::npos)
      found.push_back(pid);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

// Processes that have joined MPI have its threads.
std::vector<pid_t> mpi_processes_of(const std::string& file) {
  std::vector<pid_t> found;
  for (const pid_t pid : processes_with(file)) {
    const fs::path own = fs::path("/proc") / std::to_string(pid);
    std::error_code gone;
    const auto tasks = std::distance(fs::directory_iterator(own / "task", gone), {});
    if (read_whole(own / "cmdline").find("mpirun") != 0 && tasks > 2) found.push_back(pid);
  }
  return found;
}

bool any_process_of(const std::string& file) { return !processes_with(file).empty(); }

namespace {

// Sums fields 14 and 15 of /proc/PID/stat: ticks of user and system time.
double cpu_seconds_of(pid_t pid) {
  const std::string stat = read_whole(fs::path("/proc") / std::to_string(pid) / "stat");
  std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

void wait_for_work(const std::vector<pid_t>& processes, double cpu_seconds) {
  const auto limit = Clock::now() + kPatience;
  for (const pid_t pid : processes)
    while (cpu_seconds_of(pid) < cpu_seconds && Clock::now() < limit)
      std::this_thread::sleep_for(milliseconds(5));
}

Running::Running(const char* program, const char* backend, const std::string& file,
                 const std::string& out, const char* timeout, const std::vector<std::string>& more)
    : file_(file), out_(out) {
  std::vector<std::string> words{program,       "run", file,        "--backend", backend,
                                 "--processes", "3",   "--timeout", timeout};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  // A shell may have set the signal to be ignored for background processes.
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
  setenv("TMPDIR", fs::path(out).parent_path().c_str(), 1);
  if (freopen(out_.c_str(), "w", stdout) == nullptr || dup2(1, 2) < 0) _exit(9);
  execv(program, arguments.data());
  _exit(9);
}

std::vector<pid_t> Running::processes() const {
  std::vector<pid_t> found;
  for (const pid_t pid : processes_with("--join-workers")) {
    const std::string words = read_whole(fs::path("/proc") / std::to_string(pid) / "cmdline");
    if (words.find(file_) != std::string::npos && words.find("mpirun") != 0) found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> Running::wait_for_processes() const {
  const auto limit = Clock::now() + kPatience;
  std::vector<pid_t> found = processes();
  for (; found.size() < 6 && Clock::now() < limit; found = processes())
    std::this_thread::sleep_for(milliseconds(5));
  return found;
}

std::vector<pid_t> Running::workers() const {
  const std::vector<pid_t> pool = processes();
  std::vector<pid_t> found;
  for (const pid_t pid : pool) {
    const std::string stat = read_whole(fs::path("/proc") / std::to_string(pid) / "stat");
    const pid_t parent = std::atoi(stat.c_str() + stat.rfind(')') + 4);
    if (std::find(pool.begin(), pool.end(), parent) != pool.end()) found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> Running::helpers() const {
  std::vector<pid_t> found;
  for (const pid_t pid : processes_with(file_)) {
    const std::string words = read_whole(fs::path("/proc") / std::to_string(pid) / "cmdline");
    if (pid != pid_ && words.find("--join-workers") == std::string::npos) found.push_back(pid);
  }
  return found;
}

std::set<std::string> Running::wait_for_shared_memory() const {
  const auto limit = Clock::now() + kPatience;
  std::set<std::string> found;
  while (found.empty() && Clock::now() < limit) {
    std::this_thread::sleep_for(milliseconds(20));
    for (const pid_t pid : processes()) {
      std::istringstream maps(read_whole(fs::path("/proc") / std::to_string(pid) / "maps"));
      for (std::string line; std::getline(maps, line);)
        if (const size_t at = line.find("/dev/shm/"); at != std::string::npos)
          found.insert(line.substr(at));
    }
  }
  return found;
}

int Running::code() {
  const auto limit = Clock::now() + 2 * kPatience;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) != pid_) {
    if (Clock::now() > limit) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      return -2;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool Running::all_have_exited() const {
  const auto limit = Clock::now() + kPatience;
  while (!processes_with(file_).empty() && Clock::now() < limit)
    std::this_thread::sleep_for(milliseconds(5));
  return processes_with(file_).empty();
}

namespace {

int next() {
  static std::atomic<int> folders{0};
  return ++folders;
}

}  // namespace

ScenarioFolder::ScenarioFolder()
    : path_(fs::path(testing::TempDir()) /
            ("shardproof_workers_" + std::to_string(getpid()) + "_" + std::to_string(next()))) {
  fs::remove_all(path_);
  fs::create_directories(path_);
}

// A helper process removes the temporary files of a killed run half a second later. So a listed
// file may be gone when it is read.
ScenarioFolder::~ScenarioFolder() {
  const auto limit = Clock::now() + kPatience;
  std::error_code failed;
  while (fs::remove_all(path_, failed), fs::exists(path_) && Clock::now() < limit)
    std::this_thread::sleep_for(milliseconds(20));
}

std::string ScenarioFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
  return (path_ / name).string();
}

std::string ScenarioFolder::copy_without_counts(const std::string& folders) const {
  std::istringstream words(folders);
  std::string copies;
  for (std::string folder; words >> folder; copies += " ") {
    const fs::path copy = path_ / folder;
    fs::create_directories(copy);
    fs::copy(fs::path(SHARDPROOF_SOURCE_DIR) / folder, copy, fs::copy_options::recursive);
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(copy)) {
      if (!entry.is_regular_file()) continue;
      std::string text = read_whole(entry.path());
      size_t at = 0;
      while ((at = text.find("\"findings\": ")) != std::string::npos) {
        const size_t comma = text.find_last_of(',', at), end = text.find_first_of(",}\n", at);
        text.erase(comma, end - comma);
      }
      std::ofstream(entry.path(), std::ios::binary) << text;
    }
    copies += copy.string();
  }
  return copies;
}

std::string ScenarioFolder::endless() const {
  return write("endless.json", R"json({"version": 1, "mesh": "tp=6",
      "tensors": {"x": {"shape": [512, 512]}},
      "ranks": {"all": ["h = x", "for i in range(0, 8000):", "  h = all_reduce(h, max)"]}})json");
}

std::string ScenarioFolder::repeated() const {
  return write("repeated.json", R"json({"version": 1, "mesh": "tp=6",
      "tensors": {"x": {"shape": [64, 64]}},
      "ranks": {"all": ["h = x", "for i in range(0, 20):", "  h = all_reduce(h, max)",
        "y = h @ x"]}})json");
}

namespace {

void fail_one_worker(const WorkerFailure& failure, int seed) {
  const ScenarioFolder folder;
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  std::vector<std::string> options = failure.options;
  if (failure.in_repetitions) options.insert(options.end(), {"--iters", "1000000"});
  const std::string file = failure.in_repetitions ? folder.repeated() : folder.endless();
  Running run(failure.program, failure.backend, file, (folder.path() / "out.txt").string(),
              failure.timeout, options);
  const std::vector<pid_t> pool = run.wait_for_processes();
  ASSERT_EQ(pool.size(), 6u) << run.text();
  const std::vector<pid_t> workers = run.workers();
  // Waits until all workers have joined the call, because an earlier exit is no finding.
  // Repetitions begin after two runs with the coordinator.
  wait_for_work(workers, failure.in_repetitions ? 1.0 : 0.3);
  std::this_thread::sleep_for(milliseconds(random() % 500));
  ASSERT_EQ(workers.size(), 3u) << "seed " << seed << "\n" << run.text();
  ASSERT_EQ(kill(workers[random() % 3], failure.signal), 0) << "seed " << seed << "\n"
                                                            << run.text();
  EXPECT_EQ(run.code(), 1) << "seed " << seed << "\n" << run.text();
  EXPECT_NE(run.text().find("missing rank"), std::string::npos) << run.text();
  EXPECT_NE(run.text().find(failure.word), std::string::npos) << run.text();
  // All calls come from one program line. The missing call is the one in which the process last
  // reported progress. If that was between calls, it is the next one.
  const std::string text = run.text();
  const auto number_behind = [&](const std::string& words, size_t from) {
    const size_t at = text.find(words, from);
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + words.size());
  };
  const size_t seen = text.find("last seen ");
  if (failure.in_repetitions) {
    EXPECT_NE(text.find(" of its calls", seen), std::string::npos) << text;
  }
  if (seen != std::string::npos && text.find("(line 3", seen) != std::string::npos) {
    EXPECT_EQ(number_behind("never make call ", 0) + number_behind("never makes call ", 0),
              number_behind(", call ", seen))
        << text;
  }
  EXPECT_TRUE(run.all_have_exited()) << "seed " << seed;
  std::istringstream lines(text);
  std::multiset<std::string> waiting;
  for (std::string line; std::getline(lines, line);)
    if (line.find(" waits for ") != std::string::npos) waiting.insert(line);
  for (const std::string& line : waiting) EXPECT_EQ(waiting.count(line), 1u) << text;
}

}  // namespace

void fail_one_worker_in_each(const WorkerFailure& failure, int runs) {
  if (kFewDraws) runs = 1;
  const auto every_second = [&](int first) {
    for (int seed = first; seed < runs; seed += 2) fail_one_worker(failure, seed);
  };
  std::thread other(every_second, 1);
  every_second(0);
  other.join();
}

}  // namespace shardproof
