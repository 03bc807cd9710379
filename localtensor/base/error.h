// Trouble has three shapes; this header holds two of them.
//
//   Error     bad input or a refused operation: thrown as a value with its place; exit code 2.
//   SP_CHECK  a bug of ours: prints a dump with the command that repeats it; exit code 3.
//
// A finding about the user's program is neither: see finding.h.
#pragma once

#include <fmt/format.h>

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

// The place of an error: any part may be empty or 0. `path` is a JSON pointer
// ("/tensors/w1/shape"). `line` and `column` count from 1 in the program array named by `path`, or
// in the JSON text when `path` is empty.
struct Where {
  std::string file = {};  // defaults, so that designated initializers may name some
  std::string path = {};
  int line = 0;
  int column = 0;
  bool operator==(const Where&) const = default;
};

// Text of a place: "mlp.json: /program line 2, column 11"; empty when nothing is known.
std::string to_string(const Where& where);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string message, Where where = {});

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }  // without the place
  const Where& where() const { return where_; }
  // The same error with the parts of the place that are still empty filled from `outer`.
  Error inside(const Where& outer) const;

 private:
  ErrorKind kind_;
  std::string message_;
  Where where_;
};

// throw_bad_input("dim {} is out of range for shape {}", d, shape)
template <typename... Args>
[[noreturn]] void throw_bad_input(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::bad_input, fmt::format(text, std::forward<Args>(args)...));
}

// Returns the candidate nearest to `word` by edit distance (for "did you mean"), or "" when none is
// close (distance at most 2, or a third of the word).
class NearestName {
 public:
  explicit NearestName(std::string_view word) : word_(word) {}
  void offer(std::string_view candidate);
  const std::string& best() const { return best_; }
  // ` ; did you mean "placements"?` ready to append, or "".
  std::string hint() const;

 private:
  std::string word_, best_;
  size_t distance_ = static_cast<size_t>(-1);
};

// Printed by a failing SP_CHECK: the command that repeats what this thread is running.
void set_repeat_command(std::string command);
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
