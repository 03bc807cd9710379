// Placement: how one mesh axis holds a tensor. A plain value, compared by content, with a text form
// that parses back.
//
//   R                     every rank of the axis holds the same values
//   S(d)                  the axis cuts dim d by the chunk rule: with c = ceil(extent / ranks),
//                         rank i has the indices [i*c, (i+1)*c)
//   S(d, split=k)         strided: dim d is cut into k pieces by the chunk rule, and rank i has the
//                         i-th part of each piece (torch's _StridedShard(d, k))
//   S(d, sizes=[3, 0, 5]) rank i has sizes[i] indices, in order
//   P(op)                 the value is the elementwise reduction of the values that the ranks hold
//
// Example: dim of 8 elements, an axis of 2 ranks. S(0) gives rank 0 the indices 0 1 2 3. S(0,
// split=2) cuts the pieces 0-3 and 4-7, and gives rank 0 the indices 0 1 4 5.
//
// The order in which several axes cut one dim (`after=tp` in text) belongs to the Spec.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardproof {

enum class ReduceOp { sum, avg, prod, min, max, band, bor, bxor, premul_sum, norm };
std::string_view name(ReduceOp op);  // "premul_sum"

// A reduction with its scalar: the factor of premul_sum (calls only), or the exponent p of norm
// (partials only). norm(p) is (sum |x|^p)^(1/p); p = inf, -inf and 0 are refused, as in torch.
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  double scalar = 0;
  bool operator==(const Reduction&) const = default;
};
std::string to_string(const Reduction& reduction);  // "sum", "premul_sum(0.5)", "norm(2)"
// Returns the inverse of to_string. Throws Error(bad_input) with the list of names.
Reduction parse_reduction(std::string_view text);

struct Replicate {
  bool operator==(const Replicate&) const = default;
};
struct Shard {
  int dim = 0;                 // >= 0
  int64_t split = 1;           // > 1: strided
  std::vector<int64_t> sizes;  // explicit sizes; empty: the chunk rule. With sizes, split is 1
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

// One entry of a placements text as written: its axis by name or, in "S(0) R", by position.
struct PlacementText {
  std::string axis;                // empty: by position
  Placement placement;             // Shard::dim may be negative until resolved against a shape
  std::vector<std::string> after;  // axes of `after=`
  int column = 0;                  // from 1, within the text, for errors
  bool operator==(const PlacementText&) const = default;
};
// Returns the entries of "dp:S(0) tp:P(sum)" or "S(0) P(sum)"; none for blank text. A bare "R"
// gives one entry without an axis. Throws Error(bad_input) with Where::column.
std::vector<PlacementText> parse_placements(std::string_view text);

}  // namespace shardproof
