// Tests the law of mixed dtypes: an op takes the same dtypes beside its first float with every
// placement of its inputs. The result has the same dtype and, apart from rounding, the same values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::testing::mixed_dtypes_test {
namespace {

constexpr size_t kMostCombinations = 100;  // of one op and dtypes

std::vector<size_t> floats_of(const Sample& sample) {
  std::vector<size_t> found;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const TensorMeta& meta = sample.inputs[i];
    if (!meta.absent && !meta.weak && is_floating(meta.dtype)) found.push_back(i);
  }
  return found;
}

// All combinations in which each input is whole or cut once, by number. Number 0 has whole inputs.
class Combinations {
 public:
  Combinations(const OpInstance& instance, const Mesh& mesh) {
    for (const TensorMeta& meta : instance.inputs) {
      std::vector<Spec>& specs = specs_.emplace_back();
      for (int d = -1; d < (meta.absent || meta.weak ? 0 : meta.shape.size()); ++d)
        specs.emplace_back(mesh, std::vector<Placement>{d < 0 ? R() : S(d)},
                           meta.absent ? Dims() : meta.shape, meta.dtype);
    }
  }
  size_t count() const {
    size_t count = 1;
    for (const std::vector<Spec>& specs : specs_) count *= specs.size();
    return count;
  }
  std::vector<Spec> at(size_t number) const {
    std::vector<Spec> chosen;
    for (const std::vector<Spec>& specs : specs_) {
      chosen.push_back(specs[number % specs.size()]);
      number /= specs.size();
    }
    return chosen;
  }

 private:
  std::vector<std::vector<Spec>> specs_;  // by input
};

class MixedDTypes : public ::testing::TestWithParam<std::string> {
 protected:
  // Returns nullopt if the op does not take these dtypes.
  std::optional<GlobalRun> run(const OpInstance& instance, const std::vector<Spec>& specs) {
    std::vector<GlobalInput> inputs;
    for (size_t i = 0; i < instance.inputs.size(); ++i)
      inputs.push_back({instance.inputs[i], instance.tensors[i], specs[i]});
    try {
      return run_one_op(*instance.record, instance.attrs, inputs, specs.front().mesh());
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  void check(const OpInstance& instance) {
    const Mesh mesh = Mesh::parse("tp=2");
    const Combinations all(instance, mesh);
    const std::optional<GlobalRun> whole = run(instance, all.at(0));
    // Ops of many inputs have too many combinations. A step without the factors 2, 3 and 5 reaches
    // each of an input's placements.
    size_t step = std::max<size_t>(kFewDraws ? 5 : 1, all.count() / kMostCombinations);
    while (step > 5 && (step % 2 == 0 || step % 3 == 0 || step % 5 == 0)) ++step;
    for (size_t i = 0; i < all.count(); i += step) {
      const std::vector<Spec> specs = all.at(i);
      const std::optional<GlobalRun> cut = run(instance, specs);
      std::string about = GetParam() + "(" + to_string(instance.attrs) + ")";
      for (const Spec& spec : specs) about += "\n  in  " + to_string(spec);
      ASSERT_EQ(cut.has_value(), whole.has_value()) << about;
      if (!whole) continue;
      ASSERT_EQ(cut->error, "") << about;
      ++runs_;
    }
  }

  int runs_ = 0;
};

TEST_P(MixedDTypes, Result_WithAnyPlacementOfInputs_IsTheSame) {
  const OpRecord& record = builtin_registries().ops.at(GetParam());
  for (const Sample& sample : record.samples()) {
    const std::vector<size_t> floats = floats_of(sample);
    if (floats.size() < 2) continue;
    for (const size_t other : floats)
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
        Sample mixed = sample;
        if (mixed.inputs[other].dtype == dtype) continue;
        mixed.inputs[other].dtype = dtype;
        check(instance_of(record, mixed, 17));
        if (HasFatalFailure()) return;
      }
  }
  std::printf("  %s: %d runs\n", GetParam().c_str(), runs_);
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpRecord* record : builtin_registries().ops.all())
    if (const std::vector<Sample> samples = record->samples();
        std::any_of(samples.begin(), samples.end(),
                    [](const Sample& sample) { return floats_of(sample).size() > 1; }))
      names.push_back(record->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(AllOps, MixedDTypes, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace shardproof::testing::mixed_dtypes_test
