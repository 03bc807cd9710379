// Tests a law: a printed cause is the error that was made. Each test changes one line of a random
// honest rank program in a known way. Every cause of a finding must name that line.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <optional>

#include "shardproof/engine/check/check.h"
#include "shardproof/engine/generate/plant_error.h"
#include "shardproof/engine/job/outcome.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::causes_law_test {
namespace {

struct Change {
  const char* what;
  // Returns the line with the error; nullopt if the line does not allow it.
  std::optional<std::string> (*apply)(const std::string& line);
  const char* mesh = "";  // mesh of the changed programs; "": any mesh
};

std::optional<std::string> replaced(const std::string& line, const std::string& from,
                                    const std::string& to) {
  const size_t at = line.find(from);
  if (at == std::string::npos) return std::nullopt;
  return line.substr(0, at) + to + line.substr(at + from.size());
}

std::optional<std::string> sum_to_average(const std::string& line) {
  if (line.find("all_reduce(") == std::string::npos) return std::nullopt;
  return replaced(line, ", sum, ", ", avg, ");
}
std::optional<std::string> scatter_of_averages(const std::string& line) {
  if (line.find("reduce_scatter(") == std::string::npos) return std::nullopt;
  return replaced(line, ", sum, ", ", avg, ");
}
// Exchanges the axes dp and tp in the group of a call that moves shards.
std::optional<std::string> another_group(const std::string& line) {
  const bool moves = line.find("reduce_scatter(") != std::string::npos ||
                     line.find("all_gather(") != std::string::npos ||
                     line.find("all_to_all(") != std::string::npos;
  if (!moves) return std::nullopt;
  const std::optional<std::string> other = replaced(line, "group=tp)", "group=dp)");
  return other ? other : replaced(line, "group=dp)", "group=tp)");
}
std::optional<std::string> reduced_twice(const std::string& line) {
  const size_t call = line.find("= all_reduce("), group = line.rfind(", sum, group=");
  if (call == std::string::npos || group == std::string::npos || line.back() != ')')
    return std::nullopt;
  return line.substr(0, call) + "= all_reduce(" + line.substr(call + 2) + line.substr(group);
}
std::optional<std::string> never_reduced(const std::string& line) {
  const size_t call = line.find("= all_reduce("), group = line.rfind(", sum, group=");
  if (call == std::string::npos || group == std::string::npos || line.back() != ')')
    return std::nullopt;
  return line.substr(0, call) + "= (" + line.substr(call + 13, group - call - 13) + ")";
}
std::optional<std::string> three_times(const std::string& line) {
  const size_t equals = line.find(" = ");
  if (equals == std::string::npos || line[0] == ' ' || line.find('[') < equals) return std::nullopt;
  return line.substr(0, equals) + " = (" + line.substr(equals + 3) + ") * 3";
}

constexpr Change kChanges[] = {{"sum to average", sum_to_average},
                               {"scatter of averages", scatter_of_averages},
                               {"another group", another_group, "dp=2, tp=2"},
                               {"reduced twice", reduced_twice},
                               {"never reduced", never_reduced},
                               {"three times", three_times}};

RandomProgram honest(uint64_t seed) {
  ProgramOptions options;
  options.kind = ProgramKind::ranks;
  options.dtype = DType::f64;
  options.conditioning = Conditioning::well;
  options.max_lines = 24;
  return random_program(seed, options, builtin_registries().ops);
}

std::vector<std::string> causes_in(const Outcome& outcome) {
  std::vector<std::string> causes;
  for (const Finding& finding : outcome.findings)
    for (const std::string& text : finding.details)
      if (text.starts_with("cause   ")) causes.push_back(text + " | " + finding.fix);
  return causes;
}

bool names_line(const std::string& text, int line) {
  for (const char* word : {"line ", "lines ", "and "})
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
      if (std::atoi(text.c_str() + at + std::string_view(word).size()) == line) return true;
  return false;
}

class ChangedLines : public ::testing::TestWithParam<Change> {};

TEST_P(ChangedLines, Causes_OfAChangedLine_NameThatLine) {
  int wrong_values = 0, with_cause = 0;
  const std::string mesh = GetParam().mesh;
  const uint64_t seeds = mesh.empty() ? 40 : 400;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const RandomProgram program = honest(seed);
    if (!mesh.empty() && program.text.mesh != mesh) continue;
    for (size_t at = 0; at < program.text.ranks.size(); ++at) {
      const std::optional<std::string> changed = GetParam().apply(program.text.ranks[at]);
      if (!changed) continue;
      ProgramText text = program.text;
      text.ranks[at] = *changed;
      std::vector<std::string> causes;
      try {
        const Outcome outcome = check(shardproof::job_of(text), builtin_registries());
        if (outcome.findings.empty()) continue;
        causes = causes_in(outcome);
      } catch (const Error&) {
        continue;  // the changed program is not legal
      }
      ++wrong_values;
      with_cause += !causes.empty();
      for (const std::string& cause : causes)
        EXPECT_TRUE(names_line(cause, static_cast<int>(at) + 1))
            << "seed " << seed << ", line " << at + 1 << ": " << *changed << "\n"
            << cause << "\n"
            << fmt::format("{}", fmt::join(text.ranks, "\n"));
      break;
    }
  }
  fmt::print("{}: {} of {} findings have a cause\n", GetParam().what, with_cause, wrong_values);
  EXPECT_GT(wrong_values, 5);
  EXPECT_GE(2 * with_cause, wrong_values);
}

INSTANTIATE_TEST_SUITE_P(OfEachKind, ChangedLines, ::testing::ValuesIn(kChanges),
                         [](const auto& info) {
                           std::string name = info.param.what;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(PlantedCauses, AddedNumber_IsNamedAtItsLine) {
  int planted = 0, with_cause = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::optional<PlantedProgram> error =
        plant_error(honest(seed), 1e-3, builtin_registries());
    if (!error) continue;
    ++planted;
    const std::vector<std::string> causes =
        causes_in(check(shardproof::job_of(error->text), builtin_registries()));
    with_cause += !causes.empty();
    for (const std::string& cause : causes)
      EXPECT_TRUE(names_line(cause, error->error.line))
          << "seed " << seed << ": " << cause << "\n"
          << fmt::format("{}", fmt::join(error->text.ranks, "\n"));
  }
  EXPECT_GT(planted, 20);
  EXPECT_GE(2 * with_cause, planted);
}

}  // namespace
}  // namespace shardproof::testing::causes_law_test
