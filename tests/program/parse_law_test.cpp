// Tests the text form of ast.h: printed text parses back to the same tree, and printing that tree
// gives the same text.
#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/tests/program/random_listing.h"

namespace shardproof::parse_law_test {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(ParseLaw, PrintedProgramsParseBack) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::vector<std::string> lines = RandomListing(seed).lines();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + joined(lines));
    Listing parsed;
    try {
      parsed = parse_listing(lines);
    } catch (const Error& error) {
      FAIL() << error.what();
    }
    ASSERT_EQ(parsed.lines, lines);
    const std::vector<std::string> printed = to_lines(parsed);
    const Listing again = parse_listing(printed);
    ASSERT_TRUE(without_positions(again) == without_positions(parsed)) << "printed:\n"
                                                                       << joined(printed);
    ASSERT_EQ(to_lines(again), printed);
  }
}

TEST(ParseLaw, PrintedExpressionsParseBack) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = RandomListing(seed).expression(4);
    SCOPED_TRACE("seed " + std::to_string(seed) + "  " + text);
    const Expr parsed = parse_expression(text);
    const std::string printed = to_string(parsed);
    ASSERT_TRUE(without_positions(parse_expression(printed)) == without_positions(parsed))
        << printed;
  }
}

void expect_place_holds(const Expr& expr, const std::vector<std::string>& lines) {
  if (expr.kind != ExprKind::name && expr.kind != ExprKind::call) return;
  const std::string& line = lines.at(static_cast<size_t>(expr.place.line) - 1);
  const std::string& word = expr.kind == ExprKind::call ? expr.symbol : expr.name.texts.front();
  EXPECT_EQ(line.substr(static_cast<size_t>(expr.place.column) - 1, word.size()), word) << line;
  for (const Expr& argument : expr.args) expect_place_holds(argument, lines);
}

void expect_places_hold(const std::vector<Statement>& statements,
                        const std::vector<std::string>& lines) {
  for (const Statement& statement : statements) {
    if (statement.value) expect_place_holds(*statement.value, lines);
    expect_places_hold(statement.body, lines);
    expect_places_hold(statement.otherwise, lines);
  }
}

bool ascii(const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    for (const char c : line)
      if (static_cast<unsigned char>(c) >= 0x80) return false;
  return true;
}

TEST(ParseLaw, PlaceOfANode_IsWhereItsTextBegins) {
  int judged = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const std::vector<std::string> lines = RandomListing(seed).lines();
    if (!ascii(lines)) continue;  // columns count characters, this test counts bytes
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_places_hold(parse_listing(lines).statements, lines);
    ++judged;
  }
  EXPECT_GT(judged, 100);
}

}  // namespace
}  // namespace shardproof::parse_law_test
