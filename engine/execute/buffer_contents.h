// Contents of buffers: a buffer exists from the moment its instruction is issued and gets its
// contents when the work runs. These functions make such buffers, fill them, and copy between them.
#pragma once

#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

// Returns a block with a new buffer that has no contents yet.
Block block_without_contents(DType dtype, const Dims& shape, const Lanes& lanes);
// True if the buffer has contents, or needs none because it has no elements.
bool has_contents(const Tensor& tensor);
// True if the block covers its buffer, so that its contents can be replaced.
bool owns_buffer(const Block& block);
// Drops the contents of buffers that nothing reads from now on.
void drop_contents(const std::vector<LocalTensor>& values);
// Fills a buffer that was read before anything wrote it: NaN in floating types, bytes 0xA5 in
// others.
void poison(Buffer& buffer, DType dtype);

// Gives each block of `target` the contents that `source` has on its lanes, and shares the bytes if
// one source block fits. Lanes that `source` lacks get poison. Requires whole, dense target buffers
// and equal element counts.
void adopt(LocalTensor& target, const LocalTensor& source);
// Writes `source` elementwise into the views of `target` on the lanes of `source`, with
// broadcasting.
void write_through(LocalTensor& target, const LocalTensor& source);
// Returns a copy of the value on the given lanes. A write into one does not change the other.
LocalTensor fork(const LocalTensor& value, const Lanes& lanes);

// Replaces the largest numbers of f64 and c128, of both signs, by infinities if this thread does
// not round to nearest. An overflow gives the largest number where the rounding direction leads
// away from infinity; a program must not look finite for this reason.
void restore_overflows(Tensor& tensor);

// Returns a dense copy of the tensor with its elements converted; lanes and slots stay.
Tensor as_dtype(const Tensor& tensor, DType dtype);

}  // namespace shardproof
