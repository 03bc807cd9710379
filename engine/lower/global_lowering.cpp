// Implements global_lowering.h: the virtual functions of lowering.h, for one lane. Each op becomes
// one instruction with inferred shapes; redistribute and `as` become instructions of their own;
// verbs of rank programs are refused.
#include "shardproof/engine/lower/global_lowering.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "shardproof/engine/lower/bind_arguments.h"
#include "shardproof/engine/lower/lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/torch_names.h"
#include "shardproof/program/value/quantity.h"

namespace shardproof {
namespace {

// Returns what a global program does in place of a verb of rank programs.
std::string_view advice_for(const std::string& verb) {
  if (verb == "free" || verb == "keep") return "values are freed by themselves: leave out the line";
  if (verb == "enter") return "grad makes the call of the backward: write x itself";
  if (verb == "copy_") return "bind a new value, as in x = y";
  for (const char* order : {"wait", "sync", "record", "barrier", "signal", "wait_signal"})
    if (verb == order) return "lines run in order: leave out the line";
  return "write redistribute";
}

class GlobalLowering : public Lowering {
 public:
  GlobalLowering(const GlobalContext& context, GlobalProgram& into, bool is_truth)
      : Lowering(*context.ops, Lanes::one(0)), context_(context), into_(into), is_truth_(is_truth) {
    for (const auto& [name, meta] : context.inputs) {
      GlobalValue value;
      value.name = name;
      value.dtype = meta.dtype;
      value.shape = meta.shape;
      const ValueId id = static_cast<ValueId>(into_.values.size());
      into_.values.push_back(std::move(value));
      into_.inputs.push_back(id);
      names_.add(name, {lanes_, id, 0});
    }
  }

  void run(const Listing& listing) {
    start_tape(listing);
    walk(listing.statements);
    for (const auto& [name, parts] : names_.all())
      for (const NameTable::Part& part : parts)
        if (const ValueId* id = std::get_if<ValueId>(&part.binding); id && !local_.contains(*id))
          into_.names.insert_or_assign(into_.names.end(), name, *id);
  }

 protected:
  std::vector<ValueId> emit_op(const OpRecord& op, std::vector<LaneAttrs> attrs,
                               std::vector<ValueId> inputs, size_t /*wanted*/) override {
    GlobalInstr instr;
    instr.op = op.name;
    instr.attrs = std::move(attrs.at(0).attrs);
    instr.inputs = std::move(inputs);
    OpCall call{&instr.attrs, {}};
    for (ValueId id : instr.inputs) {
      if (!claiming_) require_placed(id);
      call.inputs.push_back(meta_of(id));
    }
    for (const TensorMeta& meta : op.infer(call)) instr.outputs.push_back(add(meta));
    instr.local = claiming_;
    instr.origin = origin();
    into_.instrs.push_back(std::move(instr));
    if (!claiming_)
      placed_by_op_.insert(into_.instrs.back().outputs.begin(), into_.instrs.back().outputs.end());
    return into_.instrs.back().outputs;
  }

  ValueId emit_number(const PerRankNumber& number) override {
    const Number& n = number.values.at(0);
    if (n.is_list() || n.is_text()) fail(place_, "expected a number, found a list or a text");
    const ValueId id = add({dtype_of(n), Dims{}, true, false});
    into_.values[static_cast<size_t>(id)].number = n;
    return id;
  }

  std::optional<std::vector<ValueId>> special(const Expr& call, bool wants_value) override {
    if (call.symbol == "redistribute") {
      if (!wants_value)
        fail(call.place, "the result of redistribute is dropped; bind it to a name");
      return redistribute(call);
    }
    if (call.symbol == "relabel") {
      if (!wants_value) fail(call.place, "the result of relabel is dropped; bind it to a name");
      return relabel(call);
    }
    if (call.symbol == "check")
      fail(call.place,
           is_truth_ ? "check belongs to rank programs: it compares them with this truth"
                     : "check belongs to rank programs; all lines of a global program are compared "
                       "anyway");
    for (const std::string& verb : special_verbs())
      if (call.symbol == verb || call.symbol == verb + "_")
        fail(call.place, fmt::format("{} belongs to rank programs (\"ranks\"); in a global program "
                                     "{}{}",
                                     call.symbol, advice_for(verb), namesake_hint(verb)));
    return std::nullopt;
  }

  std::optional<Number> number_function(const std::string& verb, const std::string& argument,
                                        int64_t) override {
    if (verb == "index") throw_bad_input("index(axis) belongs to rank programs");
    if (verb != "size") return std::nullopt;
    NearestName nearest(argument);
    for (const auto& [key, mesh] : context_.meshes) {
      if (const std::optional<int> axis = mesh.find_axis(argument))
        return Number(mesh.axes()[static_cast<size_t>(*axis)].size);
      for (const MeshAxis& axis : mesh.axes()) nearest.offer(axis.name);
    }
    throw_bad_input("unknown axis {}{}", argument, nearest.hint());
  }

  bool rank_dependent(const std::string&) override { return false; }
  std::optional<Number> number_name(const std::string& name, int64_t) override {
    for (const auto& [known, number] : context_.numbers)
      if (known == name) return number;
    return std::nullopt;
  }
  std::vector<std::string> number_names() override {
    std::vector<std::string> names;
    for (const auto& [name, number] : context_.numbers) names.push_back(name);
    return names;
  }
  std::optional<PerRankNumber> shape_number(const Expr&) override { return std::nullopt; }
  void enter_stream(const std::string&) override {
    fail(place_, "streams belong to rank programs");
  }
  void leave_stream() override {}
  void enter_group() override { fail(place_, "group: belongs to rank programs"); }
  void leave_group() override {}
  bool define(const std::string&, const Expr&) override { return false; }
  ValueId emit_merge(const std::vector<std::pair<Lanes, ValueId>>&) override {
    SP_UNREACHABLE("a global program has one lane");
  }
  // A redistribution without placements moves nothing.
  ValueId emit_alias(ValueId value) override {
    require_placed(value);
    GlobalInstr instr;
    instr.kind = GlobalKind::redistribute;
    instr.inputs = {value};
    instr.origin = origin();
    const ValueId made = emit_move(std::move(instr));
    second_names_[made] = value;
    return made;
  }
  void write_in_place(ValueId, ValueId) override {
    fail(place_,
         "a global program cannot write in place; bind a new value, as in x = x + y or x = "
         "slice_scatter(x, y, dim, start, end)");
  }

  bool has_known_sizes() const override { return !claiming_; }
  void begin_claim(const Statement&) override { claiming_ = true; }
  ValueId end_claim(ValueId value, const Statement& statement) override {
    claiming_ = false;
    if (statement.is_local) {
      if (into_.instrs.empty() || !into_.instrs.back().local || !is_result(value))
        fail(statement.place, "`as local` follows the call of an op, as in h = mul(x, x) as local");
      local_.insert(value);
      return value;
    }
    GlobalInstr instr;
    instr.kind = GlobalKind::claim;
    instr.inputs = {value};
    instr.placements = statement.claim;
    instr.origin = origin();
    return emit_written_move(std::move(instr));
  }

  std::string name_of_value(ValueId id) const override {
    return into_.values[static_cast<size_t>(id)].name;
  }
  ValueId place_gradient(ValueId gradient, ValueId value) override {
    require_placed(value);
    return add_move(GlobalKind::redistribute, gradient, value, false);
  }
  ValueId enter_claim(ValueId gradient, ValueId result) override {
    return add_move(GlobalKind::redistribute, gradient, result, true);
  }
  ValueId leave_claim(ValueId gradient, ValueId input) override {
    return add_move(GlobalKind::claim, gradient, input, true);
  }
  bool set_local(bool local) override { return std::exchange(claiming_, local); }
  void mark_recomputed(ValueId id) override { into_.recomputed.insert(id); }
  size_t instruction_count() const override { return into_.instrs.size(); }
  size_t value_count() const override { return into_.values.size(); }
  void remove_dead(size_t first, const std::vector<ValueId>& results) override {
    std::set<ValueId> live(results.begin(), results.end());
    std::vector<GlobalInstr> kept;
    for (size_t i = into_.instrs.size(); i-- > first;) {
      GlobalInstr& instr = into_.instrs[i];
      if (std::none_of(instr.outputs.begin(), instr.outputs.end(),
                       [&](ValueId id) { return live.contains(id); }))
        continue;
      live.insert(instr.inputs.begin(), instr.inputs.end());
      kept.push_back(std::move(instr));
    }
    into_.instrs.resize(first);
    into_.instrs.insert(into_.instrs.end(), std::make_move_iterator(kept.rbegin()),
                        std::make_move_iterator(kept.rend()));
  }

  void named(ValueId id, const std::string& name) override {
    GlobalValue& value = into_.values[static_cast<size_t>(id)];
    if (value.name.empty()) value.name = name;
    // After `w = new`, the op that made `new` redistributes it to the placement of w.
    while (second_names_.contains(id)) id = second_names_.at(id);
    GlobalValue& made = into_.values[static_cast<size_t>(id)];
    // `as` and redistribute state a placement themselves.
    if (made.state_of != kNoValue || !placed_by_op_.contains(id)) return;
    for (const ValueId input : into_.inputs)
      if (const GlobalValue& state = into_.values[static_cast<size_t>(input)];
          state.name == name && state.shape == made.shape)
        made.state_of = input;
  }
  void unnamed(ValueId, const Lanes&) override {}
  std::vector<Lanes> equal_shapes(const std::vector<ValueId>&) override { return {lanes_}; }
  TensorMeta meta_of(ValueId id) override {
    if (id == kNoValue) return {DType::f32, {}, false, true};
    const GlobalValue& value = into_.values[static_cast<size_t>(id)];
    return {value.dtype, value.shape, value.weak, false};
  }

 private:
  ValueId add(const TensorMeta& meta) {
    GlobalValue value;
    value.dtype = meta.dtype;
    value.shape = meta.shape;
    value.weak = meta.weak;
    value.origin = origin();
    into_.values.push_back(std::move(value));
    return static_cast<ValueId>(into_.values.size() - 1);
  }

  // `repeat`: see TapeEntry.
  void record_move(TapeKind kind, ValueId from, ValueId to,
                   std::function<ValueId(ValueId)> repeat) {
    if (!tape_) return;
    TapeEntry entry = tape_entry(kind);
    entry.local = false;  // both make global values, inside `as` too
    entry.repeat = std::move(repeat);
    tape_->record(std::move(entry), {from}, {to});
  }

  // Emits a redistribution or a claim that a line writes: recompute= takes its result.
  ValueId emit_written_move(GlobalInstr instr) {
    std::function<ValueId(ValueId)> repeat;
    if (tape_)
      repeat = [this, written = instr](ValueId again) {
        GlobalInstr repeated = written;
        repeated.inputs = {again};
        repeated.origin = origin();
        return emit_written_move(std::move(repeated));
      };
    return emit_move(std::move(instr), std::move(repeat));
  }

  // Emits a redistribution or a claim, whose input is set, and returns its result.
  ValueId emit_move(GlobalInstr instr, std::function<ValueId(ValueId)> repeat = nullptr) {
    const ValueId value = instr.inputs[0];
    const GlobalValue from = into_.values[static_cast<size_t>(value)];
    const ValueId made = add({from.dtype, from.shape, from.weak, false});
    const TapeKind kind = instr.kind == GlobalKind::claim ? TapeKind::claim : TapeKind::move;
    instr.outputs = {made};
    into_.instrs.push_back(std::move(instr));
    record_move(kind, value, made, std::move(repeat));
    return made;
  }

  // Emits a redistribution or a claim with the placements (or their dual) of another value.
  ValueId add_move(GlobalKind kind, ValueId value, ValueId like, bool dual) {
    if (into_.values[static_cast<size_t>(like)].weak) return value;
    GlobalInstr instr;
    instr.kind = kind;
    instr.inputs = {value};
    instr.like = like;
    instr.dual = dual;
    instr.origin = origin();
    return emit_move(std::move(instr));
  }

  // Returns what to write in place of an argument that is no placement: tp:R for an axis tp.
  std::string placement_hint(const Expr& arg) const {
    if (arg.kind == ExprKind::name && arg.name.plain())
      for (const auto& [key, mesh] : context_.meshes)
        if (mesh.find_axis(arg.name.texts[0]))
          return fmt::format("; write {}:R", arg.name.texts[0]);
    return torch_placement_hint(arg);
  }

  std::vector<ValueId> redistribute(const Expr& call) {
    GlobalInstr instr;
    instr.kind = GlobalKind::redistribute;
    instr.origin = origin();
    for (size_t i = 0; i < call.args.size(); ++i) {
      const Expr& arg = call.args[i];
      if (call.keys[i] == "mesh") {
        instr.mesh = mesh_key(arg);
      } else if (call.keys[i] == "like" || call.keys[i] == "dual") {
        if (instr.like != kNoValue) fail(arg.place, "expected like= or dual=, found both");
        instr.like = lower_value(arg);
        instr.dual = call.keys[i] == "dual";
      } else if (call.keys[i] == "peak_limit") {
        instr.peak_limit = peak_limit_of(arg);
      } else if (!call.keys[i].empty()) {
        fail(arg.place, fmt::format("redistribute has no argument {}; write placements as in "
                                    "redistribute(x, tp:S(0) dp:R)",
                                    call.keys[i]));
      } else if (arg.kind == ExprKind::placements) {
        if (!arg.on.empty())
          fail(
              arg.on_place,
              fmt::format("redistribute applies to all ranks of a mesh; remove \"on {}\"", arg.on));
        instr.placements.insert(instr.placements.end(), arg.placements.begin(),
                                arg.placements.end());
      } else if (instr.inputs.empty()) {
        if (!instr.placements.empty())
          fail(arg.place, "redistribute takes the tensor first, as in redistribute(x, tp:S(0))");
        instr.inputs.push_back(lower_value(arg));
      } else {
        fail(arg.place, fmt::format("expected placements such as tp:S(0), found {}{}",
                                    to_string(arg), placement_hint(arg)));
      }
    }
    if (instr.inputs.empty()) fail(call.place, "redistribute needs a tensor");
    require_placed(instr.inputs[0]);
    if (instr.placements.empty() && instr.mesh.empty() && instr.like == kNoValue)
      fail(call.place, "redistribute needs placements, as in redistribute(x, tp:S(0))");
    check_like(instr, call.place);
    return {emit_written_move(std::move(instr))};
  }

  int64_t peak_limit_of(const Expr& arg) {
    if (arg.kind != ExprKind::text)
      fail(arg.place,
           fmt::format("peak_limit: expected a size such as '40 KiB', found {}", to_string(arg)));
    try {
      return parse_quantity(name_of(arg.name), Unit::bytes).whole;
    } catch (const Error& error) {
      fail(arg.place, "peak_limit: " + error.message());
    }
  }

  // relabel(x, dual=y): x computed on local shards, with the placements that gradients of y have.
  std::vector<ValueId> relabel(const Expr& call) {
    if (call.args.size() != 2 || !call.keys[0].empty() ||
        (call.keys[1] != "dual" && call.keys[1] != "like"))
      fail(call.place,
           "relabel takes a tensor and dual= or like=, as in relabel(dx, dual=x); other placements "
           "are claimed by `as`");
    GlobalInstr instr;
    instr.kind = GlobalKind::claim;
    instr.origin = origin();
    const bool outer = set_local(true);
    instr.inputs = {lower_value(call.args[0])};
    set_local(outer);
    instr.like = lower_value(call.args[1]);
    instr.dual = call.keys[1] == "dual";
    check_like(instr, call.place);
    return {emit_written_move(std::move(instr))};
  }

  void check_like(const GlobalInstr& instr, const SourceLocation& place) {
    if (instr.like == kNoValue) return;
    if (!instr.placements.empty() || !instr.mesh.empty())
      fail(place, "redistribute takes placements or like= or dual=, found two of them");
    require_placed(instr.like);
    const GlobalValue& like = into_.values[static_cast<size_t>(instr.like)];
    const GlobalValue& value = into_.values[static_cast<size_t>(instr.inputs[0])];
    if (!(like.shape == value.shape))
      fail(place, fmt::format("like= needs a value of shape {}, found {}", to_string(value.shape),
                              to_string(like.shape)));
  }

  bool is_result(ValueId id) const {
    const std::vector<ValueId>& made = into_.instrs.back().outputs;
    return std::find(made.begin(), made.end(), id) != made.end();
  }

  // Throws Error if a line that states no placements reads a result of `as local`.
  void require_placed(ValueId id) {
    if (local_.contains(id))
      fail(place_,
           fmt::format("{} has no placements (`as local`); read it on a line that ends with "
                       "`as`, such as y = .. as tp:P(sum)",
                       name_of_value(id)));
  }

  std::string mesh_key(const Expr& expr) {
    const bool quoted = expr.kind == ExprKind::text;
    const std::string key = expr.kind == ExprKind::name || quoted ? name_of(expr.name) : "";
    NearestName nearest(key);
    for (const auto& [known, mesh] : context_.meshes) {
      if (known == key && quoted)
        fail(expr.place, fmt::format("expected the name of a mesh without quotes, as in mesh={}, "
                                     "found {}",
                                     key, to_string(expr)));
      if (known == key) return key;
      nearest.offer(known);
    }
    fail(expr.place, fmt::format("unknown mesh {}{}", to_string(expr), nearest.hint()));
  }

  const GlobalContext& context_;
  GlobalProgram& into_;
  bool is_truth_;
  bool claiming_ = false;
  std::set<ValueId> local_;                  // results of `as local`
  std::map<ValueId, ValueId> second_names_;  // of `y = x`: y to x
  std::set<ValueId> placed_by_op_;           // results of ops with placements that a rule chooses
};

}  // namespace

GlobalContext context_of(const Job& job, const OpRegistry& ops) {
  GlobalContext context;
  context.ops = &ops;
  context.numbers = job.numbers;
  context.meshes = job.meshes;
  for (const JobInput& input : job.inputs)
    context.inputs.emplace_back(input.name, TensorMeta{input.spec.dtype(), input.spec.shape()});
  return context;
}

GlobalProgram lower_global(const Listing& listing, const GlobalContext& context,
                           const std::string& path) {
  GlobalProgram program;
  program.lines = listing.lines;
  try {
    GlobalLowering(context, program, path == "/truth").run(listing);
  } catch (const Error& error) {
    throw error.inside(Where{"", path, 0, 0});
  }
  return program;
}

}  // namespace shardproof
