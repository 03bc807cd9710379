// Tests the errors of the parser: their places and their words.
#include <gtest/gtest.h>

#include <ctime>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/ast.h"

namespace shardproof::parse_error_test {
namespace {

using Lines = std::vector<std::string>;

std::string refusal(const Lines& lines) {
  try {
    parse_listing(lines);
  } catch (const Error& error) {
    return error.what();
  }
  return "parsed";
}

struct Case {
  Lines lines;
  std::string message;
};

void expect_refusals(const std::vector<Case>& cases) {
  for (const Case& one : cases) EXPECT_EQ(refusal(one.lines), one.message) << one.lines.back();
}

TEST(ParseError, Expressions) {
  expect_refusals({
      {{"y = "}, "line 1, column 5: expected a value, found the end of the line"},
      {{"y = x +  # why"}, "line 1, column 10: expected a value, found the end of the line"},
      {{"y = x + * 3"}, "line 1, column 9: expected a value, found \"*\""},
      {{"y = (x"}, "line 1, column 7: expected \")\" or an operator, found the end of the line"},
      {{"y = (1, 2"}, "line 1, column 10: expected \",\" or \")\", found the end of the line"},
      {{"y = ()"}, "line 1, column 6: expected a value, found \")\""},
      {{"True = x"}, "line 1, column 1: expected a name that is not reserved, found \"True\""},
      {{"y = [1, 2"}, "line 1, column 10: expected \",\" or \"]\", found the end of the line"},
      {{"y = [1, ]"}, "line 1, column 9: expected a value, found \"]\""},
      {{"y = x[]"}, "line 1, column 7: expected a value, found \"]\""},
      {{"y = x[::2:3]"}, "line 1, column 10: expected \",\" or \"]\", found \":\""},
      {{"y = x[1...]"}, "line 1, column 8: expected \",\" or \"]\", found \"...\""},
      {{"None = x"}, "line 1, column 1: expected a name that is not reserved, found \"None\""},
      {{"y = x.t"},
       "line 1, column 7: expected \"T\" after \".\", found \"t\"; tensors have no attributes: "
       "write x.T"},
      {{"y = all_reduce(x, ReduceOp.SUM)"},
       "line 1, column 28: expected \"T\" after \".\", found \"SUM\"; reductions have no prefix: "
       "write sum"},
      {{"y = x * .5"},
       "line 1, column 9: expected a value, found \".\"; a number begins with a digit: write 0.5 "
       "for "
       ".5"},
      {{"y = x.shape[0]"},
       "line 1, column 7: expected \"T\" after \".\", found \"shape\"; tensors have no attributes: "
       "write dim(x, 0) in a rank program, a name of \"let\" in a global program"},
      {{"y = F.relu(x)"},
       "line 1, column 7: expected \"T\" after \".\", found \"relu\"; ops have no prefix: write "
       "relu(x)"},
      {{"y = 2x"},
       "line 1, column 6: expected an operator, \"as\" or the end of the line, found \"x\""},
      {{"y = 9223372036854775808"},
       "line 1, column 5: expected an integer of 64 bits, found \"9223372036854775808\""},
      {{"y = 1e999"},
       "line 1, column 5: expected a number within the range of a double, found \"1e999\""},
      {{"y = a < b < c"},
       "line 1, column 11: expected \"and\" between two comparisons, found \"<\"; write a < b and "
       "b "
       "< c"},
      {{"y = 1 + not x"}, "line 1, column 9: expected a value or \"(not ..)\", found \"not\""},
      {{"y = if"}, "line 1, column 5: expected a value, found \"if\""},
      {{"y = $x"}, "line 1, column 5: expected a value, found \"$\""},
      {{"y = x \xc3\xa9"},
       "line 1, column 7: expected an operator, \"as\" or the end of the line, found \"\xc3\xa9\""},
      {{"y = R"},
       "line 1, column 5: expected a value, found the placement \"R\"; placements stand only as an "
       "argument of a call or after \"as\""},
  });
}

TEST(ParseError, CallsAndPlacements) {
  expect_refusals({
      {{"f(x"}, "line 1, column 4: expected \",\" or \")\", found the end of the line"},
      {{"f(x y)"},
       "line 1, column 5: expected \",\" or \")\", found \"y\"; write a comma before it"},
      {{"f(a=1, a=2)"}, "line 1, column 8: expected \"a\" once, found it again"},
      {{"f(a=)"}, "line 1, column 5: expected a value, found \")\""},
      {{"f(x) + 1"}, "line 1, column 6: expected the end of the line after a call, found \"+\""},
      {{"f(x)(y)"}, "line 1, column 5: expected the end of the line after a call, found \"(\""},
      {{"y = x as"},
       "line 1, column 9: expected placements such as tp:S(0), found the end of the line"},
      {{"y = x as # tp:R"},
       "line 1, column 10: expected placements such as tp:S(0), found the end of the line"},
      {{"y = x as tp:R)"}, "line 1, column 14: expected the end of the line, found \")\""},
      {{"check(x, 'h', tp:R on)"},
       "line 1, column 22: expected ranks such as pp=0 after \"on\", found none"},
      {{"check(x, 'h', on )"},
       "line 1, column 17: expected ranks such as pp=0 after \"on\", found none"},
  });
  // The words come from parse_placements; columns count in the line.
  for (const auto& [line, column] : std::vector<std::pair<std::string, int>>{
           {"y = redistribute(x, tp:Q(0))", 24}, {"y = x as dp:R tp:P", 19}, {"f(x, P)", 7}}) {
    try {
      parse_listing({line});
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), (Where{"", "", 1, column})) << error.what();
    }
  }
}

TEST(ParseError, NamesAndTexts) {
  expect_refusals({
      {{"rank = 3"}, "line 1, column 1: expected a name that is not reserved, found \"rank\""},
      {{"a, bf16 = f(x)"},
       "line 1, column 4: expected a name that is not reserved, found \"bf16\""},
      {{"for R in range(3): f(x)"},
       "line 1, column 5: expected a name that is not reserved, found \"R\""},
      {{"on all: f(x)"}, "line 1, column 4: expected a name that is not reserved, found \"all\""},
      {{"3 = x"}, "line 1, column 1: expected a statement, found \"3\""},
      {{"x"},
       "line 1, column 2: expected \"=\", \",\" or \"(\" after a name, as in y = x @ w, found the "
       "end of the line"},
      {{"a, = x"}, "line 1, column 4: expected a name, found \"=\""},
      {{"a, b[0] = x"},
       "line 1, column 5: expected \"=\", \",\" or \"(\" after a name, as in y = x @ w, found "
       "\"[\""},
      {{"x[0] += 1"}, "line 1, column 6: expected \"=\", found \"+=\"; write x[0] = x[0] + 1"},
      {{"x[0] = y as tp:R"},
       "line 1, column 10: expected an operator or the end of the line, found \"as\"; "
       "\"as\" and its placements end a line: y = x @ w as tp:P(sum)"},
      {{"h{ = x"}, "line 1, column 4: expected a value, found \"=\""},
      {{"h{i = x"}, "line 1, column 5: expected \"}\" or an operator, found \"=\""},
      {{"h {i} = x"},
       "line 1, column 3: expected \"=\", \",\" or \"(\" after a name, as in y = x @ w, found "
       "\"{\""},
      {{"f('abc)"}, "line 1, column 3: expected a closing quote, found the end of the line"},
      {{"f('a}')"}, "line 1, column 5: expected \"{\" before \"}\" in a text, found none"},
      {{"f('a{'b'}')"},
       "line 1, column 6: expected a number or a name inside braces, found a text"},
      {{"f('\xc3\xa9\xc3\xa9', $)"}, "line 1, column 9: expected a value, found \"$\""},
  });
}

TEST(ParseError, Blocks) {
  expect_refusals({
      {{"", "for i in range(3):", "y = x"},
       "line 2, column 1: expected a statement after \"for\", on its line or below and indented by "
       "2 "
       "spaces, found none"},
      {{"group:", "  # nothing", ""},
       "line 1, column 1: expected a statement after \"group\", on its line or below and indented "
       "by "
       "2 spaces, found the end of the listing"},
      {{"group:", "    f(x)"}, "line 2, column 5: expected 2 spaces before the statement, found 4"},
      {{"group:", " f(x)"}, "line 2, column 2: expected 2 spaces before the statement, found 1"},
      {{"  f(x)"}, "line 1, column 3: expected 0 spaces before the statement, found 2"},
      {{"group: f(x)", "  g(x)"},
       "line 2, column 3: expected 0 spaces before the statement, found 2"},
      {{"else: f(x)"},
       "line 1, column 1: expected \"else\" only after the block of an \"if\", found it alone"},
      {{"if a: f(x)", "else: f(x)", "else: f(x)"},
       "line 3, column 1: expected \"else\" only after the block of an \"if\", found it alone"},
      {{"if a: f(x)", "else:"},
       "line 2, column 1: expected a statement after \"else\", on its line or below and indented "
       "by 2 "
       "spaces, found the end of the listing"},
      {{"if a: group:", "  f(x)"},
       "line 1, column 13: expected a statement, found the end of the line"},
      {{"if a f(x)"}, "line 1, column 6: expected \":\" or an operator, found \"f\""},
      {{"for i in rang(3): f(x)"},
       "line 1, column 10: expected \"range(\", as in for i in range(4), found \"rang\""},
      {{"for i in range(1, 2, 3): f(x)"},
       "line 1, column 20: expected \")\", found \",\"; a range has no step: count the passes, as "
       "in "
       "for k in range(2), and multiply, as in i = 2 * k"},
      {{"for i in range(): f(x)"}, "line 1, column 16: expected a value, found \")\""},
      {{"for h{i} in range(3): f(x)"},
       "line 1, column 5: expected a name without braces, found one with braces"},
  });
}

TEST(ParseError, PythonStatements_AreAnsweredWithThoseOfTheLanguage) {
  expect_refusals({
      {{"if a: f(x)", "elif b: f(x)"},
       "line 2, column 1: elif is not a statement of this language; write \"else:\" with an \"if\" "
       "below it"},
      {{"while a > 1:", "  f(x)"},
       "line 1, column 1: while is not a statement of this language; write \"for i in range(n):\""},
      {{"with comm:", "  f(x)"},
       "line 1, column 1: with is not a statement of this language; write \"on STREAM:\" or "
       "\"group:\""},
      {{"x += 1"}, "line 1, column 3: expected \"=\", found \"+=\"; write x = x + 1"},
      {{"x *= 2"}, "line 1, column 3: expected \"=\", found \"*=\"; write x = x * 2"},
      {{"with + 1"},
       "line 1, column 1: with is not a statement of this language; write \"on STREAM:\" or "
       "\"group:\""},
      {{"x + 1"},
       "line 1, column 3: expected \"=\", \",\" or \"(\" after a name, as in y = x @ w, found "
       "\"+\""},
  });
}

TEST(ParseError, OperatorsAndCallsOfPython_AreAnsweredWithThoseOfTheLanguage) {
  expect_refusals({
      {{"y = x ^ 2"},
       "line 1, column 7: expected an operator, \"as\" or the end of the line, found \"^\"; a "
       "power "
       "is written x ** 2"},
      {{"y = ~x"},
       "line 1, column 5: expected a value, found \"~\"; write and, or, not between numbers, "
       "logical_and(a, b), logical_or(a, b) or logical_not(a) of tensors"},
      {{"dist.all_reduce(x)"},
       "line 1, column 5: expected \"=\", \",\" or \"(\" after a name, found \".\"; ops have no "
       "prefix: write x = all_reduce(x, sum, group=tp)"},
      {{"torch.distributed.barrier()"},
       "line 1, column 6: expected \"=\", \",\" or \"(\" after a name, found \".\"; ops have no "
       "prefix: write barrier(group=dp)"},
      {{"y = torch.distributed.all_reduce(x)"},
       "line 1, column 11: expected \"T\" after \".\", found \"distributed\"; ops have no prefix: "
       "write all_reduce(x, sum, group=tp)"},
      {{"x.add_(y)"},
       "line 1, column 2: expected \"=\", \",\" or \"(\" after a name, found \".\"; tensors have "
       "no methods: write add_(x, y)"},
      {{"x."},
       "line 1, column 2: expected \"=\", \",\" or \"(\" after a name, found \".\"; names have no "
       "dot"},
  });
}

TEST(ParseError, ControlCharacters) {
  expect_refusals({
      {{"y = x", "f(x)\t# a comment"}, "line 2, column 5: expected spaces, found a tab"},
      {{"y = 'a\nb'"}, "line 1, column 7: expected one line, found a line break"},
      {{std::string("# \0", 3)}, "line 1, column 3: expected text, found the control character 0"},
  });
}

TEST(ParseError, ExpressionAlone_CountsColumnsInItsText) {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "column 1: expected a value, found the end of the line"},
           {"2 * ", "column 5: expected a value, found the end of the line"},
           {"a b", "column 3: expected an operator or the end, found \"b\""},
           {"a # b", "column 3: expected an operator or the end, found \"#\""}}) {
    try {
      parse_expression(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), message);
    }
  }
}

std::string repeated(std::string_view text, size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string nested(std::string_view open, std::string_view inside, std::string_view close,
                   size_t times) {
  return repeated(open, times) + std::string(inside) + repeated(close, times);
}

TEST(ParseLimits, NestingAbove64_Throws) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"(", ")"},  {"[", "]"}, {"f(", ")"},  {"x[", "]"},
      {"x{", "}"}, {"- ", ""}, {"not ", ""}, {"2 ** ", ""}};
  for (const auto& [open, close] : pairs) {
    EXPECT_NO_THROW(parse_expression(nested(open, "x", close, 64))) << open;
    try {
      parse_expression(nested(open, "x", close, 65));
      ADD_FAILURE() << open;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::limit) << open;
      EXPECT_EQ(error.message(), "expected nesting of at most 64, found more");
    }
  }
}

TEST(ParseLimits, BlocksNestedAbove64_Throw) {
  for (const size_t depth : {size_t{63}, size_t{64}}) {
    Lines lines;
    for (size_t i = 0; i < depth; ++i) lines.push_back(std::string(2 * i, ' ') + "group:");
    lines.push_back(std::string(2 * depth, ' ') + "f(x)");
    const std::string line = repeated("group: ", depth) + "f(x)";
    if (depth == 63) {
      EXPECT_EQ(refusal(lines), "parsed");
      EXPECT_EQ(refusal({line}), "parsed");
    } else {
      EXPECT_NE(refusal(lines).find("blocks nested at most 64 deep"), std::string::npos);
      EXPECT_NE(refusal({line}).find("blocks nested at most 64 deep"), std::string::npos);
    }
  }
}

TEST(ParseLimits, HostileLinesOfAMillionTokens_EndInTime) {
  const size_t million = 1'000'000;
  const std::vector<std::string> lines = {
      "y = " + repeated("(", million),
      "y = " + repeated("- ", million),
      "y = " + repeated("[", million),
      "y = " + repeated("f(", million),
      "y = " + repeated("x[", million),
      "y = " + repeated("2**", million),
      "y = " + repeated("not ", million),
      "y = x" + repeated(" + x", million),
      "y = x" + repeated(".T", million),
      "y = x" + repeated("[0]", million),
      "y = " + repeated("x{", million),
      "y = 'a" + repeated("{x}", million) + "'",
      "y = [0" + repeated(",0", million / 4) + "]",
      "y = f(" + repeated("tp:R ", million / 4) + ")",
      "y = f(" + repeated("S(", million) + ")",
      "y = f(x" + repeated(", tp:R", million / 16) + ")",
      "y = " + repeated("9", million),
      "y = 0." + repeated("9", million),
      repeated("group: ", million),
      repeated("a,", million / 4) + "a = x",
      repeated(" ", million) + "x",
      "y = " + repeated("\xc3\xa9", million),
  };
  for (const std::string& line : lines) {
    const std::clock_t start = std::clock();  // the processor time of this process alone
    refusal({line});
    EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 10) << line.substr(0, 20);
  }
}

}  // namespace
}  // namespace shardproof::parse_error_test
