// Runs shell commands and the program under test.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "shardproof/tests/few_draws.h"

namespace shardproof {

// The scenarios that tests of several processes run: with few draws, one folder of the corpus.
inline constexpr const char* kCorpus =
    kFewDraws ? "scenarios/corpus/collectives" : "scenarios/corpus";
// The corpus without corpus/bugs: each other file has a call, an op or a fault of its own. The many
// bugs differ in their judgement, which no layout of processes changes.
inline constexpr const char* kCorpusWithoutBugs =
    kFewDraws ? "scenarios/corpus/collectives"
              : "scenarios/corpus/collectives scenarios/corpus/faults scenarios/corpus/gradients "
                "scenarios/corpus/layers scenarios/corpus/redistribute";

struct Ran {
  int code = -1;
  std::string out;  // both streams
};

// Runs in the source tree, so that messages have the file names of a user's run.
inline Ran shell(const std::string& command) {
  Ran ran;
  const std::string line =
      "cd '" + std::string(SHARDPROOF_SOURCE_DIR) + "' && { " + command + "; } 2>&1";
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> chunk;
  while (const size_t n = std::fread(chunk.data(), 1, chunk.size(), pipe))
    ran.out.append(chunk.data(), n);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}
inline Ran tool(const std::string& words) { return shell("'" SHARDPROOF_PROGRAM "' " + words); }

// Returns a JSON report without names of the backend, its processes, its notes and the repeat
// command.
inline std::string report_without_backend(const std::string& path) {
  std::string text, line;
  std::ifstream in(path);
  while (std::getline(in, line)) {
    if (line.find("\"notes\": [") != std::string::npos) {
      while (std::getline(in, line) && line.find(']') == std::string::npos) {
      }
      continue;
    }
    if (line.find("\"repeat\"") == std::string::npos &&
        line.find("\"backend\"") == std::string::npos &&
        line.find("\"processes\"") == std::string::npos)
      text += line + "\n";
  }
  return text;
}

}  // namespace shardproof
