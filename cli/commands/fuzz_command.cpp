// shardproof fuzz: runs random programs against one device. Steps: read the options, fuzz
// (engine/generate/fuzz.h), save the failures, print them and the counts.
#include <chrono>
#include <filesystem>
#include <thread>

#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/options/number_options.h"
#include "shardproof/engine/generate/fuzz.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/number_text.h"
#include "shardproof/scenarios/record/write_file.h"
#include "shardproof/scenarios/report/scenario_text.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

po::options_description fuzz_options() {
  po::options_description options;
  options.add_options()                        //
      ("word", po::value<CommandArguments>())  //
      ("minutes", po::value<std::string>())    //
      ("programs", po::value<std::string>())   //
      ("seed", po::value<std::string>())       //
      ("jobs", po::value<std::string>())       //
      ("print", po::bool_switch())             //
      ("save", po::value<std::string>());
  return options;
}

FuzzOptions read_fuzz_options(const po::variables_map& given) {
  if (given.count("word"))
    throw_bad_input("fuzz: expected options only, found \"{}\"",
                    given["word"].as<CommandArguments>().front());
  FuzzOptions options;
  options.seed = whole_option(given, "seed", 1, 0, UINT64_MAX / 2);
  options.programs = static_cast<int64_t>(whole_option(given, "programs", 0, 1, 1'000'000'000));
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  options.threads = static_cast<int>(whole_option(given, "jobs", cores, 1, 1024));
  if (given.count("minutes") || options.programs == 0) {
    using Clock = std::chrono::steady_clock;
    const double minutes = given.count("minutes") ? positive_option(given, "minutes", 1e6) : 1;
    options.may_go_on = [start = Clock::now(),
                         limit = std::chrono::duration<double>(60 * minutes)] {
      return Clock::now() - start < limit;
    };
  }
  return options;
}

std::string fuzz_failure_text(const FuzzFailure& failure) {
  std::string message = failure.message;
  while (!message.empty() && message.back() == '\n') message.pop_back();
  std::string out = fmt::format("{}: seed {}\n  {}\n  {}\n", failure.oracle, failure.seed, message,
                                failure.text.about);
  for (const std::string& line : failure.smallest.one_device())
    out += fmt::format("    {}\n", line);
  return out + fmt::format("  repeat  shardproof fuzz --seed {} --programs 1 --save failures\n",
                           failure.seed);
}

}  // namespace

int fuzz_command(const CommandArguments& words, const Registries& registries) {
  const po::variables_map given = parse_words(words, fuzz_options(), "word");
  const FuzzOptions options = read_fuzz_options(given);
  if (given["print"].as<bool>()) {
    print_out(scenario_text(fuzz_program(options.seed, registries.ops)));
    return 0;
  }
  const std::string folder = given.count("save") ? given["save"].as<std::string>() : "";
  if (!folder.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed)
      throw Error(ErrorKind::io, "cannot be created: " + failed.message(), {folder, "", 0, 0});
  }
  const FuzzCounts counts = fuzz(options, registries);
  std::string out;
  for (const FuzzFailure& failure : counts.failures) {
    out += fuzz_failure_text(failure);
    if (!folder.empty())
      write_whole_file(fmt::format("{}/{}_{}.json", folder, failure.oracle, failure.seed),
                       scenario_text(failure.smallest));
  }
  print_out(out + fmt::format("  programs {}, values {}, failures {}\n",
                              grouped_number(counts.programs), grouped_number(counts.values),
                              counts.failures.size()));
  return counts.failures.empty() ? 0 : 1;
}

std::string fuzz_help() {
  return R"text(shardproof fuzz [options]

Runs random programs and compares them with one device: global programs and rank programs with loops, views,
redistributions, uneven shards and up to three axes, and calls of every op; half of the global programs and a third of
the rank programs end with gradients, which must agree with central differences. The printed form of a program must
mean the same; another grouping of ranks and another order of streams must not change a bit.

  shardproof fuzz --minutes 10 --seed 1 --save failures

  --minutes M     start no program after M minutes (default 1, unless --programs is given)
  --programs N    number of programs
  --seed S        program i depends on S + i only (default 1)
  --jobs N        programs at the same time (default: one for each core)
  --print         print the program of the seed as a scenario file, and run nothing
  --save DIR      write a scenario file of each failure, with as few lines and ranks as still fail

The run ends after 20 failures. Exit code: 0 without a failure, 1 with one.
)text";
}

}  // namespace shardproof
