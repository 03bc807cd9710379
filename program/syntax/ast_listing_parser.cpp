// Implements parse_listing of ast.h.
//
//   1. lines_with_statements drops blank lines and comments, and records each line's indent.
//   2. BlockParser groups lines by indent: a block is indented by two spaces more than its header.
//   3. LineParser reads one line: an assignment, a call, or a header (for, if, else, on, group)
//      with an optional statement after its colon.
#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/expression_parser.h"
#include "shardproof/program/value/names.h"

namespace shardproof {
namespace {

using detail::ExpressionParser;
using detail::fail;
using detail::fail_expected;
using detail::Lexer;
using detail::Token;
using detail::TokenKind;

void refuse_depth(int depth, SourceLocation place) {
  if (depth > detail::kMaxNesting)
    throw Error(
        ErrorKind::limit,
        fmt::format("expected blocks nested at most {} deep, found more", detail::kMaxNesting),
        Where{"", "", place.line, place.column});
}

// Parses one line. The body of a header is empty if its block is on the lines below.
class LineParser {
 public:
  LineParser(const std::string& line, int number)
      : lexer_(line, number, Lexer::Comments::allowed), parser_(lexer_) {}

  const Token& peek() { return lexer_.peek(); }
  Statement statement(int depth);
  // Returns the statement after "else:" on the same line, or none.
  std::vector<Statement> otherwise(int depth);

 private:
  Statement assignment();
  Statement call();
  Statement for_range();
  Statement conditional();
  Statement on_stream();
  Statement group();
  NameTemplate bound_name(std::string_view expected);
  void refuse_python(const Statement& statement);
  void refuse_names_in_parentheses();
  [[noreturn]] void refuse_second_assignment(const Statement& statement, std::string_view expected);
  bool stops_gradients();
  std::string operand();
  void after_colon(Statement& header, int depth);
  std::vector<Statement> inline_block(int depth);
  void end_line(std::string_view expected);

  Lexer lexer_;
  ExpressionParser parser_;
};

Statement begin(StatementKind kind, SourceLocation place) {
  Statement statement;
  statement.kind = kind;
  statement.place = place;
  return statement;
}

NameTemplate LineParser::bound_name(std::string_view expected) {
  const Token& next = peek();
  if (next.kind != TokenKind::name) fail_expected(expected, next);
  if (is_reserved(next.text)) fail_expected("a name that is not reserved", next);
  return parser_.name_template();
}

void LineParser::end_line(std::string_view expected) {
  const Token next = peek();
  if (next.kind == TokenKind::end) return;
  if (next.kind == TokenKind::quote)
    fail(next.place, fmt::format("expected {}, found a text; a name with a hole has no quotes, as "
                                 "in h{{i}}",
                                 expected));
  fail_expected(expected, next);
}

// Statements of Python that this language writes in another way.
struct PythonStatement {
  std::string_view word, here;
};
constexpr PythonStatement kPythonStatements[] = {
    {"elif", "\"else:\" with an \"if\" below it"},
    {"while", "\"for i in range(n):\""},
    {"with", "\"on STREAM:\" or \"group:\""},
    {"import", "ops without a prefix"},
    {"from", "ops without a prefix"},
    {"def", "the lines where they are needed"},
    {"class", "the lines where they are needed"},
    {"return", "the value as y = x, and y in \"outputs\" of rank programs"},
    {"del", "free(x) in a rank program, nothing in a global program"},
    {"assert", "check(x, 'h', R) in a rank program, or \"expect\": {\"values\": {..}}"},
    {"raise", "nothing: the run reports errors"},
    {"try", "the lines without it: an error ends the run"},
    {"except", "nothing: an error ends the run"},
    {"pass", "nothing: leave out the line and its \"if\""},
    {"break", "a range with the number of passes, as in for i in range(4)"},
    {"continue", "an \"if\" around the lines that follow it"},
    {"print", "nothing, and run the file with --print x"}};

// Returns the text of the target of an assignment: `h` or `h[0]`.
std::string target_text(const Statement& statement) {
  Expr target;
  target.kind = ExprKind::name;
  target.name = statement.targets.front();
  if (statement.kind != StatementKind::assign_index) return to_string(target);
  Expr part;
  part.kind = ExprKind::index;
  part.items = statement.target_index;
  part.args.push_back(std::move(target));
  return to_string(part);
}

// Throws Error(bad_input) if a line that is not an assignment begins as a statement of Python.
void LineParser::refuse_python(const Statement& statement) {
  const Token next = peek();
  if (next.is("=") || next.is(",")) return;
  const NameTemplate& first = statement.targets.front();
  const std::string word = first.plain() ? first.texts.front() : "";
  for (const PythonStatement& other : kPythonStatements)
    if (word == other.word)
      fail(first.place, fmt::format("{} is not a statement of this language; write {}", word,
                                    stops_gradients() ? "stop(x)" : other.here));
  for (const std::string_view sign : {"+", "-", "*", "/", "//", "@"})
    if (next.is(sign) && lexer_.second_is('=')) {
      lexer_.consume();
      lexer_.consume();
      fail(next.place, fmt::format("expected \"=\", found \"{0}=\"; write {1} = {1} {0} {2}", sign,
                                   target_text(statement), operand()));
    }
}

// True if the rest of the line is that of `with torch.no_grad():`.
bool LineParser::stops_gradients() {
  for (Token token = lexer_.consume(); token.kind != TokenKind::end; token = lexer_.consume())
    if (token.is("no_grad") || token.is("inference_mode")) return true;
  return false;
}

// Returns the text of the expression that follows, in parentheses if it has an operator.
std::string LineParser::operand() {
  try {
    const Expr value = parser_.expression();
    const bool joined = value.kind == ExprKind::binary || value.kind == ExprKind::unary;
    return joined ? "(" + to_string(value) + ")" : to_string(value);
  } catch (const Error&) {
    return "b";
  }
}

// Throws Error(bad_input) if a line begins as `(a, b) = split(x, 4)` or `[a, b] = ..`.
void LineParser::refuse_names_in_parentheses() {
  const Token first = peek();
  if (!first.is("(") && !first.is("[")) return;
  lexer_.consume();
  std::vector<std::string> names;
  do {
    if (peek().kind == TokenKind::name) names.push_back(to_string(parser_.name_template()));
  } while (lexer_.accept(","));
  const bool closed = lexer_.accept(first.is("(") ? ")" : "]");
  if (!closed || names.empty() || !peek().is("=")) fail_expected("a statement", first);
  fail(first.place, fmt::format("expected a statement, found \"{}\"; write {} = .. without it",
                                first.text, fmt::join(names, ", ")));
}

// Throws Error(bad_input) for the second "=" of `y = z = x`.
void LineParser::refuse_second_assignment(const Statement& statement, std::string_view expected) {
  const Token second = peek();
  const Expr& value = *statement.value;
  const bool is_chain = value.kind == ExprKind::name && statement.targets.size() == 1;
  if (!is_chain) fail_expected(expected, second);
  lexer_.consume();
  const std::string name = to_string(value);
  fail(second.place, fmt::format("expected {}, found \"=\"; write two lines, {} = {} and {} = {}",
                                 expected, name, operand(), target_text(statement), name));
}

Statement LineParser::assignment() {
  const Token first = peek();
  Statement statement = begin(StatementKind::assign, first.place);
  refuse_names_in_parentheses();
  statement.targets.push_back(bound_name("a statement"));
  parser_.refuse_dot_in_statement(statement.targets.front());
  if (lexer_.accept("[")) {
    statement.kind = StatementKind::assign_index;
    statement.target_index = parser_.index_items();
  }
  const bool indexed = statement.kind == StatementKind::assign_index;
  while (!indexed && lexer_.accept(",")) statement.targets.push_back(bound_name("a name"));
  refuse_python(statement);
  if (peek().kind == TokenKind::quote)
    fail(peek().place,
         "expected \"=\", found a text; a name with a hole has no quotes, as in h{i} = x");
  lexer_.expect("=", indexed ? "\"=\"" : "\"=\", \",\" or \"(\" after a name, as in y = x @ w");
  statement.value = parser_.expression();
  if (!indexed && lexer_.accept("as")) {
    statement.has_claim = true;
    statement.is_local = !lexer_.second_is(':') && lexer_.accept("local");
    if (!statement.is_local) statement.claim = parser_.placements();
    end_line(peek().is(",") ? "the end of the line, or a space between two placements"
                            : "the end of the line");
  }
  const std::string_view expected =
      indexed ? "an operator or the end of the line" : "an operator, \"as\" or the end of the line";
  if (peek().is("=")) refuse_second_assignment(statement, expected);
  if (peek().is("(") && statement.value->kind == ExprKind::transpose)
    fail(peek().place, fmt::format("expected {}, found \"(\"; write {} without parentheses",
                                   expected, to_string(*statement.value)));
  end_line(expected);
  return statement;
}

Statement LineParser::call() {
  Statement statement = begin(StatementKind::call, peek().place);
  statement.value = parser_.call();
  if (peek().is("="))
    fail(
        peek().place,
        "expected the end of the line after a call, found \"=\"; write the name on the left, as in "
        "y = relu(x)");
  end_line("the end of the line after a call");
  return statement;
}

Statement LineParser::for_range() {
  Statement statement = begin(StatementKind::for_range, lexer_.consume().place);
  statement.targets.push_back(bound_name("a name"));
  if (!statement.targets.front().plain())
    fail(statement.targets.front().place, "expected a name without braces, found one with braces");
  lexer_.expect("in", "\"in\", as in for i in range(4)");
  lexer_.expect("range", "\"range(\", as in for i in range(4)");
  lexer_.expect("(", "\"(\"");
  statement.range.push_back(parser_.expression());
  if (lexer_.accept(",")) statement.range.push_back(parser_.expression());
  if (statement.range.size() == 2 && peek().is(","))
    fail(peek().place,
         "expected \")\", found \",\"; a range has no step: count the passes, as in for k in "
         "range(2), and multiply, as in i = 2 * k");
  lexer_.expect(")", statement.range.size() == 1 ? "\",\" or \")\"" : "\")\"");
  return statement;
}

Statement LineParser::conditional() {
  Statement statement = begin(StatementKind::if_else, lexer_.consume().place);
  statement.value = parser_.expression();
  return statement;
}

Statement LineParser::on_stream() {
  Statement statement = begin(StatementKind::on_stream, lexer_.consume().place);
  // `main` is reserved, so that no value can have its name, but it is a stream.
  const bool main = peek().is("main");
  if (peek().is("stream") && !lexer_.second_is(':')) {
    lexer_.consume();
    fail(peek().place,
         fmt::format("expected \":\" after \"on stream\"; for the stream {0} write on {0}:",
                     peek().text));
  }
  statement.targets.push_back(main ? parser_.name_template() : bound_name("the name of a stream"));
  return statement;
}

Statement LineParser::group() { return begin(StatementKind::group, lexer_.consume().place); }

std::vector<Statement> LineParser::inline_block(int depth) {
  std::vector<Statement> body;
  if (peek().kind == TokenKind::end) return body;
  body.push_back(statement(depth + 1));
  const Statement& inner = body.front();
  const bool header = inner.kind != StatementKind::assign && inner.kind != StatementKind::call &&
                      inner.kind != StatementKind::assign_index;
  if (header && inner.body.empty()) fail_expected("a statement", peek());
  return body;
}

Statement LineParser::statement(int depth) {
  const Token& next = peek();
  refuse_depth(depth, next.place);
  Statement header;
  if (next.is("for")) {
    header = for_range();
  } else if (next.is("if")) {
    header = conditional();
  } else if (next.is("on")) {
    header = on_stream();
  } else if (next.is("group")) {
    header = group();
  } else {
    const bool verb = next.kind == TokenKind::name && lexer_.second_is('(');
    return verb ? call() : assignment();
  }
  const bool is_if = header.kind == StatementKind::if_else;
  if (is_if && peek().is("="))
    fail(peek().place, "expected \":\" or an operator, found \"=\"; a comparison is written ==");
  lexer_.expect(":", is_if ? "\":\" or an operator" : "\":\"");
  header.body = inline_block(depth);
  return header;
}

std::vector<Statement> LineParser::otherwise(int depth) {
  lexer_.consume();
  lexer_.expect(":", "\":\"");
  return inline_block(depth);
}

// A line with a statement.
struct SourceLine {
  const std::string* text;
  int number;
  size_t indent;
};

std::vector<SourceLine> lines_with_statements(const std::vector<std::string>& lines) {
  std::vector<SourceLine> found;
  for (size_t i = 0; i < lines.size(); ++i) {
    const int number = static_cast<int>(i) + 1;
    Lexer lexer(lines[i], number, Lexer::Comments::allowed);
    if (lexer.peek().kind == TokenKind::end) continue;
    found.push_back({&lines[i], number, lexer.peek().offset});
  }
  return found;
}

[[noreturn]] void refuse_indent(const SourceLine& line, size_t expected) {
  fail({line.number, static_cast<int>(line.indent) + 1},
       fmt::format("expected {} spaces before the statement, found {}", expected, line.indent));
}

class BlockParser {
 public:
  explicit BlockParser(const std::vector<std::string>& lines)
      : lines_(lines_with_statements(lines)) {}

  // Parses the statements indented by `indent`, from the next line on.
  std::vector<Statement> block(size_t indent, int depth);

 private:
  bool more() const { return next_ < lines_.size(); }
  std::vector<Statement> required_block(const Statement& header, std::string_view word,
                                        size_t indent, int depth);

  std::vector<SourceLine> lines_;
  size_t next_ = 0;
};

std::string_view word_of(StatementKind kind) {
  switch (kind) {
    case StatementKind::for_range: return "for";
    case StatementKind::if_else: return "if";
    case StatementKind::on_stream: return "on";
    case StatementKind::group: return "group";
    default: return "";
  }
}

// Parses the block below a header. Throws Error(bad_input) if there is none.
std::vector<Statement> BlockParser::required_block(const Statement& header, std::string_view word,
                                                   size_t indent, int depth) {
  const bool has_block = more() && lines_[next_].indent > indent;
  if (!has_block)
    fail(header.place,
         fmt::format("expected a statement after \"{}\", on its line or below and indented by {} "
                     "spaces, found {}",
                     word, indent + 2, more() ? "none" : "the end of the listing"));
  const SourceLine& first = lines_[next_];
  if (first.indent != indent + 2) refuse_indent(first, indent + 2);
  return block(indent + 2, depth + 1);
}

std::vector<Statement> BlockParser::block(size_t indent, int depth) {
  std::vector<Statement> statements;
  if (indent == 0) statements.reserve(lines_.size());
  while (more() && lines_[next_].indent >= indent) {
    const SourceLine line = lines_[next_++];
    if (line.indent != indent) refuse_indent(line, indent);
    LineParser parser(*line.text, line.number);
    const SourceLocation place = parser.peek().place;
    if (parser.peek().is("else")) {
      Statement* const last = statements.empty() ? nullptr : &statements.back();
      if (!last || last->kind != StatementKind::if_else || !last->otherwise.empty())
        fail(place, "expected \"else\" only after the block of an \"if\", found it alone");
      last->otherwise = parser.otherwise(depth);
      if (last->otherwise.empty())
        last->otherwise =
            required_block(begin(StatementKind::if_else, place), "else", indent, depth);
      continue;
    }
    statements.push_back(parser.statement(depth));
    Statement& last = statements.back();
    const std::string_view word = word_of(last.kind);
    if (!word.empty() && last.body.empty()) last.body = required_block(last, word, indent, depth);
  }
  return statements;
}

}  // namespace

Listing parse_listing(const std::vector<std::string>& lines) {
  Listing listing;
  listing.lines = lines;
  listing.statements = BlockParser(lines).block(0, 1);
  return listing;
}

}  // namespace shardproof
