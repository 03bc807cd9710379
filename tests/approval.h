// Approval tests: compare a whole output text with tests/approvals/<name>.txt.
//
// If the texts differ or there is no approved file, the test fails and shows the first different
// line. It writes the received text to build/<preset>/approvals/<name>.txt. `./dev approve` copies
// these files to the source tree, where their diff is reviewed. A name may contain folders:
// "plan/mlp". Names are unique in the tree, because test programs may run at the same time.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

namespace shardproof {

// Returns the first line in which two texts differ, in both versions, or "" if they are equal.
inline std::string first_difference(std::string_view approved, std::string_view received) {
  if (approved == received) return "";
  std::istringstream left{std::string(approved)};
  std::istringstream right{std::string(received)};
  std::string want, got;
  for (int line = 1;; ++line) {
    bool more_left = static_cast<bool>(std::getline(left, want));
    bool more_right = static_cast<bool>(std::getline(right, got));
    if (!more_left && !more_right) return "the texts differ in the line end at the end of the file";
    if (more_left && more_right && want == got) continue;
    std::ostringstream out;
    out << "line " << line << "\n  approved  " << (more_left ? want : "(the text ends here)")
        << "\n  received  " << (more_right ? got : "(the text ends here)");
    return out.str();
  }
}

inline void expect_approved(std::string_view name, std::string_view text) {
  namespace fs = std::filesystem;
  std::string file = std::string(name) + ".txt";
  fs::path approved = fs::path(SHARDPROOF_APPROVALS_DIR) / file;
  fs::path received = fs::path(SHARDPROOF_RECEIVED_DIR) / file;

  std::string want;
  bool known = fs::exists(approved);
  if (known) {
    std::ifstream in(approved, std::ios::binary);
    want.assign(std::istreambuf_iterator<char>(in), {});
    if (want == text) {
      fs::remove(received);
      return;
    }
  }
  fs::create_directories(received.parent_path());
  std::ofstream(received, std::ios::binary) << text;
  if (known) {
    ADD_FAILURE() << "approvals/" << file
                  << " differs from what was received: " << first_difference(want, text)
                  << "\n  accept it with: ./dev approve";
  } else {
    ADD_FAILURE() << "approvals/" << file << " does not exist; received:\n"
                  << text << "\n  accept it with: ./dev approve";
  }
}

}  // namespace shardproof
