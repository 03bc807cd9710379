#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "shardproof/tests/approval.h"
#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

namespace fs = std::filesystem;

const std::string kHeader = "// A thing.\n#pragma once\n";

std::string lines(std::size_t count, const std::string& line) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += line + "\n";
  return text;
}

std::string first_message(const Violations& found) {
  return found.empty() ? "" : std::to_string(found[0].line) + ": " + found[0].message;
}

std::string include_verdict(const std::string& path, const std::string& header) {
  std::string name = header.front() == '<' ? header : "\"" + header + "\"";
  return first_message(check_includes(make_source(path, "\n#include " + name + "\n")));
}

std::string habit_verdict(const std::string& path, const std::string& text) {
  return first_message(check_habits(make_source(path, text)));
}

std::string size_verdict(const std::string& text) {
  return first_message(check_sizes(make_source("sim/a.cpp", text)));
}

TEST(Includes, FollowTheTower) {
  EXPECT_EQ(include_verdict("sim/a.cpp", "shardproof/localtensor/spec.h"), "");
  EXPECT_EQ(include_verdict("sim/a.cpp", "shardproof/sim/gate.h"), "");
  EXPECT_EQ(include_verdict("sim/a.cpp", "shardproof/engine/executor.h"),
            "2: \"shardproof/engine/executor.h\": engine stands to the right of sim");
  EXPECT_EQ(include_verdict("cli/a.cpp", "shardproof/tests/approval.h"),
            "2: \"shardproof/tests/approval.h\": tests is not a room");
  EXPECT_EQ(include_verdict("tests/sim/a.cpp", "shardproof/cli/main.h"), "");
}

TEST(Includes, SomeRoomsToTheLeftStayUnknown) {
  EXPECT_EQ(include_verdict("ops/a.cpp", "shardproof/backends/door.h"),
            "2: \"shardproof/backends/door.h\": ops must not know backends");
  EXPECT_EQ(include_verdict("program/a.cpp", "shardproof/sim/fiber.h"),
            "2: \"shardproof/sim/fiber.h\": program must not know sim");
  EXPECT_EQ(include_verdict("backends/mpi.cpp", "shardproof/sim/fiber.h"), "");
  EXPECT_EQ(include_verdict("backends/local.cpp", "shardproof/sim/gate.h"), "");
  EXPECT_NE(include_verdict("backends/mpi.cpp", "shardproof/sim/gate.h"), "");
  EXPECT_NE(include_verdict("engine/a.cpp", "shardproof/sim/detail/stack.h"), "");
}

TEST(Includes, EachLibraryHasItsRoom) {
  EXPECT_EQ(include_verdict("scenarios/a.cpp", "<nlohmann/json.hpp>"), "");
  EXPECT_EQ(include_verdict("sim/fiber.cpp", "<boost/fiber/fiber.hpp>"), "");
  EXPECT_EQ(include_verdict("cli/main.cpp", "<boost/program_options.hpp>"), "");
  EXPECT_EQ(include_verdict("ops/matmul.cpp", "<Eigen/Dense>"), "");
  EXPECT_EQ(include_verdict("backends/mpi.cpp", "<mpi.h>"), "");
  EXPECT_EQ(include_verdict("ops/cuda/a.cu", "<cuda_runtime.h>"), "");
  EXPECT_EQ(include_verdict("engine/a.cpp", "<nlohmann/json.hpp>"),
            "2: <nlohmann/json.hpp>: engine must not know nlohmann-json");
  EXPECT_NE(include_verdict("engine/a.cpp", "<boost/fiber/fiber.hpp>"), "");
  EXPECT_NE(include_verdict("engine/a.cpp", "<boost/program_options.hpp>"), "");
  EXPECT_NE(include_verdict("ops/matmul.h", "<Eigen/Dense>"), "");
  EXPECT_NE(include_verdict("scenarios/a.cpp", "<mpi.h>"), "");
  EXPECT_NE(include_verdict("ops/a.cpp", "<cuda_runtime.h>"), "");
  EXPECT_NE(include_verdict("localtensor/a.cpp", "<chrono>"), "");
  EXPECT_NE(include_verdict("program/a.cpp", "<fstream>"), "");
}

TEST(Includes, PublicHeadersHideLibraries) {
  EXPECT_NE(include_verdict("scenarios/a.h", "<nlohmann/json.hpp>"), "");
  EXPECT_EQ(include_verdict("scenarios/detail/a.h", "<nlohmann/json.hpp>"), "");
  EXPECT_NE(include_verdict("sim/fiber.h", "<boost/fiber/fiber.hpp>"), "");
}

TEST(Includes, AreWrittenFromTheRoot) {
  EXPECT_EQ(include_verdict("sim/a.cpp", "clock.h"),
            "2: \"clock.h\": write the path from the root, \"shardproof/sim/...\"");
}

TEST(Sizes, OfFiles) {
  EXPECT_EQ(size_verdict(lines(700, "int a;")), "");
  EXPECT_EQ(size_verdict(lines(701, "int a;")), "701: 701 lines; the limit of a source is 700");
  EXPECT_EQ(check_sizes(make_source("sim/a.h", lines(250, "int a;"))).size(), 0U);
  EXPECT_EQ(check_sizes(make_source("sim/a.h", lines(251, "int a;"))).size(), 1U);
}

TEST(Sizes, OfFunctions) {
  std::string body = lines(68, "  step();");
  EXPECT_EQ(size_verdict("void f() {\n" + body + "}\n"), "");
  EXPECT_EQ(size_verdict("void f() {\n" + body + "  step();\n}\n"),
            "1: a function of 71 lines; the stop is 70");
  EXPECT_EQ(size_verdict("namespace a {\n" + lines(40, "void f() {\n  step();\n}") + "}\n"), "");
  EXPECT_EQ(size_verdict("const int kTable[] = {\n" + lines(90, "  f(1),") + "};\n"), "");
}

TEST(Sizes, OfFunctionsInEveryDress) {
  std::string body = "{\n" + lines(80, "  if (a) { step(); }") + "}\n";
  for (const char* head : {
           "Foo::Foo(int a) : a_{a}, b_{1} ",
           "Foo::Foo(int a) : a_(a) ",
           "template <class T>\nauto f(std::vector<T> v = {}) -> std::vector<T> ",
           "auto f = [](int a) ",
           "struct A {\n  int b = 0;\n private:\n  bool f(int a) const noexcept ",
           "extern \"C\" int f(const char* a) ",
           "#define SP_CHECK(x) {\nint f() ",
           "TEST(A, b) ",
           "// don't {\nint big = 1'000'000;\nvoid f(char c = '{', const char* s = \"{\") ",
           "const char* s = R\"x({ \" {)x\";\nvoid f() ",
           "enum class E { kA, kB };\nstruct B : A<int> {\n  struct C {};\n  C f() ",
       }) {
    Violations found = check_sizes(make_source("sim/a.cpp", head + body));
    EXPECT_EQ(found.size(), 1U) << head;
  }
}

TEST(Habits, HeadersOpenWithAComment) {
  EXPECT_EQ(habit_verdict("sim/a.h", kHeader), "");
  EXPECT_EQ(habit_verdict("sim/a.h", "#pragma once\n\n// A thing.\n"), "");
  EXPECT_EQ(habit_verdict("sim/a.h", "// A thing.\nint a;\n"), "1: a header needs #pragma once");
  EXPECT_EQ(habit_verdict("sim/a.h", "#pragma once\n#include <vector>\n"),
            "2: a header opens with a comment: what the thing is");
}

TEST(Habits, WordsOutOfPlace) {
  EXPECT_EQ(habit_verdict("sim/a.cpp", "auto e = std::getenv(\"A\");\n"), "1: no getenv below cli");
  EXPECT_EQ(habit_verdict("cli/a.cpp", "auto e = std::getenv(\"A\");\n"), "");
  EXPECT_EQ(habit_verdict("sim/a.cpp", "// getenv is for cli\n"), "");
  EXPECT_NE(habit_verdict("engine/a.cpp", "#ifdef SHARDPROOF_MPI\n#endif\n"), "");
  EXPECT_NE(habit_verdict("ops/a.cpp", "#if defined(__CUDACC__)\n#endif\n"), "");
  EXPECT_EQ(habit_verdict("backends/mpi.cpp", "#if MPI_VERSION >= 4\n#endif\n"), "");
  EXPECT_NE(habit_verdict("ops/a.cpp", "#define TWICE(x) x x\n"), "");
  EXPECT_EQ(habit_verdict("localtensor/check.h", kHeader + "#define SP_CHECK(x) x\n"), "");
  EXPECT_NE(habit_verdict("sim/a.h", kHeader + "using namespace std;\n"), "");
  EXPECT_NE(habit_verdict("sim/a.cpp", std::string("// TO") + "DO: later\n"), "");
}

TEST(Habits, Bytes) {
  EXPECT_EQ(habit_verdict("sim/a.cpp", "// na\xc3\xafve\n"), "1: a byte that is not ASCII");
  EXPECT_EQ(habit_verdict("docs/a.md", "na\xc3\xafve\n"), "");
  EXPECT_EQ(habit_verdict("docs/a.md", "a\xe2\x80\xae z\n"), "1: an invisible character");
  EXPECT_NE(habit_verdict("sim/a.cpp", "int a;\r\n"), "");
  EXPECT_NE(habit_verdict("sim/a.cpp", "int a; \n"), "");
  EXPECT_NE(habit_verdict("sim/a.cpp", "int a;"), "");
}

TEST(BuildLists, NameEverySource) {
  std::vector<Source> tree;
  tree.push_back(make_source("sim/CMakeLists.txt", "shardproof_room(sim SOURCES a.cpp) # b.cpp\n"));
  tree.push_back(make_source("sim/a.cpp", "#include \"shardproof/sim/a.h\"\n"));
  tree.push_back(make_source("sim/a.h", kHeader));
  EXPECT_EQ(check_build_lists(tree).size(), 0U);
  tree.push_back(make_source("sim/b.cpp", ""));
  tree.push_back(make_source("sim/b.h", kHeader));
  Violations found = check_build_lists(tree);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], (Violation{"sim/b.cpp", 1, "no CMakeLists.txt names this source"}));
  EXPECT_EQ(found[1], (Violation{"sim/b.h", 1, "nobody includes this header"}));
}

TEST(BuildLists, AreNotGlobbed) {
  Violations found =
      check_build_lists({make_source("sim/CMakeLists.txt", "file(GLOB sources *.cpp)\n")});
  EXPECT_EQ(first_message(found), "1: sources are listed, not globbed");
}

// A small bad tree on disk, so that walking and formatting are judged too.
class TreeOnDisk : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("shardproof_tidy_test_" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "sim");
    fs::create_directories(root_ / "build" / "sim");
    write(".clang-format", "BasedOnStyle: Google\n");
    write("sim/CMakeLists.txt", "shardproof_room(sim SOURCES bad.cpp)\n");
    write("sim/bad.cpp", "#include \"shardproof/cli/a.h\"\nint  a ;\n");
    write("build/sim/generated.cpp", "nobody looks here");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::ofstream(root_ / path, std::ios::binary) << text;
  }

  fs::path root_;
};

TEST(TypeNames, AreGivenOnce) {
  const std::string job = "namespace shardproof {\nstruct Job {\n};\n}  // namespace shardproof\n";
  const std::string own =
      "namespace shardproof {\nnamespace {\nstruct Job {\n};\n}  // namespace\n}  // namespace "
      "shardproof\n";
  const auto message = [](const std::string& a, const std::string& b) {
    return first_message(
        check_type_names({make_source("sim/a.h", a), make_source("ops/b.cpp", b)}));
  };
  EXPECT_EQ(message(job, own), "");
  EXPECT_EQ(message(job, "namespace shardproof {\nstruct Job;\n}  // namespace shardproof\n"), "");
  EXPECT_EQ(message(job, job), "2: shardproof::Job is defined in sim/a.h line 2 too");
  EXPECT_EQ(message(job, "namespace shardproof {\nclass Job final : public Base {\n};\n"),
            "2: shardproof::Job is defined in sim/a.h line 2 too");
  EXPECT_EQ(message(job, "namespace shardproof::detail {\nstruct Job {};\n"), "");
}

TEST_F(TreeOnDisk, IsWalkedWithoutBuildFolders) {
  std::vector<Source> tree = load_tree(root_);
  ASSERT_EQ(tree.size(), 2U);
  EXPECT_EQ(tree[1].path, "sim/bad.cpp");
  Violations found = check_tree(tree);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, "sim/bad.cpp");
}

TEST_F(TreeOnDisk, IsFormatted) {
  std::string skipped;
  Violations found = check_format(root_, load_tree(root_), skipped);
  if (!skipped.empty()) GTEST_SKIP() << skipped;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], (Violation{"sim/bad.cpp", 2, "not formatted; ./dev fmt does it"}));
}

TEST(Approval, ShowsTheFirstDifference) {
  EXPECT_EQ(first_difference("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(first_difference("a\nb\n", "a\nc\n"), "line 2\n  approved  b\n  received  c");
  EXPECT_EQ(first_difference("a\n", "a\nc\n"),
            "line 2\n  approved  (the text ends here)\n  received  c");
  EXPECT_EQ(first_difference("a\n", "a"),
            "the texts differ in the line end at the end of the file");
}

}  // namespace
}  // namespace shardproof::tidy
