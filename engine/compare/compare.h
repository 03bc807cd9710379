// Facts about a wrong value: its wrong elements, the ranks that hold them, and placements that
// would make it right. Also compares replicas with each other, and assembles what ranks hold.
#pragma once

#include <optional>

#include "shardproof/engine/compare/differing_element.h"
#include "shardproof/engine/compare/element.h"
#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/compare/judge.h"
#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/report/finding.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

// A value whose elements are wrong on some ranks.
struct Difference {
  Tensor truth;       // one device, dense
  Tensor got;         // the ranks, dense, in the same dtype: of each element the copy farthest off
  int64_t first = 0;  // row-major global index of the first wrong element
  std::vector<std::pair<int32_t, Element>> got_by_rank;  // at `first`, for each of first_owners
  Lanes first_owners;                                    // ranks that hold a wrong element there
  Lanes ranks;                                           // ranks that hold any wrong element
  int64_t elements = 0;                                  // wrong elements, each counted once
  std::optional<Spec> find_matching_spec;                // result of find_matching_spec()
};

// Returns the description of a value whose elements `wrong` are wrong on some ranks. A copy of an
// element counts as wrong if it is off by a 64th or more of the copy that is farthest off. Requires
// `wrong` ascending and not empty.
Difference difference_of(const ComparedValue& value, const Tensor& truth,
                         const std::vector<int64_t>& wrong);

// True if the run in the program's own dtypes contradicts a difference that the run in f64 shows.
// These dtypes are fine enough to show it, but ranks and one device agree in them. A program may
// compute something else in f64: it may use the largest number of a dtype, an intended overflow, or
// a sum that rounds on purpose. The own dtypes show nothing if ranks and one device are both
// farther from their f64 values than the difference. Example: a running sum that no longer grows.
// Reads only the elements that were judged wrong.
bool contradicts_f64(const Difference& own, const Difference& in_f64, const JudgedValue& judged);

// Returns the only other spec under which the ranks' tensors are right. Copies may be parts of a
// sum or an average, or partials may be reduced already. Returns nullopt if there is none, or more
// than one. Two right values may differ by `share` of the largest element.
std::optional<Spec> find_matching_spec(const LocalTensor& value, const Spec& declared,
                                       const Tensor& truth, double share);

// Replicas that hold different bits: the ranks that differ from the first of their replicas.
struct ReplicaDifference {
  Lanes ranks;
  int32_t first = 0, other = 0;             // two ranks that differ, for the text
  std::optional<DifferingElement> element;  // none: a shape is not that of the spec
};

// Returns nullopt if all replicas hold the same bits.
std::optional<ReplicaDifference> compare_replicas(const LocalTensor& value, const Spec& spec);

// True if the value has blocks, all with contents.
bool has_all_contents(const LocalTensor& value);

// Returns the assembled value. Returns nullopt if no rank of `value` has some shard or part, or if
// a shape is not that of the spec.
std::optional<Tensor> assemble_if_complete(const LocalTensor& value, const Spec& spec);

// The elements of a tensor as doubles, row-major. A complex element is two numbers, in an added dim
// of 2.
struct TensorNumbers {
  std::vector<double> values;
  Dims shape;
};
// Returns nullopt if an integer is beyond 2^53: doubles would round it.
std::optional<TensorNumbers> exact_numbers_of(const Tensor& tensor);
// Returns got / expected if it is the same for all elements.
std::optional<double> constant_ratio(const Difference& difference);
// Returns k if all numbers are k * other, with `other` broadcast and k != 0. Needs two numbers that
// are not 0, because one number is a multiple of any other.
std::optional<double> multiple_of(const TensorNumbers& numbers, const TensorNumbers& other);
// Returns got - expected for each element; nullopt as exact_numbers_of.
std::optional<TensorNumbers> errors_of(const Difference& difference);

}  // namespace shardproof
