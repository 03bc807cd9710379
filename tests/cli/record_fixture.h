// Fixture of tests of recorded runs: a folder with one scenario whose sums depend on their order.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "shardproof/tests/cli/run_tool.h"

namespace shardproof {

namespace fs = std::filesystem;

class RecordRun : public testing::Test {
 protected:
  RecordRun()
      : folder_(fs::path(testing::TempDir()) / ("shardproof_compare_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(path("mlp.json")) << R"json({"version": 1, "mesh": "dp=2, tp=4",
      "topology": "flat(latency='5 us', bandwidth='50 GB/s', compute='989.4 TFLOP/s', memory='3.35 TB/s')",
      "tensors": {
        "x": {"shape": [16, 8], "placements": "dp:S(0)", "fill": "normal(0, 1)"},
        "w1": {"shape": [8, 32], "placements": "tp:S(1)", "fill": "normal(0, 1)"},
        "w2": {"shape": [32, 8], "placements": "tp:S(0)", "fill": "normal(0, 1)"}},
      "program": ["h = gelu(x @ w1)", "y = redistribute(h @ w2, tp:R)", "s = y > 0"]})json";
  }
  ~RecordRun() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Returns the run folder of a record with one run.
  fs::path run_folder(const std::string& record) const {
    for (const fs::directory_entry& entry : fs::directory_iterator(path(record)))
      if (entry.is_directory()) return entry.path();
    return {};
  }
  void record(const std::string& name, const std::string& words = "") const {
    const Ran ran = tool("run " + path("mlp.json") + " --record " + path(name) + " " + words);
    EXPECT_EQ(ran.code, 0) << ran.out;
  }
  static void expect_refused(const Ran& ran, const std::string& message) {
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_NE(ran.out.find(message), std::string::npos) << ran.out;
    EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
  }
  fs::path folder_;
};

}  // namespace shardproof
