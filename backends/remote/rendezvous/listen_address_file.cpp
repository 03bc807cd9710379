// Implements the address file of listen_address.h. The file appears at once and whole: it is
// written to a temporary file in the same folder and then linked. Linking fails if another run has
// made the file meanwhile.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shardproof/backends/remote/rendezvous/listen_address.h"

namespace shardproof {
namespace {

constexpr const char* kFileHead = "shardproof rendezvous 1\n";
constexpr size_t kMaxFileBytes = 4096;

[[noreturn]] void throw_file_error(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::io, what, {path, "", 0, 0});
}

// Writes a file that only its owner may read: it holds the secret. Returns 0, or the errno.
int write_private_file(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  errno = ENOSPC;
  int failed =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : errno;
  if (::fsync(file) != 0 && failed == 0) failed = errno;
  if (::close(file) != 0 && failed == 0) failed = errno;
  return failed;
}

// True if a coordinator listens at `address`; otherwise its file is of a run that has ended.
bool is_listening_at(const std::string& address) {
  try {
    connect_to(address);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string published_at(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return {};
  if (file < 0) throw_file_error(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::string text(kMaxFileBytes, '\0');
  const ssize_t n = ::read(file, text.data(), text.size());
  ::close(file);
  text.resize(static_cast<size_t>(n > 0 ? n : 0));
  if (text.starts_with(kFileHead) && text.ends_with("\n"))
    return text.substr(std::strlen(kFileHead), text.size() - std::strlen(kFileHead) - 1);
  throw Error(ErrorKind::bad_input, "not a rendezvous file of shardproof; name a new file",
              {path, "", 0, 0});
}

void ListenAddress::publish(const std::string& path) {
  if (const std::string before = published_at(path); !before.empty()) {
    const bool is_used = is_listening_at(before);
    // Reads it again: the file may be gone, or another run may have replaced it.
    const std::string now = published_at(path);
    if (!now.empty() && (is_used || now != before))
      throw_file_error(path, "another run uses this rendezvous");
    if (!now.empty()) ::unlink(path.c_str());
  }
  const std::string unpublished = fmt::format("{}.{}.part", path, ::getpid());
  int failed = write_private_file(unpublished, kFileHead + address_ + "\n");
  // link() does not overwrite a file that another run has just made.
  if (failed == 0 && ::link(unpublished.c_str(), path.c_str()) != 0) failed = errno;
  ::unlink(unpublished.c_str());
  if (failed == EEXIST) throw_file_error(path, "another run uses this rendezvous");
  if (failed != 0)
    throw_file_error(path, fmt::format("cannot be written: {}", std::strerror(failed)));
  file_ = path;
}

}  // namespace shardproof
