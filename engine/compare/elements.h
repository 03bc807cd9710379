// Comparison of the elements that the ranks hold with the whole value of one device.
//
// Every stored copy is compared once. Equal data on many ranks is one copy (LocalTensor), so a
// value that is replicated on 256 ranks costs as much as on one.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A copy of one shard, and the ranks that read it.
struct StoredCopy {
  const Block* block = nullptr;
  int64_t slot = 0;
  Lanes ranks;
};
std::vector<StoredCopy> stored_copies(const LocalTensor& value, const Spec& spec);

// The positions of a rank's shard in the whole value, as runs of elements that are contiguous in
// both, row-major. Dims that the rank holds whole are joined with the dim before. `spec` must
// outlive the object.
class ShardRuns {
 public:
  ShardRuns(const Spec& spec, int64_t rank) : ShardRuns(spec) { move_to(rank); }
  // Serves the shards of several ranks, one after another. Requires move_to() before for_each().
  explicit ShardRuns(const Spec& spec);
  void move_to(int64_t rank);

  // Calls visit(local, global, length) for each run, in the order of the shard.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    if (depth_ == 0) {
      if (inner_ > 0) visit(int64_t{0}, int64_t{0}, inner_);
    } else {
      walk(visit, 0, 0, 0);
    }
  }

 private:
  struct DimRun {
    int64_t local = 0, global = 0, length = 0;
  };
  struct Dim {
    std::vector<DimRun> runs;
    int64_t length = 0;  // of the shard
    int64_t stride = 0;  // of the whole value, elements
    bool is_cut = false;
  };

  // Visits the runs of the last of the dims. They may be short and many.
  template <typename Visit>
  void visit_runs(const Visit& visit, int64_t local, int64_t global) const {
    const Dim& dim = dims_[depth_ - 1];
    for (const DimRun& run : dim.runs)
      if (run.length * inner_ > 0)
        visit((local * dim.length + run.local) * inner_, global + run.global * dim.stride,
              run.length * inner_);
  }
  template <typename Visit>
  void walk(const Visit& visit, size_t d, int64_t local, int64_t global) const {
    if (d + 1 == depth_) return visit_runs(visit, local, global);
    const Dim& dim = dims_[d];
    for (const DimRun& run : dim.runs)
      for (int64_t i = 0; i < run.length; ++i) {
        const int64_t row = local * dim.length + run.local + i,
                      start = global + (run.global + i) * dim.stride;
        if (d + 2 == depth_)
          visit_runs(visit, row, start);
        else
          walk(visit, d + 1, row, start);
      }
  }

  const Spec& spec_;
  std::vector<Dim> dims_;  // up to the last one that is cut
  int64_t uncut_ = 1;      // elements of the dims after them
  size_t depth_ = 0;       // dims_ up to the last one that the current rank does not hold whole
  int64_t inner_ = 1;      // elements of the dims after these
};

// True for integers and bool, which no arithmetic rounds.
bool is_exact(DType dtype);
// Returns the distance of two elements. It is 0 for equal numbers, for -0 and +0, and for two NaN.
// It is infinite if only one is finite, or only one is NaN. For complex numbers it is the larger
// distance of a part. Different integers and bools have a distance of at least 1.
double distance(double a, double b);
double distance(const std::byte* a, const std::byte* b, DType dtype);
// Returns |element|; for a complex number the larger one of its parts.
double magnitude(const std::byte* element, DType dtype);
// Returns the tensor if it is dense, else a dense copy.
Tensor dense(const Tensor& tensor);
// Returns the numbers of a one-lane tensor, row-major: both parts of each complex element.
std::vector<double> numbers_of(const Tensor& tensor);
// Returns the distance of element `i` of two dense one-lane tensors of one dtype.
double distance_at(const Tensor& a, const Tensor& b, int64_t i);
double magnitude_at(const Tensor& tensor, int64_t i);
// Returns the distances of all elements. Requires dense tensors of one shape and dtype.
std::vector<double> distances(const Tensor& a, const Tensor& b);
// Returns the largest magnitude of the finite elements; 0 if there are none.
double largest_element(const Tensor& tensor);

// True if some number of f32 or c64 has one of its last four bits set. 15 of 16 rounded numbers do;
// numbers of fewer bits, such as whole numbers below 2^20, do not.
bool uses_last_bits(const Tensor& tensor);

// An element of a copy that is not the one-device value.
struct Deviation {
  size_t copy = 0;     // index into stored_copies
  int64_t local = 0;   // row-major index in the shard
  int64_t global = 0;  // row-major index in the whole value
  double distance = 0;
};
// The element of a copy at a row-major index of its shard.
const std::byte* element_at(const StoredCopy& copy, int64_t local);
// True if all copies have the bits of `expected`.
bool are_identical(const std::vector<StoredCopy>& copies, const Spec& spec, const Tensor& expected);
// Returns all elements that are farther from `expected` than `share` of the expected element. With
// a share of 0, and for expected elements that are not finite, these are all that differ. Requires
// a dense `expected` and copies of its dtype with reduced partial axes.
std::vector<Deviation> deviations(const std::vector<StoredCopy>& copies, const Spec& spec,
                                  const Tensor& expected, double share);

// Returns the value with its partial axes reduced over the ranks in `dtype`. Buffers that were
// never written are filled first, with NaN for floats.
LocalTensor reduced_over_partials(const LocalTensor& value, const Spec& spec, DType dtype);
// Returns the whole value of the ranks in the dtype of the spec, with parts of floats added in f64.
// Elements that no rank of `value` holds (an output "on pp=0") are those of `base`, or 0 without
// one.
Tensor whole_value(const LocalTensor& value, const Spec& spec, const Tensor* base = nullptr);
// Returns the same for a value whose partial axes are reduced already.
Tensor assembled(const LocalTensor& reduced, const Spec& spec, const Tensor* base = nullptr);
// Returns the sum of the absolute values of an element's parts, weighted as in the reduction.
// `elements`: only these elements of the whole value, ascending. If a partial axis has another
// reduction than sum or avg, returns the absolute values of the reduced elements.
std::vector<double> part_sizes(const LocalTensor& value, const Spec& spec,
                               const std::vector<int64_t>& elements);
std::vector<double> part_sizes(const LocalTensor& value, const Spec& spec);
// Returns the same for all elements whose reduction may round, and 0 for the others. Parts that are
// whole numbers add exactly in any order, and a minimum or maximum is one of its parts. Empty if no
// element may round.
std::vector<double> rounding_part_sizes(const LocalTensor& value, const Spec& spec);

// True if copies of one element are apart by more than this share of the largest element. A copy
// that is not among `found` holds the expected element.
bool are_apart(const std::vector<Deviation>& found, const std::vector<StoredCopy>& copies,
               const Spec& spec, const Tensor& expected, double share);

}  // namespace shardproof
