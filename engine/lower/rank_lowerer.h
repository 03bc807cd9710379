// The walk of one rank listing: what Lowering leaves open, for rank programs. Internal to the
// engine.
#pragma once

#include <set>

#include "shardproof/engine/lower/bind_arguments.h"
#include "shardproof/engine/lower/lowering.h"
#include "shardproof/engine/lower/place_check.h"
#include "shardproof/engine/lower/rank_lowering.h"

namespace shardproof {

class RankLowerer : public Lowering {
 public:
  // `path`: JSON pointer of the listing.
  RankLowerer(const Job& job, const OpRegistry& ops, RankProgram& into, SpmdListing& listing,
              std::string path, TruthOfChecks& truth);
  void run(const Listing& listing);

 protected:
  std::vector<ValueId> emit_op(const OpRecord& op, std::vector<LaneAttrs> attrs,
                               std::vector<ValueId> inputs) override;
  ValueId emit_number(const PerRankNumber& number) override;
  ValueId emit_merge(const std::vector<std::pair<Lanes, ValueId>>& parts) override;
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
  void begin_claim(const Statement& statement) override;
  ValueId end_claim(ValueId value, const Statement& statement) override;
  void named(ValueId value, const std::string& name) override;
  void unnamed(ValueId value, const Lanes& lanes) override;
  TensorMeta meta_of(ValueId value) override;
  std::vector<Lanes> equal_shapes(const std::vector<ValueId>& values) override;
  std::vector<Lanes> equal_dtypes(const Statement& statement) override;

 private:
  // Arguments of a special verb, by position and key.
  struct Arguments {
    const Expr* call = nullptr;
    std::vector<const Expr*> positional;
    std::map<std::string, const Expr*> keys;
    const Expr* take(size_t position, const std::string& key) const;
  };
  Arguments arguments_of(const Expr& call, size_t most, std::vector<std::string> keys);
  // Counted from 0; what is wrong with it is told where it stands.
  int dim_argument(const Arguments& args, const char* key, int64_t dim, int dims);

  std::vector<ValueId> on_each_mesh(const Expr& call, CollectiveKind kind, bool in_place);
  std::vector<ValueId> communicate(const Expr& call, CollectiveKind kind, bool in_place);
  std::vector<ValueId> collective(const Expr& call, CollectiveKind kind, bool in_place);
  std::vector<ValueId> exchange_v(const Expr& call);
  std::vector<ValueId> point_to_point(const Expr& call, CollectiveKind kind);
  std::vector<ValueId> one_sided(const Expr& call, CollectiveKind kind);
  std::vector<ValueId> slot_read(const Expr& call);
  void wait_for(const Expr& call, Wait::Waiter who);
  bool is_event(const std::string& name, const SourceLocation& place);
  void free_or_keep(const Expr& call, bool keep);

  void lower_check(const Expr& call);  // rank_lowering_check.cpp
  WrittenCheck read_check(const Expr& call);
  void lower_check_part(const WrittenCheck& written, const CheckPart& part);
  std::vector<LocalShape> fitting_shapes(const WrittenCheck& written, ValueId id, const Spec& spec,
                                         const std::string& shown);

  // The current lanes, cut where the axes of the call's group are those of different meshes.
  std::vector<Lanes> lanes_by_mesh(const Expr& call);
  std::vector<const Mesh*> meshes_having(const std::vector<std::string>& axes) const;
  std::vector<std::string> group_text(const Expr& expr);  // axes, or the name of a group
  Group group_of(const Expr* expr, ValueId value);
  Group axes_group(const std::vector<std::string>& names, const SourceLocation& place,
                   ValueId value);
  std::optional<PerRankNumber> factor_of(const Expr* expr);  // of premul_sum(factor)
  Reduction reduction_of(const Expr* expr, const SourceLocation& place, int64_t rank);
  // An index in the group per lane: a number, `next` or `prev`.
  PerRankNumber peer_of(const Expr* expr, const Group& group, const char* what,
                        const SourceLocation& place);
  ValueId tensor_argument(const Expr* expr, const SourceLocation& place, const char* what);
  Dims shape_on(ValueId value, int64_t rank) const;
  void refine_by(LaneClasses& classes, ValueId id, const Lanes& lanes) const;
  std::vector<Lanes> classes_of(const std::vector<ValueId>& values,
                                std::vector<const PerRankNumber*> numbers);

  // The values that own what a value is made of, and on which lanes.
  using Memory = std::vector<std::pair<Lanes, ValueId>>;
  Memory memory_of(ValueId id) const;
  bool shares(const Memory& memory, ValueId id, const Lanes& lanes) const;
  void wrote(ValueId target);  // in place: all names that see it were last written here
  ValueId add_value(DType dtype, std::vector<LocalShape> shapes, Category category);
  Instr& add(Action action);
  void add_calls(std::vector<CallItem> items);  // one submit, or part of an open `group:`
  const SpmdValue& value(ValueId id) const { return into_.program.values[static_cast<size_t>(id)]; }

  const Job& job_;
  RankProgram& into_;
  SpmdListing& listing_;
  std::string path_;
  TruthOfChecks& truth_;
  std::map<std::string, Number> numbers_;
  std::vector<std::string> streams_{"main"};
  bool mixes_dtypes_ = false;  // a name has another dtype on some ranks
  int group_depth_ = 0;
  Communicate open_group_;
  std::vector<Instr> after_group_;       // work that may only follow the open group
  std::set<ValueId> group_results_;      // what the open group's calls will give
  std::map<std::string, Lanes> events_;  // where it is recorded; a name bound since then hides it
  std::set<std::string> known_streams_;
  std::map<ValueId, Memory> memory_;  // of values that have none of their own: views and merges
  std::map<std::string, int> uses_;   // for unique value names
};

}  // namespace shardproof
