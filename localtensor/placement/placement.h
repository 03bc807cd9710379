// Placement: how one mesh axis holds a tensor. Plain values, equality by content, text that parses
// back.
//
//   R                     every rank of the axis holds the same
//   S(d)                  dim d cut by the chunk rule: c = ceil(n / size), rank i has [i*c,
//   (i+1)*c) S(d, split=k)         strided: k pieces by the chunk rule, each cut by the chunk rule,
//   rank i has the
//                         i-th part of each (torch's _StridedShard(d, k))
//   S(d, sizes=[3, 0, 5]) the extent that the outer axes leave, cut at these sizes
//   P(op)                 the value is the elementwise reduction of what the ranks hold
//
// The order in which axes cut one dim (`after=tp` in text) belongs to the Spec, not to a placement.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardproof {

enum class ReduceOp { sum, avg, prod, min, max, band, bor, bxor, premul_sum, norm };
std::string_view name(ReduceOp op);

// A reduction with its scalar: `factor` of premul_sum, exponent `p` of norm (partials only: the
// whole is (sum |x|^p)^(1/p); p = inf, -inf and 0 are refused, as in torch).
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  double scalar = 0;
  bool operator==(const Reduction&) const = default;
};
std::string to_string(const Reduction& reduction);  // "sum", "premul_sum(0.5)", "norm(2)"
Reduction parse_reduction(std::string_view text);   // Error(bad_input) with the list of names

struct Replicate {
  bool operator==(const Replicate&) const = default;
};
struct Shard {
  int dim = 0;                 // >= 0
  int64_t split = 1;           // > 1: strided
  std::vector<int64_t> sizes;  // explicit sizes; then split is 1
  bool operator==(const Shard&) const = default;
};
struct Partial {
  Reduction reduction;  // not premul_sum
  bool operator==(const Partial&) const = default;
};

class Placement {
 public:
  Placement() : value_(Replicate{}) {}
  Placement(Replicate r) : value_(r) {}
  Placement(Shard s) : value_(std::move(s)) {}
  Placement(Partial p) : value_(p) {}
  bool is_replicate() const { return std::holds_alternative<Replicate>(value_); }
  bool is_shard() const { return std::holds_alternative<Shard>(value_); }
  bool is_shard(int dim) const { return is_shard() && shard().dim == dim; }
  bool is_partial() const { return std::holds_alternative<Partial>(value_); }
  const Shard& shard() const { return std::get<Shard>(value_); }
  const Partial& partial() const { return std::get<Partial>(value_); }
  bool operator==(const Placement&) const = default;

 private:
  std::variant<Replicate, Shard, Partial> value_;
};

inline Placement R() { return Replicate{}; }
inline Placement S(int dim, int64_t split = 1) { return Shard{dim, split, {}}; }
inline Placement P(ReduceOp op = ReduceOp::sum, double scalar = 0) { return Partial{{op, scalar}}; }

std::string to_string(const Placement& placement);  // "S(0, split=2)"

// One axis of placements text as written: axis by name or, in "S(0) R", by position.
struct PlacementText {
  std::string axis;                // empty: by position
  Placement placement;             // Shard::dim may be negative until resolved against a shape
  std::vector<std::string> after;  // axes of `after=`
  int column = 0;                  // 1-based within the text, for errors
  bool operator==(const PlacementText&) const = default;
};
// "dp:S(0) tp:P(sum)" or "S(0) P(sum)". A bare "R" gives one entry with axis "" (all axes).
// Throws Error(bad_input) with Where::column.
std::vector<PlacementText> parse_placements(std::string_view text);

}  // namespace shardproof
