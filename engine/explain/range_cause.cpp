// Implements range_cause.h: both programs run with a probe on the values on the way. Then the
// values are compared in program order, rank by rank.
//
// Replicas become different for two reasons. Ranks add in different orders (x + y overflows on one,
// y + z on another). Or they read different shards, of which one left the range. ShardReaders
// distinguishes them:
//
//   h = cast(g, f16) * 2     a shard; infinity on rank 1
//   bad = any(isinf(h))      equal on all ranks in f64, true on rank 1: reads a shard
//   w = where(bad, 0, w)     reads it too
#include "shardproof/engine/explain/range_cause.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/explain/explain_precision.h"
#include "shardproof/engine/explain/line_text.h"
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
  for (const Instr* step : steps_to(program, targets))
    for (const ValueId id : effects_of(*step).writes)
      if (!program.values[static_cast<size_t>(id)].weak) made.push_back({step, id});
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
  bool overflows = false;  // true: an element is finite in f64 only
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

struct LossOnRanks {
  std::vector<int32_t> overflow;  // ranks on which an element overflows
  bool is_empty = false;          // zeros on all ranks, where f64 has numbers
  double largest = 0;             // in f64, of the lost elements
};

// Returns nullopt if the ranks do not hold the value, or hold it in another shape, in f64.
std::optional<LossOnRanks> loss_on_ranks(ValueId id, const Held& held, const Held& exact) {
  LossOnRanks all;
  bool are_empty = true;
  double largest = 0;
  for (auto at = held.lower_bound({id, 0}); at != held.end() && at->first.first == id; ++at) {
    const auto other = exact.find(at->first);
    if (other == exact.end() || !(other->second.shape == at->second.shape)) return std::nullopt;
    const Loss loss = loss_of(at->second, other->second);
    if (loss.overflows) {
      all.overflow.push_back(at->first.second);
      all.largest = std::max(all.largest, loss.largest);
    }
    are_empty = are_empty && loss.is_empty;
    largest = std::max(largest, loss.largest);
  }
  all.is_empty = are_empty && largest > 0;
  if (all.overflow.empty()) all.largest = largest;
  return all;
}

// Returns which reduction of a line passes a limit. `past`: "passes 65504, the largest f16, on .."
std::string passing_text(const std::string& line, const Collective& call, const std::string& past) {
  if (call.reduction.op != ReduceOp::avg)
    return fmt::format("{}: the {} over {} {}", line, name(call.reduction.op), call.group.name(),
                       past);
  return fmt::format(
      "{}: the sum of the avg over {} {}; --order ring multiplies by 1/{} first, as NCCL does",
      line, call.group.name(), past, call.group.size());
}

std::string overflow_text(const Made& made, const SpmdProgram& program, const Lanes& ranks,
                          double largest) {
  const SpmdValue& value = program.values[static_cast<size_t>(made.id)];
  const double limit = max_finite(value.dtype);
  const std::string line = line_text(program, *made.instr);
  const std::string on =
      fmt::format("on rank{} {}", ranks.size() == 1 ? "" : "s", to_string(ranks));
  const std::string past = fmt::format("passes {}, the largest {},", limit, name(value.dtype));
  if (const auto* call = std::get_if<Communicate>(&made.instr->action))
    for (const CallItem& item : call->items)
      if (item.output == made.id && reduces(item.collective.kind))
        return passing_text(line, item.collective, past + " " + on);
  const std::string what = value.bound.empty() ? "a value inside it" : value.bound;
  if (largest > limit) return fmt::format("{}: {} {} {}", line, what, past, on);
  return fmt::format("{}: {} is not finite in {} {}, but finite in f64", line, what,
                     name(value.dtype), on);
}

std::string empty_text(const Made& made, const SpmdProgram& program, double largest) {
  const SpmdValue& value = program.values[static_cast<size_t>(made.id)];
  const double smallest = std::ldexp(1, smallest_exponent(value.dtype));
  if (largest > smallest) return "";
  return fmt::format(
      "all of it is rounded to 0: {} rounds to {}, whose smallest number is {}, and its "
      "largest input is {}",
      line_text(program, *made.instr), name(value.dtype), rough_number(smallest),
      rough_number(largest));
}

// Two numbers of f64 that ranks compute in different orders, as a share of the largest one.
constexpr double kSameInF64 = 0x1p-40;
// Two numbers of the program's own dtype that rounding explains, in units of the largest one.
constexpr double kSameUnits = 64;

bool is_apart(const Tensor& a, const Tensor& b, int64_t element, double allowed) {
  return !(distance_at(a, b, element) <= allowed);
}

double larger_of_largest(const Tensor& a, const Tensor& b) {
  return std::max(largest_element(a), largest_element(b));
}

bool have_one_shape(const Tensor& a, const Tensor& b) {
  return a.shape == b.shape && a.dtype == b.dtype;
}

// Finds the values whose replicas differ because a line reads shards that left the range on some
// ranks.
class ShardReaders {
 public:
  ShardReaders(const SpmdProgram& program, const Held& own, const Held& in_f64)
      : program_(program), own_(own), in_f64_(in_f64) {}

  // Steps come in program order.
  void add(const Instr& step) {
    const Effects effects = effects_of(step);
    const bool reads = std::any_of(effects.reads.begin(), effects.reads.end(),
                                   [&](ValueId id) { return contains(id); });
    for (const ValueId id : effects.writes)
      if (reads || (!adds(step) && reads_lost_shards(effects.reads) && parts(id)))
        found_.insert(id);
  }
  bool contains(ValueId id) const { return found_.contains(id); }

 private:
  // Sums depend on their order.
  static bool adds(const Instr& step) {
    const auto* compute = std::get_if<Compute>(&step.action);
    if (compute == nullptr) return true;
    if (compute->op == "sum" || compute->op == "mean") return true;
    const bool is_sum = compute->op == "add" || compute->op == "sub";
    return is_sum && compute->inputs.size() == 2 && compute->inputs[0] != compute->inputs[1];
  }

  // Calls `accept` with the own and the f64 tensors of pairs of ranks that have one shape; returns
  // true if one is accepted.
  template <typename Accept>
  bool any_pair(ValueId id, Accept accept) const {
    for (auto a = own_.lower_bound({id, 0}); a != own_.end() && a->first.first == id; ++a)
      for (auto b = own_.lower_bound({id, 0}); b != a; ++b) {
        const auto exact_a = in_f64_.find(a->first), exact_b = in_f64_.find(b->first);
        if (exact_a == in_f64_.end() || exact_b == in_f64_.end()) continue;
        if (!have_one_shape(a->second, b->second) ||
            !have_one_shape(exact_a->second, exact_b->second))
          continue;
        if (accept(a->second, b->second, exact_a->second, exact_b->second)) return true;
      }
    return false;
  }

  // True if ranks hold one number in f64 and others in the program's own dtype.
  bool parts(ValueId id) const {
    const DType dtype = program_.values[static_cast<size_t>(id)].dtype;
    const double units = is_floating(dtype) ? kSameUnits * unit_roundoff(dtype) : 0;
    return any_pair(
        id, [&](const Tensor& a, const Tensor& b, const Tensor& exact_a, const Tensor& exact_b) {
          const double own = units * larger_of_largest(a, b);
          const double exact = kSameInF64 * larger_of_largest(exact_a, exact_b);
          for (int64_t i = 0; i < a.elements(); ++i)
            if (is_apart(a, b, i, own) && !is_apart(exact_a, exact_b, i, exact)) return true;
          return false;
        });
  }

  bool is_lost(ValueId id) const {
    for (auto at = own_.lower_bound({id, 0}); at != own_.end() && at->first.first == id; ++at) {
      const auto exact = in_f64_.find(at->first);
      if (exact == in_f64_.end() || !(exact->second.shape == at->second.shape)) continue;
      const Loss loss = loss_of(at->second, exact->second);
      if (loss.overflows || loss.is_empty) return true;
    }
    return false;
  }

  // True if an input left the range on a rank, and ranks hold other numbers in f64.
  bool reads_lost_shards(const std::vector<ValueId>& reads) const {
    return std::any_of(reads.begin(), reads.end(), [&](ValueId id) {
      const auto differ = [](const Tensor&, const Tensor&, const Tensor& a, const Tensor& b) {
        const double allowed = kSameInF64 * larger_of_largest(a, b);
        for (int64_t i = 0; i < a.elements(); ++i)
          if (is_apart(a, b, i, allowed)) return true;
        return false;
      };
      return is_lost(id) && any_pair(id, differ);
    });
  }

  const SpmdProgram& program_;
  const Held &own_, &in_f64_;
  std::set<ValueId> found_;
};

bool read_shards(const SpmdProgram& program, const std::vector<ValueId>& targets, const Held& own,
                 const Held& in_f64) {
  ShardReaders readers(program, own, in_f64);
  for (const Instr* step : steps_to(program, targets)) readers.add(*step);
  return std::any_of(targets.begin(), targets.end(),
                     [&](ValueId id) { return readers.contains(id); });
}

}  // namespace

RangeCause range_cause(const RunnableRanks& own, const RunnableRanks& in_f64,
                       const std::vector<ValueId>& targets, const Registries& registries) {
  const std::vector<Made> made = values_on_the_way(own.program, targets);
  if (elements_of(made, own.program) > kMostElements) return {};
  const Held held = run(own, made, registries), exact = run(in_f64, made, registries);
  RangeCause cause;
  bool is_found = false;   // the first value that leaves the range
  std::set<ValueId> lost;  // values that overflow
  for (const Made& one : made) {
    if (!is_floating(own.program.values[static_cast<size_t>(one.id)].dtype)) continue;
    const std::optional<LossOnRanks> loss = loss_on_ranks(one.id, held, exact);
    if (!loss) break;
    if (!loss->overflow.empty()) {
      const std::vector<ValueId> reads = effects_of(*one.instr).reads;
      lost.insert(one.id);
      cause.overflows +=
          std::none_of(reads.begin(), reads.end(), [&](ValueId id) { return lost.contains(id); });
    }
    if (is_found) continue;
    is_found = !loss->overflow.empty() || loss->is_empty;
    if (!loss->overflow.empty())
      cause.text = overflow_text(one, own.program, Lanes::of(loss->overflow), loss->largest);
    else if (is_found)
      cause.text = empty_text(one, own.program, loss->largest);
  }
  if (!cause.text.empty()) cause.of_shards = read_shards(own.program, targets, held, exact);
  return cause;
}

}  // namespace shardproof
