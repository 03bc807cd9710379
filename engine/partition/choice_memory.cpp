// Implements choice_memory.h.
#include "shardproof/engine/partition/choice_memory.h"

#include "shardproof/localtensor/plan/known_plans.h"

namespace shardproof {

namespace {

std::vector<size_t> first_equal_inputs(const std::vector<PlacedValue>& inputs) {
  std::vector<size_t> same;
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t first = i;
    for (size_t k = i; k-- > 0;)
      if (inputs[k].spec && inputs[k].id == inputs[i].id) first = k;
    same.push_back(first);
  }
  return same;
}

uint64_t hash_of_inputs(const std::vector<PlacedValue>& inputs) {
  uint64_t hash = 0;
  for (const PlacedValue& input : inputs)
    hash = hash * 31 + (input.spec ? hash_of(*input.spec) : 1);
  return hash;
}

}  // namespace

const PartitionedCall* ChoiceMemory::find(const OpRecord& op, const OpCall& call,
                                          const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                                          const Targets& targets) const {
  const auto [first, last] = known_.equal_range({&op, hash_of_inputs(inputs)});
  for (auto at = first; at != last; ++at) {
    const Known& known = at->second;
    bool equal = known.metas == call.inputs && known.targets == targets && known.mesh == mesh &&
                 known.attrs == *call.attrs && known.same == first_equal_inputs(inputs);
    for (size_t i = 0; i < inputs.size() && equal; ++i)
      equal = known.specs[i] == inputs[i].spec && known.numbers[i] == inputs[i].number;
    if (equal) return &known.choice;
  }
  return nullptr;
}

const PartitionedCall& ChoiceMemory::store(const OpRecord& op, const OpCall& call,
                                           const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                                           const Targets& targets, PartitionedCall choice) {
  Known known{*call.attrs, call.inputs,      {}, {}, first_equal_inputs(inputs), mesh,
              targets,     std::move(choice)};
  for (const PlacedValue& input : inputs) {
    known.specs.push_back(input.spec);
    known.numbers.push_back(input.number);
  }
  const auto at = known_.emplace(std::make_pair(&op, hash_of_inputs(inputs)), std::move(known));
  return at->second.choice;
}

}  // namespace shardproof
