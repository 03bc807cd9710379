// ErrorList: the errors of one scenario file. Readers continue after an error where later parts do
// not depend on it, so that several errors are reported in one run.
#pragma once

#include <algorithm>
#include <vector>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

inline constexpr size_t kMaxFileErrors = 10;

class ErrorList {
 public:
  // Calls `action` and stores an Error that it throws. Returns true if it threw none.
  template <typename Action>
  bool attempt(Action action) {
    try {
      action();
      return true;
    } catch (const Error& error) {
      add(error);
      return false;
    }
  }
  // Ignores an error that is equal to a stored one, and all errors after kMaxFileErrors.
  void add(const Error& error) {
    const bool known = std::any_of(errors_.begin(), errors_.end(), [&](const Error& other) {
      return other.message() == error.message() && other.where() == error.where();
    });
    if (!known && !full()) errors_.push_back(error);
  }
  void add_all(const std::vector<Error>& errors) {
    for (const Error& error : errors) add(error);
  }
  bool empty() const { return errors_.empty(); }
  bool full() const { return errors_.size() >= kMaxFileErrors; }
  const std::vector<Error>& errors() const { return errors_; }

 private:
  std::vector<Error> errors_;
};

}  // namespace shardproof
