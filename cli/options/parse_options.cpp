// Implements parse_options.h with Boost.Program_options.
#include "shardproof/cli/options/parse_options.h"

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
  const bool counts_ranks =
      nearest.best() != word && (word == "ranks" || word == "nproc" || word == "world-size");
  const std::string hint = counts_ranks ? "; the ranks follow from the mesh"
                           : nearest.best().empty()
                               ? "; --help lists the options of this command"
                               : fmt::format("; did you mean --{}?", nearest.best());
  throw_bad_input("unknown option {}{}", option, hint);
}

// The value in Boost's message "the argument ('many') for option '--jobs' is invalid".
std::string given_text(const po::invalid_option_value& error) {
  const std::string text = error.what();
  const size_t begin = text.find("('"), end = text.find("')");
  if (begin == std::string::npos || end == std::string::npos || end < begin + 2) return "";
  return text.substr(begin + 2, end - begin - 2);
}

}  // namespace

po::variables_map parse_words(const CommandArguments& words, const po::options_description& options,
                              const char* positional) {
  po::positional_options_description places;
  places.add(positional, -1);
  po::variables_map given;
  try {
    // An abbreviation accepted today would become ambiguous with a new option.
    const int style =
        po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(words).options(options).positional(places).style(style).run(),
              given);
    po::notify(given);
  } catch (const po::unknown_option& error) {
    refuse_unknown(error.get_option_name(), options);
  } catch (const po::invalid_option_value& error) {
    throw_bad_input("{}: expected a whole number, found \"{}\"", error.get_option_name(),
                    given_text(error));
  } catch (const po::invalid_command_line_syntax& error) {
    const auto kind = error.kind();
    if (kind != po::invalid_command_line_syntax::missing_parameter &&
        kind != po::invalid_command_line_syntax::empty_adjacent_parameter)
      throw_bad_input("{}", error.what());
    throw_bad_input("{}: expected a value after it, found none; --help describes it",
                    error.get_option_name());
  } catch (const po::multiple_occurrences& error) {
    throw_bad_input("{}: expected once, found it again", error.get_option_name());
  } catch (const po::error& error) {
    throw_bad_input("{}", error.what());
  }
  return given;
}

}  // namespace shardproof
