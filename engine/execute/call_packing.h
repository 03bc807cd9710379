// Packing of calls: converts between the tensors of a program, which have dims, and the flat
// buffers of an execution context, which have counts. Sources of a call are packed, its results
// unpacked. `piece` is the number of a call of a step in pieces, else 0.
#pragma once

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// The flat output of a call: `count` elements on each of these lanes.
struct FlatOutput {
  Lanes lanes;
  int64_t count = 0;
};
// Returns the flat outputs by class of lanes; empty if no lane receives anything.
std::vector<FlatOutput> flat_outputs(const CallItem& item, const LocalTensor& input,
                                     const Lanes& on, int64_t piece);

// Returns the call of an item on the lanes `on`, without buffers. Requires `input` on these lanes
// if the item is an all_to_all_v: its row sizes turn counts of rows into counts of elements.
Call context_call(const CallItem& item, const LocalTensor& input, const Lanes& on, int64_t piece);

// Returns flat buffers without contents for the input of an item.
LocalTensor flat_input_without_contents(const CallItem& item, const LocalTensor& input,
                                        int64_t piece);
// Fills the buffers that flat_input_without_contents() has made.
void pack_item(const CallItem& item, const LocalTensor& input, LocalTensor& flat, int64_t piece);
// Returns the received elements in the shapes of `target`. Requires a step that is not cut.
LocalTensor unpack_item(const CallItem& item, const LocalTensor& flat, const LocalTensor& target);
// Returns the result of a call in place in the shapes of `target`. Requires equal element counts.
LocalTensor reshaped_as(const LocalTensor& target, const LocalTensor& flat);

}  // namespace shardproof
