// Setting: what the parts of a case are read against: meshes, world, lets, default dtype, limits.
#pragma once

#include "shardproof/engine/check/check.h"
#include "shardproof/scenarios/load/let_table.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/load/select_entries.h"

namespace shardproof {

struct LoadContext {
  NamedMeshes meshes;
  int64_t world = 1;
  std::vector<std::pair<std::string, std::vector<int32_t>>> groups;
  DType dtype = DType::f32;
  const LetTable* lets = nullptr;
  const LoadOptions* options = nullptr;
  bool timed = false;  // a topology is given

  NumberScope scope() const { return lets->scope(); }
  const Mesh& mesh(const std::string& name) const;  // key of `meshes`
  Lanes ranks(const JsonReader& selector) const;    // a text
  // A group's name as calls print it: axes in mesh order joined by +, "world" or a name of
  // `groups`. `name` may have the axes in any order. Throws when unknown.
  std::string group_name(const std::string& name) const;
};

struct ReadTensor {
  JobInput input;
  Fill fill;
};
std::vector<ReadTensor> read_tensors(const JsonReader& tensors, const LoadContext& context);
std::vector<JobOutput> read_outputs(const JsonReader& outputs, const LoadContext& context);

// Only verdict, error, name and line: what a refused case is compared with.
Expect read_refusal(const JsonReader& expect);
void check_expect_keys(const JsonReader& expect);  // refuses those that no `expect` has
Expect read_expect(const JsonReader& expect, const LoadContext& context);
// Its key `precision`.
std::vector<PrecisionLimit> read_precision_limits(const JsonReader& expect,
                                                  const LoadContext& context);
// Values, axes and lines that it names must be there. Throws Error at their path.
void check_expected_names(const JsonReader& reader, const Expect& expect, const Job& job);
// Values with a limit on precision must have one: a name that the lowered program does not bind, a
// dtype without rounding, f64 and c128 are refused. Throws Error at the limit's path.
void check_limited_values(const Job& job, const LoweredJob& lowered);

// Builds one case from the root object with the sweep's settings in it. Throws Error.
std::vector<Phase> load_phases(const JsonTree& root, const LoadOptions& options);

}  // namespace shardproof
