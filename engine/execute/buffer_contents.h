// Adopting: a buffer exists from the moment an instruction is issued; its contents come when the
// work has run. These functions give contents to buffers that have waited for them.
#pragma once

#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

// A block of fresh buffers without contents yet, one for each shape.
Block promise_block(DType dtype, const Dims& shape, const Lanes& lanes);
bool has_contents(const Tensor& tensor);
// A buffer that was read before anything wrote it holds poison: NaN in floating types, 0xA5 bytes
// else.
void poison(Buffer& buffer, DType dtype);

// Gives each block of `target` (whole, dense buffers) the contents that `source` has on its lanes;
// bytes are shared where a source block fits. Shapes must agree in element count; lanes that
// `source` lacks get poison.
void adopt(LocalTensor& target, const LocalTensor& source);
// Writes `source` elementwise into the views of `target`, broadcasting, on the lanes of `source`.
void write_through(LocalTensor& target, const LocalTensor& source);
// An independent value on fewer lanes: writes through one are not seen by the other.
LocalTensor fork(const LocalTensor& value, const Lanes& lanes);

// Dense, with all its copies as another dtype; lanes and slots stay.
Tensor as_dtype(const Tensor& tensor, DType dtype);

}  // namespace shardproof
