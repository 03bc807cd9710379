// Implements expression_parser.h and parse_expression of ast.h.
//
//   binary   := prefix { operator binary }
//   prefix   := "not" binary | ("-" | "+") prefix | power
//   power    := postfix [ "**" prefix ]
//   postfix  := primary { "[" items "]" | ".T" }
//   primary  := number | 'text' | word | "(" list ")" | "[" [ list ] "]"
//   list     := binary { "," binary }
//   word     := true | false | call | name { "{" binary "}" }
//   call     := name "(" [ argument { "," argument } ] ")"
//   argument := [ key "=" ] ( placements | binary )
//
// Operators combine by precedence (precedence.h); comparisons do not chain. An argument is
// placements if it begins with R, S, P, "on" or "axis:"; parse_placements reads it.
#include <fmt/format.h>
#include <utility>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/expression_parser.h"
#include "shardproof/program/syntax/placed_text.h"
#include "shardproof/program/syntax/precedence.h"
#include "shardproof/program/syntax/torch_names.h"
#include "shardproof/program/value/names.h"

namespace shardproof::detail {
namespace {

[[noreturn]] void fail_limit(SourceLocation place, std::string message) {
  throw Error(ErrorKind::limit, std::move(message), Where{"", "", place.line, place.column});
}

bool is_placement_letter(std::string_view name) {
  return name == "R" || name == "S" || name == "P";
}

// True for the words of statements and operators, which are neither values nor verbs.
bool is_structure(std::string_view name) {
  return name == "if" || name == "else" || name == "for" || name == "in" || name == "on" ||
         name == "group" || name == "as" || name == "and" || name == "or" || name == "not";
}

// True if the expression before a dot is a Python module or class, as in torch.relu(x).
bool is_library(const Expr& expr) {
  constexpr std::string_view kLibraries[] = {"torch", "F",    "nn",     "np",     "jnp",
                                             "jax",   "lax",  "dist",   "mpu",    "funcol",
                                             "numpy", "math", "einops", "DTensor"};
  return expr.kind == ExprKind::name && expr.name.plain() &&
         std::find(std::begin(kLibraries), std::end(kLibraries), expr.name.texts.front()) !=
             std::end(kLibraries);
}

// True for the enumeration of torch.distributed, as in ReduceOp.SUM.
bool is_reduce_op(const Expr& expr) {
  return expr.kind == ExprKind::name && expr.name.plain() && expr.name.texts.front() == "ReduceOp";
}

std::string lower_case(std::string_view word) {
  std::string text(word);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Returns the first word that is the name of a dtype, such as float32 in "(torch.float32)", or "".
std::string_view dtype_in(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto is_word = [](char c) { return is_name_character(c); };
    const auto begin =
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_word);
    const auto end = std::find_if_not(begin, text.end(), is_word);
    const std::string_view word(begin, end);
    if (dtype_meant(word)) return word;
    at = static_cast<size_t>(end - text.begin()) + 1;
  }
  return "";
}

// Returns the text to write in place of `call`, a method of its first argument or a function of a
// module.
std::string text_without_dot(const Expr& call, bool whole_line) {
  std::string text = text_for_foreign_call(call, whole_line);
  if (!text.empty()) return text;
  const bool in_place = call.symbol.ends_with("_");
  return (whole_line && !in_place ? "y = " : "") + to_string(call);
}

int precedence_of(const Token& token) {
  const bool word = token.kind == TokenKind::name;
  return word || token.kind == TokenKind::symbol ? binary_precedence(token.text) : 0;
}

}  // namespace

class ExpressionParser::Nest {
 public:
  Nest(ExpressionParser& parser, SourceLocation place) : parser_(parser) {
    if (++parser_.nesting_ > kMaxNesting)
      fail_limit(place, fmt::format("expected nesting of at most {}, found more", kMaxNesting));
  }
  ~Nest() { --parser_.nesting_; }
  Nest(const Nest&) = delete;
  Nest& operator=(const Nest&) = delete;

 private:
  ExpressionParser& parser_;
};

namespace {

Expr make(ExprKind kind, SourceLocation place) {
  Expr expr;
  expr.kind = kind;
  expr.place = place;
  return expr;
}

// Returns the hint for a dot in a name, as in layer1.weight or weight.0.
std::string name_without_dot(const Expr& before, const Token& after) {
  const bool named = before.kind == ExprKind::name && before.name.plain();
  if (!named || !is_name_character(after.text.empty() ? ' ' : after.text.front()))
    return "names have no dot";
  return fmt::format("names have no dot: write {}_{}", before.name.texts.front(), after.text);
}

void raise_height(int& height, int below, SourceLocation place) {
  height = std::max(height, below + 1);
  if (height > kMaxHeight)
    fail_limit(place, fmt::format("expected at most {} operations on top of each other, found more",
                                  kMaxHeight));
}

}  // namespace

Expr ExpressionParser::expression() { return binary(kWeakest).expr; }

std::string ExpressionParser::hint_after_dot(const Expr& before, bool whole_line) {
  Token word = lexer_.consume();
  const bool library = is_library(before);
  // The words before the last one are modules: torch.distributed.all_reduce(x).
  while (library && lexer_.accept(".") && lexer_.peek().kind == TokenKind::name)
    word = lexer_.consume();
  if (is_reduce_op(before))
    return fmt::format("reductions have no prefix: write {}", lower_case(word.text));
  const bool called = lexer_.peek().is("(");
  const std::string_view rest = lexer_.rest();
  const std::optional<DType> dtype = dtype_meant(word.text);
  if (library && dtype && !called)
    return fmt::format("dtypes have no prefix: write {}", name(*dtype));
  Expr call = make(ExprKind::call, word.place);
  try {
    if (called) call = call_of(word).expr;
  } catch (const Error&) {
    call.args = {make(ExprKind::name, word.place)};
    call.args[0].name.texts = {".."};
    call.keys = {""};
    const bool casts = word.is("to") || word.is("type");
    if (const std::string_view named = dtype_in(rest); casts && !named.empty())
      call.args[0].name.texts = {std::string(named)};
  }
  call.symbol = word.text;
  if (!library) {
    call.args.insert(call.args.begin(), before);
    call.keys.insert(call.keys.begin(), "");
  }
  if (called)
    return fmt::format("{} have no {}: write {}", library ? "ops" : "tensors",
                       library ? "prefix" : "methods", text_without_dot(call, whole_line));
  const std::string text = text_for_foreign_call(call, whole_line);
  if (!text.empty())
    return fmt::format("{}: write {}",
                       library ? "words have no prefix" : "tensors have no attributes", text);
  if (library) return fmt::format("words have no prefix: write {}", word.text);
  return name_without_dot(before, word);
}

void ExpressionParser::refuse_dot_in_statement(const NameTemplate& name) {
  if (!lexer_.peek().is(".")) return;
  const Token dot = lexer_.consume();
  Expr before = make(ExprKind::name, name.place);
  before.name = name;
  const bool is_word = lexer_.peek().kind == TokenKind::name;
  fail(dot.place,
       fmt::format(
           "expected \"=\", \",\" or \"(\" after a name, found {}; {}", describe(dot),
           is_word ? hint_after_dot(before, true) : name_without_dot(before, lexer_.peek())));
}

Expr ExpressionParser::call() { return call_tree().expr; }

std::vector<IndexItem> ExpressionParser::index_items() {
  int height = 1;
  return items(height);
}

NameTemplate ExpressionParser::name_template() {
  int height = 1;
  return name_template(height);
}

ExpressionParser::Tree ExpressionParser::binary(int weakest) {
  const SourceLocation start = lexer_.peek().place;
  Tree left = prefix(weakest);
  bool compared = false;
  for (;;) {
    const Token& next = lexer_.peek();
    const int precedence = precedence_of(next);
    if (precedence == 0 || precedence < weakest) return left;
    if (compared && precedence == kComparison)
      fail(next.place,
           fmt::format("expected \"and\" between two comparisons, found {}; write a < b "
                       "and b < c",
                       describe(next)));
    compared = precedence == kComparison;
    const Token symbol = lexer_.consume();
    Tree right = binary(precedence + 1);
    left = joined(start, symbol, std::move(left), std::move(right));
  }
}

ExpressionParser::Tree ExpressionParser::prefix(int weakest) {
  const Token& next = lexer_.peek();
  if (next.is("not")) {
    if (weakest > kNot) fail_expected("a value or \"(not ..)\"", next);
    return unary(kNot);
  }
  if (next.is("-") || next.is("+")) return unary(kUnary);
  return power();
}

ExpressionParser::Tree ExpressionParser::unary(int operand_weakest) {
  const Token symbol = lexer_.consume();
  const Nest nest(*this, symbol.place);
  Tree operand = operand_weakest == kUnary ? prefix(kUnary) : binary(operand_weakest);
  Tree node{make(ExprKind::unary, symbol.place)};
  raise_height(node.height, operand.height, symbol.place);
  node.expr.symbol = symbol.text;
  node.expr.args.push_back(std::move(operand.expr));
  return node;
}

ExpressionParser::Tree ExpressionParser::power() {
  const SourceLocation start = lexer_.peek().place;
  Tree base = postfix();
  if (!lexer_.peek().is("**")) return base;
  const Token symbol = lexer_.consume();
  const Nest nest(*this, symbol.place);
  Tree exponent = prefix(kUnary);
  return joined(start, symbol, std::move(base), std::move(exponent));
}

ExpressionParser::Tree ExpressionParser::joined(const SourceLocation& start, const Token& symbol,
                                                Tree left, Tree right) {
  Tree node{make(ExprKind::binary, start)};
  raise_height(node.height, std::max(left.height, right.height), symbol.place);
  node.expr.symbol = symbol.text;
  node.expr.args.reserve(2);
  node.expr.args.push_back(std::move(left.expr));
  node.expr.args.push_back(std::move(right.expr));
  return node;
}

ExpressionParser::Tree ExpressionParser::postfix() {
  const SourceLocation start = lexer_.peek().place;
  Tree tree = primary();
  for (;;) {
    const SourceLocation place = lexer_.peek().place;
    const bool indexed = lexer_.accept("[");
    if (!indexed && !lexer_.accept(".")) return tree;
    Tree node{make(indexed ? ExprKind::index : ExprKind::transpose, start)};
    if (indexed) {
      const Nest nest(*this, place);
      node.expr.items = items(node.height);
    } else {
      const Token after = lexer_.peek();
      if (after.kind == TokenKind::name && !after.is("T"))
        fail(after.place, fmt::format("expected \"T\" after \".\", found {}; {}", describe(after),
                                      hint_after_dot(tree.expr, false)));
      if (after.kind == TokenKind::integer)
        fail(after.place, fmt::format("expected \"T\" after \".\", found {}; {}", describe(after),
                                      name_without_dot(tree.expr, after)));
      lexer_.expect("T", "\"T\" after \".\"");
    }
    raise_height(node.height, tree.height, place);
    node.expr.args.push_back(std::move(tree.expr));
    tree = std::move(node);
  }
}

ExpressionParser::Tree ExpressionParser::primary() {
  const Token& next = lexer_.peek();
  if (next.kind == TokenKind::integer || next.kind == TokenKind::real) return number();
  if (next.kind == TokenKind::quote) return quoted();
  if (next.kind == TokenKind::name) return word();
  if (next.is("(")) return parenthesis();
  if (next.is("[")) return list();
  if (next.is("."))
    fail(next.place,
         "expected a value, found \".\"; a number begins with a digit: write 0.5 for .5");
  fail_expected("a value", next);
}

ExpressionParser::Tree ExpressionParser::number() {
  const Token token = lexer_.consume();
  Tree tree{make(ExprKind::number, token.place)};
  const char* const last = token.text.data() + token.text.size();
  if (token.kind == TokenKind::integer) {
    int64_t value = 0;
    if (std::from_chars(token.text.data(), last, value).ec != std::errc())
      fail_expected("an integer of 64 bits", token);
    tree.expr.number = Number(value);
  } else {
    double value = 0;
    if (std::from_chars(token.text.data(), last, value).ec != std::errc())
      fail_expected("a number within the range of a double", token);
    tree.expr.number = Number(value);
  }
  return tree;
}

ExpressionParser::Tree ExpressionParser::word() {
  const Token& next = lexer_.peek();
  if (is_structure(next.text)) fail_expected("a value", next);
  if (is_placement_letter(next.text))
    fail(next.place, fmt::format("expected a value, found the placement {}; placements stand only "
                                 "as an argument of a call or after \"as\"",
                                 describe(next)));
  if (lexer_.second_is('(')) return call_tree();
  if (next.is("true") || next.is("false") || next.is("True") || next.is("False")) {
    Tree tree{make(ExprKind::number, next.place)};
    const Token word = lexer_.consume();
    tree.expr.number = Number(word.is("true") || word.is("True"));
    return tree;
  }
  Tree tree{make(ExprKind::name, next.place)};
  const bool may_be_function = next.is("lambda");
  tree.expr.name = name_template(tree.height);
  const Token& after = lexer_.peek();
  if (may_be_function && after.kind == TokenKind::name && !is_structure(after.text))
    fail(tree.expr.place,
         "expected a value, found \"lambda\"; a call takes no function: write its lines");
  return tree;
}

NameTemplate ExpressionParser::name_template(int& height) {
  const Token first = lexer_.consume();
  NameTemplate name;
  name.place = first.place;
  name.texts.emplace_back(first.text);
  while (lexer_.at('{')) {
    braces(name, height);
    name.texts.emplace_back(lexer_.consume_name_characters());
  }
  return name;
}

void ExpressionParser::braces(NameTemplate& name, int& height) {
  const Token brace = lexer_.consume();
  const Nest nest(*this, brace.place);
  const bool outer = in_braces_;
  in_braces_ = true;
  Tree inside = binary(kWeakest);
  in_braces_ = outer;
  lexer_.expect("}", "\"}\" or an operator");
  raise_height(height, inside.height, brace.place);
  name.holes.push_back(std::move(inside.expr));
}

ExpressionParser::Tree ExpressionParser::quoted() {
  const Token quote = lexer_.consume();
  if (in_braces_) fail(quote.place, "expected a number or a name inside braces, found a text");
  Tree tree{make(ExprKind::text, quote.place)};
  tree.expr.name.place = quote.place;
  tree.expr.name.texts.emplace_back(lexer_.consume_quoted());
  while (lexer_.at('{')) {
    braces(tree.expr.name, tree.height);
    tree.expr.name.texts.emplace_back(lexer_.consume_quoted());
  }
  const Token& next = lexer_.peek();
  if (next.is("}")) fail(next.place, "expected \"{\" before \"}\" in a text, found none");
  if (!lexer_.at('\'')) fail(quote.place, "expected a closing quote, found the end of the line");
  lexer_.consume();
  return tree;
}

ExpressionParser::Tree ExpressionParser::parenthesis() {
  const Token open = lexer_.consume();
  const Nest nest(*this, open.place);
  Tree inside = binary(kWeakest);
  if (!lexer_.peek().is(",")) {
    lexer_.expect(")", "\")\" or an operator");
    return inside;
  }
  // (0, 1) is the list [0, 1].
  Tree tree{make(ExprKind::list, open.place)};
  raise_height(tree.height, inside.height, open.place);
  tree.expr.args.push_back(std::move(inside.expr));
  while (lexer_.accept(",") && !lexer_.peek().is(")")) {
    Tree item = binary(kWeakest);
    raise_height(tree.height, item.height, open.place);
    tree.expr.args.push_back(std::move(item.expr));
  }
  lexer_.expect(")", "\",\" or \")\"");
  return tree;
}

ExpressionParser::Tree ExpressionParser::list() {
  const Token open = lexer_.consume();
  const Nest nest(*this, open.place);
  Tree tree{make(ExprKind::list, open.place)};
  if (lexer_.accept("]")) return tree;
  do {
    Tree item = binary(kWeakest);
    raise_height(tree.height, item.height, open.place);
    tree.expr.args.push_back(std::move(item.expr));
  } while (lexer_.accept(","));
  lexer_.expect("]", "\",\" or \"]\"");
  return tree;
}

ExpressionParser::Tree ExpressionParser::call_tree() { return call_of(lexer_.consume()); }

ExpressionParser::Tree ExpressionParser::call_of(const Token& verb) {
  const Nest nest(*this, lexer_.consume().place);
  Tree tree{make(ExprKind::call, verb.place)};
  tree.expr.symbol = verb.text;
  if (lexer_.accept(")")) return tree;
  std::set<std::string_view> keys;
  do {
    const Token first = lexer_.peek();
    const bool keyed = first.kind == TokenKind::name && lexer_.second_is('=');
    if (keyed) {
      if (!keys.insert(first.text).second)
        fail(first.place, fmt::format("expected {} once, found it again", describe(first)));
      lexer_.consume();
      lexer_.consume();
    }
    tree.expr.keys.emplace_back(keyed ? first.text : std::string_view());
    tree.expr.key_places.push_back(first.place);
    Tree argument = value();
    raise_height(tree.height, argument.height, first.place);
    tree.expr.args.push_back(std::move(argument.expr));
  } while (lexer_.accept(","));
  lexer_.expect(")", "\",\" or \")\"");
  return tree;
}

bool ExpressionParser::placements_follow() {
  const Token& next = lexer_.peek();
  if (next.kind != TokenKind::name) return false;
  return is_placement_letter(next.text) || next.is("on") || lexer_.second_is(':');
}

ExpressionParser::Tree ExpressionParser::value() {
  return placements_follow() ? placed() : binary(kWeakest);
}

ExpressionParser::Tree ExpressionParser::placed() {
  const RawText raw = lexer_.consume_argument();
  const PlacedText parts = split_placed(raw.text);
  Tree tree{make(ExprKind::placements, raw.place)};
  if (!parts.has_on) {
    tree.expr.placements = parsed_placements(raw);
    return tree;
  }
  if (!parts.placements.empty())
    tree.expr.placements = parsed_placements({parts.placements, raw.place});
  tree.expr.on = parts.on;
  tree.expr.on_place = {raw.place.line, raw.place.column + parts.on_at};
  if (parts.on.empty())
    fail(tree.expr.on_place, "expected ranks such as pp=0 after \"on\", found none");
  return tree;
}

std::vector<PlacementText> ExpressionParser::placements() {
  const RawText raw = lexer_.consume_argument();
  if (raw.text.empty()) fail_expected("placements such as tp:S(0)", lexer_.peek());
  return parsed_placements(raw);
}

std::vector<PlacementText> ExpressionParser::parsed_placements(const RawText& raw) {
  // parse_placements counts columns in its own text.
  const int before = raw.place.column - 1;
  try {
    std::vector<PlacementText> parsed = parse_placements(raw.text);
    for (PlacementText& one : parsed) one.column += before;
    return parsed;
  } catch (const Error& error) {
    const int column = std::max(error.where().column, 1) + before;
    throw Error(error.kind(), error.message(), Where{"", "", raw.place.line, column});
  }
}

std::vector<IndexItem> ExpressionParser::items(int& height) {
  std::vector<IndexItem> found;
  do {
    found.push_back(index_item(height));
  } while (lexer_.accept(","));
  lexer_.expect("]", "\",\" or \"]\"");
  return found;
}

IndexItem ExpressionParser::index_item(int& height) {
  IndexItem item;
  if (lexer_.accept("...")) {
    item.kind = IndexKind::all_others;
    return item;
  }
  if (lexer_.accept("None")) {
    item.kind = IndexKind::new_dim;
    return item;
  }
  const auto part = [&](std::vector<Expr>& into) {
    const SourceLocation place = lexer_.peek().place;
    Tree tree = binary(kWeakest);
    raise_height(height, tree.height, place);
    into.push_back(std::move(tree.expr));
  };
  if (!lexer_.peek().is(":")) part(item.at);
  if (!lexer_.accept(":")) return item;
  item.kind = IndexKind::slice;
  item.low = std::move(item.at);
  item.at.clear();
  const auto ends = [&] { return lexer_.peek().is("]") || lexer_.peek().is(","); };
  if (!ends() && !lexer_.peek().is(":")) part(item.high);
  if (lexer_.accept(":") && !ends()) part(item.step);
  return item;
}

}  // namespace shardproof::detail

namespace shardproof {

Expr parse_expression(const std::string& text) {
  detail::Lexer lexer(text, 0, detail::Lexer::Comments::refused);
  detail::ExpressionParser parser(lexer);
  Expr expr = parser.expression();
  const detail::Token& rest = lexer.peek();
  if (rest.kind != detail::TokenKind::end) detail::fail_expected("an operator or the end", rest);
  return expr;
}

}  // namespace shardproof
