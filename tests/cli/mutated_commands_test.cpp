// Runs mutated command lines of every command. Each must end with exit code 0, 1 or 2, within 10
// seconds of processor time and 2 GB of memory. A refusal must have a message.
//
// The test runs a share. All 500 run by
//
//   SHARDPROOF_COMMAND_LINES=500 build/release/bin/cli_mutations_test
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::mutated_commands_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Command lines with two scenarios, mlp.json and ranks.json, in the folder where they run. None has
// a number that makes its work long if a digit changes.
const std::vector<Words>& sound_lines() {
  static const std::vector<Words> kLines = {
      {"run", "mlp.json"},
      {"run", "mlp.json", "ranks.json", "--json", "r.json", "--junit", "r.xml"},
      {"run", ".", "--filter", "mlp", "--quiet"},
      {"run", "ranks.json", "--schedule", "adversarial", "--seed", "3"},
      {"run", "ranks.json", "--order", "ring(channels=2, protocol=ll)"},
      {"run", "mlp.json", "--backend", "local", "--compare", "outputs", "--jobs", "2"},
      {"run", "mlp.json", "--html", "r.html", "--sarif", "r.sarif", "--annotate", "github"},
      {"run", "mlp.json", "--record", "rec", "--fail-fast"},
      {"run", "mlp.json", "--set", "tokens=7"},
      {"run", "mlp.json", "--device", "host", "--max-ranks", "64"},
      {"show", "mlp.json"},
      {"show", "ranks.json", "--max-bytes", "8GB"},
      {"plan", "8,6", "f32", "--mesh", "dp=2,tp=4", "--from", "dp:S(0)", "--to", "tp:S(1)"},
      {"validate", "mlp.json", "ranks.json"},
      {"list", "ops"},
      {"list", "backends"},
      {"list", "cases", "mlp.json"},
      {"new", "mlp"},
      {"help", "language"},
      {"help", "run"},
      {"completion", "bash"},
  };
  return kLines;
}

const std::vector<std::string>& odd_words() {
  static const std::vector<std::string> kWords = {"",
                                                  "-",
                                                  "--",
                                                  "-1",
                                                  "0",
                                                  "nan",
                                                  "1e400",
                                                  "99999999999999999999",
                                                  "--unknown",
                                                  "--seed",
                                                  "--json",
                                                  "--case=",
                                                  "--set=a=b=c",
                                                  "--processes=99",
                                                  "--backend=nccl",
                                                  "--backend=local,local",
                                                  "mlp.json",
                                                  ".",
                                                  "missing.json",
                                                  "tp:S(99)",
                                                  "\xff\xfe",
                                                  "\xc3\xa9",
                                                  "%s%n",
                                                  std::string(20'000, 'x'),
                                                  "tp=" + std::string(40, '9')};
  return kWords;
}

// Draws numbers from 0 to below `n`.
class Draw {
 public:
  explicit Draw(uint64_t seed) : rng_(seed, hash_text("command lines")) {}
  size_t below(size_t n) {
    return static_cast<size_t>(rng_.integer(next_++, 0, static_cast<int64_t>(n)));
  }

 private:
  Rng rng_;
  uint64_t next_ = 0;
};

void mutate(Words& words, Draw& draw) {
  const size_t at = words.empty() ? 0 : draw.below(words.size());
  const std::string& odd = odd_words()[draw.below(odd_words().size())];
  const auto place = words.begin() + static_cast<std::ptrdiff_t>(at);
  switch (draw.below(7)) {
    case 0:
      if (!words.empty()) words.erase(place);
      break;
    case 1:
      if (!words.empty()) words.insert(place, std::string(words[at]));
      break;
    case 2:
      if (!words.empty()) std::swap(words[at], words[draw.below(words.size())]);
      break;
    case 3:
      if (!words.empty()) words[at] = odd;
      break;
    case 4: words.insert(place, odd); break;
    case 5:  // another character, but no digit
      if (!words.empty() && !words[at].empty())
        words[at][draw.below(words[at].size())] = "!-=,.:()[]{}\"'$\\ \t\n*zA"[draw.below(23)];
      break;
    default:
      if (!words.empty()) words[at] = words[at].substr(0, draw.below(words[at].size() + 1));
      break;
  }
}

// Returns false for --watch, which never ends, and for paths outside of the folder of the test.
bool may_run(const Words& words) {
  for (const std::string& word : words)
    if (word.starts_with("--wat") || word.find("..") != std::string::npos ||
        word.starts_with("/") || word.find("=/") != std::string::npos)
      return false;
  return true;
}

struct Ended {
  int code = -1;          // -1: killed by a signal, or by the time limit
  double seconds = 0;     // of processor time
  int64_t kilobytes = 0;  // largest resident memory
  std::string out;
};

Ended run_tool(const Words& words, const fs::path& folder) {
  constexpr auto kPatience = std::chrono::seconds(120);  // the machine may be busy
  const fs::path log = folder / "out.txt";
  std::vector<char*> arguments{const_cast<char*>(SHARDPROOF_PROGRAM)};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit processor{11, 12};
    ::setrlimit(RLIMIT_CPU, &processor);
    const int in = ::open("/dev/null", O_RDONLY);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(in, 0);
    ::dup2(out, 1);
    ::dup2(out, 2);
    if (::chdir(folder.c_str()) == 0) ::execv(SHARDPROOF_PROGRAM, arguments.data());
    ::_exit(127);
  }
  Ended ended;
  int status = 0;
  rusage used{};
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (::wait4(child, &status, WNOHANG, &used) == 0) {
    if (std::chrono::steady_clock::now() > until) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  ended.seconds = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                  1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  ended.kilobytes = used.ru_maxrss;
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  ended.out = text.str();
  return ended;
}

std::string shown(const Words& words) {
  std::string text;
  for (const std::string& word : words)
    text += " '" + (word.size() > 60 ? word.substr(0, 60) + "..." : word) + "'";
  return text;
}

void prepare(const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const char* kind : {"mlp", "ranks"}) {
    const Ended made = run_tool({"new", kind}, folder);
    ASSERT_EQ(made.code, 0) << made.out;
    std::ofstream(folder / (std::string(kind) + ".json")) << made.out;
  }
}

TEST(MutatedCommands, EndWithAnExitCode_InBoundedTimeAndMemory) {
  const char* const all = std::getenv("SHARDPROOF_COMMAND_LINES");
  const int lines = all != nullptr ? std::atoi(all) : kFewDraws ? 15 : 60;
  const fs::path folder = fs::temp_directory_path() / "shardproof_mutated_commands";
  int refused = 0;
  for (int i = 0; i < lines; ++i) {
    Draw draw(static_cast<uint64_t>(i));
    Words words = sound_lines()[draw.below(sound_lines().size())];
    for (size_t changes = 1 + draw.below(3); changes > 0; --changes) mutate(words, draw);
    if (!may_run(words)) continue;
    prepare(folder);
    SCOPED_TRACE("line " + std::to_string(i) + ": shardproof" + shown(words));
    const Ended ended = run_tool(words, folder);
    EXPECT_TRUE(ended.code == 0 || ended.code == 1 || ended.code == 2) << ended.code << ended.out;
    EXPECT_LT(ended.seconds, 10);
    EXPECT_LT(ended.kilobytes, 2'000'000);
    if (ended.code != 2) continue;
    ++refused;
    EXPECT_GT(ended.out.size(), 10U) << "a refusal has a message";
  }
  EXPECT_GT(refused, lines / 4) << "most mutations are errors";
  fs::remove_all(folder);
}

TEST(MutatedCommands, SoundLines_AreAccepted) {
  const fs::path folder = fs::temp_directory_path() / "shardproof_sound_commands";
  prepare(folder);
  for (const Words& words : sound_lines()) {
    const Ended ended = run_tool(words, folder);
    EXPECT_LT(ended.code, 2) << shown(words) << "\n" << ended.out;
    EXPECT_GE(ended.code, 0) << shown(words);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace shardproof::mutated_commands_test
