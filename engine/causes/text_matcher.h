// TextMatcher: tree edit distances of expressions, and the changes that make one like the other.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shardproof/engine/causes/rank_text.h"

namespace shardproof {

// Returns the expression without calls that move or add up its value, and without "* 1".
const Expr& without_calls(const Expr& expr);

// The nodes of two expressions are compared one by one. An op in place of another one costs 1. So
// does an op that one expression has around the other. A part that only one of them has costs its
// number of nodes. A name in place of another name costs little. So does a name that only one of
// the texts has, in place of an expression that it may mean. Other named arguments of a call
// (causal=true) cost 1.
class TextMatcher {
 public:
  // `shared`: the names that both texts have.
  explicit TextMatcher(std::set<std::string> shared) : shared_(std::move(shared)) {}
  // The step that makes an expression of the ranks like the other one.
  enum class Step : uint8_t {
    equal,
    children,
    symbol,
    options,
    name,
    inlined,
    replaced,
    wrapped,
    unwrapped
  };
  struct Match {
    double cost = 0;
    Step step = Step::equal;
    size_t child = 0;  // of wrapped and unwrapped
  };
  const Match& match(const Expr& ranks, const Expr& other);
  // Returns the same for whole lines or parts: a name alone does not match.
  Match match_whole(const Expr& ranks, const Expr& other);
  int size(const Expr& expr);
  // Returns the number of pairs that have been compared.
  size_t pairs() const { return matches_.size(); }

  struct Replacement {
    const Expr* at = nullptr;  // an expression of the ranks
    Expr by;
  };
  // Returns the changes that together make the ranks' expression like the other, each alone, and
  // last all together if they are several. Names in the inserted text become those of the ranks at
  // their place. All together come without and with the names of the other text.
  std::vector<Replacement> replacements(const Expr& ranks, const Expr& other);

 private:
  double cost_of_children(const Expr& r, const Expr& o);
  Match compute(const Expr& r, const Expr& o, bool is_whole);
  void learn_names(const Expr& ranks, const Expr& other, const Match& found);
  void add(const Expr& ranks, const Expr& other, const Match& found, std::vector<Replacement>& to);
  Expr made_like(const Expr& ranks, const Expr& other, const Match& found, bool takes_names);
  Expr in_own_names(Expr expr) const;
  Expr around(const Expr& other, size_t child, const Expr& inner) const;
  const std::set<std::string> shared_;
  struct PairHash {
    size_t operator()(const std::pair<const Expr*, const Expr*>& pair) const {
      const std::hash<const Expr*> hash;
      return hash(pair.first) * 0x9e3779b97f4a7c15U ^ hash(pair.second);
    }
  };
  std::unordered_map<std::pair<const Expr*, const Expr*>, Match, PairHash> matches_;
  std::unordered_map<const Expr*, int> sizes_;
  std::map<std::string, std::string> names_;  // of the ranks, by those of the other text
};

}  // namespace shardproof
