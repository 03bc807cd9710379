// Implements outcome_text.h.
#include "shardproof/tests/engine/outcome_text.h"

#include <fmt/format.h>

#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing {
namespace {

std::string bits_of(const Tensor& tensor) {
  std::string text = to_string(tensor.shape);
  for (const double value : values_of(tensor)) text += fmt::format(" {:a}", value);
  return text;
}

}  // namespace

std::string text_of(const Outcome& outcome) {
  std::string text;
  for (const Finding& finding : outcome.findings) text += to_string(finding) + "\n";
  for (const CallCount& call : outcome.calls)
    text += fmt::format("{} {} {} {} {}\n", call.kind, call.group, to_string(call.lanes),
                        call.count, to_string(call.bytes));
  for (const auto& [name, info] : outcome.values) {
    if (info.value) text += fmt::format("{} {}\n", name, bits_of(*info.value));
    if (!info.copies.empty())
      text += fmt::format("{} {}\n", name, bits_of(info.copies.front().tensor));
  }
  for (const UndecidedValue& value : outcome.undecided)
    text += fmt::format("undecided {} {} {} {}\n", value.name, value.line, value.instance,
                        value.reason);
  text += fmt::format("compared {}\npeak {} on {}\n", outcome.values_compared,
                      outcome.world.peak_bytes, outcome.world.peak_rank);
  for (const int64_t bytes : outcome.world.peak_by_category) text += fmt::format(" {}", bytes);
  text += fmt::format("\ntime {}\n", to_string(outcome.world.time));
  for (const Duration& time : outcome.world.rank_times) text += to_string(time) + " ";
  return text;
}

}  // namespace shardproof::testing
