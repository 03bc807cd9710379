// shardproof check-judging: counts how often judging is right on generated programs. Steps: read
// the options, count (engine/generate/judging_counts.h), save the failures, print the table.
#include <charconv>
#include <chrono>
#include <filesystem>
#include <thread>

#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/options/number_options.h"
#include "shardproof/engine/generate/judging_counts.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/record/write_file.h"
#include "shardproof/scenarios/report/scenario_text.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMaxPrograms = 10'000'000;
constexpr size_t kShownFailures = 20;  // failures

po::options_description check_judging_options() {
  po::options_description options;
  options.add_options()                           //
      ("word", po::value<CommandArguments>())     //
      ("programs", po::value<std::string>())      //
      ("planted", po::value<std::string>())       //
      ("seed", po::value<std::string>())          //
      ("minutes", po::value<std::string>())       //
      ("jobs", po::value<std::string>())          //
      ("dtype", po::value<std::string>())         //
      ("kind", po::value<std::string>())          //
      ("conditioning", po::value<std::string>())  //
      ("size", po::value<std::string>())          //
      ("save", po::value<std::string>());
  return options;
}

DType read_float(const std::string& text) {
  const std::optional<DType> dtype = parse_dtype(text);
  for (const DType known : {DType::f64, DType::f32, DType::bf16, DType::f16})
    if (dtype == known) return known;
  throw_bad_input("--dtype: expected f64, f32, bf16 or f16, found \"{}\"", text);
}

ProgramKind read_kind(const std::string& text) {
  for (const ProgramKind kind : {ProgramKind::global, ProgramKind::ranks})
    if (text == name(kind)) return kind;
  throw_bad_input("--kind: expected global or ranks, found \"{}\"", text);
}

Conditioning read_conditioning(const std::string& text) {
  if (text == "whole") return Conditioning::whole_numbers;
  for (const Conditioning known : {Conditioning::well, Conditioning::ill, Conditioning::extreme})
    if (text == name(known)) return known;
  throw_bad_input("--conditioning: expected whole, well, ill or extreme, found \"{}\"", text);
}

JudgingOptions read_options(const po::variables_map& given) {
  if (given.count("word"))
    throw_bad_input("check-judging: expected options only, found \"{}\"",
                    given["word"].as<CommandArguments>().front());
  JudgingOptions options;
  options.seed = whole_option(given, "seed", 0, 0, UINT64_MAX / 2);
  options.honest = static_cast<int64_t>(whole_option(given, "programs", 1000, 0, kMaxPrograms));
  options.planted = static_cast<int64_t>(whole_option(given, "planted", 10, 0, kMaxPrograms));
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  options.threads = static_cast<int>(whole_option(given, "jobs", cores, 1, 1024));
  if (given.count("dtype")) options.programs.dtype = read_float(given["dtype"].as<std::string>());
  if (given.count("kind")) options.programs.kind = read_kind(given["kind"].as<std::string>());
  if (given.count("conditioning"))
    options.programs.conditioning = read_conditioning(given["conditioning"].as<std::string>());
  if (given.count("size")) options.size = positive_option(given, "size", 1);
  if (given.count("minutes")) {
    using Clock = std::chrono::steady_clock;
    const std::chrono::duration<double> limit(60 * positive_option(given, "minutes", 1e6));
    options.may_go_on = [start = Clock::now(), limit] { return Clock::now() - start < limit; };
  }
  return options;
}

// Returns the options that the generator needs to draw the same program again.
std::string drawing_options(const po::variables_map& given) {
  std::string text;
  for (const char* option : {"kind", "conditioning", "size"})
    if (given.count(option))
      text += fmt::format(" --{} {}", option, given[option].as<std::string>());
  return text;
}

std::string judging_repeat_command(const JudgingFailure& failure, const po::variables_map& given) {
  if (failure.planted)
    return fmt::format("shardproof check-judging --seed {} --programs 0 --planted 1 --dtype {}{}",
                       failure.seed, name(*failure.planted), drawing_options(given));
  const std::string dtype =
      given.count("dtype") ? " --dtype " + given["dtype"].as<std::string>() : "";
  return fmt::format("shardproof check-judging --seed {} --programs 1 --planted 0{}{}",
                     failure.seed, dtype, drawing_options(given));
}

std::string honest_table(const HonestCounts& counts) {
  return fmt::format(
      "  honest    programs    values  false findings  imprecise  not decided        errors\n"
      "            {:>8}  {:>8}  {:>14}  {:>9}  {:>11}  {:<7} {:>4}\n",
      counts.programs, counts.values, counts.false_findings, counts.imprecise, counts.undecided,
      fmt::format("{:.2f} %", 100 * counts.undecided_share()), counts.errors);
}

std::string planted_table(const std::vector<PlantedCounts>& planted) {
  if (planted.empty()) return "";
  std::string out = "  planted   programs     found  elsewhere  missed  clean twins  errors\n";
  for (const PlantedCounts& counts : planted)
    out += fmt::format("  {:<8}  {:>8}  {:>8}  {:>9}  {:>6}  {:>11}  {:>6}\n", name(counts.dtype),
                       counts.programs, counts.found, counts.elsewhere, counts.missed,
                       counts.clean_twins, counts.errors);
  return out;
}

std::string failure_text(const JudgingFailure& failure, const po::variables_map& given) {
  std::string message = failure.message;
  while (!message.empty() && message.back() == '\n') message.pop_back();
  for (size_t at = message.find('\n'); at != std::string::npos; at = message.find('\n', at + 1))
    message.insert(at + 1, "          ");
  return fmt::format("{}: seed {}\n          {}\n  repeat  {}\n", failure.what, failure.seed,
                     message, judging_repeat_command(failure, given));
}

// Returns a name such as "false_finding_17.json" or "missed_f32_17.json".
std::string file_name(const JudgingFailure& failure) {
  std::string what = failure.what;
  std::replace(what.begin(), what.end(), ' ', '_');
  const std::string dtype = failure.planted ? fmt::format("_{}", name(*failure.planted)) : "";
  return fmt::format("{}{}_{}.json", what, dtype, failure.seed);
}

// Creates the folder before the counts, which may take hours.
void create_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw Error(ErrorKind::io, "cannot be created: " + failed.message(), {folder, "", 0, 0});
}

void save(const std::string& folder, const std::vector<JudgingFailure>& failures) {
  for (const JudgingFailure& failure : failures)
    write_whole_file(folder + "/" + file_name(failure), scenario_text(failure.text));
}

}  // namespace

int check_judging_command(const CommandArguments& words, const Registries& registries) {
  const po::variables_map given = parse_words(words, check_judging_options(), "word");
  const JudgingOptions options = read_options(given);
  if (given.count("save")) create_folder(given["save"].as<std::string>());
  const JudgingCounts counts = count_judging(options, registries);
  if (given.count("save")) save(given["save"].as<std::string>(), counts.failures);
  std::string out;
  for (size_t i = 0; i < std::min(kShownFailures, counts.failures.size()); ++i)
    out += failure_text(counts.failures[i], given);
  if (counts.failures.size() > kShownFailures)
    out += fmt::format("... and {} more; --save DIR writes all of them\n",
                       counts.failures.size() - kShownFailures);
  print_out(out + honest_table(counts.honest) + planted_table(counts.planted));
  return counts.is_good() ? 0 : 1;
}

std::string check_judging_help() {
  return R"text(shardproof check-judging [options]

Counts how often verdicts on generated programs are right. Ranks of honest programs compute what one device
computes: every finding except `imprecise` is false. Programs with a planted error have one wrong line; their
clean twins have none. Program i depends on seed + i and these options only.

  shardproof check-judging --programs 100000 --planted 1000
  shardproof check-judging --seed 17 --programs 1 --planted 0 --save failures

  --programs N        honest programs (default 1000)
  --planted N         programs with a planted error, for each of f32, f64 and bf16 (default 10)
  --seed S            seed of the first program (default 0)
  --dtype DTYPE       dtype of all programs: f64, f32, bf16 or f16 (default: drawn at random)
  --kind KIND         global or ranks (default: drawn)
  --conditioning C    whole (numbers), well, ill (conditioned) or extreme (default: drawn)
  --size X            planted errors of this share of the line's largest element (default: from 1e-7 in f32,
                      1e-11 in f64, 2e-3 in bf16, 5e-4 in f16 upwards)
  --minutes M         start no program after M minutes
  --jobs N            programs at the same time (default: one for each core)
  --save DIR          write the scenario file of each failure

Exit code: 0 if there is no false finding, every planted error is found on its line and nowhere else, all
twins are clean, and under 0.5 % of the values of honest programs are not decided; else 1.
)text";
}

}  // namespace shardproof
