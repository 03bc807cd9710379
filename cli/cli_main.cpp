// Implements cli.h. Steps: prepare signals and standard streams, find the command by its name, run
// it or print its help, print the Error that it throws.
#include "shardproof/cli/cli.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>

#include "shardproof/cli/base/console.h"
#include "shardproof/cli/commands/command.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

int dispatch(const CommandArguments& words, const Registries& registries) {
  const std::string first = words.empty() ? "help" : words[0];
  if (first == "--version") {
    print_out("shardproof " SHARDPROOF_VERSION "\n");
    return 0;
  }
  if (first == "--help" || first == "-h") return help_command({}, registries);
  NearestName nearest(first);
  for (const char* option : {"--version", "--help"}) nearest.offer(option);
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
  const bool is_file = first.ends_with(".json");
  throw_bad_input("unknown command \"{}\"{}", first,
                  is_file                  ? "; write shardproof run " + first
                  : nearest.best().empty() ? "; shardproof help lists them"
                                           : nearest.hint());
}

// Returns the command as a shell reads it again.
std::string joined(const CommandArguments& words) {
  std::string out = "shardproof";
  for (std::string word : words) {
    if (!word.empty() && word.find_first_of(" \"'$`\\*?;&|<>(){}[]#~!\n") == std::string::npos) {
      out += " " + word;
      continue;
    }
    for (size_t at = 0; (at = word.find('\'', at)) != std::string::npos; at += 4)
      word.replace(at, 1, "'\\''");
    out += " '" + word + "'";
  }
  return out;
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = {
      {"run", "run scenarios and compare the results with what they expect", run_command, run_help},
      {"compare", "compare the values and times of two recorded runs", compare_command,
       compare_help},
      {"validate", "read scenarios and check them without a run", validate_command, validate_help},
      {"show", "print the programs, plans and bytes of a scenario", show_command, show_help},
      {"plan", "explain one redistribution step by step", plan_command, plan_help},
      {"explain", "print the placements of an op, and the communication of all others",
       explain_command, explain_help},
      {"bench", "measure a collective as nccl-tests does, and predict its time", bench_command,
       bench_help},
      {"check-judging", "count how often verdicts on generated programs are right",
       check_judging_command, check_judging_help},
      {"check-ops", "judge sharding rules of ops by brute force", check_ops_command,
       check_ops_help},
      {"fuzz", "run random programs against one device", fuzz_command, fuzz_help},
      {"list", "list ops, backends, scenarios or examples", list_command, list_help},
      {"new", "print a small scenario to start from", new_command, new_help},
      {"completion", "print the completion file of bash, zsh or fish", completion_command,
       completion_help},
      {"help", "print help on a command, or the scenario language", help_command, help_help},
  };
  return kCommands;
}

namespace {

// Opens /dev/null for each closed standard stream. Otherwise the next opened file would get its
// number and receive the report.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

}  // namespace

int cli_main(int argc, const char* const* argv, const Registries& registries) {
  const CommandArguments words(argv + (argc > 0 ? 1 : 0), argv + argc);
  set_repeat_command(joined(words));
  // A file over the size limit becomes a write error instead of a fatal signal.
  std::signal(SIGXFSZ, SIG_IGN);
  // A parent may have set SIGCHLD to be ignored; waitpid would then find no child.
  std::signal(SIGCHLD, SIG_DFL);
  // An empty TMPDIR counts as unset, also for child processes.
  if (const char* const named = std::getenv("TMPDIR"); named != nullptr && *named == '\0')
    ::unsetenv("TMPDIR");
  hold_standard_streams();
  stdout_is_terminal();  // decided now: a run removes the variables of mpirun later
  try {
    return run_and_report_errors([&] { return dispatch(words, registries); });
  } catch (const std::exception& error) {
    SP_UNREACHABLE("an unexpected exception: {}", error.what());
  }
}

}  // namespace shardproof
