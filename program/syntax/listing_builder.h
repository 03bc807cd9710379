// Builder: writes a program in C++ instead of text. What it builds is what the parser makes of the
// same text, source lines included, so that a report can show them.
//
//   ListingBuilder b;
//   b.assign("h", call("gelu", matmul(name("x"), name("w1"))));
//   b.assign("y", call("redistribute", name("h"), placed("tp:R")));
//   b.for_range("i", 0, 4, [](ListingBuilder& body) { body.run(call("wait", name("h{i}"))); });
//   Listing listing = b.build();
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shardproof/program/syntax/ast.h"

namespace shardproof {

// An expression that operators combine. Operators bind as in C++; the tree is what counts, and
// prints with the parentheses it needs.
class Term {
 public:
  Term(int64_t value);
  Term(int value) : Term(int64_t{value}) {}
  Term(double value);
  // Of nothing that merely converts to bool: a string literal would.
  Term(std::same_as<bool> auto value) : expr_(truth(value)) {}
  explicit Term(Expr expr) : expr_(std::move(expr)) {}
  const Expr& expr() const { return expr_; }

  Term operator[](const Term& index) const;
  Term T() const;

 private:
  static Expr truth(bool value);

  Expr expr_;
};

Term name(const std::string& name);     // "x", "h{i - 1}"
Term text(const std::string& content);  // 'ckpt/{rank}', without its quotes
Term list(const std::vector<Term>& items);
Term placed(const std::string& placements);  // "dp:S(0) tp:R", "R on pp=0", as an argument

Term unary(const std::string& symbol, const Term& operand);
Term binary(const Term& left, const std::string& symbol,
            const Term& right);  // "//", "**", "<=", "and", ..
inline Term matmul(const Term& a, const Term& b) { return binary(a, "@", b); }
inline Term operator+(const Term& a, const Term& b) { return binary(a, "+", b); }
inline Term operator-(const Term& a, const Term& b) { return binary(a, "-", b); }
inline Term operator*(const Term& a, const Term& b) { return binary(a, "*", b); }
inline Term operator/(const Term& a, const Term& b) { return binary(a, "/", b); }
inline Term operator%(const Term& a, const Term& b) { return binary(a, "%", b); }
inline Term operator-(const Term& a) { return unary("-", a); }

// One entry of an index: a term, or a slice whose ends may be left out.
struct Item {
  IndexItem item;
  Item(const Term& at) { item.at.push_back(at.expr()); }
  Item(int at) : Item(Term(at)) {}
  explicit Item(IndexItem made) : item(std::move(made)) {}
};
Item slice(const Term& low, const Term& high);
Item slice_from(const Term& low);
Item slice_to(const Term& high);
Item slice_all();
Term at(const Term& list, const std::vector<Item>& items);

struct Argument {
  std::string key;  // "" when positional
  Term value;
  Argument(const Term& positional) : value(positional) {}
  template <typename T>
  requires std::constructible_from<Term, T> && std::is_arithmetic_v<T> Argument(T number)
      : value(number) {}
  Argument(std::string name, const Term& given) : key(std::move(name)), value(given) {}
};
inline Argument key(std::string name, const Term& value) { return {std::move(name), value}; }
Term call_with(const std::string& verb, const std::vector<Argument>& arguments);
template <typename... Arguments>
Term call(const std::string& verb, const Arguments&... arguments) {
  return call_with(verb, {Argument(arguments)...});
}

class ListingBuilder {
 public:
  using Body = std::function<void(ListingBuilder&)>;

  // A target may have holes: "h{i}". Error(bad_input) at once when it is no name.
  void assign(const std::string& target, const Term& value);
  void assign_several(const std::vector<std::string>& targets, const Term& value);
  // target = value as placements
  void claim(const std::string& target, const Term& value, const std::string& placements);
  void assign_at(const std::string& target, const std::vector<Item>& items, const Term& value);
  void run(const Term& call);
  void for_range(const std::string& name, const Term& from, const Term& to, const Body& body);
  void for_range(const std::string& name, const Term& to, const Body& body);
  void if_else(const Term& condition, const Body& body, const Body& otherwise = {});
  void on(const std::string& stream, const Body& body);
  void group(const Body& body);

  // Error(bad_input) as from the parser: an empty block, a reserved name, too deep a nesting.
  Listing build() const;

 private:
  static std::vector<Statement> block(const Body& body);

  std::vector<Statement> statements_;
};

}  // namespace shardproof
