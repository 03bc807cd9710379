// LoadContext: meshes, world, lets, default dtype and limits that the readers of a case need; and
// these readers. All of them throw Error(bad_input) with the JSON path.
#pragma once

#include "shardproof/engine/check/check.h"
#include "shardproof/scenarios/load/error_list.h"
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
  ErrorList* errors = nullptr;  // errors after which reading continues
  bool timed = false;           // true: the file has a topology

  NumberScope scope() const { return lets->scope(); }
  const Mesh& mesh(const std::string& name) const;  // throws if unknown
  Lanes ranks(const JsonReader& selector) const;    // ranks of a selector text
  // Returns the name of a group as calls print it: axes in mesh order joined by +, "world" or a
  // name of `groups`. `name` may have the axes in any order. Throws if it is unknown.
  std::string group_name(const std::string& name) const;
};

struct ReadTensor {
  JobInput input;
  Fill fill;
};
// Adds errors of single tensors to `context.errors` and continues.
std::vector<ReadTensor> read_tensors(const JsonReader& tensors, const LoadContext& context);
Dims read_shape(const JsonReader& reader, const LoadContext& context);
std::vector<JobOutput> read_outputs(const JsonReader& outputs, const LoadContext& context);

// Reads only verdict, error, name and line, with which a refused case is compared.
Expect read_refusal(const JsonReader& expect);
// Refuses unknown keys of an `expect`.
void check_expect_keys(const JsonReader& expect);
// Adds errors of single keys to `context.errors` and continues.
Expect read_expect(const JsonReader& expect, const LoadContext& context);
// Reads the key `precision` of an `expect`.
std::vector<PrecisionLimit> read_precision_limits(const JsonReader& expect,
                                                  const LoadContext& context);
// Refuses names of values, axes and lines in an `expect` that the job does not have.
void check_expected_names(const JsonReader& reader, const Expect& expect, const Job& job);
// Refuses a limit on the precision of a name that the lowered program does not bind, of a dtype
// without rounding, of f64 and of c128.
void check_limited_values(const Job& job, const LoweredJob& lowered);

// Returns the phases of one case. `root` contains the settings of the sweep. Adds to `errors` and
// continues where it can; the phases are complete only if it adds nothing. Also throws
// Error(limit).
std::vector<Phase> load_phases(const JsonTree& root, const LoadOptions& options, ErrorList& errors);

}  // namespace shardproof
