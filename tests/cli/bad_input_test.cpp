// Broken scenario files and command lines, as newcomers write them, and the messages they get.
//
// bad_files.txt has one file a line. "global PATCH" and "ranks PATCH" change a correct scenario by
// a JSON merge patch (RFC 7386); "text TEXT" is the whole file. bad_commands.txt has one command a
// line. The messages are approved texts. Every one has exit code 2, at most six lines, and a
// message of a file begins with its place.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shardproof/tests/approval.h"
#include "shardproof/tests/cli/run_tool.h"

namespace shardproof::bad_input_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const char kGlobal[] = R"json({
  "version": 1,
  "mesh": "dp=2, tp=4",
  "tensors": {
    "x": {"shape": [16, 8], "placements": "dp:S(0)"},
    "w1": {"shape": [8, 32], "placements": "tp:S(1)"},
    "w2": {"shape": [32, 8], "placements": "tp:S(0)"},
    "b": {"shape": [8]}
  },
  "program": ["h = gelu(x @ w1)", "y = redistribute(h @ w2, tp:R)"]
})json";
const char kRanks[] = R"json({
  "version": 1,
  "mesh": "tp=4",
  "tensors": {"x": {"shape": [8, 4], "placements": "tp:S(0)"}},
  "ranks": {"all": ["y = all_reduce(x, sum, group=tp)"]}
})json";

std::vector<std::string> lines_of(const std::string& name) {
  std::vector<std::string> lines;
  std::ifstream in(fs::path(SHARDPROOF_SOURCE_DIR) / "tests/cli" / name);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class BadInput : public testing::Test {
 protected:
  BadInput()
      : folder_(fs::path(testing::TempDir()) / ("shardproof_bad_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~BadInput() override { fs::remove_all(folder_); }
  void write(const std::string& text) const {
    std::ofstream(folder_ / "mlp.json", std::ios::binary) << text;
  }
  // Runs in a folder that holds mlp.json. Returns the messages; checks what all of them must be.
  std::string refused(const std::string& words) const {
    const Ran ran = shell("cd '" + folder_.string() + "' && '" SHARDPROOF_PROGRAM "' " + words +
                          " < /dev/null");
    EXPECT_EQ(ran.code, 2) << words << "\n" << ran.out;
    EXPECT_LE(std::count(ran.out.begin(), ran.out.end(), '\n'), 6) << ran.out;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << words << " wrote a file";
    return ran.out;
  }

 private:
  fs::path folder_;
};

// Returns the text of a file that a line of bad_files.txt describes.
std::string file_text(const std::string& kind, const std::string& rest) {
  if (kind == "text") return rest;
  Json scenario = Json::parse(kind == "ranks" ? kRanks : kGlobal);
  scenario.merge_patch(Json::parse(rest));
  return scenario.dump(1) + "\n";
}

TEST_F(BadInput, BrokenFiles_GetMessagesThatStatePlaceAndRemedy) {
  std::string out;
  const std::vector<std::string> lines = lines_of("bad_files.txt");
  ASSERT_GE(lines.size(), 100U);
  for (const std::string& line : lines) {
    const size_t space = line.find(' ');
    write(file_text(line.substr(0, space), line.substr(space + 1)));
    const std::string messages = refused("run mlp.json");
    EXPECT_TRUE(messages.starts_with("mlp.json:")) << line << "\n" << messages;
    out += line + "\n" + messages + "\n";
  }
  expect_approved("cli/bad_files", out);
}

TEST_F(BadInput, BrokenCommandLines_GetMessagesThatStateTheRemedy) {
  write(kGlobal);
  std::string out;
  const std::vector<std::string> lines = lines_of("bad_commands.txt");
  ASSERT_GE(lines.size(), 60U);
  for (const std::string& line : lines) out += "$ shardproof " + line + "\n" + refused(line) + "\n";
  expect_approved("cli/bad_commands", out);
}

}  // namespace
}  // namespace shardproof::bad_input_test
