// Error and SP_CHECK: two of the three ways in which shardproof reports a problem.
//
//   Error     bad input or a refused operation: an exception with its place; exit code 2.
//   SP_CHECK  a bug of shardproof: prints the command that repeats it; exit code 3.
//
// The third way is a Finding (finding.h): a statement about the user's program, never an exception.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace shardproof {

enum class ErrorKind {
  bad_input,    // the file or the arguments are wrong
  unsupported,  // legal, but this version or this backend refuses it
  limit,        // more ranks, bytes or depth than allowed
  io,           // a file cannot be read or written
};

// The place of an error; any part may be empty or 0. `path` is a JSON pointer
// ("/tensors/w1/shape"). `line` and `column` count from 1 in the program array named by `path`, or
// in the text if `path` is empty. `file_line` and `file_column` count from 1 in the text of `file`.
struct Where {
  std::string file = {};  // the default lets designated initializers leave a member out
  std::string path = {};
  int line = 0;
  int column = 0;
  int file_line = 0;
  int file_column = 0;
  bool operator==(const Where&) const = default;
};

// Returns the text of a place: "mlp.json: /program line 2, column 11". With a place in the file:
// "mlp.json:9:16: /program/1, line 2 of the program, column 11". Empty if no part is known.
std::string to_string(const Where& where);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string message, Where where = {});

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }  // without the place
  const Where& where() const { return where_; }
  // Returns this error with the empty parts of its place filled from `outer`. `line` and `column`
  // are filled only if both places name the same path.
  Error inside(const Where& outer) const;

 private:
  ErrorKind kind_;
  std::string message_;
  Where where_;
};

// Throws Error(bad_input) without a place: throw_bad_input("dim {} is out of range", d).
template <typename... Args>
[[noreturn]] void throw_bad_input(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::bad_input, fmt::format(text, std::forward<Args>(args)...));
}

// Finds the candidate nearest to `word` by edit distance, for "did you mean". Case is ignored. A
// candidate counts as near up to a distance of a third of the word's length, at least 1.
// Distance: Damerau-Levenshtein in its optimal string alignment form.
class NearestName {
 public:
  explicit NearestName(std::string_view word) : word_(word) {}
  void offer(std::string_view candidate);  // of equally near candidates the first is kept
  // Returns the nearest candidate offered so far; empty if none is near.
  const std::string& best() const { return best_; }
  // Returns `; did you mean "placements"?`, to append to a message; empty if none is near.
  std::string hint() const;

 private:
  std::string word_, best_;
  size_t distance_ = static_cast<size_t>(-1);
};

// Sets the command that a failing SP_CHECK of this thread prints: it repeats the running case.
void set_repeat_command(std::string command);
// Prints the failed condition, the message and the repeat command to stderr; exits with code 3.
[[noreturn]] void internal_failure(const char* file, int line, const char* condition,
                                   const std::string& message);

}  // namespace shardproof

#define SP_CHECK(condition, ...)                                                                \
  do {                                                                                          \
    if (!(condition))                                                                           \
      ::shardproof::internal_failure(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)

#define SP_UNREACHABLE(...) \
  ::shardproof::internal_failure(__FILE__, __LINE__, "unreachable", fmt::format(__VA_ARGS__))
