// Bytes, Buffer, Tensor: contents, allocation, view.
//
//   Bytes   Contents. Copying Bytes shares the contents until one of the copies is written
//           (copy-on-write *between* buffers). Contents lie on the host, on devices, or on both; an
//           access copies them to its side if that side is stale.
//   Buffer  One allocation of a whole cohort: the unit that is allocated, freed, aliased by views
//           and written in place. It holds `slots.count()` stored copies; lane i reads copy
//           slots[i]. Lanes with equal data share one copy: stored, computed and compared once.
//   Tensor  A view of one Buffer: dtype, local shape, strides and offset (in elements, within a
//           copy). Copies of a Tensor alias: a write through one view changes all views.
//
// Example: 4 lanes, f32[2], lanes 0 and 1 hold (1, 2), lanes 2 and 3 hold (3, 4). The slots are the
// table 0 0 1 1, bytes_per_lane is 8, and the contents are 16 bytes: 1 2 3 4.
//
// Not thread-safe; a run uses one OS thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shardproof/localtensor/base/dims.h"
#include "shardproof/localtensor/base/lanes.h"
#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {

class DeviceMemory;

// Slots: maps each lane to the stored copy that it reads: one for all, one each, or a table. Cheap
// to copy.
class Slots {
 public:
  static Slots shared(int64_t lanes);                     // all lanes read copy 0
  static Slots each(int64_t lanes);                       // lane i reads copy i
  static Slots table(std::vector<int32_t> slot_of_lane);  // copies numbered 0.. without gaps
  int64_t lanes() const { return lanes_; }
  int64_t count() const { return count_; }
  int64_t operator[](int64_t lane) const {
    return table_ ? (*table_)[static_cast<size_t>(lane)] : (count_ == 1 ? 0 : lane);
  }
  bool is_shared() const { return count_ == 1; }
  bool is_each() const { return !table_ && count_ == lanes_; }
  bool same(const Slots& o) const {  // fast: may return false for equal tables
    return lanes_ == o.lanes_ && count_ == o.count_ && table_ == o.table_;
  }
  // True if copies are numbered in the order in which the lanes first read them.
  bool is_ordered() const { return !table_ || ordered_; }
  // Returns the table, or nullptr for `shared` and `each`.
  const int32_t* table_data() const { return table_ ? table_->data() : nullptr; }

 private:
  int64_t lanes_ = 0, count_ = 0;
  bool ordered_ = true;
  std::shared_ptr<const std::vector<int32_t>> table_;
};

class Bytes {
 public:
  Bytes() = default;
  static Bytes uninitialized(int64_t size);  // 64-byte aligned, from the memory pool
  static Bytes zeros(int64_t size);
  int64_t size() const;  // bytes
  // Host address of the contents, for reading; never null.
  const std::byte* data() const;
  // Host address for writing. Shared contents are copied first; device sides become invalid.
  std::byte* mutate();

  // Contents on a device only, undefined.
  static Bytes on_device(const std::shared_ptr<DeviceMemory>& memory, int64_t size);
  // Device address for reading in the current stream.
  const std::byte* device_data(const std::shared_ptr<DeviceMemory>& memory) const;
  // Device address for writing in the current stream. Shared contents are copied first; the host
  // and all other devices become stale.
  std::byte* device_mutate(const std::shared_ptr<DeviceMemory>& memory);
  // Returns a device with these contents if the host lacks them; null if the host has them.
  std::shared_ptr<DeviceMemory> only_device() const;
  // Prefetches small contents that lie on the host; the Bytes themselves are read.
  void prefetch() const;
  // True if both are copies of the same contents, none written since. For tests.
  bool shares_with(const Bytes& other) const { return storage_ && storage_ == other.storage_; }

 private:
  struct Storage;
  std::shared_ptr<Storage> storage_;
};

// Members in order of use: a call of one lane reads the first cache line only.
struct Buffer {
  Bytes bytes;                 // slots.count() * bytes_per_lane
  int64_t bytes_per_lane = 0;  // logical size of one lane's allocation
  Lanes lanes;                 // ranks that hold it
  Slots slots;                 // lane -> stored copy, for each of `lanes`
  uint64_t id = 0;             // unique in a run, for records and races; 0: not registered
};

struct Tensor {
  std::shared_ptr<Buffer> buffer;
  int64_t offset = 0;  // elements
  DType dtype = DType::f32;
  Dims shape;    // local
  Dims strides;  // elements

  // Returns a new contiguous tensor with undefined contents. Throws Error(limit) if one copy or all
  // of them need 2^63 bytes or more.
  static Tensor empty(DType dtype, const Dims& shape, const Lanes& lanes, const Slots& slots);
  // Returns empty(...) of one device: one lane (rank 0), one copy.
  static Tensor empty(DType dtype, const Dims& shape);
  // Returns a new contiguous tensor, equal on all lanes, without contents; the caller sets
  // `buffer->bytes` later. A simulation of shapes only never sets them.
  static Tensor without_contents(DType dtype, const Dims& shape, const Lanes& lanes);

  int64_t elements() const { return element_count(shape); }
  bool contiguous() const;                        // true if dense and row-major from its offset
  const std::byte* data(int64_t slot = 0) const;  // host address of the first element of a copy
  std::byte* mutate(int64_t slot = 0);            // the same for writing, see Bytes::mutate
  int64_t slot_stride_bytes() const { return buffer->bytes_per_lane; }
};

// Returns a dense row-major copy with a new buffer (same lanes and slots). A tensor that already
// fills its buffer shares the contents with its copy until one of them is written.
Tensor contiguous_copy(const Tensor& tensor);
// Gives every lane of `lanes` a stored copy of its own, which no other lane reads. Call it before a
// write that differs by lane, or that only some lanes make. Requires a subset of the buffer's
// lanes.
void separate(Buffer& buffer, const Lanes& lanes);
// Returns the element at `index` of a copy as double; for tests and reports.
double element_f64(const Tensor& tensor, int64_t slot, const Dims& index);
// True if two copies have the same dtype, shape and element bits. All NaNs count as equal; -0 and
// +0 count as different.
bool bit_equal(const Tensor& a, int64_t slot_a, const Tensor& b, int64_t slot_b);
// Returns a one-device tensor of row-major values, rounded to `dtype`. Throws Error(bad_input) if
// their number does not fit the shape.
Tensor tensor_of(DType dtype, const Dims& shape, const std::vector<double>& values);
// Returns the elements of a copy in row-major order (complex: real parts).
std::vector<double> values_of(const Tensor& tensor, int64_t slot = 0);

}  // namespace shardproof
