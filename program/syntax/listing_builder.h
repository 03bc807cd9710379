// ListingBuilder: writes a program in C++ instead of text. The result equals that of the parser for
// the same text, source lines included, so that reports can show them.
//
//   ListingBuilder b;
//   b.assign("h", call("gelu", matmul(name("x"), name("w1"))));
//   b.assign("y", call("redistribute", name("h"), placed("tp:R")));
//   b.for_range("i", 0, 4, [](ListingBuilder& body) { body.run(call("wait", name("h{i}"))); });
//   Listing listing = b.build();
//
// All functions throw Error(bad_input) for text that the parser would refuse.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shardproof/program/syntax/ast.h"

namespace shardproof {

// An expression. Operators combine terms with the precedence of C++; the tree prints with the
// parentheses that it needs.
class Term {
 public:
  Term(int64_t value);
  Term(int value) : Term(int64_t{value}) {}
  Term(double value);
  // Accepts bool itself only: a string literal would also convert to it.
  Term(std::same_as<bool> auto value) : expr_(truth(value)) {}
  explicit Term(Expr expr) : expr_(std::move(expr)) {}
  const Expr& expr() const { return expr_; }

  Term operator[](const Term& index) const;  // x[index]
  Term T() const;                            // x.T

 private:
  static Expr truth(bool value);

  Expr expr_;
};

Term name(const std::string& name);     // "x", "h{i - 1}"
Term text(const std::string& content);  // ckpt/{rank}, without quotes
Term list(const std::vector<Term>& items);
Term placed(const std::string& placements);  // "dp:S(0) tp:R", "R on pp=0", as an argument

Term unary(const std::string& symbol, const Term& operand);  // `symbol`: "-", "+", "not"
// `symbol`: "//", "**", "<=", "and", ...
Term binary(const Term& left, const std::string& symbol, const Term& right);
inline Term matmul(const Term& a, const Term& b) { return binary(a, "@", b); }
inline Term operator+(const Term& a, const Term& b) { return binary(a, "+", b); }
inline Term operator-(const Term& a, const Term& b) { return binary(a, "-", b); }
inline Term operator*(const Term& a, const Term& b) { return binary(a, "*", b); }
inline Term operator/(const Term& a, const Term& b) { return binary(a, "/", b); }
inline Term operator%(const Term& a, const Term& b) { return binary(a, "%", b); }
inline Term operator-(const Term& a) { return unary("-", a); }

// One item of an index: a term, or a slice whose ends may be left out.
struct Item {
  IndexItem item;
  Item(const Term& at) { item.at.push_back(at.expr()); }
  Item(int at) : Item(Term(at)) {}
  explicit Item(IndexItem made) : item(std::move(made)) {}
};
Item slice(const Term& low, const Term& high);              // low:high
Item slice_from(const Term& low);                           // low:
Item slice_all();                                           // :
Term at(const Term& list, const std::vector<Item>& items);  // list[items]

struct Argument {
  std::string key;  // "" if positional
  Term value;
  Argument(const Term& positional) : value(positional) {}
  template <typename T>
  requires std::constructible_from<Term, T> && std::is_arithmetic_v<T> Argument(T number)
      : value(number) {}
  Argument(std::string name, const Term& given) : key(std::move(name)), value(given) {}
};
inline Argument key(std::string name, const Term& value) { return {std::move(name), value}; }
// Return verb(arguments).
Term call_with(const std::string& verb, const std::vector<Argument>& arguments);
template <typename... Arguments>
Term call(const std::string& verb, const Arguments&... arguments) {
  return call_with(verb, {Argument(arguments)...});
}

class ListingBuilder {
 public:
  using Body = std::function<void(ListingBuilder&)>;

  // Appends target = value. A target may have braces: "h{i}".
  void assign(const std::string& target, const Term& value);
  void assign_several(const std::vector<std::string>& targets, const Term& value);
  // Appends target = value as placements.
  void claim(const std::string& target, const Term& value, const std::string& placements);
  void assign_at(const std::string& target, const std::vector<Item>& items, const Term& value);
  void run(const Term& call);
  void for_range(const std::string& name, const Term& from, const Term& to, const Body& body);
  void for_range(const std::string& name, const Term& to, const Body& body);
  void if_else(const Term& condition, const Body& body, const Body& otherwise = {});
  void on(const std::string& stream, const Body& body);
  void group(const Body& body);

  // Returns the listing. Throws Error as the parser does: for an empty block, a reserved name,
  // nesting that is too deep.
  Listing build() const;

 private:
  static std::vector<Statement> block(const Body& body);

  std::vector<Statement> statements_;
};

}  // namespace shardproof
