// How an answer gets into the buffers of a call's output. A buffer that is written whole takes the
// answer's Bytes as they are, so that what is equal on many lanes stays one copy; anything else is
// copied.
#pragma once

#include <functional>

#include "shardproof/sim/call/submission.h"

namespace shardproof {

// Takes the views of what the party's call names; and lets go of them, so that a party that has
// ended holds no memory.
void keep_views(SubmittedCall& submitted);
void drop_views(SubmittedCall& submitted);

// What a rank brings to its party's call: its first byte, or null when it brings nothing or there
// are no contents (shape-only runs); its length.
const std::byte* brought_data(const SubmittedCall& submitted, int64_t rank);
int64_t brought_bytes(const SubmittedCall& submitted, int64_t rank);
// False when something is brought that has no contents.
bool brings_contents(const SubmittedCall& submitted);
bool holds_contents(const LocalTensor& tensor);

// All lanes of `output` at once.
void deliver(const LocalTensor& answer, LocalTensor& output);
// One lane of a party's output, if it takes any. `whole`, when given, is exactly these bytes and
// may be shared.
void deliver(SubmittedCall& submitted, int64_t rank, const std::byte* data, int64_t bytes,
             const Bytes* whole = nullptr);
// The same of contents that may lie elsewhere: they stay there where the answer can be shared.
void deliver(SubmittedCall& submitted, int64_t rank, const Bytes& whole);

// What was last put into each lane's window, and zeros behind it, into `output`, whose buffers are
// given as in Call. `window` gives a rank's bytes, or null where nothing was put.
void deliver_windows(const std::function<const Bytes*(int64_t rank)>& window, LocalTensor& output);

}  // namespace shardproof
