// RankLowerer: the lowering of one listing of rank programs. It implements the virtual functions of
// Lowering: emission of instructions with lanes and streams, collectives, streams, events, groups
// and checks. Internal to the engine.
//
// Sources: rank_lowering.cpp emits instructions. rank_lowerer_calls.cpp emits collectives and
// messages, rank_lowerer_check.cpp checks. rank_lowerer_arguments.cpp reads groups, peers, slots
// and waits. rank_lowerer_shards.cpp has steps of redistributions, and ops on shards of stated
// tensors. rank_lowerer_grad.cpp has writes in place on the tape, and the backward of calls.
#pragma once

#include <set>
#include <unordered_map>

#include "shardproof/engine/lower/bind_arguments.h"
#include "shardproof/engine/lower/lowering.h"
#include "shardproof/engine/lower/place_check.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/program/ir/step_text.h"

namespace shardproof {

// Returns the words that backward= of a call may be; none: grad stops at the call.
std::vector<std::string> backward_words(CollectiveKind kind);

// Returns the shape of a collective's result. Throws Error(bad_input) if a dim does not divide.
Dims result_shape(CollectiveKind kind, Dims shape, int dim, int dim2, int64_t n);
// Returns the lanes that have a result: for reduce and gather, only the root.
Lanes lanes_with_result(const Collective& c, const Lanes& lanes);

class RankLowerer : public Lowering {
 public:
  // `path`: JSON pointer of the listing.
  RankLowerer(const Job& job, const OpRegistry& ops, RankProgram& into, SpmdListing& listing,
              std::string path, TruthOfChecks& truth);
  void run(const Listing& listing);

 protected:
  std::vector<ValueId> emit_op(const OpRecord& op, std::vector<LaneAttrs> attrs,
                               std::vector<ValueId> inputs, size_t wanted) override;
  bool repeats_op(const OpRecord& op, const std::vector<LaneAttrs>& attrs,
                  const std::vector<ValueId>& inputs, size_t wanted) const override;
  ValueId emit_number(const PerRankNumber& number) override;
  ValueId emit_merge(const std::vector<std::pair<Lanes, ValueId>>& parts) override;
  ValueId emit_alias(ValueId value) override;
  std::optional<std::vector<ValueId>> special(const Expr& call, bool wants_value) override;
  std::optional<Number> number_function(const std::string& verb, const std::string& argument,
                                        int64_t rank) override;
  bool rank_dependent(const std::string& name) override;
  std::optional<Number> number_name(const std::string& name, int64_t rank) override;
  std::vector<std::string> number_names() override;
  std::optional<PerRankNumber> shape_number(const Expr& call) override;
  bool define(const std::string& name, const Expr& value) override;
  void enter_stream(const std::string& name) override;
  void leave_stream() override;
  void enter_group() override;
  void leave_group() override;
  void write_in_place(ValueId target, ValueId source) override;
  void write_result_in_place(ValueId target, ValueId result) override;
  void begin_claim(const Statement& statement) override;
  ValueId end_claim(ValueId value, const Statement& statement) override;
  void named(ValueId value, const std::string& name) override;
  void unnamed(ValueId value, const Lanes& lanes) override;
  TensorMeta meta_of(ValueId value) override;
  std::vector<Lanes> equal_shapes(const std::vector<ValueId>& values) override;
  std::vector<Lanes> equal_dtypes(const Statement& statement) override;
  std::string name_of_value(ValueId id) const override { return value(id).bound; }
  void mark_recomputed(ValueId id) override { into_.recomputed.insert(id); }
  size_t instruction_count() const override { return listing_.instrs.size(); }
  size_t value_count() const override { return into_.program.values.size(); }
  void remove_dead(size_t first, const std::vector<ValueId>& results) override;
  std::vector<ValueId> in_own_memory(std::vector<ValueId> values, size_t first) override;

 private:
  // The arguments of a verb that is not an op, by position and key.
  struct Arguments {
    const Expr* call = nullptr;
    std::vector<const Expr*> positional;
    std::map<std::string, const Expr*> keys;
    // Returns an argument by key or position; null if it is not written.
    const Expr* next_argument(size_t position, const std::string& key) const;
  };
  Arguments arguments_of(const Expr& call, size_t most, std::vector<std::string> keys);
  [[noreturn]] void refuse_unnamed(const Arguments& args, size_t most,
                                   const std::vector<std::string>& keys);
  // Returns a dim counted from 0. Errors have the position of the argument.
  int dim_argument(const Arguments& args, const char* key, int64_t dim, int dims);

  // Emits a call for each mesh whose axis its group names, and merges the results.
  std::vector<ValueId> on_each_mesh(const Expr& call, CollectiveKind kind, bool in_place);
  std::vector<ValueId> communicate(const Expr& call, CollectiveKind kind, bool in_place);
  // The numbers of a collective, by lane, as far as its kind has them.
  struct CollectiveNumbers {
    std::optional<PerRankNumber> dim, split, concat, root, factor;
  };
  CollectiveNumbers numbers_of(const Expr& call, CollectiveKind kind, const Arguments& args);
  // Sets dtype, dims and count of the item, for lanes with one shape. Returns the result's shape.
  Dims place_input(CallItem& item, const CollectiveNumbers& numbers, const Arguments& args);
  std::vector<ValueId> collective(const Expr& call, CollectiveKind kind, bool in_place);
  std::vector<ValueId> exchange_v(const Expr& call);
  std::vector<ValueId> point_to_point(const Expr& call, CollectiveKind kind);
  std::vector<ValueId> one_sided(const Expr& call, CollectiveKind kind);
  std::vector<ValueId> slot_read(const Expr& call);
  // Returns the shape and the dtype that shape= and dtype= give, for values that come from others.
  struct WrittenValue {
    PerRankNumber shape;
    DType dtype = DType::f32;
    Dims shape_on(int64_t rank) const;
  };
  WrittenValue written_value(const Arguments& args, const SourceLocation& place, const char* form);
  void wait_for(const Expr& call, Wait::Waiter who);
  bool is_event(const std::string& name, const SourceLocation& place);
  void free_or_keep(const Expr& call, bool keep);

  void lower_check(const Expr& call);  // rank_lowerer_check.cpp
  WrittenCheck read_check(const Expr& call);
  void refuse_check_of_last_value(const WrittenCheck& written, const Expr& call);
  void lower_check_part(const WrittenCheck& written, const CheckPart& part);
  std::vector<LocalShape> fitting_shapes(const WrittenCheck& written, ValueId id, const Spec& spec,
                                         const std::string& shown);

  // rank_lowerer_shards.cpp
  std::optional<std::vector<ValueId>> on_shards(const Expr& call, bool wants_value);
  ShardsArgument read_shards(const Expr& expr);
  std::vector<ValueId> op_on_shards(const OpRecord& op, const Expr& call, const Expr& shards);
  PlanStep read_step(const Arguments& args, StepKind kind, ValueId input);
  void read_pieces(const Expr& expr, PlanStep& step);
  std::vector<ValueId> local_step(const Expr& call);
  std::vector<ValueId> call_step(const Expr& call, StepKind kind);
  std::vector<ValueId> transfer(const Expr& call, bool wants_value);
  void state_shards(Compute& compute);
  void require_on_mesh(const Spec& spec, const char* what);
  void require_shard(ValueId id, const Spec& spec, const char* what);

  // Splits the current lanes by the mesh that has the axes of the call's group.
  std::vector<Lanes> lanes_by_mesh(const Expr& call);
  std::vector<const Mesh*> meshes_having(const std::vector<std::string>& axes) const;
  std::vector<std::string> group_text(const Expr& expr);  // names of axes, or of one group
  Group group_of(const Expr* expr, ValueId value);
  Group axes_group(const std::vector<std::string>& names, const SourceLocation& place,
                   ValueId value);
  std::optional<PerRankNumber> factor_of(const Expr* expr);  // factor of premul_sum(factor)
  Reduction reduction_of(const Expr* expr, const SourceLocation& place,
                         const std::optional<PerRankNumber>& factor, int64_t rank);
  // Returns the index in the group of each lane's peer: a number, `next` or `prev`.
  PerRankNumber peer_of(const Expr* expr, const Group& group, const char* what,
                        const SourceLocation& place);
  ValueId tensor_argument(const Expr* expr, const SourceLocation& place, const char* what);
  Dims shape_on(ValueId value, int64_t rank) const;
  void refine_by(LaneClasses& classes, ValueId id, const Lanes& lanes) const;
  std::vector<Lanes> classes_of(const std::vector<ValueId>& values,
                                std::vector<const PerRankNumber*> numbers);

  // The values that own the memory of a value, by lanes: a view has the memory of its input.
  using Memory = std::vector<std::pair<Lanes, ValueId>>;
  Memory memory_of(ValueId id) const;
  bool shares(const Memory& memory, ValueId id, const Lanes& lanes) const;
  // Marks all names that share its memory as written by this line.
  void wrote(ValueId target);
  // rank_lowerer_grad.cpp
  // Emits the gradient by the input of calls from that by their result, on the current lanes.
  using Backward = std::function<ValueId(ValueId)>;
  // Returns the backward that a call states with backward=; null: grad stops at the call.
  Backward backward_of(const Arguments& args, const std::vector<CallItem>& items, ValueId output);
  Backward backward_reduce(const std::string& word, std::vector<CallItem> items, ValueId output);
  // Emits calls of another kind on the groups, dims and roots of the items.
  // Emits the gradient by the input of a call from the gradient by its result.
  using Adjoint = std::function<ValueId(const std::vector<CallItem>&, ValueId)>;
  // A call that grad writes has a gradient itself: `adjoint`.
  ValueId call_like(const std::vector<CallItem>& items, CollectiveKind kind, ValueId input,
                    Adjoint adjoint);
  // Emits the call `back` as the gradient of `kind`, whose own gradient is `kind`.
  Adjoint adjoint_pair(CollectiveKind kind, CollectiveKind back);
  ValueId exchange_back(const std::vector<CallItem>& items, ValueId input);
  ValueId own_chunk(const std::vector<CallItem>& items, ValueId input);
  ValueId at_root(const std::vector<CallItem>& items, ValueId input);
  ValueId scaled(const std::vector<CallItem>& items, ValueId input);
  ValueId for_holders(const std::vector<CallItem>& items, ValueId gradient, ValueId output);
  ValueId emit_named(const char* op, Attrs attrs, std::vector<ValueId> inputs);
  ValueId emit_infix(const char* symbol, ValueId a, ValueId b);
  // `items`: what recompute= makes again; empty: it does not take the result.
  void record_call(const std::string& verb, ValueId input, ValueId output, Backward backward,
                   std::vector<CallItem> items = {});
  // Emits the calls of the items again on another value of the same shapes, on the current lanes.
  ValueId repeat_call(const std::string& verb, std::vector<CallItem> items, ValueId input,
                      Backward backward);
  std::vector<ValueId> enter(const Expr& call);
  // Records on the tape that `source` was written into the target on the current lanes.
  void record_write(ValueId target, ValueId source);
  void record_write_on(TapeEntry write, ValueId target, std::vector<ValueId> sources,
                       ValueId owner);
  // Returns the tape entries of the views and merges that lead from the owner of the memory to a
  // value, on the current lanes.
  std::vector<size_t> views_to(ValueId id, ValueId owner);
  bool has_one_shape(ValueId id, const Lanes& lanes) const;
  // An input or output of an op on the ranks of the listing; an absent input has no shapes.
  struct RankMeta {
    DType dtype = DType::f32;
    LocalShapes shapes;
    bool weak = false;
  };
  // Holds the name of an op, and the arguments and outputs of its last instruction.
  struct KnownOp {
    SharedText name;
    Attrs attrs;
    Lanes lanes;  // empty: the outputs are not known
    std::vector<RankMeta> inputs, outputs;
    size_t wanted = 0;
  };
  std::vector<TensorMeta> infer_on(const OpRecord& op, const Attrs& attrs,
                                   const std::vector<ValueId>& inputs, int64_t rank);
  std::vector<RankMeta> infer_outputs(const OpRecord& op, const std::vector<LaneAttrs>& attrs,
                                      const std::vector<ValueId>& inputs);
  // Return shapes as those of an input if they are equal.
  LocalShapes shared_shape(const std::vector<ValueId>& inputs, const Lanes& lanes,
                           const Dims& shape) const;
  LocalShapes shared_shapes(const std::vector<ValueId>& inputs, LocalShapes shapes) const;
  void add_streams(const std::vector<Statement>& statements);
  ValueId add_value(DType dtype, LocalShapes shapes, Category category);
  Instr& add(Action action);
  void add_calls(std::vector<CallItem> items);  // submitted together, or added to an open group
  const SpmdValue& value(ValueId id) const { return into_.program.values[static_cast<size_t>(id)]; }

  const Job& job_;
  RankProgram& into_;
  SpmdListing& listing_;
  std::string path_;
  TruthOfChecks& truth_;
  std::map<std::string, Number> numbers_;
  std::vector<SharedText> streams_{main_stream()};
  bool mixes_dtypes_ = false;   // a name has another dtype on some ranks
  bool frees_at_once_ = false;  // no line needs a value after its Free: neither grad nor keep
  int group_depth_ = 0;
  std::optional<ShardsArgument> shards_;  // of the op `shards_op_`, which is lowered now
  std::string shards_op_;
  Communicate open_group_;
  Instrs after_group_;                   // instructions that must follow the open group
  std::set<ValueId> group_results_;      // results of the open group's calls
  std::map<std::string, Lanes> events_;  // lanes that recorded the event; a later binding hides it
  std::set<std::string> known_streams_;  // of all lines, if the name is plain; else of lines so far
  std::map<ValueId, Memory> memory_;     // values without memory of their own: views and merges
  // A bound name and the number of values that have it, which makes their names unique.
  struct BoundName {
    SharedText text;
    int uses = 0;
  };
  std::unordered_map<std::string, BoundName> uses_;
  std::unordered_map<const OpRecord*, KnownOp> known_ops_;
};

}  // namespace shardproof
