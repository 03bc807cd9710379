// Implements grad of lowering.h: the tape, and the arguments of
//
//   gw, gx = grad(loss, [w, x])     gw = grad(loss, w)     dx, dw = grad(loss, x, w)
//   gh = grad(y, h, with=dy)        g = grad(loss, w, recompute=[h1, h2])
//
// differentiate.h emits the gradients.
#include <deque>
#include <utility>

#include "shardproof/engine/lower/differentiate.h"
#include "shardproof/engine/lower/lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/gradient.h"

namespace shardproof {

void Lowering::start_tape(const Listing& listing) {
  if (calls_verb(listing.statements, "grad")) tape_ = std::make_unique<Tape>();
}

TapeEntry Lowering::tape_entry(TapeKind kind) const {
  TapeEntry entry;
  entry.kind = kind;
  entry.lanes = lanes_;
  entry.local = !has_known_sizes();
  entry.origin = origin();
  return entry;
}

void Lowering::record_op(const OpRecord& op, std::vector<LaneAttrs> attrs,
                         const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs,
                         size_t wanted) {
  TapeEntry entry = tape_entry(TapeKind::op);
  entry.op = &op;
  entry.attrs = std::move(attrs);
  entry.wanted = wanted;
  tape_->record(std::move(entry), inputs, outputs);
}

ValueId Lowering::merge(const std::vector<std::pair<Lanes, ValueId>>& parts) {
  const ValueId merged = emit_merge(parts);
  if (!tape_) return merged;
  TapeEntry entry = tape_entry(TapeKind::merge);
  std::vector<ValueId> inputs;
  for (const auto& [lanes, value] : parts) {
    entry.parts.push_back(lanes);
    inputs.push_back(value);
  }
  tape_->record(std::move(entry), inputs, {merged});
  return merged;
}

namespace {

// The arguments of one call of grad.
struct WrittenGrad {
  const Expr* of = nullptr;
  std::vector<const Expr*> targets, recomputed;
  const Expr* with = nullptr;
};

constexpr const char* kGradForm = "gw, gx = grad(loss, [w, x])";

std::vector<const Expr*> items_of(const Expr& expr) {
  if (expr.kind != ExprKind::list) return {&expr};
  std::vector<const Expr*> items;
  for (const Expr& item : expr.args) items.push_back(&item);
  return items;
}

WrittenGrad read_grad(const Expr& call) {
  WrittenGrad written;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Expr& arg = call.args[i];
    const Where where{"", "", arg.place.line, arg.place.column};
    if (call.keys[i] == "with") {
      written.with = &arg;
    } else if (call.keys[i] == "recompute") {
      written.recomputed = items_of(arg);
    } else if (!call.keys[i].empty()) {
      throw Error(
          ErrorKind::bad_input,
          fmt::format("grad has no argument {}; it takes with= and recompute=", call.keys[i]),
          where);
    } else if (written.of == nullptr) {
      written.of = &arg;
    } else {
      for (const Expr* item : items_of(arg)) written.targets.push_back(item);
    }
  }
  if (written.of == nullptr || written.targets.empty())
    throw Error(
        ErrorKind::bad_input,
        fmt::format("grad needs a value and the values to differentiate by, as in {}", kGradForm),
        {"", "", call.place.line, call.place.column});
  return written;
}

}  // namespace

ValueId Lowering::copy_of(ValueId value) {
  const OpRecord& cast = ops_.at("cast");
  return emit(cast, {{lanes_, Attrs{{"dtype", meta_of(value).dtype}}}}, {value}, 1).at(0);
}

namespace {

// The builder of one sum_to: input 0 has the target shape and dtype.
template <typename Emit, typename Meta>
class SumBuilder : public GradientBuilder {
 public:
  SumBuilder(std::vector<ValueId> values, Emit emit, Meta meta)
      : values_(std::move(values)), emit_(std::move(emit)), meta_(std::move(meta)) {
    for (const ValueId value : values_) metas_.push_back(meta_(value));
  }
  int input(int i) override { return i; }
  int output(int) override { return kAbsent; }
  int cotangent(int) override { return kAbsent; }
  bool wanted(int) override { return true; }
  std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) override {
    values_.push_back(emit_(name, std::move(attrs), values_[static_cast<size_t>(inputs.at(0))]));
    metas_.push_back(meta_(values_.back()));
    return {static_cast<int>(values_.size()) - 1};
  }
  int number(Number) override { SP_UNREACHABLE("sum_to writes no number"); }
  const TensorMeta& meta(int handle) override { return metas_[static_cast<size_t>(handle)]; }
  ValueId value(int handle) const { return values_[static_cast<size_t>(handle)]; }

 private:
  std::vector<ValueId> values_;
  std::deque<TensorMeta> metas_;
  Emit emit_;
  Meta meta_;
};

}  // namespace

ValueId Lowering::summed_to(ValueId value, ValueId like) {
  SumBuilder builder(
      {like, value},
      [&](const std::string& name, Attrs attrs, ValueId input) {
        const OpRecord& op = ops_.at(name);
        op.fill_fallbacks(attrs);
        return emit(op, {{lanes_, std::move(attrs)}}, {input}, 1).at(0);
      },
      [&](ValueId id) { return meta_of(id); });
  return builder.value(sum_to(builder, 1, 0));
}

ValueId Lowering::seed_of(const Expr* with, ValueId of, const std::string& shown,
                          const SourceLocation& place) {
  if (with == nullptr) {
    for (const Lanes& lanes : equal_shapes({of})) {
      const Lanes all = std::exchange(lanes_, lanes);
      const Dims shape = meta_of(of).shape;
      lanes_ = all;
      if (element_count(shape) != 1)
        fail(place, fmt::format("grad needs one element, and {0} has shape {1}; reduce it, as in "
                                "mean({0}), or write with=dy for the gradient by {0}",
                                shown, to_string(shape)));
    }
    const OpRecord& ones = ops_.at("ones");
    Attrs attrs;
    ones.fill_fallbacks(attrs);
    const Dims shape = meta_of(of).shape;
    attrs.set("shape", std::vector<int64_t>(shape.begin(), shape.end()));
    attrs.set("dtype", meta_of(of).dtype);
    return emit(ones, {{lanes_, std::move(attrs)}}, {kNoValue}, 1).at(0);
  }
  const ValueId given = lower_value(*with);
  for (const Lanes& lanes : equal_shapes({of, given})) {
    const Lanes all = std::exchange(lanes_, lanes);
    const Dims needed = meta_of(of).shape, found = meta_of(given).shape;
    lanes_ = all;
    if (!(needed == found))
      fail(with->place, fmt::format("with= needs the shape of {}, which is {}, found {}", shown,
                                    to_string(needed), to_string(found)));
  }
  const TensorMeta needed = meta_of(of), found = meta_of(given);
  if (needed.dtype == found.dtype && !found.weak) return given;
  return emit(ops_.at("cast"), {{lanes_, Attrs{{"dtype", needed.dtype}}}}, {given}, 1).at(0);
}

// A value inside the line of a recomputed name is computed again with it, but no call inside it.
std::set<ValueId> Lowering::read_recomputed(const std::vector<const Expr*>& written) {
  std::set<ValueId> recomputed;
  std::vector<ValueId> open;
  const auto maker_of = [&](ValueId value) -> const TapeEntry* {
    const int maker = tape_->maker(tape_->present(value));
    if (maker < 0) return nullptr;
    const TapeEntry& entry = tape_->entry(maker);
    return entry.kind == TapeKind::op || entry.repeat ? &entry : nullptr;
  };
  for (const Expr* expr : written) {
    const ValueId value = is_number(*expr) ? kNoValue : lower_value(*expr);
    if (value == kNoValue || expr->kind != ExprKind::name || maker_of(value) == nullptr)
      fail(expr->place,
           fmt::format("recompute= takes names that ops or calls have computed; {} is {}",
                       to_string(*expr), expr->kind == ExprKind::name ? "kept anyway" : "no name"));
    open.push_back(value);
  }
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (!recomputed.insert(value).second) continue;
    if (!name_of_value(value).empty()) mark_recomputed(value);
    const TapeEntry* maker = maker_of(value);
    for (const VersionId input : maker->inputs) {
      if (input == kNoVersion) continue;
      const ValueId inner = tape_->value(input);
      if (name_of_value(inner).empty() && maker_of(inner) != nullptr &&
          maker_of(inner)->kind != TapeKind::call)
        open.push_back(inner);
    }
  }
  return recomputed;
}

std::vector<ValueId> Lowering::lower_grad(const Expr& call, size_t wanted) {
  SP_CHECK(tape_, "a listing that calls grad has no tape");
  if (wanted == 0) fail(call.place, "the result of grad is dropped; bind it to a name");
  if (!has_known_sizes()) fail(call.place, "grad cannot stand before `as`; bind its result first");
  const WrittenGrad written = read_grad(call);
  const auto tensor = [&](const Expr& expr) {
    if (is_number(expr))
      fail(expr.place, fmt::format("{} is a number; grad takes tensors", to_string(expr)));
    const ValueId value = lower_value(expr);
    const DType dtype = meta_of(value).dtype;
    if (!is_floating(dtype) && !is_complex(dtype))
      fail(expr.place,
           fmt::format("{} is {}; only floats have gradients", to_string(expr), name(dtype)));
    return value;
  };
  const ValueId of = tensor(*written.of);
  const std::string shown = to_string(*written.of);
  std::vector<GradientTarget> targets;
  for (const Expr* expr : written.targets)
    targets.push_back({tensor(*expr), to_string(*expr), expr->place});
  std::set<ValueId> recomputed = read_recomputed(written.recomputed);
  const size_t first = instruction_count();
  const size_t made = value_count();
  const ValueId seed = seed_of(written.with, of, shown, written.of->place);
  Differentiator differentiator(*this, of, shown, written.of->place, std::move(recomputed));
  std::vector<ValueId> gradients = in_own_memory(differentiator.run(targets, seed), made);
  remove_dead(first, gradients);
  return gradients;
}

}  // namespace shardproof
