// Tests `run --print`, which prints values, and `show --owners`, which prints the ranks that hold
// them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "shardproof/tests/approval.h"
#include "shardproof/tests/cli/run_tool.h"

namespace shardproof::print_values_test {
namespace {

namespace fs = std::filesystem;

class PrintValues : public testing::Test {
 protected:
  PrintValues() { fs::create_directories(folder_); }
  ~PrintValues() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // Writes a scenario on "dp=2, tp=2" and returns its path.
  std::string scenario() const {
    std::ofstream(path("s.json")) << R"json({
  "version": 1,
  "mesh": "dp=2, tp=2",
  "tensors": {"x": {"shape": [5, 4], "placements": "dp:S(0)", "fill": "iota"},
              "w": {"shape": [4, 3], "placements": "tp:S(0)", "fill": "iota"}},
  "program": ["xt = redistribute(x, tp:S(1))", "p = xt @ w", "y = redistribute(p, tp:R)",
              "b = cast(y > 50, bool)", "n = sum(y) * 0.1"]
})json";
    return path("s.json");
  }
  // Returns what the command prints before its report.
  static std::string values(const std::string& words) {
    const Ran ran = tool(words);
    EXPECT_EQ(ran.code, 0) << ran.out;
    return ran.out.substr(ran.out.find('\n') + 1, ran.out.rfind("\n\n") - ran.out.find('\n'));
  }
  static std::string read(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

 private:
  std::string folder_ = fs::temp_directory_path() / ("print_values_" + std::to_string(getpid()));
};

TEST_F(PrintValues, WholeValuesAndParts_AreApproved) {
  expect_approved("cli/print_values",
                  values("run " + scenario() + " --print y,y@0,y@3 --print p@1,p@2,p,xt@3,b@2,n"));
}

TEST_F(PrintValues, LargeValue_StatesWhatIsLeftOut) {
  std::ofstream(path("large.json")) << R"json({"version": 1, "mesh": "tp=2",
  "tensors": {"x": {"shape": [40, 30], "placements": "tp:S(0)", "fill": "iota"}},
  "program": ["y = redistribute(x, tp:R)"]})json";
  const std::string text = values("run " + path("large.json") + " --print y");
  EXPECT_NE(text.find("1164 of 1200 elements are left out"), std::string::npos) << text;
  EXPECT_NE(text.find("..."), std::string::npos);
}

TEST_F(PrintValues, WrongNameOrRank_IsRefused) {
  const std::string file = scenario();
  const Ran name = tool("run " + file + " --print yy");
  EXPECT_EQ(name.code, 2);
  EXPECT_NE(name.out.find("the program has no value yy; did you mean \"y\"?"), std::string::npos)
      << name.out;
  const Ran rank = tool("run " + file + " --print y@9");
  EXPECT_EQ(rank.code, 2);
  EXPECT_NE(rank.out.find("rank 9 does not hold y; ranks 0-3 do"), std::string::npos) << rank.out;
  EXPECT_EQ(tool("run " + file + " --print y@one").code, 2);
  EXPECT_EQ(tool("run " + file + " --print y,").code, 2);
}

TEST_F(PrintValues, RankPrograms_PrintEachRanksTensor) {
  const std::string file = "scenarios/corpus/collectives/pipeline_chain.json";
  const std::string text = values("run " + file + " --print y@3");
  EXPECT_NE(text.find("y on rank 3   f32 [3, 4]"), std::string::npos) << text;
  const Ran other = tool("run " + file + " --print y@1");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.out.find("rank 1 does not hold y; rank 3 does"), std::string::npos) << other.out;
}

TEST_F(PrintValues, OutputOnSomeRanks_PrintsWhatOthersHold) {
  std::ofstream(path("some.json")) << R"json({"version": 1, "mesh": "pp=3",
  "tensors": {"x": {"shape": [2], "fill": "iota"}}, "ranks": {"all": ["y = x + 1 + rank"]},
  "truth": ["y = x + 3"], "outputs": {"y": "on pp=2"}})json";
  EXPECT_EQ(values("run " + path("some.json") + " --print y@0,y@2"),
            "y on rank 0   f32 [2]\n[1., 2.]\n\ny on rank 2   f32 [2]\n[3., 4.]\n");
}

#ifdef SHARDPROOF_WITH_MPI
TEST_F(PrintValues, ValuesOfProcesses_AreThoseOfOneProcess) {
  const std::string words = "run " + scenario() + " --print y,y@3,p@1,x@2";
  EXPECT_EQ(values(words + " --backend mpi --processes 2"), values(words));
}
#endif

TEST_F(PrintValues, Owners_AreApproved) {
  std::string text = tool("show " + scenario() + " --owners p").out;
  for (const char* words :
       {"a05_uneven_rows.json --owners y", "a22_strided_and_ordered.json --owners w",
        "a22_strided_and_ordered.json --owners a", "a18_rank_program_with_truth.json --owners y"})
    text += tool("show tests/scenarios/" + std::string(words)).out;
  expect_approved("cli/owners", text);
}

TEST_F(PrintValues, OwnersAsSvg_AreAFile) {
  const Ran ran = tool("show " + scenario() + " --owners y --svg " + path("y.svg"));
  EXPECT_EQ(ran.code, 0) << ran.out;
  const std::string picture = read(path("y.svg"));
  EXPECT_NE(picture.find("<svg xmlns="), std::string::npos) << picture;
  EXPECT_NE(picture.find("owners of y"), std::string::npos);
  const Ran wrong = tool("show " + scenario() + " --owners z");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.out.find("the program has no value z"), std::string::npos) << wrong.out;
  EXPECT_EQ(tool("show " + scenario() + " --svg " + path("z.svg")).code, 2);
}

}  // namespace
}  // namespace shardproof::print_values_test
