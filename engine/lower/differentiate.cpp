// Implements differentiate.h. Builder is the GradientBuilder of one formula on the current lanes;
// through_op, through_write and through_call are the rules of the kinds of entries.
#include "shardproof/engine/lower/differentiate.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "shardproof/engine/lower/formula_recorder.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

Lanes lanes_of_parts(const std::vector<std::pair<Lanes, ValueId>>& parts) {
  Lanes lanes;
  for (const auto& [held, value] : parts) lanes = lanes.unite(held);
  return lanes;
}

bool contains(const std::vector<VersionId>& versions, VersionId version) {
  return std::find(versions.begin(), versions.end(), version) != versions.end();
}

}  // namespace

// Handles are indices into `values_`. Inputs and results of the forward call come first. They are
// read only where an op uses them: a formula that reads only their dtype and shape needs no value.
class Lowering::Differentiator::Builder : public GradientBuilder {
 public:
  Builder(Differentiator& owner, const TapeEntry& entry) : owner_(owner), entry_(entry) {
    for (const std::vector<VersionId>* versions : {&entry.inputs, &entry.outputs})
      for (const VersionId version : *versions)
        add(version == kNoVersion ? kNoValue : owner.tape_.value(version), version);
    cotangents_.resize(entry.outputs.size(), kNotRead);
  }

  int input(int i) override {
    return entry_.inputs[static_cast<size_t>(i)] == kNoVersion ? kAbsent : i;
  }
  int output(int o) override { return static_cast<int>(entry_.inputs.size()) + o; }
  int cotangent(int o) override {
    int& handle = cotangents_[static_cast<size_t>(o)];
    if (handle != kNotRead) return handle;
    const ValueId value =
        owner_.cotangent(entry_.outputs[static_cast<size_t>(o)], owner_.lowering_.lanes_);
    return handle = value == kNoValue ? kAbsent : add(value);
  }
  bool wanted(int i) override {
    const VersionId version = entry_.inputs[static_cast<size_t>(i)];
    return version != kNoVersion && owner_.carries_.contains(version);
  }
  bool has_known_sizes() const override { return owner_.lowering_.has_known_sizes(); }
  void depend_on_sizes() override {
    if (has_known_sizes()) return;
    const std::string& op = entry_.op->name;
    owner_.lowering_.fail(
        owner_.place_,
        fmt::format("the gradient of {} (line {}) depends on the sizes of its inputs, "
                    "which differ by rank inside `as`; write {} on a line without "
                    "`as`",
                    op, entry_.origin.line, op));
  }
  std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) override {
    Lowering& lowering = owner_.lowering_;
    const OpRecord& record = lowering.ops_.at(name);
    record.fill_fallbacks(attrs);
    return emit_op(record, {{lowering.lanes_, std::move(attrs)}}, inputs);
  }
  int number(Number value) override {
    return emit_number({owner_.lowering_.lanes_, {std::move(value)}});
  }
  std::vector<int> emit_op(const OpRecord& record, std::vector<LaneAttrs> attrs,
                           const std::vector<int>& inputs) {
    std::vector<ValueId> ids;
    for (const int handle : inputs) ids.push_back(handle == kAbsent ? kNoValue : read(handle));
    std::vector<int> results;
    for (const ValueId id : owner_.lowering_.emit(record, std::move(attrs), std::move(ids), 1))
      results.push_back(add(id));
    return results;
  }
  int emit_number(const PerRankNumber& value) { return add(owner_.lowering_.value_of(value)); }
  const TensorMeta& meta(int handle) override { return metas_[static_cast<size_t>(handle)]; }

  ValueId read(int handle) {
    const auto& [value, version] = values_[static_cast<size_t>(handle)];
    return version == kNoVersion ? value : owner_.read(version, entry_);
  }
  std::vector<TensorMeta> input_metas() const {
    return {metas_.begin(), metas_.begin() + static_cast<std::ptrdiff_t>(entry_.inputs.size())};
  }

 private:
  static constexpr int kNotRead = -2;
  int add(ValueId value, VersionId version = kNoVersion) {
    values_.emplace_back(value, version);
    metas_.push_back(owner_.lowering_.meta_of(value));
    return static_cast<int>(values_.size()) - 1;
  }

  Differentiator& owner_;
  const TapeEntry entry_;  // a copy: emission appends to the tape
  std::vector<std::pair<ValueId, VersionId>> values_;
  std::deque<TensorMeta> metas_;
  std::vector<int> cotangents_;
};

Lowering::Differentiator::Differentiator(Lowering& lowering, ValueId of, std::string shown,
                                         SourceLocation place, std::set<ValueId> recomputed)
    : lowering_(lowering),
      tape_(*lowering.tape_),
      of_(tape_.present(of)),
      shown_(std::move(shown)),
      place_(place),
      all_(lowering.lanes_),
      recompute_(std::move(recomputed)) {}

std::vector<ValueId> Lowering::Differentiator::run(const std::vector<GradientTarget>& targets,
                                                   ValueId seed) {
  for (const GradientTarget& target : targets) targets_.push_back(tape_.present(target.value));
  find_path(entries_before(false));
  for (size_t i = 0; i < targets.size(); ++i)
    if (targets_[i] != of_ && !is_on_path(targets_[i])) fail_unreached(targets[i]);
  cotangents_[of_] = {{all_, seed}};
  finished_.insert(of_);
  // A copy of each entry, because emission appends to the tape.
  for (auto index = path_.rbegin(); index != path_.rend(); ++index) {
    const TapeEntry entry = tape_.entry(*index);
    walk_back(entry);
  }
  lowering_.lanes_ = all_;
  std::vector<ValueId> results;
  for (const GradientTarget& target : targets) results.push_back(result_of(target));
  return results;
}

// A value that is made on some ranks, such as narrow(x, 0, index(tp), 1), has a shape only there.
bool Lowering::Differentiator::is_float(VersionId version, const Lanes& lanes) const {
  const Lanes outer = std::exchange(lowering_.lanes_, lanes);
  const TensorMeta meta = lowering_.meta_of(tape_.value(version));
  lowering_.lanes_ = outer;
  return !meta.weak && (is_floating(meta.dtype) || is_complex(meta.dtype));
}

bool Lowering::Differentiator::passes(const TapeEntry& entry) const {
  if (entry.kind == TapeKind::call) return entry.backward != nullptr;
  if (entry.kind != TapeKind::op) return true;
  // Casts to integers, and ops of integers, have no gradient.
  return entry.op->differentiable != Differentiable::no &&
         std::any_of(entry.outputs.begin(), entry.outputs.end(),
                     [&](VersionId output) { return is_float(output, entry.lanes); });
}

// Returns the entries from which the value is computed. Entries before all targets cannot depend on
// one.
std::set<int> Lowering::Differentiator::entries_before(bool through_stops) const {
  int first = tape_.size();
  for (const VersionId target : targets_) first = std::min(first, tape_.maker(target));
  std::set<int> entries;
  std::vector<VersionId> open{of_};
  while (!open.empty()) {
    const int maker = tape_.maker(open.back());
    open.pop_back();
    if (maker <= first || entries.contains(maker)) continue;
    const TapeEntry& entry = tape_.entry(maker);
    if (entry.lanes.intersect(all_).empty() || (!through_stops && !passes(entry))) continue;
    entries.insert(maker);
    for (const VersionId input : entry.inputs)
      if (input != kNoVersion) open.push_back(input);
  }
  return entries;
}

void Lowering::Differentiator::find_path(const std::set<int>& entries) {
  carries_.clear();
  path_.clear();
  for (const VersionId target : targets_) carries_.insert(target);
  for (const int index : entries) {
    const TapeEntry& entry = tape_.entry(index);
    if (std::none_of(entry.inputs.begin(), entry.inputs.end(),
                     [&](VersionId input) { return carries_.contains(input); }))
      continue;
    path_.insert(index);
    carries_.insert(entry.outputs.begin(), entry.outputs.end());
  }
}

// True if the value that is differentiated depends on this target, not only on another one.
bool Lowering::Differentiator::is_on_path(VersionId target) const {
  std::set<VersionId> reached{target};
  for (const int index : path_) {
    const TapeEntry& entry = tape_.entry(index);
    if (std::any_of(entry.inputs.begin(), entry.inputs.end(),
                    [&](VersionId input) { return reached.contains(input); }))
      reached.insert(entry.outputs.begin(), entry.outputs.end());
  }
  return reached.contains(of_);
}

// Returns the lines that make the target and the value: ": line 2 computes it, and line 1 computes
// y without it".
std::string Lowering::Differentiator::unused_text(VersionId target) const {
  const auto line_of = [&](VersionId version) {
    const int maker = tape_.maker(version);
    return maker < 0 ? 0 : tape_.entry(maker).origin.line;
  };
  std::string text;
  if (const int line = line_of(target)) text = fmt::format("line {} computes it", line);
  if (const int line = line_of(of_))
    text +=
        fmt::format("{}line {} computes {} without it", text.empty() ? "" : ", and ", line, shown_);
  return text.empty() ? "" : ": " + text;
}

// Returns where the path to the value ends. A call counts first: an op without a gradient, such as
// zeros(like=x), may be beside the way.
std::string Lowering::Differentiator::stop_text() const {
  const TapeEntry* stop = nullptr;
  for (const int index : path_) {
    const TapeEntry& entry = tape_.entry(index);
    if (passes(entry)) continue;
    if (stop == nullptr || entry.kind == TapeKind::call) stop = &entry;
    if (stop->kind == TapeKind::call) break;
  }
  if (stop == nullptr) return "";
  if (stop->kind != TapeKind::call)
    return fmt::format(": {} in line {} has no gradient", stop->op->name, stop->origin.line);
  return fmt::format(
      ": {} in line {} is where grad stops; send the gradient back, or write backward= there",
      stop->verb, stop->origin.line);
}

void Lowering::Differentiator::fail_unreached(const GradientTarget& target) {
  targets_ = {tape_.present(target.value)};
  find_path(entries_before(true));
  std::string reason;
  if (carries_.contains(of_)) {
    reason = stop_text();
  } else if (const std::optional<Origin> written = [&] {
               // An older version of the target may reach the value.
               for (VersionId version = 0; version < targets_[0]; ++version) {
                 if (tape_.value(version) != target.value) continue;
                 targets_ = {version};
                 find_path(entries_before(false));
                 if (carries_.contains(of_)) return tape_.overwritten(version, all_);
               }
               return std::optional<Origin>();
             }()) {
    reason = fmt::format(": line {} writes it in place after its use", written->line);
  } else {
    reason = unused_text(tape_.present(target.value));
  }
  lowering_.fail(target.place, fmt::format("{} does not reach {}{}", target.shown, shown_, reason));
}

bool Lowering::Differentiator::is_local(VersionId version) const {
  const int maker = tape_.maker(version);
  return maker >= 0 && tape_.entry(maker).local && tape_.entry(maker).kind != TapeKind::claim;
}

ValueId Lowering::Differentiator::sum_of(VersionId version, const Lanes& lanes, ValueId a,
                                         ValueId b) {
  const bool outer = lowering_.set_local(is_local(version));
  lowering_.lanes_ = lanes;
  const OpRecord* add = lowering_.ops_.find_infix("+");
  Attrs attrs;
  add->fill_fallbacks(attrs);
  const ValueId sum = lowering_.emit(*add, {{lanes, std::move(attrs)}}, {a, b}, 1).at(0);
  lowering_.set_local(outer);
  return sum;
}

void Lowering::Differentiator::add(VersionId version, const Lanes& lanes, ValueId gradient) {
  if (version == kNoVersion || gradient == kNoValue || lanes.empty()) return;
  if (!carries_.contains(version) || !is_float(version, lanes)) return;
  Parts parts;
  Lanes rest = lanes;
  for (const auto& [held, value] : cotangents_[version]) {
    const Lanes both = held.intersect(rest);
    if (both.empty()) {
      parts.emplace_back(held, value);
      continue;
    }
    parts.emplace_back(both, sum_of(version, both, value, gradient));
    if (const Lanes left = held.minus(both); !left.empty()) parts.emplace_back(left, value);
    rest = rest.minus(both);
  }
  if (!rest.empty()) parts.emplace_back(rest, gradient);
  cotangents_[version] = std::move(parts);
}

void Lowering::Differentiator::finish(VersionId version) {
  if (is_local(version) || !finished_.insert(version).second) return;
  const ValueId value = tape_.value(version);
  if (lowering_.name_of_value(value).empty()) return;
  for (auto& [lanes, gradient] : cotangents_[version])
    gradient = lowering_.place_gradient(gradient, value);
}

ValueId Lowering::Differentiator::cotangent(VersionId version, const Lanes& lanes) {
  Parts here;
  for (const auto& [held, value] : cotangents_[version])
    if (Lanes both = held.intersect(lanes); !both.empty())
      here.emplace_back(std::move(both), value);
  if (here.empty()) return kNoValue;
  if (here.size() == 1) return here[0].second;
  const Lanes outer = lowering_.lanes_;
  lowering_.lanes_ = lanes_of_parts(here);
  const ValueId merged = lowering_.merge(here);
  lowering_.lanes_ = outer;
  return merged;
}

ValueId Lowering::Differentiator::zeros_like(ValueId value, const Lanes& lanes) {
  const Lanes outer = lowering_.lanes_;
  lowering_.lanes_ = lanes;
  const OpRecord& zeros = lowering_.ops_.at("zeros");
  Attrs attrs;
  zeros.fill_fallbacks(attrs);
  const ValueId made = lowering_.emit(zeros, {{lanes, std::move(attrs)}}, {value}, 1).at(0);
  lowering_.lanes_ = outer;
  return made;
}

ValueId Lowering::Differentiator::filled(VersionId version, const Lanes& lanes) {
  const Lanes missing = lanes.minus(lanes_of_parts(cotangents_[version]));
  if (!missing.empty())
    cotangents_[version].emplace_back(missing, zeros_like(tape_.value(version), missing));
  return cotangent(version, lanes);
}

std::vector<Lanes> Lowering::Differentiator::classes_with_cotangents(const TapeEntry& entry,
                                                                     const Lanes& lanes) {
  std::vector<Lanes> classes{lanes};
  Lanes any;
  for (const VersionId output : entry.outputs) {
    const Lanes held = lanes_of_parts(cotangents_[output]);
    any = any.unite(held);
    std::vector<Lanes> finer;
    for (const Lanes& one : classes)
      for (const Lanes& cut : {one.intersect(held), one.minus(held)})
        if (!cut.empty()) finer.push_back(cut);
    classes = std::move(finer);
  }
  std::erase_if(classes, [&](const Lanes& one) { return one.intersect(any).empty(); });
  return classes;
}

void Lowering::Differentiator::walk_back(const TapeEntry& entry) {
  // The gradient of a redistributed value moves to the placements of the input in one step: a
  // reduce_scatter for an all_gather. A target of grad has its own placements first.
  for (const VersionId output : entry.outputs)
    if (entry.kind != TapeKind::move || contains(targets_, output)) finish(output);
  const Lanes here = entry.lanes.intersect(all_);
  switch (entry.kind) {
    case TapeKind::op: through_op(entry); break;
    case TapeKind::write: through_write(entry); break;
    case TapeKind::call: through_call(entry); break;
    case TapeKind::merge:
      for (size_t i = 0; i < entry.inputs.size(); ++i)
        for (const auto& [held, value] : Parts(cotangents_[entry.outputs[0]]))
          add(entry.inputs[i], held.intersect(entry.parts[i]).intersect(here), value);
      break;
    case TapeKind::move:
      for (const auto& [held, value] : Parts(cotangents_[entry.outputs[0]]))
        add(entry.inputs[0], held.intersect(here),
            lowering_.place_gradient(value, tape_.value(entry.inputs[0])));
      break;
    case TapeKind::claim:
      for (const auto& [held, value] : Parts(cotangents_[entry.outputs[0]])) {
        ValueId gradient = lowering_.enter_claim(value, tape_.value(entry.outputs[0]));
        if (!is_local(entry.inputs[0]))
          gradient = lowering_.leave_claim(gradient, tape_.value(entry.inputs[0]));
        add(entry.inputs[0], held, gradient);
      }
      break;
  }
  lowering_.lanes_ = all_;
}

void Lowering::Differentiator::through_op(const TapeEntry& entry) {
  if (entry.op->differentiable == Differentiable::zero) return;
  const bool outer = lowering_.set_local(entry.local);
  std::vector<ValueId> values;
  for (const std::vector<VersionId>* versions : {&entry.inputs, &entry.outputs})
    for (const VersionId version : *versions)
      values.push_back(version == kNoVersion ? kNoValue : tape_.value(version));
  for (const Lanes& lanes : classes_with_cotangents(entry, entry.lanes.intersect(all_))) {
    std::vector<LaneAttrs> classes;
    for (const LaneAttrs& attrs : entry.attrs) {
      lowering_.lanes_ = lanes.intersect(attrs.lanes);
      if (lowering_.lanes_.empty()) continue;
      for (const Lanes& same : lowering_.equal_shapes(values))
        classes.push_back({same, attrs.attrs});
    }
    for (const std::vector<RecordedFormula>& group : formulas_of(entry, values, classes)) {
      lowering_.lanes_ = lanes_of_group(group);
      through_op_on(entry, group);
    }
  }
  lowering_.set_local(outer);
}

std::optional<TensorMeta> Lowering::Differentiator::meta_of_cotangent(VersionId version) {
  for (const auto& [held, value] : cotangents_[version])
    if (held.contains(lowering_.lanes_[0])) return lowering_.meta_of(value);
  return std::nullopt;
}

// Returns the gradient formulas of the classes in groups that are emitted as one. A formula that is
// emitted for one class alone has no steps. If one fails, its emission reports the error with its
// place.
std::vector<std::vector<RecordedFormula>> Lowering::Differentiator::formulas_of(
    const TapeEntry& entry, const std::vector<ValueId>& values,
    const std::vector<LaneAttrs>& classes) {
  std::vector<RecordedFormula> formulas;
  try {
    for (const auto& [lanes, attrs] : classes) {
      if (classes.size() == 1) break;
      lowering_.lanes_ = lanes;
      std::vector<TensorMeta> metas;
      for (const ValueId id : values) metas.push_back(lowering_.meta_of(id));
      const size_t inputs = entry.inputs.size();
      const OpCall call{&attrs,
                        {metas.begin(), metas.begin() + static_cast<std::ptrdiff_t>(inputs)},
                        entry.wanted};
      const GradientRule* rule = entry.op->gradient_of(call);
      if (rule == nullptr) break;
      FormulaRecorder recorder(lowering_.ops_, metas, inputs);
      std::vector<std::optional<TensorMeta>> cotangents;
      for (const VersionId output : entry.outputs) cotangents.push_back(meta_of_cotangent(output));
      std::vector<bool> wanted;
      for (const VersionId input : entry.inputs)
        wanted.push_back(input != kNoVersion && carries_.contains(input));
      recorder.set_gradient(std::move(cotangents), std::move(wanted));
      const std::vector<int> results = (*rule)(call, recorder);
      formulas.push_back({lanes, attrs, rule, recorder.steps(), results});
    }
  } catch (const Error&) {
    formulas.clear();
  }
  if (formulas.size() == classes.size()) return alike(std::move(formulas));
  std::vector<std::vector<RecordedFormula>> alone;
  for (const auto& [lanes, attrs] : classes) alone.push_back({{lanes, attrs, nullptr, {}, {}}});
  return alone;
}

void Lowering::Differentiator::through_op_on(const TapeEntry& entry,
                                             const std::vector<RecordedFormula>& group) {
  const Lanes lanes = lowering_.lanes_;
  Builder builder(*this, entry);
  const OpCall call{&group[0].attrs, builder.input_metas(), entry.wanted};
  const GradientRule* rule = entry.op->gradient_of(call);
  if (rule == nullptr)
    throw Error(ErrorKind::unsupported,
                fmt::format("the gradient of {} (line {}) is not supported by this version",
                            entry.op->name, entry.origin.line),
                {"", "", place_.line, place_.column});
  if (group.size() > 1) emit_group(group, builder);
  const std::vector<int> handles = group.size() > 1 ? group[0].results : (*rule)(call, builder);
  for (size_t i = 0; i < handles.size(); ++i) {
    if (handles[i] == kAbsent || !builder.wanted(static_cast<int>(i))) continue;
    ValueId gradient = builder.read(handles[i]);
    const VersionId input = entry.inputs[i];
    if (entry.local && !is_local(input))
      gradient = lowering_.leave_claim(gradient, tape_.value(input));
    add(input, lanes, gradient);
  }
}

// b.1 is b.0 with `source` written into the part that the views select. The gradient by the source
// is that of the part; the gradient by b.0 is that of b.1 with zeros in the part.
void Lowering::Differentiator::through_write(const TapeEntry& entry) {
  const VersionId before = entry.inputs[0], source = entry.inputs[1], after = entry.outputs[0];
  const Lanes here = entry.lanes.intersect(all_);
  const auto part_of = [&](ValueId whole) {
    for (const size_t index : entry.views) {
      const TapeEntry view = tape_.entry(static_cast<int>(index));
      if (view.kind != TapeKind::op) continue;
      std::vector<LaneAttrs> attrs;
      for (const LaneAttrs& one : view.attrs)
        if (Lanes cut = one.lanes.intersect(lowering_.lanes_); !cut.empty())
          attrs.push_back({std::move(cut), one.attrs});
      whole = lowering_.emit(*view.op, std::move(attrs), {whole}, 1).at(0);
    }
    return whole;
  };
  for (const auto& [held, value] : Parts(cotangents_[after])) {
    if (const Lanes outside = held.minus(here); !outside.empty()) add(before, outside, value);
    lowering_.lanes_ = held.intersect(here);
    if (lowering_.lanes_.empty()) continue;
    const Lanes lanes = lowering_.lanes_;
    if (carries_.contains(source)) {
      const ValueId part = part_of(value);
      for (const Lanes& same : lowering_.equal_shapes({part, tape_.value(source)})) {
        lowering_.lanes_ = same;
        add(source, same, lowering_.summed_to(part, tape_.value(source)));
      }
      lowering_.lanes_ = lanes;
    }
    if (entry.views.empty() || !carries_.contains(before)) continue;
    const ValueId kept = lowering_.copy_of(value);
    lowering_.write_in_place(part_of(kept), lowering_.value_of({lanes, {Number(int64_t{0})}}));
    add(before, lanes, kept);
  }
}

// All ranks of the call take part in its backward; ranks without a cotangent contribute zeros.
void Lowering::Differentiator::through_call(const TapeEntry& entry) {
  const VersionId result = entry.outputs[0];
  if (cotangents_[result].empty()) return;
  const Lanes here = entry.lanes.intersect(all_);
  lowering_.lanes_ = here;
  const ValueId value = filled(result, here);
  lowering_.lanes_ = here;
  add(entry.inputs[0], here, entry.backward(value));
}

ValueId Lowering::Differentiator::read(VersionId version, const TapeEntry& reader) {
  const ValueId value = tape_.value(version);
  if (const std::optional<Origin> written = tape_.overwritten(version, lowering_.lanes_)) {
    const std::string name = lowering_.name_of_value(value);
    lowering_.fail(place_,
                   fmt::format("the gradient of line {} needs {}, which line {} writes in place "
                               "afterwards; write a copy there",
                               reader.origin.line, name.empty() ? "a value of that line" : name,
                               written->line));
  }
  return recompute_.empty() ? value : recomputed(version);
}

// A value without a name is computed again where a value that is computed again needs it. A call, a
// redistribution or `as` is made again by all its ranks at once, where one of them first reads the
// result.
ValueId Lowering::Differentiator::recomputed(VersionId version) {
  const ValueId value = tape_.value(version);
  const int maker = tape_.maker(version);
  if (maker < 0 || !recompute_.contains(value)) return value;
  for (const auto& [lanes, made] : recomputed_[version])
    if (lanes.contains(lowering_.lanes_)) return made;
  const TapeEntry entry = tape_.entry(maker);
  if (entry.repeat) {
    const Lanes outer = std::exchange(lowering_.lanes_, entry.lanes.intersect(all_));
    const Lanes here = lowering_.lanes_;
    const ValueId made = entry.repeat(read(entry.inputs[0], entry));
    recomputed_[version].emplace_back(here, made);
    lowering_.lanes_ = outer;
    return made;
  }
  std::vector<ValueId> inputs;
  for (const VersionId input : entry.inputs)
    inputs.push_back(input == kNoVersion ? kNoValue : read(input, entry));
  std::vector<LaneAttrs> attrs;
  for (const LaneAttrs& one : entry.attrs)
    if (Lanes cut = one.lanes.intersect(lowering_.lanes_); !cut.empty())
      attrs.push_back({std::move(cut), one.attrs});
  const bool outer = lowering_.set_local(entry.local);
  const std::vector<ValueId> made =
      lowering_.emit(*entry.op, std::move(attrs), std::move(inputs), entry.wanted);
  lowering_.set_local(outer);
  for (size_t o = 0; o < entry.outputs.size(); ++o)
    recomputed_[entry.outputs[o]].emplace_back(lowering_.lanes_, made[o]);
  return recomputed_.at(version).back().second;
}

ValueId Lowering::Differentiator::result_of(const GradientTarget& target) {
  const VersionId version = tape_.present(target.value);
  finish(version);
  return filled(version, all_);
}

}  // namespace shardproof
