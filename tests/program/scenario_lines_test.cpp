// Tests that the parser accepts every line of every example scenario.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/ast.h"

namespace shardproof::scenario_lines_test {
namespace {

using nlohmann::json;

std::vector<std::filesystem::path> scenario_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(SHARDPROOF_SOURCE_DIR "/tests/scenarios"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// `$name` is replaced before a line is parsed; here by the text of the first case of a sweep.
std::map<std::string, std::string> pasted_names(const json& scenario) {
  std::map<std::string, std::string> names;
  const auto add = [&](const json& object) {
    for (const auto& [key, value] : object.items())
      if (value.is_string()) names.emplace(key, value.get<std::string>());
  };
  if (scenario.contains("let")) add(scenario.at("let"));
  if (scenario.contains("sweep") && scenario.at("sweep").is_array())
    for (const json& one : scenario.at("sweep")) add(one);
  return names;
}

std::string pasted(std::string line, const std::map<std::string, std::string>& names) {
  for (const auto& [name, text] : names) {
    const std::string mark = "$" + name;
    for (size_t at = line.find(mark); at != std::string::npos; at = line.find(mark))
      line.replace(at, mark.size(), text);
  }
  return line;
}

void expect_listing(const json& array, const std::map<std::string, std::string>& names,
                    int& parsed) {
  std::vector<std::string> lines;
  for (const json& line : array) lines.push_back(pasted(line.get<std::string>(), names));
  try {
    const Listing listing = parse_listing(lines);
    const Listing again = parse_listing(to_lines(listing));
    EXPECT_TRUE(without_positions(again) == without_positions(listing));
    ++parsed;
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

void expect_programs(const json& scenario, const std::map<std::string, std::string>& names,
                     int& parsed) {
  for (const char* key : {"program", "truth"})
    if (scenario.contains(key)) expect_listing(scenario.at(key), names, parsed);
  if (scenario.contains("ranks"))
    for (const json& listing : scenario.at("ranks")) expect_listing(listing, names, parsed);
  if (scenario.contains("phases"))
    for (const json& phase : scenario.at("phases")) expect_programs(phase, names, parsed);
}

TEST(ScenarioLines, AllParse) {
  const auto files = scenario_files();
  EXPECT_GE(files.size(), 51u);
  int parsed = 0;
  for (const auto& file : files) {
    SCOPED_TRACE(file.filename().string());
    std::ifstream in(file);
    const json scenario = json::parse(in, nullptr, true, true);
    expect_programs(scenario, pasted_names(scenario), parsed);
  }
  EXPECT_GE(parsed, 50);
}

TEST(ScenarioLines, ShapesFaultsOptimizersAndFillsAreExpressions) {
  int parsed = 0;
  const auto expect_expression = [&](const json& text) {
    if (!text.is_string() || text.get<std::string>().find('$') != std::string::npos) return;
    EXPECT_NO_THROW(parse_expression(text.get<std::string>())) << text;
    ++parsed;
  };
  for (const auto& file : scenario_files()) {
    SCOPED_TRACE(file.filename().string());
    std::ifstream in(file);
    const json scenario = json::parse(in, nullptr, true, true);
    const json faults = scenario.value("faults", json::array());
    for (const json& fault : faults) expect_expression(fault);
    if (scenario.contains("train")) expect_expression(scenario.at("train").at("optimizer"));
    const json tensors = scenario.value("tensors", json::object());
    for (const json& tensor : tensors) {
      const json shape = tensor.value("shape", json::array());
      for (const json& size : shape) expect_expression(size);
      expect_expression(tensor.value("fill", json()));
    }
  }
  EXPECT_GE(parsed, 60);
}

}  // namespace
}  // namespace shardproof::scenario_lines_test
