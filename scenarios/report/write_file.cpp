#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "shardproof/scenarios/report/report.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* what, int number) {
  throw Error(ErrorKind::io, fmt::format("{}: {}", what, std::strerror(number)), {path, "", 0, 0});
}

// 0, or the errno of what failed. A full disk may show only when the file is closed.
int write_text(const std::string& path, const std::string& text, const char* mode = "wb") {
  std::FILE* file = std::fopen(path.c_str(), mode);
  if (file == nullptr) return errno;
  int failed = 0;
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) failed = errno;
  if (std::fclose(file) != 0 && failed == 0) failed = errno;
  return failed;
}

// A file, which is written beside itself and then replaced; or what is written to as it is.
struct Target {
  std::string path;
  bool is_file = true;
};

// Where a link leads, whether or not there is something: what is renamed to a link replaces it. Not
// to a file that this process has open, as /dev/stdout does.
Target target_of(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the system follows
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) fail(path, "cannot be written", EISDIR);
  if (fs::exists(status) && !fs::is_regular_file(status)) return {path, false};
  fs::path target = path;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    if (links == kMostLinks) fail(path, "cannot be written", ELOOP);
    if (target.string().starts_with("/proc/")) return {path, false};
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  return {target.string()};
}

std::string part_path(const std::string& path) { return fmt::format("{}.{}.part", path, getpid()); }

// A file that is mounted cannot be replaced, and one in a folder where nothing can be made cannot
// be written beside; they can be written.
bool can_only_be_written(const std::string& path, int failed) {
  const bool by_place = failed == EBUSY || failed == EXDEV || failed == EROFS || failed == EACCES;
  return by_place && ::access(path.c_str(), W_OK) == 0;
}

// 0, or the errno of what failed.
int replace_file(const std::string& path, const std::string& text) {
  const std::string beside = part_path(path);
  int failed = write_text(beside, text);
  if (failed == 0 && std::rename(beside.c_str(), path.c_str()) == 0) return 0;
  if (failed == 0) failed = errno;
  std::remove(beside.c_str());
  return can_only_be_written(path, failed) ? write_text(path, text) : failed;
}

}  // namespace

void check_writable(const std::string& path) {
  const Target target = target_of(path);
  if (!target.is_file && ::access(path.c_str(), W_OK) != 0) fail(path, "cannot be written", errno);
  if (!target.is_file) return;
  const std::string beside = part_path(target.path);
  const int failed = write_text(beside, "");
  std::remove(beside.c_str());
  if (failed != 0 && !can_only_be_written(target.path, failed))
    fail(path, "cannot be written", failed);
}

void write_whole_file(const std::string& path, const std::string& text) {
  const Target target = target_of(path);
  const int failed =
      target.is_file ? replace_file(target.path, text) : write_text(path, text, "ab");
  if (failed != 0) fail(path, "cannot be written", failed);
}

}  // namespace shardproof
