#include "shardproof/cli/cli.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>

#include "shardproof/cli/commands/command.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr size_t kMaxErrorLines = 6;
constexpr size_t kMaxErrorColumns = 400;

int dispatch(const CommandArguments& words, const Registries& registries) {
  const std::string first = words.empty() ? "help" : words[0];
  if (first == "--version") {
    print_out("shardproof " SHARDPROOF_VERSION "\n");
    return 0;
  }
  if (first == "--help" || first == "-h") return help_command({}, registries);
  NearestName nearest(first);
  for (const Command& command : commands()) {
    if (command.name != first) {
      nearest.offer(command.name);
      continue;
    }
    const CommandArguments rest(words.begin() + (words.empty() ? 0 : 1), words.end());
    for (const std::string& word : rest)
      if (word == "--help" || word == "-h") {
        print_out(command.help());
        return 0;
      }
    return command.run(rest, registries);
  }
  throw_bad_input("unknown command \"{}\"{}", first,
                  nearest.best().empty() ? "; shardproof help lists them" : nearest.hint());
}

std::string joined(const CommandArguments& words) {
  std::string out = "shardproof";
  for (const std::string& word : words)
    out += word.find(' ') == std::string::npos ? " " + word : " \"" + word + "\"";
  return out;
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = {
      {"run", "run scenarios and say whether they do what they should", run_command, run_help},
      {"compare", "lay two recorded runs side by side: values and times", compare_command,
       compare_help},
      {"show", "print the programs, plans and bytes of a scenario", show_command, show_help},
      {"plan", "explain one redistribution step by step", plan_command, plan_help},
      {"bench", "measure a collective as nccl-tests does, with a prediction beside", bench_command,
       bench_help},
      {"check-judging", "count how often judging is right on generated programs",
       check_judging_command, check_judging_help},
      {"list", "list ops, backends, scenarios or examples", list_command, list_help},
      {"new", "print a small scenario to start from", new_command, new_help},
      {"help", "help on a command, or the scenario language", help_command, help_help},
  };
  return kCommands;
}

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
    std::fputs((line + "\n").c_str(), stderr);  // where it cannot be told the exit code still is
  }
}

// mpirun gives each process a terminal of its own, and passes on what comes out of it to wherever
// its own output goes. Looked at before a run forgets who has started this process.
bool stdout_is_terminal() {
  static const bool is_terminal = std::getenv("OMPI_COMM_WORLD_RANK") == nullptr &&
                                  std::getenv("PMIX_RANK") == nullptr && isatty(STDOUT_FILENO) == 1;
  return is_terminal;
}

namespace {

// Who starts this without standard streams must not find reports in the next file that is opened.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

}  // namespace

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

int cli_main(int argc, const char* const* argv, const Registries& registries) {
  const CommandArguments words(argv + (argc > 0 ? 1 : 0), argv + argc);
  set_repeat_command(joined(words));
  // A file that grows over its limit is an error to tell, not a reason to be killed.
  std::signal(SIGXFSZ, SIG_IGN);
  // Where nobody is told of children, as some who start this have it, none could be waited for.
  std::signal(SIGCHLD, SIG_DFL);
  // Set to nothing is not set, for those that this process starts too.
  if (const char* const named = std::getenv("TMPDIR"); named != nullptr && *named == '\0')
    ::unsetenv("TMPDIR");
  hold_standard_streams();
  stdout_is_terminal();
  try {
    return run_and_report_errors([&] { return dispatch(words, registries); });
  } catch (const std::exception& error) {
    SP_UNREACHABLE("an exception that nobody expected: {}", error.what());
  }
}

}  // namespace shardproof
