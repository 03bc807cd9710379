// How an answer gets into the buffers of a call's output. A buffer that is written whole takes the
// answer's Bytes as they are, so that what is equal on many lanes stays one copy; anything else is
// copied.
#pragma once

#include "shardproof/sim/flight.h"

namespace shardproof {

// A rank's flat input: its first byte, or null when it has none or holds no data (shape-only runs).
const std::byte* flat_data(const LocalTensor& tensor, int64_t rank);
// Bytes of a rank's flat part; 0 when it has none.
int64_t flat_bytes(const LocalTensor& tensor, int64_t rank);
// False when some block has no contents (shape-only runs).
bool holds_data(const LocalTensor& tensor);

// All lanes of `output` at once.
void deliver(const LocalTensor& answer, LocalTensor& output);
// One lane of a party's output. `whole`, when given, is exactly these bytes and may be shared.
void deliver(Party& party, int64_t rank, const std::byte* data, int64_t bytes,
             const Bytes* whole = nullptr);

}  // namespace shardproof
