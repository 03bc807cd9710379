// Approved text: output that people read is compared, whole, with tests/approvals/<name>.txt.
//
// A text that differs, or has no approved file yet, fails the test, shows the first line that
// differs and is left at build/<preset>/approvals/<name>.txt. `./dev approve` takes what is left
// there over into the source tree; the diff of that commit is then the review. A name may hold
// folders: "plan/mlp". Names are unique in the tree; tests of different executables may run at the
// same time.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

namespace shardproof {

// The first line where two texts part, both versions of it, or "" when they are equal.
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
