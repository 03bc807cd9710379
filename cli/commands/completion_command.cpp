// shardproof completion: prints the completion file of a shell, and `shardproof help man` the man
// page. Both are made from the table of commands and their help texts, so they list every option.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "shardproof/cli/commands/command.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

struct CompletedOption {
  std::string name;  // "json", without dashes
  bool has_value = false;
};

// Returns the options that the lines of a help text begin with: "  --warmup W, --iters N".
std::vector<CompletedOption> options_of(const std::string& help) {
  std::vector<CompletedOption> options;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  -")) continue;
    const size_t end = line.find("  ", 2);  // two spaces separate the options from their text
    std::istringstream words(line.substr(0, end));
    for (std::string word; words >> word;) {
      const bool listed = word.ends_with(",");
      if (listed) word.pop_back();
      if (word.starts_with("--"))
        options.push_back({word.substr(2), false});
      else if (!word.starts_with("-") && !options.empty())
        options.back().has_value = true;
    }
  }
  return options;
}

// Values of options that take one of a few words.
const std::map<std::string, std::string>& value_words() {
  static const std::map<std::string, std::string> kWords = {
      {"schedule", "fifo seeded adversarial side-first main-first"},
      {"order", "rank f32 exact ring tree pat symmetric nvls"},
      {"backend", "local mpi nccl local,mpi local,nccl"},
      {"device", "host cuda"},
      {"matmul-precision", "highest high"},
      {"compare", "lines outputs"},
      {"moves", "all collectives"},
      {"annotate", "github"}};
  return kWords;
}

// Words that may be the first argument of a command.
std::string first_words(std::string_view command) {
  std::string out;
  if (command == "list") return "ops backends scenarios cases examples";
  if (command == "completion") return "bash zsh fish";
  if (command == "new") {
    for (const Example& example : examples())
      out += (out.empty() ? "" : " ") + std::string(example.name);
  } else if (command == "help") {
    out = "language man";
    for (const Command& known : commands()) out += " " + std::string(known.name);
  }
  return out;
}

std::string option_words(const std::vector<CompletedOption>& options) {
  std::string out;
  for (const CompletedOption& option : options) out += (out.empty() ? "--" : " --") + option.name;
  return out;
}

std::string bash_completion() {
  std::string names, cases, values;
  for (const Command& command : commands()) {
    names += (names.empty() ? "" : " ") + std::string(command.name);
    cases += fmt::format("    {}) options=\"{}\"; words=\"{}\" ;;\n", command.name,
                         option_words(options_of(command.help())), first_words(command.name));
  }
  for (const auto& [option, words] : value_words())
    values += fmt::format("    --{}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;\n",
                          option, words);
  return fmt::format(R"sh(# Completion of shardproof for bash. Made by: shardproof completion bash
_shardproof() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" options words
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{}" -- "$current"))
    return
  fi
  case "$previous" in
{}  esac
  case "${{COMP_WORDS[1]}}" in
{}  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _shardproof shardproof
)sh",
                     names, values, cases);
}

std::string zsh_completion() {
  std::string names, cases, values;
  for (const Command& command : commands()) {
    names += fmt::format("    '{}:{}'\n", command.name, command.summary);
    cases += fmt::format("    {}) options=({}); first=({}) ;;\n", command.name,
                         option_words(options_of(command.help())), first_words(command.name));
  }
  for (const auto& [option, words] : value_words())
    values += fmt::format("    --{}) compadd -- {}; return ;;\n", option, words);
  return fmt::format(R"sh(#compdef shardproof
# Completion of shardproof for zsh. Made by: shardproof completion zsh
_shardproof() {{
  local -a names options first
  names=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command names
    return
  fi
  case "${{words[CURRENT-1]}}" in
{}  esac
  case "${{words[2]}}" in
{}  esac
  if [[ "${{words[CURRENT]}}" == -* ]]; then
    compadd -- $options
  else
    compadd -- $first
    _files
  fi
}}
compdef _shardproof shardproof
)sh",
                     names, values, cases);
}

std::string fish_completion() {
  std::string out = "# Completion of shardproof for fish. Made by: shardproof completion fish\n";
  for (const Command& command : commands()) {
    out += fmt::format("complete -c shardproof -n __fish_use_subcommand -f -a {} -d '{}'\n",
                       command.name, command.summary);
    const std::string seen =
        fmt::format("complete -c shardproof -n '__fish_seen_subcommand_from {}'", command.name);
    if (const std::string words = first_words(command.name); !words.empty())
      out += fmt::format("{} -f -a '{}'\n", seen, words);
    for (const CompletedOption& option : options_of(command.help())) {
      const auto words = value_words().find(option.name);
      out += fmt::format("{} -l {}{}\n", seen, option.name,
                         words != value_words().end() ? fmt::format(" -x -a '{}'", words->second)
                         : option.has_value           ? " -r"
                                                      : "");
    }
  }
  return out;
}

// Returns a line of a man page: "-" and "\" are escaped, and no line is taken for a request.
std::string man_line(std::string_view line) {
  std::string out;
  for (const char c : line) out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  return out.starts_with(".") || out.starts_with("'") ? "\\&" + out : out;
}

std::string man_block(const std::string& text) {
  std::string out = ".nf\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += man_line(line) + "\n";
  return out + ".fi\n";
}

}  // namespace

std::string man_page() {
  std::string out = fmt::format(
      ".TH SHARDPROOF 1 \"\" \"shardproof {}\"\n.SH NAME\nshardproof \\- check a distributed "
      "tensor "
      "program before it runs on GPUs\n.SH SYNOPSIS\n.B shardproof\n.I command\n[options]\n"
      ".SH DESCRIPTION\n",
      SHARDPROOF_VERSION);
  out += man_block(general_help());
  for (const Command& command : commands()) {
    std::string title(command.name);
    std::transform(title.begin(), title.end(), title.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    out += fmt::format(".SH {}\n", man_line(title)) + man_block(command.help());
  }
  return out +
         ".SH ENVIRONMENT\n.TP\nNO_COLOR\nIf set and not empty, no colors are printed.\n.TP\nTERM\n"
         "If \"dumb\", no colors and no progress line are printed.\n.SH SEE ALSO\n"
         "shardproof help language\n";
}

int completion_command(const CommandArguments& words, const Registries&) {
  const std::string shell = words.size() == 1 ? words[0] : "";
  if (shell == "bash") {
    print_out(bash_completion());
  } else if (shell == "zsh") {
    print_out(zsh_completion());
  } else if (shell == "fish") {
    print_out(fish_completion());
  } else {
    throw_bad_input("completion: expected bash, zsh or fish, found {}",
                    words.empty() ? "nothing" : fmt::format("\"{}\"", fmt::join(words, " ")));
  }
  return 0;
}

std::string completion_help() {
  return R"text(shardproof completion bash | zsh | fish

Prints the completion file of a shell.

  bash   shardproof completion bash > ~/.local/share/bash-completion/completions/shardproof
  zsh    shardproof completion zsh > DIR/_shardproof, where DIR is in $fpath
  fish   shardproof completion fish > ~/.config/fish/completions/shardproof.fish
)text";
}

}  // namespace shardproof
