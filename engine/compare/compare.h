// Facts about a value that is wrong: its elements, the ranks that hold them, what would make it
// right; and replicas beside each other.
#pragma once

#include <optional>

#include "shardproof/engine/compare/differing_element.h"
#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/compare/judge.h"
#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/report/finding.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

struct Difference {
  Tensor truth;       // one device, dense
  int64_t first = 0;  // row-major global index of the first wrong element
  double expected = 0, got = 0;
  Lanes first_owners;           // ranks that hold a wrong element there
  Lanes ranks;                  // ranks that hold any wrong element
  int64_t elements = 0;         // wrong elements, each counted once
  std::vector<double> got_all;  // as the ranks hold it, row-major: of copies the farthest off
  std::vector<std::pair<int32_t, double>> got_by_rank;  // at `first`: each owner of a wrong one
  std::optional<Spec> find_matching_spec;               // see find_matching_spec()
};

// Describes a value whose elements `wrong` (ascending, not empty) are wrong on some ranks. A copy
// counts as wrong where it is off by a 64th or more of the copy that is farthest off.
Difference difference_of(const ComparedValue& value, const Tensor& truth,
                         const std::vector<int64_t>& wrong);

// True if the program's own dtypes show that nothing is wrong with what f64 shows: they are fine
// enough to show such a difference, and there is none (a number that is the largest of its dtype,
// an overflow that is asked for, a sum that rounds on purpose: lifted to f64 these mean something
// else). Where ranks and one device are both farther from their own values in f64 than that
// difference (a running sum that stands still), their dtypes show nothing.
// Only elements that were judged wrong are asked.
bool contradicts_f64(const Difference& own, const Difference& in_f64, const JudgedValue& judged);

// A spec under which the ranks hold the truth after all, when the declared one is wrong: copies
// that are parts of a sum or an average, or partials that are already reduced. Tells what was left
// out; nothing where several axes explain it. `share`: of the largest element, that two right
// values may lie apart.
std::optional<Spec> find_matching_spec(const LocalTensor& value, const Spec& declared,
                                       const Tensor& truth, double share);

// Ranks that should hold the same bits and do not: those that differ from the first of their
// replicas. Empty: equal.
struct ReplicaDifference {
  Lanes ranks;
  int32_t first = 0, other = 0;             // two ranks to name
  std::optional<DifferingElement> element;  // none where shapes are not those of the spec
};
std::optional<ReplicaDifference> compare_replicas(const LocalTensor& value, const Spec& spec);

// Whether there is one, with contents on every rank that has it.
bool is_made(const LocalTensor& value);

// As assemble; nothing where a shard or a part is on no rank of `value`, or shapes do not fit.
std::optional<Tensor> whole_of(const LocalTensor& value, const Spec& spec);

// A constant got / expected over all elements, when there is one.
std::optional<double> constant_ratio(const Difference& difference);
// k when `elements` (row-major, of `shape`) are k * other (broadcast) everywhere, k != 0. One
// element is a multiple of anything: two that are not 0 are needed.
std::optional<double> multiple_of(const std::vector<double>& elements, const Dims& shape,
                                  const Tensor& other);
// got - expected, element by element.
std::vector<double> errors_of(const Difference& difference);

}  // namespace shardproof
