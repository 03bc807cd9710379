// Comparing one value of the ranks with the truth: every stored copy, every element, and replicas
// with each other.
#pragma once

#include <optional>

#include "shardproof/engine/differing_element.h"
#include "shardproof/localtensor/finding.h"
#include "shardproof/localtensor/local_tensor.h"
#include "shardproof/localtensor/spec.h"
#include "shardproof/ops/bound.h"

namespace shardproof {

// The ranks' value with partials reduced, in a form to compare: f64 for floats, the dtype itself
// else.
LocalTensor reduced_for_comparison(const LocalTensor& value, const Spec& spec);

struct Difference {
  int64_t first = 0;  // row-major global index of the first wrong element
  double expected = 0, got = 0;
  Lanes first_owners;           // ranks that hold a wrong element there
  Lanes ranks;                  // ranks that hold any wrong element
  int64_t elements = 0;         // wrong elements, each counted once
  std::vector<double> got_all;  // the value as the ranks hold it, row-major (wrong copies win)
  std::vector<std::pair<int32_t, double>> got_by_rank;  // at `first`: each owner of a wrong one
  std::optional<Spec> right_as;                         // see right_as(), where somebody asked
};

// Two honest computations differ by at most twice the bound; -0 equals 0 and NaN equals NaN.
// `truth` is dense, one device. nullopt: equal, or within the bound.
std::optional<Difference> compare_value(const LocalTensor& value, const Spec& spec,
                                        const Tensor& truth, const Bound& bound);

// A spec under which the ranks hold the truth after all, when the declared one is wrong: copies
// that are parts of a sum or an average, or partials that are already reduced. Tells what was left
// out.
std::optional<Spec> right_as(const LocalTensor& value, const Spec& declared, const Tensor& truth,
                             const Bound& bound);

// Of the finite elements' sizes; 0 without any.
double largest_element(const Tensor& tensor);

// The greatest difference that this allows, as a share of the largest element; 0 when exact.
double width_of(const Tensor& truth, const Bound& bound);
// Whether it says something of some element: allows less than half of the largest there.
bool judges(const Tensor& truth, const Bound& bound);

// Ranks that should hold the same bits and do not: those that differ from the first of their
// replicas. Empty: equal.
struct ReplicaDifference {
  Lanes ranks;
  int32_t first = 0, other = 0;             // two ranks to name
  std::optional<DifferingElement> element;  // none where shapes are not those of the spec
};
std::optional<ReplicaDifference> compare_replicas(const LocalTensor& value, const Spec& spec);

// A rank of a group of partial axes of which `on` holds some ranks, but not this one: its parts
// cannot be reduced.
std::optional<int32_t> missing_part(const Lanes& on, const Spec& spec);

// Whether there is one, with contents on every rank that has it.
bool is_made(const LocalTensor& value);

// As assemble; nothing where a shard or a part is on no rank of `value`, or shapes do not fit.
std::optional<Tensor> whole_of(const LocalTensor& value, const Spec& spec);

// A constant got / expected over all elements, when there is one.
std::optional<double> constant_ratio(const Difference& difference, const Tensor& truth);
// k when `elements` (row-major, of `shape`) are k * other (broadcast) everywhere, k != 0. One
// element is a multiple of anything: two that are not 0 are needed.
std::optional<double> multiple_of(const std::vector<double>& elements, const Dims& shape,
                                  const Tensor& other);
// got - expected, element by element.
std::vector<double> errors_of(const Difference& difference, const Tensor& truth);

}  // namespace shardproof
