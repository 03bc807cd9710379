// Between the language and the door: tensors with dims on one side, flat counts as in NCCL on the
// other.
#pragma once

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Elements of the door's flat output, by class of lanes; empty when no lane gets anything.
struct FlatOutput {
  Lanes lanes;
  int64_t count = 0;
};
std::vector<FlatOutput> flat_outputs(const CallItem& item, const LocalTensor& input,
                                     const Lanes& on);

// The call as the door wants it, without buffers. `input` gives the local shapes (row sizes of
// exchanges).
Call context_call(const CallItem& item, const LocalTensor& input, const Lanes& on);

// Promised flat buffers for the input, and the work that fills them.
LocalTensor promise_flat_input(const CallItem& item, const LocalTensor& input);
void pack_item(const CallItem& item, const LocalTensor& input, LocalTensor& flat);
// The received elements in the order of `target`'s shapes.
LocalTensor unpack_item(const CallItem& item, const LocalTensor& flat, const LocalTensor& target);
// The same of an answer in place, which has as many elements as the target, in its shapes.
LocalTensor shaped_as(const LocalTensor& target, const LocalTensor& flat);

}  // namespace shardproof
