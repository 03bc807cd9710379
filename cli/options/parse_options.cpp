#include <charconv>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/cli/commands/command.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

[[noreturn]] void refuse_unknown(const std::string& option,
                                 const po::options_description& options) {
  const size_t start = option.find_first_not_of('-');
  const std::string word = start == std::string::npos ? option : option.substr(start);
  NearestName nearest(word);
  for (const auto& known : options.options()) nearest.offer(known->long_name());
  const std::string hint =
      nearest.best().empty() ? "" : fmt::format("; did you mean --{}?", nearest.best());
  throw_bad_input("unknown option {}{}", option, hint);
}

// "8589934592", "8 GB", "512 MiB".
int64_t read_bytes(const std::string& text) {
  struct Unit {
    std::string_view name;
    int64_t bytes;
  };
  constexpr Unit kUnits[] = {{"", 1},
                             {"B", 1},
                             {"KB", 1000},
                             {"MB", 1000000},
                             {"GB", 1000000000},
                             {"TB", 1000000000000},
                             {"KiB", 1 << 10},
                             {"MiB", 1 << 20},
                             {"GiB", 1 << 30},
                             {"TiB", int64_t{1} << 40}};
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  std::string_view unit(read.ptr, static_cast<size_t>(end - read.ptr));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const Unit& known : kUnits) {
    int64_t bytes = 0;
    if (unit != known.name || read.ec != std::errc() || number <= 0) continue;
    if (!__builtin_mul_overflow(number, known.bytes, &bytes)) return bytes;
  }
  throw_bad_input("--max-bytes: expected a number of bytes such as 8GB or 512MiB, found \"{}\"",
                  text);
}

}  // namespace

po::variables_map parse_words(const CommandArguments& words, const po::options_description& options,
                              const char* positional) {
  po::positional_options_description places;
  places.add(positional, -1);
  po::variables_map given;
  try {
    // Guessing would make tomorrow's option break today's script.
    const int style =
        po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(words).options(options).positional(places).style(style).run(),
              given);
    po::notify(given);
  } catch (const po::unknown_option& error) {
    refuse_unknown(error.get_option_name(), options);
  } catch (const po::error& error) {
    throw_bad_input("{}", error.what());
  }
  return given;
}

int64_t read_max_bytes(const po::variables_map& given) {
  return given.count("max-bytes") ? read_bytes(given["max-bytes"].as<std::string>()) : 0;
}

po::options_description loading_options() {
  po::options_description options;
  options.add_options()                                            //
      ("set", po::value<CommandArguments>()->composing())          //
      ("max-ranks", po::value<int64_t>()->default_value(1 << 20))  //
      ("max-bytes", po::value<std::string>());
  return options;
}

LoadOptions read_loading_options(const po::variables_map& given) {
  LoadOptions options;
  options.max_ranks = given["max-ranks"].as<int64_t>();
  if (options.max_ranks < 1) throw_bad_input("--max-ranks must be at least 1");
  options.max_bytes = read_max_bytes(given);
  if (!given.count("set")) return options;
  for (const std::string& text : given["set"].as<CommandArguments>()) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw_bad_input("--set: expected name=value, found \"{}\"", text);
    options.set.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return options;
}

// Every file is read before the first runs, so that a slip in the last one is told at once.
std::vector<Scenario> load_all(const std::vector<ScenarioPath>& paths, LoadOptions options,
                               ErrorHandling refusal) {
  std::vector<Scenario> scenarios;
  size_t refused = 0;
  for (const ScenarioPath& path : paths) {
    const size_t slash = path.path.rfind('/');
    // A file of that name is standard input, kept for the processes of a crew.
    const bool input = path.path.substr(slash == std::string::npos ? 0 : slash + 1) == kInputPath;
    options.folder = slash == std::string::npos || input ? "" : path.path.substr(0, slash);
    try {
      scenarios.push_back(path.text ? load_text(*path.text, path.file, options)
                                    : load_file(path.path, path.file, options));
    } catch (const Error& error) {
      if (refusal == ErrorHandling::thrown) throw;
      print_error(error);
      ++refused;
    }
  }
  if (refused > 0) scenarios.clear();
  return scenarios;
}

}  // namespace shardproof
