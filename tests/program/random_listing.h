// Random programs with random spaces, parentheses, comments and blank lines, for laws about the
// language. A program is a function of its seed.
#pragma once

#include <string>
#include <vector>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof {

class RandomListing {
 public:
  explicit RandomListing(uint64_t seed) : rng_(seed, 0x6c697374) {}

  std::vector<std::string> lines();
  std::string expression(int depth);

 private:
  int64_t pick(int64_t count) { return rng_.integer(draws_++, 0, count); }
  template <size_t n>
  std::string one_of(const char* const (&words)[n]) {
    return words[pick(n)];
  }
  std::string gap() { return pick(4) == 0 ? std::string(static_cast<size_t>(pick(3)), ' ') : ""; }
  std::string binary(int depth);
  std::string primary(int depth);
  std::string number();
  std::string name(int depth);
  std::string text(int depth);
  std::string call(int depth);
  std::string value(int depth);
  std::string items(int depth);
  std::string placements();
  std::string joined(int count, int depth);
  std::string simple_statement();
  void block(std::vector<std::string>& out, int indent, int depth);
  void statement(std::vector<std::string>& out, int indent, int depth);
  void blank_lines(std::vector<std::string>& out);

  Rng rng_;
  uint64_t draws_ = 0;
  bool in_braces_ = false;
};

}  // namespace shardproof
