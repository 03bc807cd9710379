// Writes results into the output buffers of calls. A buffer that is written whole shares the Bytes
// of the result, so that equal values of many lanes stay one copy. Everything else is copied.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "shardproof/sim/call/submission.h"

namespace shardproof {

// copy_views copies, at issue, the lanes of a call and the views that it names by pointer.
// release_views releases the views, so that a call that has ended holds no memory.
void copy_views(SubmittedCall& submitted, const Call& call);
void release_views(SubmittedCall& submitted);

// Returns the place of a rank's part among the bytes of its buffer.
int64_t byte_offset(const CallBuffer& part, int64_t rank);
// Return the first byte and the length of a rank's input. The pointer is null if the rank has no
// input or if there are no contents (shape-only run).
const std::byte* input_data(const SubmittedCall& submitted, int64_t rank);
int64_t input_bytes(const SubmittedCall& submitted, int64_t rank);
// Returns both; nullopt if there is an input without contents.
std::optional<std::span<const std::byte>> input_of(const SubmittedCall& submitted, int64_t rank);
// False if there is an input without contents.
bool has_input_contents(const SubmittedCall& submitted);
bool has_contents_everywhere(const LocalTensor& tensor);

// Writes all lanes of `output`. Requires that `result` has each of its ranks, with equal sizes.
void deliver(const LocalTensor& result, LocalTensor& output);
// Writes one lane of a call's output; does nothing if it has none. `whole`, if not null, holds
// exactly these bytes and may be shared.
void deliver(SubmittedCall& submitted, int64_t rank, const std::byte* data, int64_t bytes,
             const Bytes* whole = nullptr);
// Writes one lane, also from contents on a device: they stay there if the buffer can share them.
void deliver(SubmittedCall& submitted, int64_t rank, const Bytes& whole);

// Writes the bytes last put into each lane's window, followed by zeros. `window` returns a rank's
// bytes; null if nothing was put.
void deliver_windows(const std::function<const Bytes*(int64_t rank)>& window, LocalTensor& output);

}  // namespace shardproof
