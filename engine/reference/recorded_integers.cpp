// Implements recorded_integers.h: finds the values by the dtypes of each op's inputs and outputs,
// and copies their contents into a record or from it.
#include "shardproof/engine/reference/recorded_integers.h"

#include <algorithm>

#include "shardproof/engine/execute/buffer_contents.h"

namespace shardproof {
namespace {

// True for an op that tests whether numbers have left the range of their dtype. In f64 they have
// not, so such bools belong to the dtypes of a run.
bool tells_range(const std::string& op) {
  return op == "isinf" || op == "isnan" || op == "isfinite" || op == "isposinf" || op == "isneginf";
}

template <typename Values>
void mark_outputs(const Values& values, const std::string& op, const std::vector<ValueId>& inputs,
                  const std::vector<ValueId>& outputs, std::vector<bool>& marked) {
  const bool reads_floats = std::any_of(inputs.begin(), inputs.end(), [&](ValueId id) {
    return id != kNoValue && is_floating(values[static_cast<size_t>(id)].dtype);
  });
  if (!reads_floats) return;
  for (const ValueId id : outputs)
    if (id != kNoValue && (is_integral(values[static_cast<size_t>(id)].dtype) || tells_range(op)))
      marked[static_cast<size_t>(id)] = true;
}

}  // namespace

std::vector<bool> integers_from_floats(const SpmdProgram& program) {
  std::vector<bool> marked(program.values.size(), false);
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs)
      if (const auto* compute = std::get_if<Compute>(&instr.action))
        mark_outputs(program.values, compute->op.str(), compute->inputs, compute->outputs, marked);
  return marked;
}

std::vector<bool> integers_from_floats(const GlobalProgram& program) {
  std::vector<bool> marked(program.values.size(), false);
  for (const GlobalInstr& instr : program.instrs)
    mark_outputs(program.values, instr.op, instr.inputs, instr.outputs, marked);
  return marked;
}

void record_integers(ValueId id, const LocalTensor& made, RecordedIntegers& recorded) {
  recorded.of_ranks[id].add(fork(made, made.lanes()));
}

void replace_integers(ValueId id, const LocalTensor& made, const RecordedIntegers& recorded) {
  const auto own = recorded.of_ranks.find(id);
  if (own == recorded.of_ranks.end()) return;
  const LocalTensor& known = own->second.whole();
  std::vector<Block> blocks;
  for (const Block& block : made.blocks())
    if (owns_buffer(block) && known.restrict_to(block.lanes).lanes() == block.lanes)
      blocks.push_back(block);
  if (blocks.empty()) return;
  LocalTensor target(std::move(blocks));
  adopt(target, known.restrict_to(target.lanes()));
}

}  // namespace shardproof
