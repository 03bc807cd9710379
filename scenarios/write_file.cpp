#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "shardproof/scenarios/report.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* what, int number) {
  throw Error(ErrorKind::io, fmt::format("{}: {}", what, std::strerror(number)), {path, "", 0, 0});
}

// 0, or the errno of what failed. A full disk may show only when the file is closed.
int write_text(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return errno;
  int failed = 0;
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) failed = errno;
  if (std::fclose(file) != 0 && failed == 0) failed = errno;
  return failed;
}

std::string part_path(const std::string& path) { return fmt::format("{}.{}.part", path, getpid()); }

}  // namespace

void check_writable(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) fail(path, "cannot be written", EISDIR);
  const bool device = fs::exists(status) && !fs::is_regular_file(status);
  if (device && ::access(path.c_str(), W_OK) != 0) fail(path, "cannot be written", errno);
  if (device) return;
  const int failed = write_text(part_path(path), "");
  std::remove(part_path(path).c_str());
  if (failed != 0) fail(path, "cannot be written", failed);
}

void write_whole_file(const std::string& path, const std::string& text) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) {
    const int failed = write_text(path, text);
    if (failed != 0) fail(path, "cannot be written", failed);
    return;
  }
  if (fs::is_directory(status)) fail(path, "cannot be written", EISDIR);
  const std::string beside = part_path(path);
  const int failed = write_text(beside, text);
  if (failed != 0) {
    std::remove(beside.c_str());
    fail(path, "cannot be written", failed);
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    const int number = errno;
    std::remove(beside.c_str());
    fail(path, "cannot be written", number);
  }
}

}  // namespace shardproof
