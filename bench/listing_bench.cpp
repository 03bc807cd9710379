// Four all-reduces of one f32 in a rank listing, data and virtual time on a flat machine: the whole
// process `shardproof run file.json`, from its start to its end.
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>

#include "shardproof/bench/measure.h"
#include "shardproof/localtensor/error.h"

extern char** environ;

namespace {

using namespace shardproof;
using namespace shardproof::bench;

void run_file(const std::string& path) {
  std::string tool = SHARDPROOF_TOOL, verb = "run", file = path;
  char* words[] = {tool.data(), verb.data(), file.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1 /* O_WRONLY */, 0);
  pid_t child = 0;
  SP_CHECK(posix_spawn(&child, tool.c_str(), &actions, nullptr, words, environ) == 0,
           "cannot start {}", tool);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  waitpid(child, &status, 0);
  SP_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "{} {} failed", tool, path);
}

std::string write_scenario(int64_t ranks) {
  const std::string path = fmt::format("{}/listing_{}.json", SHARDPROOF_BENCH_FOLDER, ranks);
  std::ofstream(path) << fmt::format(
      R"json({{"version": 1, "mesh": "dp={0}",
 "topology": "flat(latency='5 us', bandwidth='50 GB/s')",
 "tensors": {{"x": {{"shape": [{0}], "placements": "dp:S(0)"}}}},
 "ranks": {{"all": ["a = all_reduce(x, sum)", "b = all_reduce(a, sum)",
                   "c = all_reduce(b, sum)", "d = all_reduce(c, sum)"]}}}})json",
      ranks);
  return path;
}

void print_listing(int64_t ranks, double target) {
  const std::string one = write_scenario(1), many = write_scenario(ranks);
  const std::vector<double> s = race({{[&] { run_file(one); }, 5, RUSAGE_CHILDREN},
                                      {[&] { run_file(many); }, 3, RUSAGE_CHILDREN}});
  print({fmt::format("4 all_reduce, listing, {} ranks, whole process", ranks), milliseconds(s[1]),
         "the same on 1 rank: " + milliseconds(s[0]), fmt::format("{:.1f}", s[1] / s[0]),
         milliseconds(target)});
}

}  // namespace

int main() {
  print_head();
  print_listing(4096, 0.03);
  print_listing(16384, 0.05);
  print_listing(65536, 0.15);
}
