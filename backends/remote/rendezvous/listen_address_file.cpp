// The file by which processes on several machines learn where they meet.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "shardproof/backends/remote/rendezvous/listen_address.h"

namespace shardproof {
namespace {

constexpr const char* kHead = "shardproof rendezvous 1\n";
constexpr size_t kLongest = 4096;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::io, what, {path, "", 0, 0});
}

// Only its owner may read it: it holds the secret. 0, or the errno of what failed.
int write_beside(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  errno = ENOSPC;
  int failed =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : errno;
  if (::fsync(file) != 0 && failed == 0) failed = errno;
  if (::close(file) != 0 && failed == 0) failed = errno;
  return failed;
}

// What stands there is of an earlier run, unless somebody answers.
bool somebody_is_at(const std::string& address) {
  try {
    go_to(address);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string published_at(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return {};
  if (file < 0) fail(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::string text(kLongest, '\0');
  const ssize_t n = ::read(file, text.data(), text.size());
  ::close(file);
  text.resize(static_cast<size_t>(n > 0 ? n : 0));
  if (text.starts_with(kHead) && text.ends_with("\n"))
    return text.substr(std::strlen(kHead), text.size() - std::strlen(kHead) - 1);
  throw Error(ErrorKind::bad_input, "no rendezvous of shardproof, but another file",
              {path, "", 0, 0});
}

void ListenAddress::publish(const std::string& path) {
  if (const std::string before = published_at(path); !before.empty()) {
    const bool meets = somebody_is_at(before);
    // It may be gone by now, or another run may have replaced it.
    const std::string now = published_at(path);
    if (!now.empty() && (meets || now != before)) fail(path, "another run meets there");
    if (!now.empty()) ::unlink(path.c_str());
  }
  const std::string beside = fmt::format("{}.{}.part", path, ::getpid());
  int failed = write_beside(beside, kHead + address_ + "\n");
  // Not over a file that somebody else has just made.
  if (failed == 0 && ::link(beside.c_str(), path.c_str()) != 0) failed = errno;
  ::unlink(beside.c_str());
  if (failed == EEXIST) fail(path, "another run meets there");
  if (failed != 0) fail(path, fmt::format("cannot be written: {}", std::strerror(failed)));
  file_ = path;
}

}  // namespace shardproof
