// Implements number_options.h.
#include "shardproof/cli/options/number_options.h"

#include <charconv>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

// Reads digits only: a parser that accepts a sign would read -1 as the largest number.
uint64_t whole_option(const boost::program_options::variables_map& given, const char* option,
                      uint64_t fallback, uint64_t least, uint64_t most) {
  if (!given.count(option)) return fallback;
  const std::string text = given[option].as<std::string>();
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < least || number > most)
    throw_bad_input("--{}: expected a whole number from {} to {}, found \"{}\"", option, least,
                    most, text);
  return number;
}

double positive_option(const boost::program_options::variables_map& given, const char* option,
                       double most) {
  const std::string text = given[option].as<std::string>();
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || !(number > 0) || number > most)
    throw_bad_input("--{}: expected a number above 0, at most {}, found \"{}\"", option, most,
                    text);
  return number;
}

}  // namespace shardproof
