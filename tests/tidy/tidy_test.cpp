// Tests of the tidy rules: each rule gets a file that follows it and files that do not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "shardproof/tests/approval.h"
#include "shardproof/tests/tidy/exemptions.h"
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

TEST(Includes, IncludeOfALaterRoom_IsReported) {
  EXPECT_EQ(include_verdict("sim/a.cpp", "shardproof/localtensor/spec.h"), "");
  EXPECT_EQ(include_verdict("sim/a.cpp", "shardproof/sim/matching/call_matcher.h"), "");
  EXPECT_EQ(
      include_verdict("sim/a.cpp", "shardproof/engine/executor.h"),
      "2: \"shardproof/engine/executor.h\": engine stands to the right of sim; move what both "
      "need into a room to the left");
  EXPECT_EQ(include_verdict("cli/a.cpp", "shardproof/tests/approval.h"),
            "2: \"shardproof/tests/approval.h\": tests is not a room");
  EXPECT_EQ(include_verdict("tests/sim/a.cpp", "shardproof/cli/main.h"), "");
}

TEST(Includes, IncludeOfAnUnseenRoom_IsReported) {
  EXPECT_EQ(include_verdict("ops/a.cpp", "shardproof/backends/door.h"),
            "2: \"shardproof/backends/door.h\": ops must not include backends");
  EXPECT_EQ(include_verdict("program/a.cpp", "shardproof/sim/fiber.h"),
            "2: \"shardproof/sim/fiber.h\": program must not include sim");
  EXPECT_EQ(include_verdict("ops/erf.cpp", "<boost/math/special_functions/erf.hpp>"), "");
  EXPECT_EQ(include_verdict("backends/mpi.cpp", "shardproof/sim/fiber.h"), "");
  EXPECT_EQ(include_verdict("backends/local.cpp", "shardproof/sim/matching/call_matcher.h"), "");
  EXPECT_NE(include_verdict("backends/mpi.cpp", "shardproof/sim/matching/call_matcher.h"), "");
  EXPECT_NE(include_verdict("backends/mpi/a.cpp", "shardproof/sim/matching/call_matcher.h"), "");
  EXPECT_NE(include_verdict("backends/nccl/a.cpp", "shardproof/sim/call/ticket_table.h"), "");
  EXPECT_EQ(include_verdict("backends/bench/a.cpp", "shardproof/sim/matching/write_outputs.h"), "");
}

TEST(Includes, LibraryOfAnotherRoom_IsReported) {
  EXPECT_EQ(include_verdict("scenarios/a.cpp", "<nlohmann/json.hpp>"), "");
  EXPECT_EQ(include_verdict("sim/fiber.cpp", "<boost/fiber/fiber.hpp>"), "");
  EXPECT_EQ(include_verdict("cli/main.cpp", "<boost/program_options.hpp>"), "");
  EXPECT_EQ(include_verdict("ops/matmul.cpp", "<Eigen/Dense>"), "");
  EXPECT_EQ(include_verdict("backends/mpi.cpp", "<mpi.h>"), "");
  EXPECT_EQ(include_verdict("ops/cuda/a.cu", "<cuda_runtime.h>"), "");
  EXPECT_EQ(include_verdict("engine/a.cpp", "<nlohmann/json.hpp>"),
            "2: <nlohmann/json.hpp>: engine must not include nlohmann-json");
  EXPECT_NE(include_verdict("engine/a.cpp", "<boost/fiber/fiber.hpp>"), "");
  EXPECT_NE(include_verdict("engine/a.cpp", "<boost/program_options.hpp>"), "");
  EXPECT_NE(include_verdict("ops/matmul.h", "<Eigen/Dense>"), "");
  EXPECT_NE(include_verdict("ops/erf.h", "<boost/math/special_functions/erf.hpp>"), "");
  EXPECT_NE(include_verdict("ops/a.cpp", "<boost/fiber/fiber.hpp>"), "");
  EXPECT_NE(include_verdict("sim/a.cpp", "<boost/math/special_functions/erf.hpp>"), "");
  EXPECT_NE(include_verdict("scenarios/a.cpp", "<mpi.h>"), "");
  EXPECT_NE(include_verdict("ops/a.cpp", "<cuda_runtime.h>"), "");
  EXPECT_NE(include_verdict("localtensor/a.cpp", "<chrono>"), "");
  EXPECT_NE(include_verdict("program/a.cpp", "<fstream>"), "");
}

TEST(Includes, PathRelativeToTheFile_IsReported) {
  EXPECT_EQ(include_verdict("sim/a.cpp", "clock.h"),
            "2: \"clock.h\": write the path from the root, \"shardproof/sim/...\"");
}

TEST(Sizes, LongFile_IsReported) {
  EXPECT_EQ(size_verdict(lines(700, "int a;")), "");
  EXPECT_EQ(size_verdict(lines(701, "int a;")),
            "701: 701 lines; the limit of a source is 700: split it by purpose");
  EXPECT_EQ(check_sizes(make_source("sim/a.h", lines(250, "int a;"))).size(), 0U);
  EXPECT_EQ(check_sizes(make_source("sim/a.h", lines(251, "int a;"))).size(), 1U);
}

TEST(Sizes, LongFunction_IsReported) {
  std::string body = lines(68, "  step();");
  EXPECT_EQ(size_verdict("void f() {\n" + body + "}\n"), "");
  EXPECT_EQ(size_verdict("void f() {\n" + body + "  step();\n}\n"),
            "1: a function of 71 lines; the limit is 70: move a step into a function");
  EXPECT_EQ(size_verdict("namespace a {\n" + lines(40, "void f() {\n  step();\n}") + "}\n"), "");
  EXPECT_EQ(size_verdict("const int kTable[] = {\n" + lines(90, "  f(1),") + "};\n"), "");
}

TEST(Sizes, LongFunctionOfEachForm_IsReported) {
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

TEST(Habits, HeaderWithoutPragmaOnce_IsReported) {
  EXPECT_EQ(habit_verdict("sim/a.h", kHeader), "");
  EXPECT_EQ(habit_verdict("tests/a.h", "#pragma once\n\n// A thing.\n"), "");
  EXPECT_EQ(habit_verdict("sim/a.h", "// A thing.\nint a;\n"),
            "1: the header has no #pragma once; write it");
  EXPECT_EQ(habit_verdict("tests/a.h", "#pragma once\n#include <vector>\n"),
            "2: the header does not open with a comment; write what it is");
}

TEST(Habits, WordOutOfPlace_IsReported) {
  EXPECT_EQ(habit_verdict("sim/a.cpp", "auto e = std::getenv(\"A\");\n"),
            "1: getenv below cli; read the environment in cli and pass the value on");
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

TEST(Habits, InvisibleByte_IsReported) {
  EXPECT_EQ(habit_verdict("sim/a.cpp", "// na\xc3\xafve\n"),
            "1: a byte that is not ASCII; write an escape or ASCII");
  EXPECT_EQ(habit_verdict("docs/a.md", "na\xc3\xafve\n"), "");
  EXPECT_EQ(habit_verdict("docs/a.md", "a\xe2\x80\xae z\n"),
            "1: an invisible character; delete it");
  EXPECT_NE(habit_verdict("sim/a.cpp", "int a;\r\n"), "");
  EXPECT_NE(habit_verdict("sim/a.cpp", "int a; \n"), "");
  EXPECT_NE(habit_verdict("sim/a.cpp", "int a;"), "");
}

TEST(BuildLists, UnlistedFile_IsReported) {
  std::vector<Source> tree;
  tree.push_back(make_source("sim/CMakeLists.txt", "shardproof_room(sim SOURCES a.cpp) # b.cpp\n"));
  tree.push_back(make_source("sim/a.cpp", "#include \"shardproof/sim/a.h\"\n"));
  tree.push_back(make_source("sim/a.h", kHeader));
  EXPECT_EQ(check_build_lists(tree).size(), 0U);
  tree.push_back(make_source("sim/b.cpp", ""));
  tree.push_back(make_source("sim/b.h", kHeader));
  Violations found = check_build_lists(tree);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0],
            (Violation{"sim/b.cpp", 1,
                       "no CMakeLists.txt names this source; add it to its room's list", ""}));
  EXPECT_EQ(found[1],
            (Violation{"sim/b.h", 1, "no file includes this header; delete it or include it", ""}));
}

TEST(PublicHeaders, IncludeOfAnInternalHeader_IsReported) {
  const auto verdict = [](const std::string& path, const std::string& header) {
    const std::string name = header.front() == '<' ? header : "\"shardproof/" + header + "\"";
    return first_message(check_public_headers(
        {make_source("sim/CMakeLists.txt",
                     "shardproof_room(sim SOURCES a.cpp PUBLIC_HEADERS call/a.h b.h  # c.h\n"
                     "  LINK d.h)\n"),
         make_source("sim/call/a.h", ""), make_source("sim/b.h", ""),
         make_source(path, "\n#include " + name + "\n")}));
  };
  EXPECT_EQ(verdict("engine/a.cpp", "sim/call/a.h"), "");
  EXPECT_EQ(verdict("sim/d.cpp", "sim/c.h"), "");
  EXPECT_EQ(verdict("tests/a.cpp", "sim/c.h"), "");
  EXPECT_EQ(verdict("engine/a.cpp", "sim/c.h"),
            "2: \"shardproof/sim/c.h\" is internal to sim; add it to PUBLIC_HEADERS of "
            "sim/CMakeLists.txt or include a public header");
  EXPECT_EQ(verdict("sim/b.h", "sim/c.h"),
            "2: \"shardproof/sim/c.h\" is not installed, but this public header includes it; add "
            "it to PUBLIC_HEADERS of sim/CMakeLists.txt or include a public header");
  EXPECT_NE(verdict("engine/a.cpp", "sim/d.h"), "");
  EXPECT_EQ(verdict("sim/b.h", "<boost/fiber/fiber.hpp>"),
            "2: <boost/fiber/fiber.hpp>: a public header must not show Boost; include it in a "
            "source");
  EXPECT_EQ(verdict("sim/c.h", "<boost/fiber/fiber.hpp>"), "");
}

TEST(PublicHeaders, ListedHeaderThatIsAbsent_IsReported) {
  EXPECT_EQ(first_message(check_public_headers(
                {make_source("sim/CMakeLists.txt", "shardproof_room(sim PUBLIC_HEADERS a.h)\n")})),
            "1: public header a.h does not exist; delete it");
}

TEST(BuildLists, Glob_IsReported) {
  Violations found =
      check_build_lists({make_source("sim/CMakeLists.txt", "file(GLOB sources *.cpp)\n")});
  EXPECT_EQ(first_message(found), "1: sources are globbed; list them");
}

std::string comment_verdict(const std::string& path, const std::string& text) {
  return first_message(check_comment_openings(make_source(path, text)));
}

TEST(CommentOpening, WithoutASubject_IsReported) {
  const std::string message =
      "1: the comment begins with \"Whether\"; begin with its subject or a verb: \"Returns\", "
      "\"True if\", \"The coordinator sends\"";
  EXPECT_EQ(comment_verdict("sim/a.cpp", "// Whether it is one.\n"), message);
  EXPECT_EQ(comment_verdict("sim/a.cpp", "// True if it is one.\n"), "");
  for (const char* word : {"Of", "What", "Who", "Where", "That", "As", "of", "what"}) {
    EXPECT_NE(comment_verdict("tests/a.h", std::string("// ") + word + " is here.\n"), "") << word;
  }
  EXPECT_EQ(comment_verdict("sim/a.cpp", "// Assigns it. Whatever follows.\n"), "");
  EXPECT_NE(comment_verdict("cmake/a.cmake", "# What a room is.\n"), "");
  EXPECT_EQ(comment_verdict("docs/a.md", "# What a room is\n"), "");
}

TEST(CommentOpening, IsTheFirstLineOfEachParagraph) {
  EXPECT_EQ(comment_verdict("sim/a.cpp", "// Returns the sum\n// of all ranks.\n"), "");
  EXPECT_EQ(comment_verdict("sim/a.cpp", "// A sum.\n//\n// Of all ranks.\n").substr(0, 2), "3:");
  EXPECT_EQ(comment_verdict("sim/a.cpp", "int a;\n  // Of all.\n// Of it.\n").substr(0, 2), "2:");
  EXPECT_EQ(comment_verdict("sim/a.cpp", "int a;  // Of all ranks.\n").substr(0, 2), "1:");
  EXPECT_EQ(comment_verdict("sim/a.cpp", "int a;  // of all ranks\n"), "");
}

TEST(CommentOpening, ListsCodeAndLiterals_AreNotChecked) {
  EXPECT_EQ(comment_verdict("sim/a.cpp", "// - Of a list\n"), "");
  EXPECT_EQ(comment_verdict("sim/a.cpp", "//   as tp:P(sum)\n"), "");
  EXPECT_EQ(comment_verdict("sim/a.cpp", "// where(a, b, c)\n"), "");
  EXPECT_EQ(comment_verdict("sim/a.cpp", "// as   a column of a table\n"), "");
  EXPECT_EQ(comment_verdict("sim/a.cpp", "auto a = \"// Of a text\";\n"), "");
}

TEST(FileOpening, WithoutAComment_IsReported) {
  const auto verdict = [](const std::string& path, const std::string& text) {
    return first_message(check_file_openings(make_source(path, text)));
  };
  EXPECT_EQ(verdict("sim/a.h", kHeader), "");
  EXPECT_EQ(verdict("sim/a.cpp", "// Implements a.h.\n#include <vector>\n"), "");
  EXPECT_EQ(verdict("tests/a.cpp", "#include <vector>\n"), "");
  EXPECT_EQ(verdict("sim/a.h", "#pragma once\n\n// A thing.\n"),
            "1: the header does not open with a comment; write above #pragma once what the thing "
            "is");
  EXPECT_EQ(verdict("ops/cuda/a.cu", "#include <vector>\n"),
            "1: the source does not open with a comment; write above the first #include which "
            "header it implements and how");
}

TEST(DocsLines, LongerThan120Columns_AreReported) {
  const auto verdict = [](const std::string& path, const std::string& line) {
    return first_message(check_docs_lines(make_source(path, line + "\n")));
  };
  EXPECT_EQ(verdict("docs/a.md", std::string(120, 'a')), "");
  EXPECT_EQ(verdict("docs/a.md", std::string(118, 'a') + "\xc3\xa4\xc3\xa4"), "");
  EXPECT_EQ(verdict("docs/a.md", std::string(121, 'a')),
            "1: 121 columns; the limit of a page is 120: write one sentence a line");
  EXPECT_EQ(verdict("docs/a.md", "| " + std::string(121, 'a') + " |"), "");
  EXPECT_EQ(verdict("sim/a.txt", std::string(121, 'a')), "");
}

TEST(FunctionVerbs, WithoutMeaning_AreReportedWhereDeclared) {
  const auto verdict = [](const std::string& path, const std::string& text) {
    return first_message(check_function_verbs(make_source(path, text)));
  };
  const std::string advice =
      "does not state what is done; write store, report, read, remove, receive or the field's word";
  EXPECT_EQ(verdict("sim/a.h", "void keep_value(int a);\n"),
            "1: function keep_value: the verb \"keep\" " + advice);
  EXPECT_EQ(verdict("sim/a.h", "\n  virtual std::vector<int>& tells(int a) const = 0;\n"),
            "2: function tells: the verb \"tells\" " + advice);
  EXPECT_NE(verdict("sim/a.h", "std::optional<Value> take(const Key& key);\n"), "");
  EXPECT_NE(verdict("sim/a.h", "const Value *come_to(int);\n"), "");
  EXPECT_EQ(verdict("sim/a.h", "  return take(a);\n"), "");
  EXPECT_EQ(verdict("sim/a.h", "  a.take(b);\n  take(b);\n  // void take(b);\n"), "");
  EXPECT_EQ(verdict("sim/a.h", "void keeper(int a);\nvoid overtake(int a);\n"), "");
  EXPECT_EQ(verdict("sim/a.cpp", "void keep_value(int a) {}\n"), "");
}

TEST(SourceNames, WithoutAHeader_AreReported) {
  const auto verdict = [](const std::string& source, const std::string& header,
                          const std::string& text = "") {
    return first_message(check_source_names({make_source(source, text), make_source(header, "")}));
  };
  EXPECT_EQ(verdict("sim/call/clock.cpp", "sim/call/clock.h"), "");
  EXPECT_EQ(verdict("sim/call/clock_text_form.cpp", "sim/call/clock.h"), "");
  EXPECT_EQ(verdict("sim/call/clock.cpp", "sim/clock.h"),
            "1: clock.cpp has no header beside it; name it after the header it implements: "
            "clock.h, or x.h for a file x_aspect.cpp");
  EXPECT_NE(verdict("sim/call/clocks.cpp", "sim/call/clock.h"), "");
  EXPECT_EQ(verdict("cli/main.cpp", "cli/a.h"), "");
  EXPECT_EQ(verdict("backends/mpi/no_mpi.cpp", "backends/a.h"), "");
  EXPECT_EQ(verdict("tests/sim/clock_test.cpp", "sim/a.h"), "");
  const std::string ops = "void add_sort_ops(OpRegistry& ops) {\n}\n";
  EXPECT_EQ(verdict("ops/sort/sort_topk.cpp", "ops/core/families.h", ops), "");
  EXPECT_NE(verdict("sim/call/sort_topk.cpp", "ops/core/families.h", ops), "");
}

TEST(FolderOrder, IncludeOfAFolderToTheRight_IsReported) {
  const auto verdict = [](const std::string& path, const std::string& header) {
    const std::string text = "// A thing.\n#include \"shardproof/" + header + "\"\n";
    return first_message(check_folder_order(make_source(path, text)));
  };
  EXPECT_EQ(verdict("sim/matching/a.cpp", "sim/call/b.h"), "");
  EXPECT_EQ(verdict("sim/matching/a.cpp", "sim/matching/b.h"), "");
  EXPECT_EQ(verdict("sim/matching/a.cpp", "localtensor/plan/b.h"), "");
  EXPECT_EQ(
      verdict("sim/call/a.cpp", "sim/matching/b.h"),
      "2: \"shardproof/sim/matching/b.h\": matching stands to the right of call in sim; move what "
      "both need into a folder to the left");
  EXPECT_EQ(verdict("backends/remote/wire/a.h", "backends/remote/worker/b.h").substr(0, 2), "2:");
  EXPECT_EQ(
      verdict("sim/a.cpp", "sim/call/b.h"),
      "1: sub-folder . of sim is not listed; use one of call, cost, fiber, analysis, matching "
      "(tests/tidy/folder_order.cpp)");
  EXPECT_EQ(verdict("sim/clocks/a.cpp", "sim/call/b.h").substr(0, 2), "1:");
  EXPECT_EQ(verdict("tests/sim/a.cpp", "sim/call/b.h"), "");
}

TEST(FolderSizes, OfMoreThan36Files_AreReported) {
  std::vector<Source> tree;
  const auto add = [&] {
    tree.push_back(make_source("sim/call/a" + std::to_string(tree.size()) + ".h", ""));
  };
  while (tree.size() < 36) add();
  EXPECT_EQ(check_folder_sizes(tree).size(), 0U);
  add();
  EXPECT_EQ(first_message(check_folder_sizes(tree)),
            "1: 37 files; the limit of a sub-folder is 36: split it by purpose");
}

TEST(RoomTypeNames, GivenTwice_AreReported) {
  const auto verdict = [](const std::string& a, const std::string& b) {
    const std::string type =
        "namespace shardproof {\nnamespace {\nstruct Row {\n};\n}  // namespace\n}  // namespace "
        "shardproof\n";
    return first_message(check_room_type_names({make_source(a, type), make_source(b, type)}));
  };
  EXPECT_EQ(verdict("sim/a.cpp", "sim/b.cpp"),
            "3: type Row of room sim is defined in sim/a.cpp line 3 too; name each after its "
            "purpose");
  EXPECT_EQ(verdict("sim/a.cpp", "ops/b.cpp"), "");
  EXPECT_EQ(verdict("sim/a.cpp", "sim/no_mpi.cpp"), "");
}

TEST(HelperNames, GivenTwiceInARoom_AreReported) {
  const auto anonymous = [](const std::string& code) {
    return "namespace shardproof {\nnamespace {\n" + code +
           "\n}  // namespace\n}  // namespace shardproof\n";
  };
  const auto message = [&](const std::string& path, const std::string& a, const std::string& b) {
    return first_message(check_helper_names(
        {make_source("sim/a.cpp", anonymous(a)), make_source(path, anonymous(b))}));
  };
  const std::string one = "int rank_of(const Call& call) {\n  return call.rank;\n}";
  const auto twice = [](const std::string& name) {
    return "3: helper " + name +
           " of room sim is declared in sim/a.cpp line 3 too, and both may compile as one; share "
           "it "
           "or name each after its purpose";
  };
  EXPECT_EQ(message("sim/b.cpp", one, one), twice("rank_of"));
  EXPECT_EQ(message("sim/b.cpp", one, "std::map<int, F<void(int)>> rank_of(int place,"),
            twice("rank_of"));
  EXPECT_EQ(message("sim/b.cpp", "constexpr int kSide = 4;", "const char* const kSide[] = {"),
            twice("kSide"));
  EXPECT_EQ(message("sim/b.cpp", one, "\ntemplate <class T>\nvoid\nrank_of(T) {}").substr(0, 2),
            "6:");

  EXPECT_EQ(message("sim/b.cpp", one, "// rank_of(a)\nint rank(int b) { return rank_of(b); }"), "");
  EXPECT_EQ(message("sim/b.cpp", one, "int Table::rank_of(int b) {}\n  rank_of(2);"), "");
  EXPECT_EQ(message("sim/b.cpp", "bool operator==(A a, A b) {}", "bool operator==(B a, B b) {}"),
            "");
  EXPECT_EQ(message("sim/b.cpp", "static_assert(kA == 1);", "static_assert(kA == 2);"), "");
  EXPECT_EQ(message("sim/b.cpp", "using Row = Dims;", "using Row = Dims;"), "");
  EXPECT_EQ(message("ops/b.cpp", one, one), "");
  EXPECT_EQ(message("sim/call/no_mpi.cpp", one, one), "");
  EXPECT_EQ(message("sim/b.cu", one, one), "");
  EXPECT_EQ(message("tests/sim/b.cpp", one, one), "");
  EXPECT_EQ(message("sim/b.cpp", one, "}  // namespace\n" + one + "\nnamespace {"), "");
}

TEST(HelperNames, GivenToAFunctionOfAHeader_AreReported) {
  const auto message = [](const std::string& path, const std::string& declared) {
    const std::string code = "int rank_of(const Call& call) {\n  return 0;\n}\n";
    const std::string end = "}  // namespace shardproof\n";
    return first_message(check_helper_names(
        {make_source("sim/b.cpp",
                     "namespace shardproof {\nnamespace {\n" + code + "}  // namespace\n" + end),
         make_source(path, "namespace shardproof {\n" + declared + "\n" + end)}));
  };
  EXPECT_EQ(message("sim/a.h", "int64_t rank_of(int place);").substr(0, 61),
            "3: helper rank_of of room sim is declared in sim/a.h line 2 t");
  EXPECT_EQ(message("ops/a.h", "int64_t rank_of(int place);"), "");
  EXPECT_EQ(message("sim/a.h", "struct Calls {\n  int rank_of(int place);\n};"), "");
  EXPECT_EQ(message("sim/a.h", "namespace text {\nint rank_of(int);\n}  // namespace text"), "");
  EXPECT_EQ(message("sim/a.cpp", "int64_t rank_of(int place) {\n  return 1;\n}"), "");
}

TEST(Exemptions, HoldForOneRuleBelowAPrefix) {
  const std::vector<Exemption> rows = {{"sizes", "sim/"}, {"habits", "ops/"}};
  const Violations all = {{"sim/a.cpp", 1, "long", "sizes"},
                          {"sim/a.cpp", 1, "tab", "habits"},
                          {"cli/a.cpp", 1, "long", "sizes"}};
  EXPECT_EQ(without_exempt(all, rows), (Violations{all[1], all[2]}));
  EXPECT_EQ(count_text(all, rows),
            "                           cli         sim    all\n"
            "habits                       0           1      1\n"
            "sizes                        1           1      2\n"
            "no violation of habits is left below ops/: delete its row in "
            "tests/tidy/exemptions.cpp\n");
}

// A small tree on disk with violations, to test load_tree and check_format.
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
    write("build/sim/generated.cpp", "not read");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::ofstream(root_ / path, std::ios::binary) << text;
  }

  fs::path root_;
};

TEST(TypeNames, GivenTwiceInANamespace_AreReported) {
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
  EXPECT_EQ(message(job, job),
            "2: shardproof::Job is defined in sim/a.h line 2 too; give one another name");
  EXPECT_EQ(message(job, "namespace shardproof {\nclass Job final : public Base {\n};\n"),
            "2: shardproof::Job is defined in sim/a.h line 2 too; give one another name");
  EXPECT_EQ(message(job, "namespace shardproof::detail {\nstruct Job {};\n"), "");
}

TEST_F(TreeOnDisk, IsReadWithoutBuildFolders) {
  std::vector<Source> tree = load_tree(root_);
  ASSERT_EQ(tree.size(), 2U);
  EXPECT_EQ(tree[1].path, "sim/bad.cpp");
  std::set<std::string> rules;
  for (const Violation& violation : check_tree(tree)) {
    EXPECT_EQ(violation.path, "sim/bad.cpp");
    rules.insert(violation.rule);
  }
  EXPECT_EQ(rules, (std::set<std::string>{"includes", "file-opening", "folder-order",
                                          "public-header", "source-name"}));
}

TEST_F(TreeOnDisk, UnformattedSource_IsReported) {
  std::string skipped;
  Violations found = check_format(root_, load_tree(root_), skipped);
  if (!skipped.empty()) GTEST_SKIP() << skipped;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], (Violation{"sim/bad.cpp", 2, "not formatted; run ./dev fmt", ""}));
}

TEST(Approval, DifferentTexts_ShowTheFirstDifference) {
  EXPECT_EQ(first_difference("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(first_difference("a\nb\n", "a\nc\n"), "line 2\n  approved  b\n  received  c");
  EXPECT_EQ(first_difference("a\n", "a\nc\n"),
            "line 2\n  approved  (the text ends here)\n  received  c");
  EXPECT_EQ(first_difference("a\n", "a"),
            "the texts differ in the line end at the end of the file");
}

}  // namespace
}  // namespace shardproof::tidy
