// The law of rules: the parts that ranks compute from their shards make up what one device
// computes. It is checked for one op and one call, on given meshes, with every strategy of the op's
// rule on every axis.
#pragma once

#include <string>
#include <vector>

#include "shardproof/localtensor/mesh/mesh.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/tests/ops/lower_by_rules.h"
#include "shardproof/tests/ops/run_op.h"

namespace shardproof::testing {

// The layout of an axis's shards: by the chunk rule, strided, or of explicit sizes.
struct CutChoice {
  int64_t split = 1;
  std::vector<int64_t> shares;  // sizes in order; empty: the chunk rule
};

struct OneDeviceRun {
  OpInstance instance;
  std::vector<TensorMeta> metas;
  std::vector<Tensor> outputs;
  bool whole_numbers =
      false;  // true: inputs and outputs are whole numbers, so no operation rounded
};

// Compares results as agreement.h states: bit-equal if no rank's result is combined with another's
// and no reduction changes the order, or if all numbers are whole; otherwise within the size of the
// terms.
class StrategyChecker {
 public:
  StrategyChecker(const OpRegistry& ops, const OpRecord& record) : ops_(ops), record_(record) {}

  void check(const OpInstance& instance, const Mesh& mesh, const std::vector<CutChoice>& cuts);

  int64_t combos() const { return combos_; }
  int64_t refused() const {
    return refused_;
  }  // lowerings rejected because another axis shards too
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  using Chosen = std::vector<const Strategy*>;  // by axis; null: replicated
  struct Grid {
    const OneDeviceRun& whole;
    const Mesh& mesh;
    const std::vector<CutChoice>& cuts;
  };

  void each_choice(const Grid& grid, const std::vector<std::vector<Strategy>>& rules,
                   Chosen& chosen, size_t axis);
  void try_strategies(const Grid& grid, const Chosen& chosen);
  void each_placement(const Grid& grid);
  void try_placement(const Grid& grid, const std::vector<std::vector<Placement>>& placements);
  void verify(const OneDeviceRun& whole, const std::vector<Spec>& inputs, const Placed& placed);
  std::vector<LocalTensor> run_directly(const OneDeviceRun& whole, const std::vector<Spec>& inputs,
                                        const std::vector<LocalTensor>& parts,
                                        const Placed& placed) const;
  std::vector<LocalTensor> run_lowered(const OneDeviceRun& whole, const std::vector<Spec>& inputs,
                                       const std::vector<LocalTensor>& parts,
                                       const std::vector<Spec>& outputs) const;
  // Returns "" if the ranks' result equals that of one device.
  std::string compare(const OneDeviceRun& whole, size_t output, const std::vector<Spec>& inputs,
                      const std::vector<LocalTensor>& parts, const Placed& placed,
                      const LocalTensor& result) const;
  void fail(const OneDeviceRun& whole, const std::vector<Spec>& inputs,
            const std::vector<Spec>& outputs, const std::string& why);

  const OpRegistry& ops_;
  const OpRecord& record_;
  int64_t combos_ = 0, refused_ = 0;
  std::vector<std::string> failures_;
};

}  // namespace shardproof::testing
