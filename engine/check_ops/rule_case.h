// RuleCase: one sharding rule on one call. It states the placements of the results if each rank
// computes the call on shards of inputs with given placements. A row of a rule table is a case, and
// so is a wrong claim of the registry's own rules.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardproof/engine/check_ops/check_rules.h"

namespace shardproof {

enum class RuleKind : uint8_t {
  op,        // a function
  backward,  // inputs, then one cotangent for each result; results are gradients of the inputs
  inplace,   // the result replaces the contents of input 0, which keeps its placement
  out,       // each result replaces the contents of a tensor in `buffers` (torch: out=)
};

// A call whose lines depend on the sizes of its tensors, such as upsampling by a factor: each rank
// has the lines of its shards.
struct CallBySizes {
  // Returns the lines for the inputs of one rank. `result` has the sizes of its result where they
  // are an argument (new_zeros), which DTensor changes to local ones; null: those of the row.
  std::function<std::vector<std::string>(const std::vector<Dims>& inputs, const Dims* result)>
      lines;
  std::string attrs;           // of the row, JSON
  bool states_result = false;  // true: `lines` reads `result`
  size_t count = 0;            // the first lines of the case are these; others follow
};

struct RuleCase {
  std::string op;                  // the name in the table
  std::vector<std::string> lines;  // of a global program, over x0, x1, ..; bind `results`
  std::shared_ptr<const CallBySizes> by_sizes;  // null if the lines do not depend on sizes
  std::vector<std::string> results;
  std::vector<TensorMeta> inputs;
  std::vector<std::string> fills;  // by input; "": that of the op's samples
  Mesh mesh;
  std::vector<std::vector<Placement>> in, out;  // by tensor, then by axis
  RuleKind kind = RuleKind::op;
  std::vector<std::vector<Placement>> buffers;  // of kind `out`: by result, then by axis
  // True: each rank runs what the registry's rule states for these placements. False: it runs the
  // call itself; only sizes among its attributes become local ones.
  bool by_own_rule = false;
  // The number n of ranks over which the result of a backward's call is P(avg): each then has 1/n
  // of the cotangent. 1 elsewhere.
  int64_t averaged_over = 1;
};

// Returns the lines of the case for inputs of these sizes and, if it is given, a first result of
// these sizes.
std::vector<std::string> lines_for(const RuleCase& rule, const std::vector<Dims>& inputs,
                                   const Dims* result = nullptr);
// Sets `lines` to those of the sizes that the inputs have now.
void update_lines(RuleCase& rule);
// Returns what each rank computes. Refers to `ops`.
Computation computation_of(const RuleCase& rule, const OpRegistry& ops);

// True for the inputs that a backward gives gradients of: floats and complex numbers.
bool has_gradient(const TensorMeta& meta);
// Turns a case of a call into that of its backward. Adds the result's cotangent to the inputs, and
// the line that computes gradients of the float inputs. Placements are left to the caller. Throws
// Error(bad_input) unless the call has one float result and a float input.
void make_backward(RuleCase& rule, const OpRegistry& ops);

// Throws Error(bad_input) as check_case does, without running anything.
void check_legal(const RuleCase& rule, const OpRegistry& ops);

// Judges the case on several draws. Throws Error(bad_input) if the call is not legal for the
// inputs, a placement is not legal for a tensor, or the number of placements is wrong.
ClaimAnswer check_case(const RuleCase& rule, const OpRegistry& ops);

// The numbers of draws on which one row of a table is judged.
inline constexpr DrawCounts kRowDraws{3, 10, 96, 48};

// Returns the draws on which the call of a case is judged. Throws as check_case.
std::vector<RuleDraw> draws_of_case(const RuleCase& rule, const OpRegistry& ops,
                                    const DrawCounts& counts = kRowDraws);

// Placements of the tensors of a case.
struct CasePlacements {
  Mesh mesh;
  std::vector<std::vector<Placement>> in, out;
  int64_t averaged_over = 1;
};
// Judges one call under several placements, on the same draws. The placements of `rule` are not
// read. Throws as check_case.
std::vector<ClaimAnswer> check_cases(const RuleCase& rule, const std::vector<CasePlacements>& list,
                                     const OpRegistry& ops, const DrawCounts& counts = kRowDraws);

// Returns a case that is wrong in the same way: with the fewest ranks, the smallest sizes and the
// fewest placements other than R that are still wrong. Requires a wrong case.
RuleCase smallest_wrong_case(const RuleCase& rule, const OpRegistry& ops);

// Returns the case of a wrong claim of the registry's own rules.
RuleCase case_of(const WrongClaim& wrong);

// Returns "uniform(-4, 4)" or another fill for each input, as the check uses it.
std::vector<std::string> fills_of(const RuleCase& rule, const OpRegistry& ops);

}  // namespace shardproof
