// shardproof help: prints the list of commands, the options of one, or the scenario language.
#include "shardproof/cli/commands/command.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

std::string general_help() {
  std::string out =
      "shardproof simulates the ranks of a distributed tensor program and checks them: do they "
      "hang, do\ntheir calls match, and do they compute what one device computes?\n\n";
  for (const Command& command : commands())
    out += fmt::format("  shardproof {:<13} {}\n", command.name, command.summary);
  return out +
         "\nTo begin:\n"
         "  shardproof new mlp > my_mlp.json\n"
         "  shardproof run my_mlp.json\n"
         "  shardproof help language\n";
}

std::string help_help() {
  return R"text(shardproof help [COMMAND | language | man]

Prints the list of commands, the options of COMMAND, the reference of scenario files (language), or the
man page (man): shardproof help man > shardproof.1
)text";
}

int help_command(const CommandArguments& words, const Registries&) {
  if (words.empty()) {
    print_out(general_help());
    return 0;
  }
  if (words.size() > 1) throw_bad_input("help: expected one command, found {}", words.size());
  if (words[0] == "man") {
    print_out(man_page());
    return 0;
  }
  if (words[0] == "language") {
    print_out(language_text());
    return 0;
  }
  NearestName nearest(words[0]);
  nearest.offer("language");
  for (const Command& command : commands()) {
    if (command.name == words[0]) {
      print_out(command.help());
      return 0;
    }
    nearest.offer(command.name);
  }
  throw_bad_input("help: unknown command \"{}\"{}", words[0],
                  nearest.best().empty() ? "; shardproof help lists them" : nearest.hint());
}

}  // namespace shardproof
