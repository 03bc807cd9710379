// Bytes, Buffer, Tensor: contents, identity, view.
//
//   Bytes   contents. Copy-on-write *between* buffers: copying Bytes shares them until one side
//           mutates. They lie on the host, on devices, or on both: whoever asks finds them where it
//           asks, brought there when that side is stale.
//   Buffer  identity: what is allocated, freed, aliased by views and written in place, of a whole
//           cohort. It holds `slots.count()` stored copies; lane i reads copy slots[i]. Equal data
//           on many lanes is one copy: stored, computed and compared once.
//   Tensor  a view of one Buffer: dtype, local shape, strides, offset (in elements, within a copy).
//           Copies of a Tensor alias: a write through any view is seen by all views of that buffer.
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

// Which stored copy each lane reads: one for all, one each, or a table. Cheap to copy.
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
  bool same(const Slots& o) const {  // fast, may say false for equal tables
    return lanes_ == o.lanes_ && count_ == o.count_ && table_ == o.table_;
  }
  // Copies are numbered in the order in which the lanes first read them.
  bool is_ordered() const { return !table_ || ordered_; }
  // The table, or nullptr for shared and each.
  const int32_t* table_data() const { return table_ ? table_->data() : nullptr; }

 private:
  int64_t lanes_ = 0, count_ = 0;
  bool ordered_ = true;
  std::shared_ptr<const std::vector<int32_t>> table_;
};

class Bytes {
 public:
  Bytes() = default;
  static Bytes uninitialized(int64_t size);  // 64-byte aligned; pooled
  static Bytes zeros(int64_t size);
  int64_t size() const;
  const std::byte* data() const;
  std::byte* mutate();  // unshares first when shared

  static Bytes on_device(const std::shared_ptr<DeviceMemory>& memory, int64_t size);  // undefined
  const std::byte* device_data(const std::shared_ptr<DeviceMemory>& memory) const;
  std::byte* device_mutate(const std::shared_ptr<DeviceMemory>& memory);  // unshares first
  bool shares_with(const Bytes& other) const { return storage_ && storage_ == other.storage_; }

 private:
  struct Storage;
  std::shared_ptr<Storage> storage_;
};

struct Buffer {
  Lanes lanes;                 // who holds it
  Slots slots;                 // lanes -> copies
  int64_t bytes_per_lane = 0;  // logical size of one lane's allocation
  Bytes bytes;                 // slots.count() * bytes_per_lane
  uint64_t id = 0;             // unique in a run, for records and races; 0 = not registered
};

struct Tensor {
  DType dtype = DType::f32;
  Dims shape;          // local
  Dims strides;        // elements
  int64_t offset = 0;  // elements
  std::shared_ptr<Buffer> buffer;

  // A fresh contiguous tensor; contents are undefined.
  static Tensor empty(DType dtype, const Dims& shape, const Lanes& lanes, const Slots& slots);
  // One device: one lane (rank 0), one copy.
  static Tensor empty(DType dtype, const Dims& shape);
  // A fresh contiguous tensor, equal on all lanes, whose contents come later.
  static Tensor promised(DType dtype, const Dims& shape, const Lanes& lanes);

  int64_t elements() const { return element_count(shape); }
  bool contiguous() const;                        // dense row-major from its offset
  const std::byte* data(int64_t slot = 0) const;  // first element of copy `slot`
  std::byte* mutate(int64_t slot = 0);            // unshares Bytes first
  int64_t slot_stride_bytes() const { return buffer->bytes_per_lane; }
};

// Dense row-major copy with a new buffer (same lanes and slots).
Tensor contiguous_copy(const Tensor& tensor);
// Gives every lane of `lanes` (a subset of the buffer's) a copy of its own, apart from all other
// lanes: what a write that differs by lane, or that only some lanes make, needs first.
void separate(Buffer& buffer, const Lanes& lanes);
// Element at `index` of a copy as double; for tests and reports.
double element_f64(const Tensor& tensor, int64_t slot, const Dims& index);
// Bit equality of one copy of each (same dtype and shape required), and equality with NaN == NaN,
// -0 != +0.
bool bit_equal(const Tensor& a, int64_t slot_a, const Tensor& b, int64_t slot_b);
// From row-major values, one device, rounded to `dtype`.
Tensor tensor_of(DType dtype, const Dims& shape, const std::vector<double>& values);
std::vector<double> values_of(const Tensor& tensor, int64_t slot = 0);

}  // namespace shardproof
