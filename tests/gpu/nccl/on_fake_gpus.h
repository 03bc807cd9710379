// Runs the tool on fake GPUs, as a user would.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "shardproof/tests/cli/run_tool.h"

namespace shardproof {

// `environment`: variables that are set before the command.
inline Ran fake_gpu(const std::string& words, const std::string& environment = "") {
  return shell(environment + " '" FAKE_GPU_PROGRAM "' " + words);
}

inline std::vector<std::string> sorted_lines_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace shardproof
