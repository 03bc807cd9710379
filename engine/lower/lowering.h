// Lowering: turns the syntax tree of a listing into instructions. Its subclasses emit them for
// global programs (global_lowering.cpp) and for rank programs (rank_lowering.cpp).
//
// Lowering walks a listing once for a set of lanes. A number may differ by lane (`rank`,
// `index(tp)`). A condition that differs by lane splits the lanes, and each branch is lowered for
// its lanes. On each lane a name has the value that this lane bound last. A global program has one
// lane.
//
// Example: ranks 0-3 run
//
//   1  if rank < 2:            lanes 0-1            lanes 2-3
//   2    y = x + 1             y -> v5              y is not bound
//   3  else:
//   4    y = x * 2                                  y -> v6
//   5  z = y + rank            y -> v7 = Merge{0-1: v5, 2-3: v6}; z -> v9 = v7 + v8,
//                              v8 = the numbers 0, 1, 2, 3
//
// Line 2 becomes one instruction of lanes 0-1, line 4 one of lanes 2-3. Line 5 reads a name that
// has two values, so a Merge makes one value of all lanes, and `rank` becomes a number per lane.
//
// Sources: lowering_listing.cpp (statements and bindings), lowering_condition.cpp (conditions),
// lowering_expression.cpp (expressions), lowering_index.cpp (x[...]), lowering_op_call.cpp
// (arguments of ops), lowering_expand_op.cpp (composite ops), lowering_grad.cpp (grad).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/lower/name_table.h"
#include "shardproof/engine/lower/per_rank_number.h"
#include "shardproof/engine/lower/tape.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/program/syntax/evaluate.h"

namespace shardproof {

struct RecordedFormula;  // formula_recorder.h

class Lowering {
 public:
  virtual ~Lowering() = default;

 protected:
  Lowering(const OpRegistry& ops, const Lanes& lanes)
      : ops_(ops), lanes_(lanes), listing_lanes_(lanes) {}
  bool is_axis(const std::string& name);  // of a mesh of these ranks
  void walk(const std::vector<Statement>& statements);

  // Functions that differ between global programs and rank programs.
  virtual std::vector<ValueId> emit_op(const OpRecord& op, std::vector<LaneAttrs> attrs,
                                       std::vector<ValueId> inputs, size_t wanted) = 0;
  // True if the last instruction of the op has equal arguments on the same lanes.
  virtual bool repeats_op(const OpRecord&, const std::vector<LaneAttrs>&,
                          const std::vector<ValueId>&, size_t /*wanted*/) const {
    return false;
  }
  virtual ValueId emit_number(const PerRankNumber& number) = 0;
  virtual ValueId emit_merge(const std::vector<std::pair<Lanes, ValueId>>& parts) = 0;
  // Returns another value that is the same tensor: `y = x`.
  virtual ValueId emit_alias(ValueId value) = 0;
  // Lowers a verb that is not an op (redistribute, collectives, wait, ...); nullopt for any other
  // verb.
  virtual std::optional<std::vector<ValueId>> special(const Expr& call, bool wants_value) = 0;
  // Returns size(axis) or index(axis) on a rank; nullopt for another verb.
  virtual std::optional<Number> number_function(const std::string& verb,
                                                const std::string& argument, int64_t rank) = 0;
  virtual bool rank_dependent(const std::string& name) = 0;
  virtual std::optional<Number> number_name(const std::string& name, int64_t rank) = 0;
  virtual std::vector<std::string> number_names() = 0;  // of the scenario, for "did you mean"
  // Returns dim(x, 0) or start(x, 0) as a number; nullopt if they are ops in this kind of program.
  virtual std::optional<PerRankNumber> shape_number(const Expr& call) = 0;
  // Lowers `e = record()`. Returns true if the name was defined as an event, false if `value` is
  // something else.
  virtual bool define(const std::string& name, const Expr& value) = 0;
  virtual void enter_stream(const std::string& name) = 0;
  virtual void leave_stream() = 0;
  virtual void enter_group() = 0;
  virtual void leave_group() = 0;
  virtual void write_in_place(ValueId target, ValueId source) = 0;
  // Writes the result of the last op, which nothing else reads.
  virtual void write_result_in_place(ValueId target, ValueId result) {
    write_in_place(target, result);
  }
  virtual void begin_claim(const Statement& statement) = 0;
  virtual ValueId end_claim(ValueId value, const Statement& statement) = 0;
  virtual void named(ValueId value, const std::string& name) = 0;  // a name was bound to the value
  virtual void unnamed(ValueId value, const Lanes& lanes) = 0;     // no name has it on these lanes
  virtual TensorMeta meta_of(ValueId value) = 0;  // on the first of the current lanes
  // Splits the current lanes into classes on which each of the values has one shape.
  virtual std::vector<Lanes> equal_shapes(const std::vector<ValueId>& values) = 0;
  // Splits the current lanes into classes on which each name that the statement reads has one
  // dtype; empty: one class.
  virtual std::vector<Lanes> equal_dtypes(const Statement&) { return {}; }

  // False inside `as`, where sizes differ by rank.
  virtual bool has_known_sizes() const { return true; }

  // Gradients (lowering_grad.cpp). The first four differ only in global programs. Redistributes the
  // sum of all gradients by a value to the placements of the value.
  virtual ValueId place_gradient(ValueId gradient, ValueId) { return gradient; }
  // Return a gradient by the result (an input) of `as` as the shards of each rank (as a global
  // value).
  virtual ValueId enter_claim(ValueId gradient, ValueId) { return gradient; }
  virtual ValueId leave_claim(ValueId gradient, ValueId) { return gradient; }
  // Switches between emission on local shards (true) and on global values (false). Returns the
  // state before.
  virtual bool set_local(bool) { return false; }
  // Returns the author's name of a value, or "".
  virtual std::string name_of_value(ValueId value) const = 0;
  virtual size_t instruction_count() const = 0;
  virtual size_t value_count() const = 0;
  // Removes the instructions from `first` on that make no value of `results`, directly or through
  // others.
  virtual void remove_dead(size_t first, const std::vector<ValueId>& results) = 0;
  // Returns the gradients with memory of their own, because the author may write into one of them.
  // Values from number `first` on were made by grad.
  virtual std::vector<ValueId> in_own_memory(std::vector<ValueId> values, size_t /*first*/) {
    return values;
  }
  // States that a value is computed again by grad, so that it need not be kept.
  virtual void mark_recomputed(ValueId value) = 0;
  ValueId merge(const std::vector<std::pair<Lanes, ValueId>>& parts);
  void start_tape(const Listing& listing);  // records from here on if the listing calls grad
  TapeEntry tape_entry(TapeKind kind) const;
  std::vector<ValueId> lower_grad(const Expr& call, size_t wanted);
  ValueId copy_of(ValueId value);
  // Sums a value over the dims along which `like` would be repeated, and casts it to its dtype.
  ValueId summed_to(ValueId value, ValueId like);

  // Emits an op, or the ops of its decomposition if it is a composite op. `wanted` is the number of
  // names that are bound to its results.
  std::vector<ValueId> emit(const OpRecord& op, std::vector<LaneAttrs> attrs,
                            std::vector<ValueId> inputs, size_t wanted);
  Binding lower(const Expr& expr);        // a number or a value
  ValueId lower_value(const Expr& expr);  // a number becomes a 0-d value
  ValueId value_of(const PerRankNumber& number);
  // `wanted` = 0: the statement does not use the results.
  std::vector<ValueId> lower_call(const Expr& call, size_t wanted);
  bool is_number(const Expr& expr);
  PerRankNumber lane_number(const Expr& expr);
  Expr with_equal_parts_computed(const Expr& expr);
  Number uniform_number(const Expr& expr);  // throws Error if it differs by rank
  std::vector<ValueId> apply_op(const OpRecord& op, const Expr& call, bool in_place, size_t wanted);
  std::string name_of(const NameTemplate& name);
  // Returns the binding of a name on the current lanes, and merges values that parts of the lanes
  // have bound. Returns nullopt if no lane has bound it. Throws Error if only some lanes have bound
  // it.
  std::optional<Binding> find(const std::string& name, const SourceLocation& place);
  void bind(const std::string& name, Binding binding);
  void forget(const std::string& name);  // free(x)
  Origin origin() const;
  [[noreturn]] void fail(const SourceLocation& place, const std::string& message) const;

  const OpRegistry& ops_;
  Lanes lanes_;           // the current lanes
  SourceLocation place_;  // position of the current statement
  SharedText instance_;   // "i=2, j=0"
  NameTable names_;
  struct InfixOp {
    const OpRecord* op = nullptr;
    Attrs fallbacks;  // all attributes at their fallbacks
  };
  std::map<std::string, InfixOp, std::less<>> infix_ops_;  // by symbol, from first use on
  std::map<ValueId, PerRankNumber> numbers_made_;          // values that were made from numbers
  std::unique_ptr<Tape> tape_;                             // null if the listing never calls grad
  int64_t steps_ = 0;  // lowered statements, limited to stop endless loops

 private:
  class Expander;
  class Differentiator;
  void record_op(const OpRecord& op, std::vector<LaneAttrs> attrs,
                 const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs,
                 size_t wanted);
  std::vector<std::vector<RecordedFormula>> decompositions(const OpRecord& op,
                                                           const std::vector<LaneAttrs>& classes,
                                                           const std::vector<ValueId>& inputs,
                                                           size_t wanted);
  std::vector<ValueId> emit_composite(const OpRecord& op, const std::vector<LaneAttrs>& attrs,
                                      const std::vector<ValueId>& inputs, size_t wanted);
  std::set<ValueId> read_recomputed(const std::vector<const Expr*>& written);
  ValueId seed_of(const Expr* with, ValueId of, const std::string& shown,
                  const SourceLocation& place);
  // Wraps numbers that are combined with integer tensors to the dtype of the tensors.
  void wrap_numbers(const std::vector<LaneAttrs>& attrs, std::vector<ValueId>& inputs);
  void check(const OpRecord& op, const std::vector<LaneAttrs>& attrs,
             const std::vector<ValueId>& inputs, size_t wanted);
  void walk_one(const Statement& statement);
  void walk_for(const Statement& statement);
  void walk_if(const Statement& statement);
  // Returns the current lanes on which a condition holds (lowering_condition.cpp).
  Lanes lanes_where(const Expr& condition);
  // Return nothing if each lane must be evaluated.
  std::optional<Lanes> lanes_at_once(const Expr& condition);
  std::optional<Lanes> lanes_of_comparison(const Expr& condition);
  // Returns the lanes of the listing by the value of an integer that depends on the rank alone.
  const std::map<int64_t, Lanes>* lanes_by_number(const Expr& expr);
  bool depends_on_rank_alone(const Expr& expr);
  void walk_assign(const Statement& statement);
  void walk_assign_index(const Statement& statement);
  ValueId value_of_line(ValueId result, size_t first);
  bool release_if_unheld(ValueId value, const Lanes& lanes);
  const ValueId* value_bound_here(const Expr& expr) const;
  Binding lower_binary(const Expr& expr);
  Binding lower_unary(const Expr& expr);
  ValueId lower_index(const Expr& base, const std::vector<IndexItem>& items,
                      const SourceLocation& place);
  bool indexes_by_place(const IndexItem& item);
  std::vector<IndexItem> spelled_out(const std::vector<IndexItem>& items, int dims,
                                     SourceLocation place);
  ValueId select(ValueId value, int64_t dim, const PerRankNumber& index);
  ValueId slice(ValueId value, const std::vector<const IndexItem*>& items);
  ValueId gather_by_index(ValueId value, const std::vector<const IndexItem*>& items,
                          const SourceLocation& place);
  ValueId infix(const char* symbol, std::vector<ValueId> inputs, Attrs attrs,
                const SourceLocation& place);
  NumberScope scope(int64_t rank);
  // Returns what an unknown name may mean, such as `; did you mean "x"?`.
  std::string nearest_name(const std::string& name);
  bool differs_by_rank(const Expr& expr);

  const Lanes listing_lanes_;
  std::map<std::string, std::map<int64_t, Lanes>> lanes_by_number_;  // by the text of the number
};

}  // namespace shardproof
