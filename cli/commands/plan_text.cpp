// Implements plan_text.h.
#include "shardproof/cli/commands/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "shardproof/sim/cost/plan_price.h"

namespace shardproof {
namespace {

std::string axes_text(const PlanStep& step) {
  if (step.kind == StepKind::transfer) return "to " + to_string(step.to.mesh());
  std::string out;
  for (const int axis : step.axes)
    out += (out.empty() ? "over " : "+") + step.from.mesh().axes()[static_cast<size_t>(axis)].name;
  return out;
}

// Returns the placements of the axes that the step changes. A step over one axis that changes this
// one alone does not repeat its name.
std::string change_text(const PlanStep& step) {
  if (step.kind == StepKind::transfer)
    return placements_text(step.from) + " -> " + placements_text(step.to);
  // The order of cuts belongs to all axes that share a dim.
  const std::string before = placements_text(step.from), after = placements_text(step.to);
  if (before.find("after=") != std::string::npos || after.find("after=") != std::string::npos)
    return before + " -> " + after;
  std::string from, to;
  const auto changes = [&](int axis) {
    return step.from.placement(axis) != step.to.placement(axis);
  };
  bool named = step.axes.size() != 1;  // a step of an empty tensor may have none
  for (int axis = 0; !named && axis < step.from.mesh().axis_count(); ++axis)
    named = changes(axis) && axis != step.axes[0];
  for (int axis = 0; axis < step.from.mesh().axis_count(); ++axis) {
    if (!changes(axis)) continue;
    const std::string prefix =
        named ? step.from.mesh().axes()[static_cast<size_t>(axis)].name + ":" : "";
    from += (from.empty() ? "" : " ") + prefix + to_string(step.from.placement(axis));
    to += (to.empty() ? "" : " ") + prefix + to_string(step.to.placement(axis));
  }
  // A step may change only the order in which axes cut a dim.
  if (from.empty()) return placements_text(step.from) + " -> " + placements_text(step.to);
  return from + " -> " + to;
}

}  // namespace

std::string bytes_text(Fraction bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < Fraction(1024))
    return fmt::format(
        "{} B", bytes.den() == 1 ? to_string(bytes) : fmt::format("{:.2f}", bytes.to_double()));
  double value = bytes.to_double();
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  if (value == std::floor(value)) return fmt::format("{:.0f} {}", value, kUnits[unit]);
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string sent_text(const std::vector<SentBytes>& sent, Fraction priced) {
  const Fraction average = average_of(sent);
  Fraction most;
  for (const SentBytes& part : sent) most = std::max(most, part.bytes);
  std::string out = (average < most ? "up to " : "") + bytes_text(most) + " a rank";
  if (average < most) out += ", mean " + bytes_text(average);
  if (priced < average) out += ", unpadded " + bytes_text(priced);
  return out;
}

std::string step_text(const PlanStep& step, const CostModel* machine, int64_t other_bytes) {
  const std::vector<SentBytes> sent = bytes_sent(step);
  std::string out(name(step.kind));
  const std::string axes = axes_text(step);
  if (!axes.empty()) out += "   " + axes;
  out += "   " + change_text(step);
  if (step.pieces > 1) out += fmt::format("   in {} pieces", step.pieces);
  out += average_of(sent) == Fraction(0)
             ? std::string("   sends nothing")
             : fmt::format("   sends {}", sent_text(sent, priced_bytes(step)));
  out += fmt::format("   peak {}", bytes_text(Fraction(peak_bytes(step) + other_bytes)));
  if (machine != nullptr) out += "   " + rounded_text(time_of_calls(step, *machine));
  return out;
}

}  // namespace shardproof
