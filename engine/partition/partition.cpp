// Implements partition.h and the instructions of partitioner.h: redistribute, claims (`as`), and
// ops on shards as they are.
//
// For each instruction of the global program, in order:
//   op                choose placements (partitioner_choose_strategy.cpp) and emit instructions
//                     (partitioner_emit_plan.cpp)
//   redistribute      parse the placements, or derive those of a gradient (spec_like); emit the
//                     plan to them, or a renaming if nothing moves
//   y = f(x) as ...   run the ops on each rank's shard and infer local shapes from local shapes
//                     (run_local), then claim the placements (run_claim)
//   a name is bound   free the value that the name had before, if no later line reads it
//
// Example of a claim: a mesh dp=2, tp=2 and x of shape [8, 6] as dp:S(0) tp:S(1). After
// `y = sum(x, dim=1) as tp:P(sum)` the shards of y have shape [4]. The claim names only tp; dp:R
// would need shards of shape [8], so other placements of dp are tried, and dp:S(0) gives [4].
#include "shardproof/engine/partition/partition.h"

#include <algorithm>

#include "shardproof/engine/lower/value_lifetimes.h"
#include "shardproof/engine/partition/constant_meshes.h"
#include "shardproof/engine/partition/partitioner.h"
#include "shardproof/engine/partition/specs_inside_as.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns the text of parsed placements, for Spec::parse.
std::string text_of(const std::vector<PlacementText>& placements) {
  std::string text;
  for (const PlacementText& entry : placements) {
    if (!text.empty()) text += ' ';
    if (!entry.axis.empty()) text.append(entry.axis).append(":");
    std::string placement = to_string(entry.placement);
    if (!entry.after.empty()) {
      placement.pop_back();
      for (const std::string& axis : entry.after) placement += ", after=" + axis;
      placement += ')';
    }
    text += placement;
  }
  return text;
}

}  // namespace

Partitioned Partitioner::run(const GlobalProgram& program, const std::vector<const Mesh*>& meshes) {
  global_ = &program;
  result_.program.world = job_.world;
  SpmdListing& listing = result_.program.listings.emplace_back();
  listing.lanes = Lanes::range(0, job_.world);
  listing.lines = program.lines;
  values_.resize(program.values.size());
  last_use_.assign(program.values.size(), 0);
  for (size_t i = 0; i < program.instrs.size(); ++i)
    for (ValueId id : program.instrs[i].inputs)
      if (id != kNoValue) last_use_[static_cast<size_t>(id)] = i;
  result_.placed.assign(program.values.size(), kNoValue);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const JobInput& input = job_.inputs[i];
    const ValueId id = add_value(input.spec.dtype(), input.spec, input.category);
    SpmdValue& value = result_.program.values[static_cast<size_t>(id)];
    value.name = value.bound = input.name;
    value.global = program.inputs[i];
    uses_[input.name] = 1;
    result_.program.inputs.push_back(id);
    PlacedValue placed{
        id, {input.spec.dtype(), input.spec.shape()}, input.spec, std::nullopt, input.name};
    values_[static_cast<size_t>(program.inputs[i])] = placed;
    result_.placed[static_cast<size_t>(program.inputs[i])] = id;
  }
  for (size_t id = 0; id < program.values.size(); ++id)
    if (program.values[id].weak && values_[id].id == kNoValue) {
      values_[id].meta = {program.values[id].dtype, {}, true, false};
      values_[id].number = program.values[id].number;
    }
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    origin_ = program.instrs[i].origin;
    mesh_ = meshes.empty() ? &job_.meshes.at(0).second : meshes[i];
    try {
      run_instr(program.instrs[i]);
    } catch (const Error& error) {
      // Reports errors of placements at their position in the line.
      const std::vector<PlacementText>& placements = program.instrs[i].placements;
      if (!placements.empty())
        throw Error(error.kind(), error.message(),
                    {"", "/program", origin_.line, placements[0].column});
      throw error.inside({"", "/program", origin_.line, origin_.column});
    }
    free_rebound(program.instrs[i], i);
  }
  return std::move(result_);
}

void Partitioner::run_instr(const GlobalInstr& instr) {
  if (instr.kind == GlobalKind::redistribute) return run_redistribute(instr);
  if (instr.kind == GlobalKind::claim) return run_claim(instr);
  const OpRecord& op = ops_.at(instr.op);
  if (instr.local) return run_local(op, instr);
  std::vector<PlacedValue> inputs;
  for (ValueId id : instr.inputs) {
    inputs.push_back(id == kNoValue ? PlacedValue{} : values_[static_cast<size_t>(id)]);
    if (id == kNoValue) inputs.back().meta.absent = true;
    if (!inputs.back().meta.absent && !inputs.back().number && !inputs.back().spec)
      throw_bad_input(
          "expected a value with placements; write `as placements` on the line that makes it");
  }
  const std::vector<PlacedValue> outputs = emit_op(op, instr.attrs, inputs, state_specs(instr));
  for (size_t i = 0; i < outputs.size(); ++i) place(instr.outputs[i], outputs[i]);
}

Partitioner::Targets Partitioner::state_specs(const GlobalInstr& instr) const {
  Targets targets;
  for (size_t o = 0; o < instr.outputs.size(); ++o) {
    const GlobalValue& value = global_->values[static_cast<size_t>(instr.outputs[o])];
    if (value.state_of == kNoValue) continue;
    targets.resize(instr.outputs.size());
    const Spec& declared = *values_[static_cast<size_t>(value.state_of)].spec;
    targets[o].emplace(declared.mesh(), declared.placements(), value.shape, value.dtype,
                       declared.order());
  }
  return targets;
}

void Partitioner::place(ValueId global, PlacedValue placed) {
  const GlobalValue& value = global_->values[static_cast<size_t>(global)];
  placed.meta.weak = value.weak;
  placed.name = value.name;
  if (placed.id != kNoValue) {
    SpmdValue& made = result_.program.values[static_cast<size_t>(placed.id)];
    if (made.bound.empty() && made.origin == value.origin && !value.name.empty()) {
      const int use = uses_[value.name]++;
      made.bound = value.name;
      made.name = use == 0 ? value.name : fmt::format("{}.{}", value.name, use);
    }
    if (placed.spec && made.global == kNoValue) made.global = global;
    result_.placed[static_cast<size_t>(global)] = placed.id;
  }
  values_[static_cast<size_t>(global)] = std::move(placed);
}

const Spec& Partitioner::written_target(const GlobalInstr& instr, const Spec& from,
                                        const Mesh& mesh) {
  std::string text = text_of(instr.placements);
  const auto known = targets_.find(text);
  if (known != targets_.end() && known->second.from == from && known->second.to.mesh() == mesh)
    return known->second.to;
  const Spec* base = from.mesh() == mesh ? &from : nullptr;
  ParsedTarget parsed{from, Spec::parse(text, mesh, from.shape(), from.dtype(), base)};
  return targets_.insert_or_assign(std::move(text), std::move(parsed)).first->second.to;
}

void Partitioner::run_redistribute(const GlobalInstr& instr) {
  const PlacedValue& value = values_[static_cast<size_t>(instr.inputs[0])];
  if (value.number) throw_bad_input("expected a tensor to redistribute, found a number");
  if (!value.spec)
    throw_bad_input("expected a value with placements; write `as placements` on its line first");
  const Mesh* mesh = &value.spec->mesh();
  for (const auto& [key, other] : job_.meshes)
    if (!instr.mesh.empty() && key == instr.mesh) mesh = &other;
  for (const PlacementText& one : instr.placements)
    for (const auto& [key, other] : job_.meshes)
      if (!one.axis.empty() && instr.mesh.empty() && !mesh->find_axis(one.axis) &&
          other.find_axis(one.axis))
        throw_bad_input(
            "{} is an axis of mesh {}, where {} is not; write redistribute({}, mesh={}, ..)",
            one.axis, key, value.name.empty() ? "the value" : value.name,
            value.name.empty() ? "x" : value.name, key);
  std::optional<Spec> like;
  if (instr.like != kNoValue) like = spec_like(instr, value);
  const Spec& to = like ? *like : written_target(instr, *value.spec, *mesh);
  PlacedValue moved = redistribute(value, to, true, instr.peak_limit);
  if (instr.like != kNoValue && global_->values[static_cast<size_t>(instr.outputs[0])].name.empty())
    return place_gradient(instr, moved);
  // A share of a P(avg) is not the global value.
  const ValueId whole = moved.id;
  if (instr.dual) moved = scale_parts(moved, instr, false);
  const bool is_share = moved.id != whole;
  if (moved.id == value.id) {
    // Nothing moves, but the new name is a value of its own.
    Merge merge;
    merge.output = add_value(to.dtype(), to, Category::activations);
    merge.parts = {{to.mesh().ranks(), value.id}};
    moved.id = merge.output;
    moved.spec = to;
    add(std::move(merge), to.mesh().ranks());
  }
  const ValueId placed = moved.id;
  place(instr.outputs[0], std::move(moved));
  if (is_share) result_.program.values[static_cast<size_t>(placed)].global = kNoValue;
}

// A gradient that already has these placements also gets its name from the value, for reports. A
// share of a P(avg) is not the global value, so it is not compared.
void Partitioner::place_gradient(const GlobalInstr& instr, const PlacedValue& moved) {
  const PlacedValue part = instr.dual ? scale_parts(moved, instr, false) : moved;
  place(instr.outputs[0], part);
  SpmdValue& made = result_.program.values[static_cast<size_t>(part.id)];
  if (part.id != moved.id)
    made.global = kNoValue;
  else if (!instr.dual && made.bound.empty())
    made.global = instr.outputs[0];
}

// Returns the placements of a gradient by `like`: S stays, P becomes R. R stays too, unless the
// instruction states the dual, the gradient by shards: there R becomes P(sum).
Spec Partitioner::spec_like(const GlobalInstr& instr, const PlacedValue& value) const {
  const PlacedValue& like = values_[static_cast<size_t>(instr.like)];
  if (!like.spec) throw_bad_input("{} has no placements here", like.name);
  std::vector<Placement> placements = like.spec->placements();
  for (Placement& placement : placements) {
    if (placement.is_partial()) {
      const ReduceOp op = placement.partial().reduction.op;
      if (instr.dual && op != ReduceOp::sum && op != ReduceOp::avg)
        throw_bad_input("a gradient goes through `as` with P(sum) or P(avg), found {} on line {}",
                        to_string(placement),
                        global_->values[static_cast<size_t>(instr.like)].origin.line);
      placement = R();
    } else if (instr.dual && placement.is_replicate()) {
      placement = P(ReduceOp::sum);
    }
  }
  return Spec(like.spec->mesh(), std::move(placements), value.meta.shape, value.meta.dtype,
              like.spec->order());
}

// Each of the n parts of a P(avg) counts 1/n. The gradient by a part is that of the value divided
// by n (`multiplied` is false), and the other way round.
PlacedValue Partitioner::scale_parts(const PlacedValue& value, const GlobalInstr& instr,
                                     bool multiplied) {
  const Spec& like = *values_[static_cast<size_t>(instr.like)].spec;
  int64_t parts = 1;
  for (int axis = 0; axis < like.mesh().axis_count(); ++axis)
    if (like.placement(axis).is_partial() &&
        like.placement(axis).partial().reduction.op == ReduceOp::avg)
      parts *= like.mesh().axis_size(axis);
  if (parts == 1) return value;
  const OpRecord* op = ops_.find_infix(multiplied ? "*" : "/");
  Attrs attrs;
  op->fill_fallbacks(attrs);
  return emit_op(*op, attrs, {value, number(Number(parts))}).at(0);
}

// Returns the claimed spec. An axis that the claim does not name is R, unless the local shapes show
// that it cuts the value.
Spec Partitioner::claimed_spec(const GlobalInstr& instr, const PlacedValue& value) {
  const Mesh& mesh = value.mesh() ? *value.mesh() : *mesh_;
  const std::string text = text_of(instr.placements);
  const std::vector<LocalShape>& actual =
      result_.program.values[static_cast<size_t>(value.id)].shapes;
  const Dims& shape = value.meta.shape;
  const Spec plain = Spec::parse(text, mesh, shape, value.meta.dtype);
  if (!misfit_shard(plain, actual)) return plain;
  std::vector<int> open;
  for (int axis = 0; axis < mesh.axis_count(); ++axis)
    if (std::none_of(instr.placements.begin(), instr.placements.end(), [&](const auto& entry) {
          return entry.axis.empty() || entry.axis == mesh.axes()[static_cast<size_t>(axis)].name;
        }))
      open.push_back(axis);
  if (const std::optional<Spec> found = spec_by_shapes(plain, open, actual)) return *found;
  const LocalShape odd = *misfit_shard(plain, actual);
  throw_bad_input("the shard has shape {} on rank {}, but {} as \"{}\" has shape {} there",
                  to_string(odd.shape), odd.lanes[0], to_string(shape), text,
                  to_string(plain.local_shape(odd.lanes[0])));
}

void Partitioner::run_claim(const GlobalInstr& instr) {
  PlacedValue value = values_[static_cast<size_t>(instr.inputs[0])];
  if (value.number) {
    value.id = materialize(value);
    value.number.reset();
  }
  const Spec spec = instr.like != kNoValue ? spec_like(instr, value) : claimed_spec(instr, value);
  const std::vector<LocalShape>& actual =
      result_.program.values[static_cast<size_t>(value.id)].shapes;
  if (const std::optional<LocalShape> odd = misfit_shard(spec, actual))
    throw_bad_input("the shard has shape {} on rank {}, where that of {} has shape {}{}",
                    to_string(odd->shape), odd->lanes[0],
                    values_[static_cast<size_t>(instr.like)].name,
                    to_string(spec.local_shape(odd->lanes[0])),
                    instr.dual ? "; if this is its gradient, an op inside `as` repeats the shard: "
                                 "write its line without `as`"
                               : "");
  Merge merge;
  merge.output = add_value(value.meta.dtype, spec, Category::activations);
  merge.parts = {{spec.mesh().ranks(), value.id}};
  PlacedValue claimed{merge.output, value.meta, spec, std::nullopt, ""};
  add(std::move(merge), spec.mesh().ranks());
  if (instr.dual) claimed = scale_parts(claimed, instr, true);
  place(instr.outputs[0], std::move(claimed));
}

namespace {

// Splits lanes into classes on which each input has one local shape.
std::vector<Lanes> lanes_of_equal_shapes(const Lanes& lanes, const std::vector<PlacedValue>& inputs,
                                         const std::vector<LocalShapes>& held) {
  std::vector<Lanes> classes{lanes};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].meta.absent) continue;
    std::vector<Lanes> finer;
    for (const Lanes& part : classes)
      for (const LocalShape& shape : held[i])
        if (Lanes cut = part.intersect(shape.lanes); !cut.empty()) finer.push_back(cut);
    classes = std::move(finer);
  }
  return classes;
}

// Returns the local shapes of each output of an op that every rank runs on its shards. `held` are
// the local shapes of each input.
std::vector<std::vector<LocalShape>> infer_on_shards(const OpRecord& op, const GlobalInstr& instr,
                                                     const std::vector<PlacedValue>& inputs,
                                                     const std::vector<LocalShapes>& held,
                                                     const Lanes& lanes) {
  std::vector<std::vector<LocalShape>> shapes(instr.outputs.size());
  for (const Lanes& part : lanes_of_equal_shapes(lanes, inputs, held)) {
    OpCall call{&instr.attrs, {}};
    for (size_t i = 0; i < inputs.size(); ++i) {
      TensorMeta meta = inputs[i].meta;
      for (const LocalShape& shape : held[i])
        if (shape.lanes.contains(part[0])) meta.shape = shape.shape;
      call.inputs.push_back(std::move(meta));
    }
    const std::vector<TensorMeta> outputs = op.infer(call);
    for (size_t o = 0; o < outputs.size(); ++o) shapes[o].push_back({part, outputs[o].shape});
  }
  return shapes;
}

}  // namespace

void Partitioner::run_local(const OpRecord& op, const GlobalInstr& instr) {
  Compute compute;
  compute.op = op.name;
  std::vector<PlacedValue> inputs;
  for (ValueId id : instr.inputs) {
    inputs.push_back(id == kNoValue ? PlacedValue{} : values_[static_cast<size_t>(id)]);
    PlacedValue& input = inputs.back();
    input.meta.absent = id == kNoValue;
    if (input.number) input.id = materialize(input);
    compute.inputs.push_back(id == kNoValue ? kNoValue : input.id);
  }
  const Mesh& mesh = mesh_of(inputs);
  const Lanes lanes = mesh.ranks();
  compute.attrs = {{lanes, instr.attrs}};
  std::vector<LocalShapes> held;
  for (const ValueId id : compute.inputs)
    held.push_back(id == kNoValue ? LocalShapes{}
                                  : result_.program.values[static_cast<size_t>(id)].shapes);
  const std::vector<std::vector<LocalShape>> shapes =
      infer_on_shards(op, instr, inputs, held, lanes);
  compute.specs = specs_inside_as(op, instr.attrs, inputs, held, mesh);
  for (size_t o = 0; o < instr.outputs.size(); ++o) {
    const GlobalValue& value = global_->values[static_cast<size_t>(instr.outputs[o])];
    const ValueId id = add_value(value.dtype, Spec::replicated(mesh, value.shape, value.dtype),
                                 Category::activations);
    SpmdValue& made = result_.program.values[static_cast<size_t>(id)];
    made.shapes = shapes[o];
    made.spec.reset();
    compute.outputs.push_back(id);
    values_[static_cast<size_t>(instr.outputs[o])] = PlacedValue{
        id,  {value.dtype, value.shape, value.weak, false}, std::nullopt, std::nullopt, value.name,
        mesh};
  }
  add(std::move(compute), lanes);
}

void Partitioner::free_rebound(const GlobalInstr& instr, size_t index) {
  for (ValueId id : instr.outputs) {
    const std::string& name = global_->values[static_cast<size_t>(id)].name;
    if (name.empty()) continue;
    const auto old = bound_.find(name);
    if (old != bound_.end() && old->second != id) {
      const size_t last_use = last_use_[static_cast<size_t>(old->second)];
      const ValueId placed = result_.placed[static_cast<size_t>(old->second)];
      if (placed != kNoValue && !global_->recomputed.contains(old->second))
        free_after_[std::max(last_use, index)].push_back(placed);
    }
    bound_[name] = id;
  }
  for (const ValueId id : instr.outputs)
    if (global_->recomputed.contains(id)) {
      const ValueId placed = result_.placed[static_cast<size_t>(id)];
      if (placed != kNoValue)
        free_after_[std::max(last_use_[static_cast<size_t>(id)], index)].push_back(placed);
    }
  for (const ValueId placed : free_after_[index]) {
    const SpmdValue& value = result_.program.values[static_cast<size_t>(placed)];
    Lanes lanes;
    for (const LocalShape& shape : value.shapes) lanes = lanes.unite(shape.lanes);
    add(Free{placed}, lanes);
  }
  free_after_.erase(index);
}

Partitioned partition(const GlobalProgram& program, const Job& job, const OpRegistry& ops,
                      const PartitionOptions& options) {
  const std::optional<ConstantMeshes> placed = place_constants(program, job);
  Partitioner partitioner(job, ops, options);
  Partitioned result =
      placed ? partitioner.run(placed->program, placed->mesh_of) : partitioner.run(program, {});
  // Copies of constants on further meshes are no values of the program given.
  const auto count = static_cast<ValueId>(program.values.size());
  for (SpmdValue& value : result.program.values)
    if (value.global >= count) value.global = kNoValue;
  result.placed.resize(program.values.size());
  release_temporaries(result.program);
  return result;
}

}  // namespace shardproof
