// Lowering: from the tree of a listing to instructions. One walk serves both kinds of program; what
// differs is how values are emitted (global_lowering, rank_lowering).
//
// The walk runs for a set of lanes at once. A number may differ by lane (`rank`, `index(tp)`); a
// condition that differs cuts the lanes and both branches are walked under their mask. A name
// means, on each lane, what that lane bound last. A global program has one lane.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "shardproof/engine/lower/per_rank_number.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/program/syntax/evaluate.h"

namespace shardproof {

using Binding = std::variant<ValueId, PerRankNumber>;

class Lowering {
 public:
  virtual ~Lowering() = default;

 protected:
  Lowering(const OpRegistry& ops, Lanes lanes) : ops_(ops), lanes_(std::move(lanes)) {}
  void walk(const std::vector<Statement>& statements);

  // What the two kinds of program do differently.
  virtual std::vector<ValueId> emit_op(const OpRecord& op, std::vector<LaneAttrs> attrs,
                                       std::vector<ValueId> inputs) = 0;
  virtual ValueId emit_number(const PerRankNumber& number) = 0;
  virtual ValueId emit_merge(const std::vector<std::pair<Lanes, ValueId>>& parts) = 0;
  // Verbs that are no ops (redistribute, collectives, wait, ...): nullopt when the verb is not one.
  virtual std::optional<std::vector<ValueId>> special(const Expr& call, bool wants_value) = 0;
  virtual std::optional<Number> number_function(const std::string& verb,
                                                const std::string& argument, int64_t rank) = 0;
  virtual bool rank_dependent(const std::string& name) = 0;
  virtual std::optional<Number> number_name(const std::string& name, int64_t rank) = 0;
  virtual std::vector<std::string> number_names() = 0;  // that the file gives, for "did you mean"
  // dim(x, 0), start(x, 0) as numbers, where the program kind has them.
  virtual std::optional<PerRankNumber> shape_number(const Expr& call) = 0;
  // `e = record()`: true when the name was defined as something other than a value or a number.
  virtual bool define(const std::string& name, const Expr& value) = 0;
  virtual void enter_stream(const std::string& name) = 0;
  virtual void leave_stream() = 0;
  virtual void enter_group() = 0;
  virtual void leave_group() = 0;
  virtual void write_in_place(ValueId target, ValueId source) = 0;
  virtual void begin_claim(const Statement& statement) = 0;
  virtual ValueId end_claim(ValueId value, const Statement& statement) = 0;
  virtual void named(ValueId value, const std::string& name) = 0;  // a value got its name
  virtual void unnamed(ValueId value, const Lanes& lanes) = 0;  // no name holds it on these lanes
  virtual TensorMeta meta_of(ValueId value) = 0;                // on the first of the current lanes
  virtual std::vector<Lanes> equal_shapes(const std::vector<ValueId>& values) = 0;  // the same, cut
  // The lanes cut where a name that is read has another dtype; empty: nowhere.
  virtual std::vector<Lanes> equal_dtypes(const Statement&) { return {}; }

  virtual bool knows_sizes() const { return true; }  // not inside `as`, where each rank has its own
  // An op, or the ops that it is a name for (expand_op.cpp). `wanted`: names that are bound.
  std::vector<ValueId> emit(const OpRecord& op, std::vector<LaneAttrs> attrs,
                            std::vector<ValueId> inputs, size_t wanted);
  Binding lower(const Expr& expr);        // number or value
  ValueId lower_value(const Expr& expr);  // numbers become 0-d values
  ValueId value_of(const PerRankNumber& number);
  std::vector<ValueId> lower_call(const Expr& call, size_t wanted);  // 0: the result is dropped
  bool is_number(const Expr& expr);
  PerRankNumber lane_number(const Expr& expr);  // per lane where it differs
  Number uniform_number(const Expr& expr);      // Error when it differs by rank
  std::vector<ValueId> apply_op(const OpRecord& op, const Expr& call, bool in_place, size_t wanted);
  std::string name_of(const NameTemplate& name);
  // What a name means here: values of parts of the lanes are merged. nullopt: unbound.
  std::optional<Binding> find(const std::string& name, const SourceLocation& place);
  void bind(const std::string& name, Binding binding);
  void forget(const std::string& name);  // free(x)
  Origin origin() const;
  [[noreturn]] void fail(const SourceLocation& place, const std::string& message) const;

  const OpRegistry& ops_;
  Lanes lanes_;           // current mask
  SourceLocation place_;  // of the statement being walked
  std::string instance_;  // "i=2, j=0"
  struct Part {
    Lanes lanes;
    Binding binding;
    int line = 0;               // that last bound or wrote it
    std::string instance = {};  // in which pass
  };
  std::map<std::string, std::vector<Part>> names_;
  std::map<ValueId, PerRankNumber> numbers_made_;  // values that are numbers of the program
  int64_t steps_ = 0;                              // statements walked; a limit stops runaway loops

 private:
  class Expander;
  void check(const OpRecord& op, const std::vector<LaneAttrs>& attrs,
             const std::vector<ValueId>& inputs, size_t wanted);
  void walk_one(const Statement& statement);
  void walk_for(const Statement& statement);
  void walk_if(const Statement& statement);
  void walk_assign(const Statement& statement);
  void walk_assign_index(const Statement& statement);
  std::vector<std::pair<ValueId, Lanes>> take_out(const std::string& name);  // what it held
  bool release_if_unheld(ValueId value, const Lanes& lanes);
  Binding lower_binary(const Expr& expr);
  Binding lower_unary(const Expr& expr);
  ValueId lower_index(const Expr& base, const std::vector<IndexItem>& items,
                      const SourceLocation& place);
  bool indexes_by_place(const IndexItem& item);
  std::vector<IndexItem> spelled_out(const std::vector<IndexItem>& items, int dims,
                                     SourceLocation place);
  ValueId select(ValueId value, int64_t dim, const PerRankNumber& index);
  ValueId slice(ValueId value, const std::vector<const IndexItem*>& items);
  ValueId take(ValueId value, const std::vector<const IndexItem*>& items,
               const SourceLocation& place);
  ValueId infix(const char* symbol, std::vector<ValueId> inputs, Attrs attrs,
                const SourceLocation& place);
  NumberScope scope(int64_t rank);
  std::string nearest_name(const std::string& name);  // "; did you mean ..", or nothing
  bool differs_by_rank(const Expr& expr);
};

}  // namespace shardproof
