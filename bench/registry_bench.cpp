// Measures the check of all rules and gradients of the registry: whole processes of `shardproof
// check-ops` on two threads. It takes minutes, so each row is measured once. The target is that of
// all four on two idle cores; the short forms have the meshes 2, 3 and 2x2 alone.
#include <chrono>

#include "shardproof/bench/measure.h"

namespace {

using namespace shardproof::bench;

void print_check(const char* work, std::vector<std::string> options, const char* target) {
  std::vector<std::string> words{SHARDPROOF_TOOL, "check-ops", "--jobs", "2"};
  words.insert(words.end(), options.begin(), options.end());
  const auto start = std::chrono::steady_clock::now();
  const double processor = seconds_of([&] { run_child(words); }, RUSAGE_CHILDREN);
  const double wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print({work, fmt::format("{:.1f} s", wall), fmt::format("processor: {:.1f} s", processor),
         fmt::format("{:.2f}", wall / processor), target});
}

}  // namespace

int main() {
  print_head();
  print_check("check-ops --short", {"--short"}, "120 s with the next row");
  print_check("check-ops --short --backward", {"--short", "--backward"}, "");
  print_check("check-ops: all sizes and meshes", {}, "");
  print_check("check-ops --backward: all sizes", {"--backward"}, "");
}
