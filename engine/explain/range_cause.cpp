// Implements range_cause.h: both programs run with a probe on the values on the way. Then the
// values are compared in program order, rank by rank.
#include "shardproof/engine/explain/range_cause.h"

#include <cmath>
#include <map>
#include <set>

#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/explain/explain_precision.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/number_text.h"

namespace shardproof {
namespace {

constexpr double kMostElements = 1 << 22;  // of all values on the way, on all ranks

struct Made {
  const Instr* instr = nullptr;
  ValueId id = kNoValue;
};

std::vector<Made> values_on_the_way(const SpmdProgram& program,
                                    const std::vector<ValueId>& targets) {
  std::vector<Made> made;
  for (const SpmdListing& listing : program.listings)
    for (const Instr* step : steps_to(listing, targets))
      for (const ValueId id : effects_of(*step).writes)
        if (!program.values[static_cast<size_t>(id)].weak &&
            is_floating(program.values[static_cast<size_t>(id)].dtype))
          made.push_back({step, id});
  return made;
}

double elements_of(const std::vector<Made>& made, const SpmdProgram& program) {
  double elements = 0;
  for (const Made& one : made)
    for (const LocalShape& shape : program.values[static_cast<size_t>(one.id)].shapes)
      elements +=
          static_cast<double>(shape.lanes.size()) * static_cast<double>(element_count(shape.shape));
  return elements;
}

// Dense tensors by value and rank.
using Held = std::map<std::pair<ValueId, int32_t>, Tensor>;

Held run(const RunnableRanks& ranks, const std::vector<Made>& made, const Registries& registries) {
  std::set<ValueId> wanted;
  for (const Made& one : made) wanted.insert(one.id);
  Held held;
  const auto probe = [&]() -> ProbeFunction {
    held.clear();
    return [&](ValueId id, const LocalTensor& value) {
      const Lanes lanes = value.lanes();
      for (int64_t i = 0; i < lanes.size(); ++i)
        held.insert_or_assign({id, lanes[i]}, contiguous_copy(value.of_rank(lanes[i])));
    };
  };
  run_program(ranks.program, ranks.job, registries,
              {[&](ValueId id) { return wanted.contains(id); }, {}}, probe, &ranks.inputs);
  return held;
}

struct Loss {
  bool overflows = false;  // an element is not finite, and is a number in f64
  bool is_empty = false;   // zeros, where f64 has numbers
  double largest = 0;      // in f64, of such elements
};

Loss loss_of(const Tensor& own, const Tensor& in_f64) {
  Loss loss;
  bool zeros = true;
  for (int64_t i = 0; i < own.elements(); ++i) {
    const double exact = magnitude_at(in_f64, i), held = magnitude_at(own, i);
    if (!std::isfinite(exact)) continue;
    zeros = zeros && held == 0;
    if (std::isfinite(held)) continue;
    loss.largest = loss.overflows ? std::max(loss.largest, exact) : exact;
    loss.overflows = true;
  }
  if (loss.overflows || !zeros) return loss;
  loss.largest = largest_element(in_f64);
  loss.is_empty = loss.largest > 0;
  return loss;
}

std::string overflow_text(const Made& made, const SpmdProgram& program, const Lanes& ranks,
                          double largest) {
  const SpmdValue& value = program.values[static_cast<size_t>(made.id)];
  const double limit = max_finite(value.dtype);
  const std::string on =
      fmt::format("on rank{} {}", ranks.size() == 1 ? "" : "s", to_string(ranks));
  const std::string past = fmt::format("passes {}, the largest {},", limit, name(value.dtype));
  if (const auto* call = std::get_if<Communicate>(&made.instr->action))
    for (const CallItem& item : call->items)
      if (item.output == made.id && reduces(item.collective.kind))
        return fmt::format("line {}: the {} over {} {} {}", made.instr->origin.line,
                           name(item.collective.reduction.op), item.collective.group.name(), past,
                           on);
  const std::string what = value.bound.empty() ? "a value inside it" : value.bound;
  if (largest > limit)
    return fmt::format("line {}: {} {} {}", made.instr->origin.line, what, past, on);
  return fmt::format("line {}: {} is not finite in {} {}, but finite in f64",
                     made.instr->origin.line, what, name(value.dtype), on);
}

std::string empty_text(const Made& made, const SpmdProgram& program, double largest) {
  const SpmdValue& value = program.values[static_cast<size_t>(made.id)];
  const double smallest = std::ldexp(1, smallest_exponent(value.dtype));
  if (largest > smallest) return "";
  return fmt::format(
      "all of it is rounded to 0: line {} rounds to {}, whose smallest number is {}, and its "
      "largest "
      "input is {}",
      made.instr->origin.line, name(value.dtype), rough_number(smallest), rough_number(largest));
}

}  // namespace

std::string range_cause(const RunnableRanks& own, const RunnableRanks& in_f64,
                        const std::vector<ValueId>& targets, const Registries& registries) {
  const std::vector<Made> made = values_on_the_way(own.program, targets);
  if (elements_of(made, own.program) > kMostElements) return "";
  const Held held = run(own, made, registries), exact = run(in_f64, made, registries);
  for (const Made& one : made) {
    std::vector<int32_t> overflow;
    bool all_empty = true;
    double largest = 0, largest_empty = 0;
    for (auto at = held.lower_bound({one.id, 0}); at != held.end() && at->first.first == one.id;
         ++at) {
      const auto other = exact.find(at->first);
      if (other == exact.end() || !(other->second.shape == at->second.shape)) return "";
      const Loss loss = loss_of(at->second, other->second);
      if (loss.overflows) {
        overflow.push_back(at->first.second);
        largest = std::max(largest, loss.largest);
      }
      all_empty = all_empty && loss.is_empty;
      largest_empty = std::max(largest_empty, loss.largest);
    }
    if (!overflow.empty())
      return overflow_text(one, own.program, Lanes::of(std::move(overflow)), largest);
    if (all_empty && largest_empty > 0) return empty_text(one, own.program, largest_empty);
  }
  return "";
}

}  // namespace shardproof
