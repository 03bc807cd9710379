// Implements console.h.
#include "shardproof/cli/base/console.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>

namespace shardproof {
namespace {

constexpr size_t kMaxErrorLines = 6;
constexpr size_t kMaxErrorColumns = 400;

}  // namespace

void print_out(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error(ErrorKind::io, fmt::format("cannot be written: {}", std::strerror(errno)),
                {"standard output", "", 0, 0});
}

void print_error(const Error& error) {
  std::istringstream in(error.where().file.empty() ? "shardproof: " + std::string(error.what())
                                                   : std::string(error.what()));
  size_t lines = 0;
  for (std::string line; std::getline(in, line) && lines < kMaxErrorLines; ++lines) {
    if (line.size() > kMaxErrorColumns) line = line.substr(0, kMaxErrorColumns) + "...";
    // A closed standard error is not an error: the exit code reports the failure too.
    std::fputs((line + "\n").c_str(), stderr);
  }
}

bool stdout_is_terminal() {
  static const bool is_terminal = std::getenv("OMPI_COMM_WORLD_RANK") == nullptr &&
                                  std::getenv("PMIX_RANK") == nullptr && isatty(STDOUT_FILENO) == 1;
  return is_terminal;
}

bool stdout_redraws() {
  const char* const terminal = std::getenv("TERM");
  return stdout_is_terminal() && terminal != nullptr && std::string_view(terminal) != "dumb";
}

bool stdout_has_colors() {
  const char* const refused = std::getenv("NO_COLOR");
  return stdout_redraws() && (refused == nullptr || *refused == '\0');
}

int run_and_report_errors(const std::function<int()>& run) {
  try {
    return run();
  } catch (const Error& error) {
    print_error(error);
  } catch (const std::bad_alloc&) {
    print_error(Error(ErrorKind::limit, "the machine has too little memory for this"));
  }
  return 2;
}

}  // namespace shardproof
