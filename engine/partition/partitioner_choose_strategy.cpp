// Implements the choice of placements of partitioner.h.
//
// 1. List the legal choices (op_choices.h).
// 2. The price of a choice is the price of the plans that redistribute its inputs: the bytes that
//    they send, then their calls; with a topology, their time. An op that is lowered to other ops
//    is emitted on trial, priced and rolled back.
// 3. The choice with the fewest bytes and calls is taken. Among equal ones it is that which moves
//    the fewest values, then that with the least peak, then the first.
//    The price also includes the redistribution of a state to its declared placements. So
//    `w = w - g` with w as R and g as P(sum) reduces g, and w stays R.
//    A choice that would turn a cut or replicated input into a partial one is not listed.
//
// Example: y = x @ w on a mesh dp=2, tp=4, x of shape [16, 8] as dp:S(0) tp:R, w of shape [8, 32].
// If w is dp:R tp:S(1), the first choice takes both as they are. Its price is 0 and the search
// ends: y is dp:S(0) tp:S(1). If w is dp:R tp:S(0), axis tp has these candidates (x, w -> y):
//   S(1), S(0) -> P(sum)   cut x on dim 1: local, 0 bytes;
//   R, S(1) -> S(1)        w from S(0) to S(1): an all_to_all over tp;
//   R, R -> R              w from S(0) to R: an all_gather over tp.
// The first has price 0, so y is dp:S(0) tp:P(sum), and a later line reduces it.
#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "shardproof/engine/partition/partitioner.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int64_t kAnyPeak = std::numeric_limits<int64_t>::max();

// A limit is raised a little, so that rounding does not exclude an equal price.
constexpr double kRaised = 1 + 1e-12;

// The price of a choice, and the number of inputs and results that it moves. A local slice costs
// nothing, so a choice that moves fewer values comes before one with a smaller peak.
struct ChoicePrice {
  Price price;
  int changed = 0;
  bool operator==(const ChoicePrice&) const = default;
  friend bool operator<(const ChoicePrice& a, const ChoicePrice& b) {
    const auto key = [](const ChoicePrice& c) {
      return std::make_tuple(c.price.primary, c.price.calls, c.changed, c.price.peak);
    };
    return key(a) < key(b);
  }
};

}  // namespace

double Partitioner::least_primary(const PartitionedCall& choice,
                                  const std::vector<PlacedValue>& inputs, const Targets& targets) {
  double least = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (choice.inputs[i] && inputs[i].spec && !(*choice.inputs[i] == *inputs[i].spec) &&
        !earlier_equal_input(choice, inputs, i))
      least += plans_.least_primary(*inputs[i].spec, *choice.inputs[i]);
  for (size_t o = 0; o < targets.size(); ++o)
    if (targets[o] && !(choice.outputs[o] == *targets[o]))
      least += plans_.least_primary(choice.outputs[o], *targets[o]);
  return least;
}

std::optional<Price> Partitioner::price_of_inputs(const PartitionedCall& choice,
                                                  const std::vector<PlacedValue>& inputs,
                                                  const std::optional<Price>& at_most,
                                                  int& changed) {
  Price total;
  changed = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!choice.inputs[i] || !inputs[i].spec || *choice.inputs[i] == *inputs[i].spec) continue;
    if (earlier_equal_input(choice, inputs, i)) continue;
    std::optional<Price> rest = at_most;
    if (rest) rest->primary = rest->primary * kRaised - total.primary;
    if (rest && rest->primary < 0) return std::nullopt;
    const PricedPlan* found = plans_.plan_within(*inputs[i].spec, *choice.inputs[i], rest);
    if (!found) return std::nullopt;
    total = total + found->price;
    ++changed;
  }
  return total;
}

bool Partitioner::add_price_of_targets(const PartitionedCall& choice, const Targets& targets,
                                       const std::optional<Price>& at_most, Price& price,
                                       int& changed) {
  for (size_t o = 0; o < targets.size(); ++o) {
    if (!targets[o] || choice.outputs[o] == *targets[o]) continue;
    std::optional<Price> rest = at_most;
    if (rest) rest->primary = rest->primary * kRaised - price.primary;
    if (rest && rest->primary < 0) return false;
    const PricedPlan* found = plans_.plan_within(choice.outputs[o], *targets[o], rest);
    if (!found) return false;
    price = price + found->price;
    ++changed;
  }
  return true;
}

// The instructions of a lowering are not known before they are emitted, so they are emitted, priced
// and rolled back.
Price Partitioner::price_of_lowering(const OpRecord& op, const OpCall& call,
                                     const std::vector<TensorMeta>& outputs,
                                     const std::vector<PlacedValue>& inputs,
                                     const PartitionedCall& choice) {
  const Checkpoint start = mark();
  const bool outer = std::exchange(quiet_, true);
  std::optional<Error> refused;
  try {
    emit_choice(op, call, outputs, inputs, choice);
  } catch (const Error& error) {
    refused = error;
  }
  Price price = spent_;
  quiet_ = outer;
  rollback(start);
  if (refused) throw Error(*refused);
  price.primary -= start.spent.primary;
  price.calls -= start.spent.calls;
  return price;
}

// Compares all choices; see the top of this file.
PartitionedCall Partitioner::choose(const OpRecord& op, const OpCall& call,
                                    const std::vector<TensorMeta>& outputs,
                                    const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                                    const Targets& targets) {
  std::optional<PartitionedCall> best;
  ChoicePrice least;
  std::optional<Error> refused;  // the first
  // Returns the price of a choice; nullopt if it is known not to be the best.
  const auto price_of_choice = [&](const PartitionedCall& choice) -> std::optional<ChoicePrice> {
    if (best && least_primary(choice, inputs, targets) > least.price.primary * kRaised)
      return std::nullopt;
    ChoicePrice price;
    std::optional<Price> limit;
    if (best) limit = Price{least.price.primary, least.price.calls, kAnyPeak};
    const std::optional<Price> moving = price_of_inputs(choice, inputs, limit, price.changed);
    if (!moving) return std::nullopt;
    price.price = *moving;
    if (best && price.price >= least.price && choice.form == LocalExecution::lower_to_ops)
      return std::nullopt;
    if (choice.form == LocalExecution::lower_to_ops)
      price.price = price_of_lowering(op, call, outputs, inputs, choice);
    if (!add_price_of_targets(choice, targets, limit, price.price, price.changed))
      return std::nullopt;
    return price;
  };
  const auto visit = [&](PartitionedCall choice) {
    try {
      const std::optional<ChoicePrice> price = price_of_choice(choice);
      if (!price || (best && !(*price < least))) return true;
      best = std::move(choice);
      least = *price;
    } catch (const Error& error) {
      if (!refused) refused = error;
      return true;  // no plan to these placements, or the lowering refuses them
    }
    return !(least == ChoicePrice());  // no price is below 0
  };
  for (const SingleAxes single : {SingleAxes::nearest, SingleAxes::whole})
    if (!best) visit_choices(op, call, outputs, inputs, mesh, single, visit);
  if (!best)
    throw_bad_input("{} has no legal placements for its inputs{}", op.name,
                    refused ? ": " + refused->message() : "");
  return std::move(*best);
}

std::vector<PlacedValue> Partitioner::emit_op(const OpRecord& op, const Attrs& attrs,
                                              const std::vector<PlacedValue>& inputs,
                                              const Targets& targets) {
  const Mesh& mesh = mesh_of(inputs);
  OpCall call{&attrs, {}};
  for (const PlacedValue& input : inputs) call.inputs.push_back(input.meta);
  const std::vector<TensorMeta> outputs = op.infer(call);
  const PartitionedCall* known = choices_.find(op, call, inputs, mesh, targets);
  if (!known)
    known = &choices_.store(op, call, inputs, mesh, targets,
                            choose(op, call, outputs, inputs, mesh, targets));
  const PartitionedCall choice = *known;  // ops that emit_choice lowers to may store others
  std::vector<PlacedValue> results = emit_choice(op, call, outputs, inputs, choice);
  for (size_t o = 0; o < targets.size(); ++o)
    if (targets[o]) results[o] = redistribute(results[o], *targets[o], false);
  return results;
}

const Mesh& Partitioner::mesh_of(const std::vector<PlacedValue>& inputs) const {
  const PlacedValue* first = nullptr;
  for (const PlacedValue& input : inputs) {
    if (!input.mesh()) continue;
    if (!first) first = &input;
    if (*first->mesh() == *input.mesh()) continue;
    const auto key = [&](const PlacedValue& value) {
      const auto found = std::find_if(job_.meshes.begin(), job_.meshes.end(),
                                      [&](const auto& one) { return one.second == *value.mesh(); });
      return found->first;
    };
    throw_bad_input(
        "{} is on mesh {}, and {} on mesh {}; move one, as in redistribute({}, mesh={})",
        first->name.empty() ? "a value of this line" : first->name, key(*first),
        input.name.empty() ? "another one" : input.name, key(input),
        input.name.empty() ? "x" : input.name, key(*first));
  }
  return first ? *first->mesh() : *mesh_;
}

}  // namespace shardproof
