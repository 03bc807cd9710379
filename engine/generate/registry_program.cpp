// Implements registry_program.h. A call whose line does not lower, or fails on one device, is drawn
// again.
#include "shardproof/engine/generate/registry_program.h"

#include "shardproof/engine/check_ops/check_rules.h"
#include "shardproof/engine/generate/forms/draw.h"
#include "shardproof/engine/generate/forms/draw_placements.h"
#include "shardproof/engine/generate/forms/one_device.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kMostTries = 40;  // for each call

class RegistryDraft {
 public:
  RegistryDraft(Draw& draw, const OpRegistry& ops) : draw_(draw), ops_(ops), records_(ops.all()) {
    text_.mesh = draw_mesh(draw);
    mesh_ = Mesh::parse(text_.mesh);
    text_.dtype = DType::f64;
  }

  void add_call() {
    for (int attempt = 0; attempt < kMostTries; ++attempt) {
      const ProgramText before = text_;
      const std::vector<std::string> called = called_;
      if (draw_call() && runs()) return add_move();
      text_ = before;
      called_ = called;
    }
  }

  ProgramText finish(uint64_t seed) {
    std::string names;
    for (const std::string& op : called_) names += (names.empty() ? "" : ", ") + op;
    text_.about = fmt::format("Generated: calls of {}, seed {}.", names, seed);
    return std::move(text_);
  }

 private:
  // Returns false if the op has no sample that tensors of a scenario can hold.
  bool draw_call() {
    const OpRecord& record = *draw_.from(records_);
    std::vector<Sample> samples = record.samples();
    if (samples.empty()) return false;
    Sample sample = draw_.from(samples);
    if (record.infer && draw_.chance(0.5)) {
      const std::vector<Sample> others = samples_of_other_sizes(record, sample);
      if (!others.empty()) sample = draw_.from(others);
    }
    OpInstance instance = instance_of(record, sample, draw_.bits() >> 1);
    if (record.infer && !record.is_composite(instance.call()))
      if (const std::optional<OpInstance> wide = in_f64(instance)) instance = *wide;
    std::vector<std::string> names;
    for (size_t i = 0; i < instance.inputs.size(); ++i) {
      const TensorMeta& meta = instance.inputs[i];
      if (meta.weak || is_complex(meta.dtype)) return false;
      names.push_back(meta.absent ? "" : fmt::format("x{}", text_.tensors.size()));
      if (!meta.absent) add_tensor(names.back(), instance.tensors[i]);
    }
    const std::string result = fmt::format("y{}", calls_++);
    std::string targets = result;
    for (int64_t i = 1; i < results_of_call(instance); ++i)
      targets += fmt::format(", {}_{}", result, i);
    text_.program.push_back(targets + " = " + call_text(instance, names));
    result_ = result;
    called_.push_back(record.name);
    return true;
  }

  // Sometimes moves the last result.
  void add_move() {
    if (!draw_.chance(0.3)) return;
    const MeshAxis& axis = draw_.from(mesh_.axes());
    const char* const to = draw_.chance(0.5) || result_dims_ == 0 ? "R" : "S(0)";
    text_.program.push_back(
        fmt::format("z{} = redistribute({}, {}:{})", calls_, result_, axis.name, to));
  }

  int64_t results_of_call(const OpInstance& instance) const {
    if (!instance.record->infer || instance.record->is_composite(instance.call())) return 1;
    return std::ssize(instance.record->infer(instance.call()));
  }

  void add_tensor(const std::string& name, const Tensor& tensor) {
    TensorText text{name, tensor.dtype, tensor.shape, "", values_of(tensor)};
    const PlacementChoice choice =
        is_floating(tensor.dtype) ? PlacementChoice::any : PlacementChoice::any_cut;
    const std::vector<Placement> placements =
        draw_placements(draw_, mesh_, tensor.shape, tensor.dtype, choice);
    if (legal_spec(mesh_, placements, tensor.shape, tensor.dtype))
      text.placements = all_axes_text(mesh_, placements);
    text_.tensors.push_back(std::move(text));
  }

  bool runs() {
    try {
      const Job job = job_of(text_);
      const GlobalProgram program = lower_one_device(job, ops_);
      run_one_device(program, ops_, input_tensors(job));
      const ValueId result = program.names.at(result_);
      result_dims_ = program.values[static_cast<size_t>(result)].shape.size();
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  Draw& draw_;
  const OpRegistry& ops_;
  std::vector<const OpRecord*> records_;
  ProgramText text_;
  std::string result_;  // of the last call
  int result_dims_ = 0;
  Mesh mesh_;
  std::vector<std::string> called_;
  int calls_ = 0;
};

}  // namespace

ProgramText registry_program(uint64_t seed, const OpRegistry& ops) {
  Draw draw(seed, "registry program");
  RegistryDraft draft(draw, ops);
  const int64_t calls = draw.between(1, 4);
  for (int64_t i = 0; i < calls; ++i) draft.add_call();
  return draft.finish(seed);
}

}  // namespace shardproof
