// Implements write_file.h. Steps: follow links to the file that is meant, write the text to
// PATH.PID.part in the same folder, rename that to PATH. Example: `--json report.json` with a link
// report.json -> out/r.json writes out/r.json.4711.part and renames it to out/r.json.
#include "shardproof/scenarios/record/write_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* what, int number) {
  throw Error(ErrorKind::io, fmt::format("{}: {}", what, std::strerror(number)), {path, "", 0, 0});
}

// Returns 0 or the errno of the call that failed. A full disk may show only in fclose.
int write_text(const std::string& path, const std::string& text, const char* mode = "wb") {
  std::FILE* file = std::fopen(path.c_str(), mode);
  if (file == nullptr) return errno;
  int failed = 0;
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) failed = errno;
  if (std::fclose(file) != 0 && failed == 0) failed = errno;
  return failed;
}

struct Target {
  std::string path;
  bool is_file = true;  // false: a device or an open file, which is written directly
};

// Follows symbolic links, even to a file that does not exist yet: a rename onto a link would
// replace the link. A link into /proc, such as /dev/stdout, names a file that this process has
// open.
Target target_of(const std::string& path) {
  constexpr int kMostLinks = 40;  // the kernel's own limit
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

// True if the rename failed because of the folder or a mount, and the file itself can be written.
bool can_only_be_written(const std::string& path, int failed) {
  const bool by_place = failed == EBUSY || failed == EXDEV || failed == EROFS || failed == EACCES;
  return by_place && ::access(path.c_str(), W_OK) == 0;
}

// Returns 0 or the errno of the call that failed.
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
