#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/run/check_expectations.h"

namespace shardproof::load_test {
namespace {

namespace fs = std::filesystem;

// Returns the message and place of a refusal, or "".
std::string refusal(const std::string& text, const LoadOptions& options = {}) {
  try {
    load_text(text, "f.json", options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Returns a file with these members, a version and a mesh.
std::string file(const std::string& members, const std::string& mesh = "tp=2") {
  return "{\"version\": 1, \"mesh\": \"" + mesh + "\", " + members + "}";
}
std::string with_tensor(const std::string& tensor, const std::string& mesh = "tp=2") {
  return file("\"tensors\": {\"x\": " + tensor + "}, \"program\": [\"y = x\"]", mesh);
}

// Returns a file with a program of three lines and these members of `expect`.
std::string bound(const std::string& expect) {
  return file(
      "\"tensors\": {\"x\": {\"shape\": [4]}}, \"program\": [\"y = x\", \"for i in range(2):\", "
      "\"  h{i} = x\"], \"expect\": {" +
      expect + "}");
}

struct Refused {
  std::string text, message;
};

void expect_refused(const std::vector<Refused>& cases) {
  for (const Refused& one : cases) {
    const std::string got = refusal(one.text);
    EXPECT_NE(got.find(one.message), std::string::npos) << one.text << "\n  got: " << got;
    EXPECT_TRUE(std::regex_search(got, std::regex("^f\\.json:[0-9]+:[0-9]+: /"))) << got;
    EXPECT_LE(std::count(got.begin(), got.end(), '\n'), 5) << got;
  }
}

TEST(Load, MalformedJson_IsRefusedWithLineAndColumn) {
  expect_refused({
      {"", "f.json:1:1: /: "},
      {"{\"version\": 1,}", "f.json:1:15: /: "},
      {"{\"version\": 1 \"mesh\": \"tp=2\"}",
       "f.json:1:15: /: JSON syntax: unexpected string literal; expected ',' or '}'"},
      {"{\"version\": 1 false}", "f.json:1:15: /: JSON syntax: unexpected false"},
      {"{\"version\": [1 23456]}", "f.json:1:16: /version: JSON syntax: unexpected number"},
      {"{\"version\": 1,\n \"version\": 1}", "f.json:2:2: /version: key \"version\" occurs twice"},
      {"{\"a\": \"\xff\"}", "f.json:1:8: /: expected UTF-8, found byte 0xff"},
      {"{\"a\": \"\xed\xa0\x80\"}", "expected UTF-8"},
      {"{\"a\": 9223372036854775808}",
       "f.json:1:7: /a: integer 9223372036854775808 does not fit 64 bits"},
      {"{\"a\": -9223372036854775809}", "does not fit 64 bits"},
      {std::string(200, '['), "f.json:1:65: /0/0"},
      {std::string(200, '['), "more than 64 levels of nesting"},
      {"{\"version\": 1} x", "f.json:1:16: /: "},
      {std::string("{\"version\": 1}\0x", 16), "zero byte"},
      {"[1]", "expected a scenario, which is an object"},
      {"{\"version\": 1,\n \"mesh\": \"tp=2,\n \"world\": 2}",
       "f.json:2:10: /: JSON syntax: expected a closing quote on the line of this string"},
      {"{\"a\": \"b\\\"", "f.json:1:7: /: JSON syntax: expected a closing quote"},
      {"{\"mesh\": \"tp=2, \"world\": 2}", "f.json:1:18: /"},
      {"{\"mesh\": \"tp=2, \"world\": 2}", "is the quote that closes an earlier string missing?"},
      {"/* no end", "invalid comment"},
      {"{\"version\": 1, // no end", "f.json:1:25: /: JSON syntax: unexpected end of input"},
  });
}

TEST(Load, MillionBrackets_DoNotOverflowTheStack) {
  EXPECT_NE(refusal(std::string(1000000, '[')).find("64 levels"), std::string::npos);
}

TEST(Load, Version_IsCheckedFirst) {
  expect_refused({
      {"{\"mesh\": \"tp=2\"}", "key \"version\" is missing"},
      {"{\"version\": 2, \"new key\": 1}", "/version: version 2 of the scenario language is newer"},
      {"{\"version\": 0}", "/version: expected the number 1, found 0"},
      {"{\"version\": 1.0}", "found a number with a fraction or an exponent; write 1"},
  });
}

TEST(Load, UnknownWords_GetTheNearestKnownOne) {
  expect_refused({
      {file("\"tensor\": {}"), "/tensor: unknown key; did you mean \"tensors\"?"},
      {with_tensor("{\"shape\": [4], \"placement\": \"tp:R\"}"),
       "/tensors/x/placement: unknown key; did you mean \"placements\"?"},
      {with_tensor("{\"shape\": [4], \"dtype\": \"bf17\"}"), "did you mean \"bf16\"?"},
      {with_tensor("{\"shape\": [4], \"fill\": \"int\"}"), "did you mean \"ints\"?"},
      {with_tensor("{\"shape\": [4], \"placements\": \"tq:S(0)\"}"), "/tensors/x/placements"},
      {file("\"tensors\": {}, \"program\": [], \"expect\": {\"verdict\": \"deadlok\"}"),
       "/expect/verdict: unknown verdict \"deadlok\"; did you mean \"deadlock\"?"},
      {file("\"tensors\": {}, \"program\": [], \"expect\": {\"collectives\": {\"all_reduc\": 1}}"),
       "did you mean \"all_reduce\"?"},
      {file("\"tensors\": {}, \"program\": [], \"expect\": {\"bytes\": {\"tq\": 1}}"),
       "did you mean \"tp\"?"},
      {file("\"let\": {\"hidden\": 4}, \"tensors\": {\"x\": {\"shape\": [\"hiden\"]}}, "
            "\"program\": []"),
       "/tensors/x/shape/0"},
  });
}

TEST(Load, Sizes_AreChecked) {
  expect_refused({
      {with_tensor("{\"shape\": [-1]}"), "/tensors/x/shape/0: expected a size of 0 or more"},
      {with_tensor("{\"shape\": [\"7 / 2\"]}"), "/tensors/x/shape/0"},
      {with_tensor("{\"shape\": [\"1 // 0\"]}"), "/tensors/x/shape/0"},
      {with_tensor("{\"shape\": [\"2 ** 62 * 2\"]}"), "/tensors/x/shape/0"},
      {with_tensor("{\"shape\": [\"2 ** 40\", \"2 ** 40\"]}"), "/tensors/x/shape"},
      {with_tensor("{\"shape\": [\"2 ** 40\", 1024]}"), "the limit is"},
      {with_tensor("{\"shape\": [1,1,1,1,1,1,1,1,1]}"), "at most 8 dims"},
      {with_tensor("{\"shape\": [4], \"placements\": \"tp:S(1)\"}"), "/tensors/x/placements"},
      {with_tensor("{\"shape\": [4], \"placements\": \"tp:S(0, sizes=[1, 2])\"}"),
       "/tensors/x/placements"},
      {with_tensor("{\"shape\": [4], \"dtype\": \"bool\", \"placements\": \"tp:P(sum)\"}"),
       "/tensors/x/placements"},
      {with_tensor("{\"shape\": [4], \"placements\": \"a:P(sum) b:P(max)\"}", "a=2, b=2"),
       "/tensors/x/placements"},
      {with_tensor("{\"shape\": [4]}", "tp=2000000"), "/mesh: 2000000 ranks, the limit is 1048576"},
      {with_tensor("{\"shape\": [4]}", "tp=0"), "/mesh"},
      {with_tensor("{}"), "expected \"shape\" or \"values\""},
  });
}

TEST(Load, Values_MustBeRectangularAndFitTheDtype) {
  expect_refused({
      {with_tensor("{\"values\": [[1, 2], [3]]}"),
       "/tensors/x/values/1: expected a list of 2 entries"},
      {with_tensor("{\"values\": [1, [2]]}"), "/tensors/x/values/1: expected a number"},
      {with_tensor("{\"values\": [1], \"shape\": [2]}"),
       "/tensors/x/values: expected values of \"shape\""},
      {with_tensor("{\"values\": [300], \"dtype\": \"u8\"}"), "300 does not fit u8"},
      {with_tensor("{\"values\": [1, 500], \"dtype\": \"f8e4m3\"}"),
       "500 does not fit f8e4m3, whose largest number is 448"},
      {with_tensor("{\"values\": [1e6], \"dtype\": \"f16\"}"),
       "1000000 does not fit f16, whose largest number is 65504"},
      {with_tensor("{\"values\": [1e50]}"), "1e+50 does not fit f32"},
      {with_tensor("{\"shape\": [1], \"dtype\": \"f16\", \"fill\": \"const(1e6)\"}"),
       "1000000 does not fit f16"},
      {with_tensor("{\"values\": [0.5], \"dtype\": \"i32\"}"), "expected a whole number for i32"},
      {with_tensor("{\"values\": [1], \"fill\": \"ones\"}"),
       "expected one of \"fill\" and \"values\""},
      {with_tensor("{\"shape\": [1], \"fill\": \"ints(3, 3)\"}"), "write ints(3, 4)"},
      {with_tensor("{\"shape\": [1], \"fill\": \"uniform(1, 0)\"}"),
       "uniform(1, 0) is an empty range: lo must not be above hi"},
      {with_tensor("{\"shape\": [1], \"fill\": \"normal(0, -1)\"}"),
       "normal(0, -1) has a negative standard deviation"},
      {with_tensor("{\"shape\": [1], \"fill\": \"uniform(0, 1)\", \"dtype\": \"i8\"}"),
       "floating dtype"},
      {with_tensor("{\"shape\": [1], \"fill\": \"const()\"}"), "expected const(c)"},
  });
}

TEST(Load, EachRank_HasOneListing) {
  const auto ranks = [](const std::string& object) {
    return file("\"tensors\": {}, \"ranks\": {" + object + "}", "dp=2, tp=2");
  };
  EXPECT_EQ(refusal(ranks("\"dp=0\": [], \"rest\": []")), "");
  EXPECT_EQ(refusal(ranks("\"dp=0 tp=1\": [], \"0 2\": [], \"3\": []")), "");
  expect_refused({
      {ranks("\"dp=0\": []"), "/ranks: ranks 2 3 have no listing"},
      {ranks("\"0-2\": []"), "/ranks: rank 3 has no listing"},
      {ranks("\"dp=0\": [], \"1\": [], \"rest\": []"),
       "/ranks/1: expected each rank in one selector, found rank 1 in /ranks/dp=0 too"},
      {ranks("\"all\": [], \"rest\": []"), "\"rest\" selects no rank"},
      {ranks("\"0-2 1\": [], \"rest\": []"), "/ranks/0-2 1: \"0-2 1\" lists a rank twice"},
      {ranks("\"0-4\": []"), "rank 4 does not exist: the world has 4 ranks"},
      {ranks("\"dp=2\": []"), "dp=2 is out of range: axis dp has size 2"},
      {ranks("\"dq=0\": []"), "unknown axis dq; did you mean \"dp\"?"},
      {ranks("\"first\": []"), "expected ranks such as"},
  });
}

TEST(Load, TruthWithChecks_NeedsNoOutputs) {
  EXPECT_EQ(
      refusal(file("\"tensors\": {\"x\": {\"shape\": [4]}}, \"ranks\": {\"0\": [], \"1\": "
                   "[\"if rank == 1:\", \"  check(x, 'y_{rank}')\"]}, \"truth\": [\"y_1 = x\"]")),
      "");
}

TEST(Load, Names_ShareOneSpace) {
  const std::string program = ", \"program\": []";
  expect_refused({
      {file("\"let\": {\"tp\": 1}, \"tensors\": {}" + program),
       "tp is already the name of an axis"},
      {file("\"let\": {\"x\": 1}, \"tensors\": {\"x\": {\"shape\": [1]}}" + program),
       "x is already the name of a let"},
      {file("\"tensors\": {\"rank\": {\"shape\": [1]}}" + program), "rank is a reserved word"},
      {file("\"tensors\": {\"bf16\": {\"shape\": [1]}}" + program), "bf16 is a reserved word"},
      {file("\"tensors\": {\"2x\": {\"shape\": [1]}}" + program),
       "begins with no digit, found \"2x\""},
      {file("\"tensors\": {\"c\": {\"shape\": [1]}}, \"ranks\": {\"all\": [\"on c:\", \"  y = "
            "c\"]}"),
       "c is already the name of a tensor"},
  });
}

TEST(Load, IncompletePrograms_AreRefused) {
  expect_refused({
      {file("\"tensors\": {}"), "expected \"program\" (global) or \"ranks\""},
      {file("\"tensors\": {}, \"program\": [], \"ranks\": {\"all\": []}"), "one of"},
      {file("\"program\": []"), "key \"tensors\" is missing"},
      {"{\"version\": 1, \"tensors\": {}, \"program\": []}", "key \"mesh\" is missing"},
      {file("\"tensors\": {}, \"program\": [\"a = 1\", \"b = 2\\nc = 3\"]"),
       "/program/1, line 2 of the program: expected one line, found a line break"},
      {file("\"tensors\": {}, \"program\": [\"y = (1\"]"),
       "/program/0, line 1 of the program, column"},
      {file("\"tensors\": {}, \"program\": [\"for i in range(3):\"]"),
       "/program/0, line 1 of the program"},
      {file("\"tensors\": {}, \"ranks\": {\"all\": []}, \"truth\": []"),
       "/truth: \"truth\" needs \"outputs\", such as {\"y\": \"dp:S(0)\"}, or a line such as "
       "check(x, 'h', dp:S(0)) in \"ranks\""},
      {file("\"tensors\": {}, \"program\": [], \"truth\": []"),
       "/truth: this key is for \"ranks\""},
      {bound("\"values\": {\"yy\": [1]}"),
       "/expect/values/yy: expected the name of a value, found \"yy\", which no line binds; did "
       "you "
       "mean \"y\"?"},
      {bound("\"local\": {\"h\": {\"all\": [1]}}"),
       "/expect/local/h: expected the name of a value"},
      {bound("\"local\": {\"y\": {\"7\": [1]}}"), "/expect/local/y"},
      {bound("\"placements\": {\"ya\": \"tp:R\"}"), "/expect/placements/ya: expected the name"},
      {bound("\"placements\": {\"y\": \"tq:R\"}"),
       "/expect/placements/y: unknown axis tq; did you mean \"tp\"?"},
      {bound("\"verdict\": \"wrong values\", \"name\": \"Y\""), "/expect/name: expected the name"},
      {bound("\"verdict\": \"wrong values\", \"line\": 9"),
       "/expect/line: expected a line from 1 to 3, found 9"},
      {bound("\"line\": 2"), "/expect/line: \"line\" describes a finding"},
      {bound("\"verdict\": \"wrong values\", \"line\": \"> 3\""), "/expect/line: expected a line"},
      {bound("\"verdict\": \"deadlock\", \"call\": 0"),
       "/expect/call: expected a condition that a number from 1 upwards can meet, found 0"},
      {bound("\"bytes\": {\"tp\": \"< 0\"}"),
       "/expect/bytes/tp: expected a condition that a number from 0 upwards can meet, found \"< "
       "0\""},
      {bound("\"collectives\": {\"all_gather\": {\"0\": -1}}"),
       "/expect/collectives/all_gather/0: expected a condition that a number from 0 upwards can "
       "meet, found -1"},
      {bound("\"collectives\": {\"all_gatter\": 1}"), "unknown kind of call"},
      {file("\"tensors\": {}, \"program\": [], \"expect\": {\"time\": \"< 1 us\"}"),
       "/expect/time: \"time\" needs a \"topology\""},
  });
}

TEST(Load, Topologies_WithHalfADevice_AreRefused) {
  const auto machine = [](const std::string& topology) {
    return file("\"topology\": \"" + topology + "\", \"tensors\": {}, \"program\": []");
  };
  expect_refused({
      {machine("flat(latency='5 us', bandwidth='50 GB/s', compute='1 TFLOP/s')"),
       "expected both rates of a device or none, such as compute='50 GFLOP/s', memory='20 GB/s'"},
      {machine("flat(latency='5 us', bandwidth='50 GB/s', compute='1 GB/s', memory='1 GB/s')"),
       "expected a rate of arithmetic such as \"50 GFLOP/s\", found \"1 GB/s\""},
      {machine("flat(latency='5 us', bandwidth='50 GB/s', compute='0 FLOP/s', memory='1 GB/s')"),
       "a device needs rates above 0"},
      {machine("flat(latency='5 us', bandwidth='50 GB/s', computes='1 GB/s')"),
       "unknown key \"computes\"; did you mean \"compute\"?"},
      {machine("ideal(latency='5 us')"), "communication of \"ideal\" takes no time"},
  });
}

TEST(Load, UnsupportedFeatures_AreRefusedByName) {
  const std::string later = "is not supported by this version";
  const std::string end = ", \"tensors\": {}, \"program\": []";
  expect_refused({
      {file("\"model\": \"llama3-8b\""), later},
      {file("\"resident\": 1" + end), later},
      {file("\"topology\": \"dgx-h100 x 8\"" + end), later},
      {file("\"expect\": {\"verdict\": \"leak\"}" + end), later},
      {file("\"expect\": {\"bubble\": 0}" + end), later},
      {file("\"tensors\": {\"x\": {\"shape\": [1]}}, \"program\": [\"save('d', [x])\"]"), later},
  });
}

TEST(Load, Lets_ArePastedAndEvaluated) {
  const Scenario scenario = load_text(
      R"json({"version": 1, "mesh": "dp=2, tp=$n",
          "let": {"n": 3, "m": "n * size(dp)", "px": "tp:S(0)", "any": "%%"},
          "tensors": {"x": {"shape": ["m", "$m"], "placements": "$px"}},
          "program": ["y = x * $n"]})json",
      "f.json");
  const Job& job = scenario.cases.at(0).phases.at(0).job;
  EXPECT_EQ(job.world, 6);
  EXPECT_EQ(job.inputs.at(0).spec.shape(), (Dims{6, 6}));
  EXPECT_EQ(placements_text(job.inputs.at(0).spec), "tp:S(0)");
  EXPECT_EQ(job.program->lines.at(0), "y = x * 3");
  expect_refused(
      {{with_tensor("{\"shape\": [\"$size\"]}"), "unknown name $size"},
       {file("\"let\": {\"a\": \"b\", \"b\": 1}, \"tensors\": {\"x\": {\"shape\": [\"a\"]}}, "
             "\"program\": []"),
        "/let/a"}});
}

TEST(Load, SetOption_OverridesALet) {
  const std::string text = file(
      "\"let\": {\"n\": 2, \"m\": \"n * 3\"}, \"program\": [], "
      "\"tensors\": {\"x\": {\"shape\": [\"m\"]}}");
  LoadOptions options;
  options.set = {{"n", "5"}};
  const Scenario scenario = load_text(text, "f.json", options);
  EXPECT_EQ(scenario.cases[0].phases[0].job.inputs[0].spec.shape(), (Dims{15}));
  options.set = {{"k", "5"}};
  EXPECT_NE(refusal(text, options).find("--set k: the file has no let"), std::string::npos);
}

TEST(Load, SweepOfLists_IsTheProductInOrderOfWriting) {
  const Scenario scenario = load_text(
      R"({"version": 1, "let": {"n": 1}, "tensors": {"x": {"shape": ["n"]}}, "program": [],
          "sweep": {"mesh": ["tp=2", "dp=2, tp=3"], "n": [7, 16], "/explicit": [true]}})",
      "f.json");
  std::vector<std::string> names;
  for (const Case& one : scenario.cases) names.push_back(one.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "mesh=tp=2 n=7 /explicit=true", "mesh=tp=2 n=16 /explicit=true",
                "mesh=dp=2, tp=3 n=7 /explicit=true", "mesh=dp=2, tp=3 n=16 /explicit=true"}));
  EXPECT_EQ(scenario.cases[3].phases[0].job.world, 6);
  EXPECT_TRUE(scenario.cases[3].phases[0].job.explicit_only);
}

TEST(Load, Sweeps_AreChecked) {
  const auto sweep = [](const std::string& value) {
    return file("\"let\": {\"n\": 1}, \"tensors\": {}, \"program\": [], \"sweep\": " + value);
  };
  std::string many = "[";
  for (int i = 0; i < 101; ++i) many += (i ? "," : "") + std::to_string(i);
  many += "]";
  expect_refused({
      {sweep("{\"n\": " + many + ", \"/about\": " + many + "}"),
       "/sweep: expected at most 10000 cases"},
      {sweep("{\"explicit\": [true]}"),
       "a sweep sets this key by its JSON pointer; write \"/explicit\""},
      {sweep("{\"mesg\": [\"tp=2\"]}"), "did you mean \"mesh\"?"},
      {sweep("{\"n\": []}"), "at least one value"},
      {sweep("[{\"/explicit/x\": 1}]").insert(1, "\"explicit\": true, "),
       "expected a list or an object above \"x\", found a boolean"},
      {sweep("{\"/version\": [2]}"), "/sweep/~1version: a sweep cannot set \"version\""},
      {sweep("[{\"/version/x\": 1}]"), "a sweep cannot set \"version\""},
      {sweep("{\"version\": [1]}"), "a sweep cannot set \"version\""},
      {sweep("[{\"/sweep/n\": [1]}]"), "a sweep cannot set \"sweep\""},
      {sweep("3"), "expected an object of lists or a list of cases"},
  });
}

TEST(Load, CasesOfAList_HaveTheirOwnExpectation) {
  const Scenario scenario = load_text(
      R"({"version": 1, "mesh": "tp=2", "tensors": {}, "program": [], "expect": {"verdict": "deadlock"},
          "sweep": [{"hold": "", "expect": {"verdict": "mismatch"}}, {"hold": "x"}]})",
      "f.json");
  EXPECT_EQ(scenario.cases[0].phases[0].expect.verdict, Verdict::mismatch);
  EXPECT_EQ(scenario.cases[1].phases[0].expect.verdict, Verdict::deadlock);
}

TEST(Load, Phases_ShareTensorsAndLets) {
  const Scenario scenario = load_text(
      R"json({"version": 1, "tensors": {"w": {"shape": [6], "placements": "dp:S(0)"}}, "phases": [
          {"mesh": "dp=3", "program": ["y = w"]},
          {"mesh": "dp=2", "ranks": {"all": []}, "expect": {"verdict": "deadlock"}}]})json",
      "f.json");
  const std::vector<Phase>& phases = scenario.cases.at(0).phases;
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].job.world, 3);
  EXPECT_EQ(phases[1].job.world, 2);
  EXPECT_EQ(phases[1].expect.verdict, Verdict::deadlock);
}

TEST(Load, ExpectedBadInput_IsStoredInTheCase) {
  const Scenario scenario =
      load_text(file("\"tensors\": {\"x\": {\"shape\": [-1]}}, \"program\": [], "
                     "\"expect\": {\"verdict\": \"bad input\", \"error\": \"size of 0 or more\"}"),
                "f.json");
  ASSERT_TRUE(scenario.cases[0].refused.has_value());
  EXPECT_TRUE(unmet_expectations(scenario.cases[0].refusal, *scenario.cases[0].refused).empty());
}

TEST(Load, ErrorInExpect_IsNotTheExpectedBadInput) {
  const std::string good = "\"tensors\": {\"x\": {\"shape\": [4]}}, \"program\": [\"y = x + 1\"], ";
  const std::string bad = "\"tensors\": {\"x\": {\"shape\": [-1]}}, \"program\": [], ";
  const auto expects = [](const std::string& more) {
    return "\"expect\": {\"verdict\": \"bad input\", " + more + "}";
  };
  const std::string unknown = "/expect/eror: unknown key; did you mean \"error\"?";
  expect_refused({
      {file(good + expects("\"eror\": \"x\"")), unknown},
      {file(good + expects("\"line\": \"abc\"")), "/expect/line"},
      {file(good + expects("\"ranks\": \"7\"")), "/expect/ranks: rank 7 does not exist"},
      {file(good + expects("\"values\": {\"y\": null}")), "/expect/values/y"},
      // The expectation is checked although the program was refused before it was read.
      {file(bad + expects("\"eror\": \"x\"")), unknown},
      {file(good + expects("\"error\": \"\"") + ", \"phases\": [{\"program\": [], \"expect\": " +
            "{\"verdict\": \"bad input\", \"eror\": \"x\"}}]"),
       "/phases/0/expect/eror: unknown key"},
      {file(good + "\"sweep\": [{\"n\": 1, " + expects("\"eror\": \"x\"") + "}]"), unknown},
  });
}

TEST(Load, CleanVerdict_WithPlaceOfAFinding_IsRefused) {
  for (const std::string entry :
       {"\"line\": 1", "\"ranks\": \"0\"", "\"name\": \"y\"", "\"ratio\": 1", "\"call\": 1"})
    expect_refused({{bound(entry), "describes a finding"}});
}

TEST(Load, Pasting_HasALimit) {
  std::string lets = "\"a0\": \"xxxxxxxx\"";
  for (int i = 1; i < 40; ++i) lets += fmt::format(", \"a{}\": \"$a{}$a{}\"", i, i - 1, i - 1);
  expect_refused({{file("\"let\": {" + lets + "}, \"tensors\": {}, \"program\": []"),
                   "/let/a18, column 5: more than 1 MiB of text after pasting"}});
}

TEST(Load, LineBreakInAKey_GivesAMessageOfOneLine) {
  const auto one_line = [](const std::string& text, const std::string& message) {
    const std::string got = refusal(text);
    EXPECT_NE(got.find(message), std::string::npos) << got;
    EXPECT_EQ(got.find_first_of("\n\r"), std::string::npos) << got;
  };
  const std::string end = ", \"tensors\": {}, \"program\": []";
  one_line(file("\"a\\nb\": 1"), "/a\\nb: unknown key");
  one_line(file("\"let\": {\"a\\nb\\r\": 1}" + end),
           "begins with no digit, found \"a\\nb\\u000d\"");
  one_line(file("\"tensors\": {\"a\\nb\": {\"shape\": [1]}}, \"program\": []"),
           "begins with no digit, found");
  one_line(file("\"program\": [], \"tensors\": {}, \"expect\": {\"bytes\": {\"a\\nb\": 1}}"),
           "found \"a\\nb\"");
  one_line(file("\"ranks\": {\"a\\nb\": []}, \"tensors\": {}"), "expected ranks such as");
  one_line(
      file("\"let\": {\"n\": 1}, \"sweep\": {\"n\": [\"a\\nb\"]}, \"tensors\": {}, \"program\": 1"),
      "(case n=a\\nb)");
}

TEST(Load, InfiniteFactorOfAFault_IsRefused) {
  for (const std::string by : {"inf", "nan", "0", "-1"})
    expect_refused(
        {{file("\"tensors\": {}, \"program\": [], \"faults\": [\"slow(rank=0, by=" + by + ")\"]"),
          "/faults/0: fault \"slow(rank=0, by=" + by + ")\": by must be above 0"}});
}

// Draws depend on the global index, so a longer tensor begins with the elements of a shorter one.
TEST(Fill, Element_DependsOnItsIndexOnly) {
  for (const char* text :
       {"ints", "ints(-100, 100)", "iota", "uniform(0, 1)", "normal(0, 1)", "ones"}) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const Fill fill = parse_fill(text, dtype, {});
      const std::vector<double> longer = values_of(fill_tensor(fill, "w", dtype, {40}, 7));
      const std::vector<double> shorter = values_of(fill_tensor(fill, "w", dtype, {3, 5}, 7));
      EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin())) << text;
    }
  }
}

TEST(Fill, Defaults_StayInTheirRange) {
  for (const auto& [dtype, low, high] : {std::tuple{DType::f32, -4, 4},
                                         {DType::i8, -4, 4},
                                         {DType::u8, 0, 8},
                                         {DType::boolean, 0, 1}}) {
    std::set<double> seen;
    for (const double value : values_of(fill_tensor(default_fill(dtype), "x", dtype, {500}, 1)))
      seen.insert(value);
    EXPECT_EQ(*seen.begin(), low);
    EXPECT_EQ(*seen.rbegin(), high);
    EXPECT_EQ(seen.size(), static_cast<size_t>(high - low + 1));
  }
}

fs::path own_folder() {
  return fs::path(testing::TempDir()) / ("shardproof_files_" + std::to_string(getpid()));
}

TEST(Files, UnreadableFile_IsNamed) {
  const fs::path folder = own_folder();
  fs::create_directories(folder / "empty");
  for (const std::string& path :
       {(folder / "missing.json").string(), (folder / "empty").string()}) {
    try {
      find_scenarios(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_FALSE(error.where().file.empty());
    }
  }
  EXPECT_THROW(load_file((folder / "empty").string(), "empty"), Error);
  fs::remove_all(folder);
}

TEST(Files, Folder_IsReadInOrder_AndShownWithoutItsRoot) {
  const fs::path folder = own_folder() / "order";
  fs::create_directories(folder / "b");
  for (const char* name : {"z.json", "b/a.json", "a.json", "notes.txt"})
    std::ofstream(folder / name) << "{\"mesh\": \"tp=2\"}";
  std::vector<std::string> files;
  for (const ScenarioPath& path : find_scenarios(folder.string()).paths) {
    files.push_back(path.file);
    EXPECT_FALSE(path.file.starts_with("/"));
  }
  EXPECT_EQ(files, (std::vector<std::string>{"order/a.json", "order/b/a.json", "order/z.json"}));
  fs::remove_all(own_folder());
}

}  // namespace
}  // namespace shardproof::load_test
