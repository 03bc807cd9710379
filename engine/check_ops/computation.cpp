// Implements computation.h. A value has a number; the inputs are the first. Intermediate values of
// a run are dense, lane after lane.
#include "shardproof/engine/check_ops/computation.h"

#include <algorithm>
#include <cstring>

#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

LaneView dense_view(const TensorMeta& meta, std::byte* base, bool is_constant) {
  LaneView view;
  view.base = base;
  view.dtype = meta.dtype;
  view.shape = meta.shape;
  view.strides = contiguous_strides(meta.shape);
  view.lane_stride = is_constant ? 0 : element_count(meta.shape) * size_of(meta.dtype);
  return view;
}

Tensor constant_of(const GlobalValue& value) {
  const Number& number = value.number;
  if (number.is_double()) return tensor_of(value.dtype, {}, {number.real()});
  Tensor tensor = Tensor::empty(value.dtype, Dims{});
  store_i64(tensor.mutate(), value.dtype,
            number.is_bool() ? int64_t{number.truth()} : number.integer());
  return tensor;
}

}  // namespace

std::vector<std::vector<std::byte>> LocalProgram::run(int64_t lanes,
                                                      const std::vector<LaneView>& inputs,
                                                      const ShardInfo* shard) const {
  RunMemory memory;
  return run(lanes, inputs, memory, shard);
}

std::vector<std::vector<std::byte>> LocalProgram::run(int64_t lanes,
                                                      const std::vector<LaneView>& inputs,
                                                      RunMemory& memory,
                                                      const ShardInfo* shard) const {
  std::vector<LaneView>& views = memory.views;
  views.reserve(values_.size());
  views.assign(inputs.begin(), inputs.end());
  std::vector<std::vector<std::byte>>& storage = memory.storage;
  storage.resize(values_.size());
  for (std::vector<std::byte>& of_value : storage) of_value.clear();
  for (size_t id = inputs.size(); id < values_.size(); ++id) {
    const bool is_constant = constants_[id].buffer != nullptr;
    if (!is_constant)
      storage[id].resize(static_cast<size_t>(
          lanes * element_count(values_[id].shape) * size_of(values_[id].dtype) + 1));
    // Kernels do not write their inputs.
    std::byte* base =
        is_constant ? const_cast<std::byte*>(constants_[id].data()) : storage[id].data();
    views.push_back(dense_view(values_[id], base, is_constant));
  }
  for (const Step& step : steps_) {
    memory.inputs.clear();
    memory.outputs.clear();
    for (const int id : step.inputs)
      memory.inputs.push_back(id < 0 ? LaneView{} : views[static_cast<size_t>(id)]);
    for (const int id : step.outputs) memory.outputs.push_back(views[static_cast<size_t>(id)]);
    memory.workspace.resize(static_cast<size_t>(step.kernel.workspace_bytes) + 1);
    KernelCall call;
    call.lanes = lanes;
    call.inputs = &memory.inputs;
    call.outputs = &memory.outputs;
    call.workspace = memory.workspace.data();
    call.shard = shard;
    step.kernel.run(call);
  }
  std::vector<std::vector<std::byte>> results;
  for (const int id : results_) {
    const auto at = static_cast<size_t>(id);
    if (!storage[at].empty()) {
      results.push_back(std::move(storage[at]));
      continue;
    }
    // The result is an input or a number: it is copied lane by lane.
    const LaneView& view = views[at];
    const int64_t bytes = element_count(view.shape) * size_of(view.dtype);
    results.emplace_back(static_cast<size_t>(lanes * bytes + 1));
    for (int64_t lane = 0; lane < lanes; ++lane)
      std::memcpy(results.back().data() + lane * bytes, view.at(lane), static_cast<size_t>(bytes));
  }
  return results;
}

int LocalProgram::add_value(TensorMeta meta) {
  values_.push_back(std::move(meta));
  constants_.emplace_back();
  return static_cast<int>(values_.size()) - 1;
}

void LocalProgram::add_step(const OpRecord& record, const Attrs& attrs, std::vector<int> inputs,
                            std::vector<int> outputs, size_t wanted) {
  OpCall call{&attrs, {}, wanted};
  for (const int id : inputs) {
    TensorMeta absent;
    absent.absent = true;
    call.inputs.push_back(id < 0 ? absent : values_[static_cast<size_t>(id)]);
  }
  const std::vector<TensorMeta> metas = record.infer(call);
  if (outputs.empty())
    for (const TensorMeta& meta : metas) outputs.push_back(add_value(meta));
  for (size_t i = 0; i < outputs.size(); ++i) values_[static_cast<size_t>(outputs[i])] = metas[i];
  steps_.push_back({record.prepare(call, metas), std::move(inputs), std::move(outputs)});
}

Computation Computation::of_op(const OpRecord& record, Attrs attrs) {
  Computation computation;
  computation.record_ = &record;
  computation.attrs_ = std::move(attrs);
  return computation;
}

Computation Computation::of_lines(const OpRegistry& ops, const std::vector<std::string>& lines,
                                  std::vector<std::string> outputs) {
  Computation computation;
  computation.ops_ = &ops;
  computation.listing_ = parse_listing(lines);
  computation.output_names_ = std::move(outputs);
  return computation;
}

Computation Computation::of_sizes(const OpRegistry& ops, LinesBySizes lines,
                                  std::vector<std::string> outputs) {
  Computation computation;
  computation.ops_ = &ops;
  computation.lines_by_sizes_ = std::move(lines);
  computation.output_names_ = std::move(outputs);
  return computation;
}

LocalProgram Computation::compile(const std::vector<TensorMeta>& inputs) const {
  LocalProgram program;
  for (const TensorMeta& meta : inputs) program.add_value(meta);
  if (record_) {
    std::vector<int> given;
    for (size_t i = 0; i < inputs.size(); ++i)
      given.push_back(inputs[i].absent ? -1 : static_cast<int>(i));
    program.add_step(*record_, attrs_, std::move(given), {}, 1);
    program.results_ = program.steps_.back().outputs;
  } else {
    compile_lines(program, inputs);
  }
  for (const int id : program.results_)
    program.outputs_.push_back(program.values_[static_cast<size_t>(id)]);
  return program;
}

const LocalProgram* Computation::program(const std::vector<TensorMeta>& inputs) const {
  auto known = std::find_if(compiled_.begin(), compiled_.end(),
                            [&](const Compiled& one) { return one.inputs == inputs; });
  if (known == compiled_.end()) {
    compiled_.push_back({inputs, std::nullopt});
    known = compiled_.end() - 1;
    try {
      known->program = compile(inputs);
    } catch (const Error&) {
      // Stays nullopt.
    }
  }
  return known->program ? &*known->program : nullptr;
}

Listing Computation::listing_for(const std::vector<TensorMeta>& inputs) const {
  if (!lines_by_sizes_) return listing_;
  std::vector<Dims> sizes;
  for (const TensorMeta& meta : inputs) sizes.push_back(meta.shape);
  return parse_listing(lines_by_sizes_(sizes));
}

GlobalProgram Computation::lowered(const Listing& listing,
                                   const std::vector<TensorMeta>& inputs) const {
  GlobalContext context;
  context.ops = ops_;
  for (size_t i = 0; i < inputs.size(); ++i)
    context.inputs.emplace_back(fmt::format("x{}", i), inputs[i]);
  return lower_global(listing, context, "/program");
}

std::string Computation::why_other_results(const std::vector<TensorMeta>& inputs) const {
  if (record_) return "";
  const Listing listing = listing_for(inputs);
  if (listing.statements.size() != 1) return "";
  const size_t written = listing.statements[0].targets.size();
  const std::string& line = listing.lines[0];
  std::string targets;
  for (size_t count = 1; count < written; ++count) {
    targets += fmt::format("{}result{}", count == 1 ? "" : ", ", count);
    try {
      lowered(parse_listing({targets + " " + line.substr(line.find('='))}), inputs);
      return fmt::format("the call gives {} result{} there, not {} as on one device", count,
                         count == 1 ? "" : "s", written);
    } catch (const Error&) {
      continue;  // it has another number of results
    }
  }
  return "";
}

void Computation::compile_lines(LocalProgram& program,
                                const std::vector<TensorMeta>& inputs) const {
  const GlobalProgram lowered = this->lowered(listing_for(inputs), inputs);
  std::vector<int> number_of(lowered.values.size(), -1);
  for (size_t i = 0; i < lowered.inputs.size(); ++i)
    number_of[static_cast<size_t>(lowered.inputs[i])] = static_cast<int>(i);
  // A gradient is redistributed to the placement of its value, which changes nothing on one rank.
  std::vector<ValueId> same_as(lowered.values.size(), kNoValue);
  for (const GlobalInstr& instr : lowered.instrs)
    for (const ValueId id : instr.outputs) {
      if (instr.kind != GlobalKind::op) {
        same_as[static_cast<size_t>(id)] = instr.inputs.at(0);
        continue;
      }
      const GlobalValue& value = lowered.values[static_cast<size_t>(id)];
      number_of[static_cast<size_t>(id)] =
          program.add_value({value.dtype, value.shape, value.weak, false});
    }
  const auto value_number = [&](ValueId id) {
    if (id == kNoValue) return -1;
    while (same_as[static_cast<size_t>(id)] != kNoValue) id = same_as[static_cast<size_t>(id)];
    int& number = number_of[static_cast<size_t>(id)];
    const GlobalValue& value = lowered.values[static_cast<size_t>(id)];
    if (number < 0) {
      number = program.add_value({value.dtype, value.shape, value.weak, false});
      program.constants_[static_cast<size_t>(number)] = constant_of(value);
    }
    return number;
  };
  for (const GlobalInstr& instr : lowered.instrs) {
    if (instr.kind != GlobalKind::op) continue;
    std::vector<int> given, made;
    for (const ValueId id : instr.inputs) given.push_back(value_number(id));
    for (const ValueId id : instr.outputs) made.push_back(value_number(id));
    program.add_step(ops_->at(instr.op), instr.attrs, std::move(given), std::move(made),
                     instr.outputs.size());
  }
  for (const std::string& name : output_names_) {
    const auto found = lowered.names.find(name);
    if (found == lowered.names.end())
      throw_bad_input(
          "the call binds no {}; expected {}, a name for each result that \"out\" has placements "
          "of",
          name, fmt::join(output_names_, ", "));
    program.results_.push_back(value_number(found->second));
  }
}

std::vector<Tensor> Computation::run_whole(const std::vector<TensorMeta>& inputs,
                                           const std::vector<Tensor>& tensors) const {
  return run_whole(compile(inputs), inputs, tensors);
}

std::vector<Tensor> Computation::run_whole(const LocalProgram& program,
                                           const std::vector<TensorMeta>& inputs,
                                           const std::vector<Tensor>& tensors) {
  std::vector<LaneView> views;
  for (size_t i = 0; i < inputs.size(); ++i)
    views.push_back(inputs[i].absent
                        ? LaneView{}
                        : dense_view(inputs[i], const_cast<std::byte*>(tensors[i].data()), true));
  const std::vector<std::vector<std::byte>> results = program.run(1, views);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorMeta& meta = program.outputs()[i];
    outputs.push_back(Tensor::empty(meta.dtype, meta.shape));
    const int64_t bytes = outputs.back().elements() * size_of(meta.dtype);
    std::memcpy(outputs.back().mutate(), results[i].data(), static_cast<size_t>(bytes));
  }
  return outputs;
}

}  // namespace shardproof
