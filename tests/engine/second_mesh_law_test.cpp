// Tests the law of constants on several meshes, for every op and every sample. The op and its
// gradient give the same bits and placements on the second mesh of a job as on the first. Constants
// of decompositions, lowerings and gradients have no tensor that states a mesh.
#include <gtest/gtest.h>

#include <random>

#include "shardproof/engine/check/check.h"
#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::testing::second_mesh_law_test {
namespace {

constexpr const char* kMeshes[] = {"tp=2 on 0-1", "tp=2 on 2-3"};
constexpr size_t kMostResults = 3;
// With few draws, one of this number of samples.
constexpr size_t kSampleStep = kFewDraws ? 5 : 1;

// A placement by chunks, whole, or as parts of a sum.
Spec drawn_spec(std::mt19937& bits, const TensorMeta& meta, const Mesh& mesh) {
  const int dims = meta.shape.size();
  const auto kind = static_cast<int>(bits() % static_cast<unsigned>(dims + 2));
  if (kind < dims) return Spec(mesh, {S(kind)}, meta.shape, meta.dtype);
  if (kind == dims && is_floating(meta.dtype))
    return Spec(mesh, {P(ReduceOp::sum)}, meta.shape, meta.dtype);
  return Spec::replicated(mesh, meta.shape, meta.dtype);
}

// The lines of one sample. `chosen` is a bool on the mesh, so that constants have a reader there.
struct SampleProgram {
  std::vector<std::string> lines{""}, names;
};

SampleProgram program_of(const OpInstance& instance, size_t results, bool differentiated) {
  SampleProgram program;
  std::vector<std::string> arguments;
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    const TensorMeta& meta = instance.inputs[i];
    arguments.push_back(fmt::format("x{}", i));
    if (!meta.weak) continue;
    const double number = values_of(instance.tensors[i]).at(0);
    arguments.back() = is_floating(meta.dtype) ? fmt::format("({:#})", number)
                                               : fmt::format("({})", static_cast<int64_t>(number));
  }
  std::string bound;
  for (size_t o = 0; o < results; ++o) {
    const std::string y = fmt::format("y{}", o);
    bound += (o == 0 ? "" : ", ") + y;
    program.lines.push_back(fmt::format("z{} = where(chosen, {}, {})", o, y, y));
    program.names.insert(program.names.end(), {y, fmt::format("z{}", o)});
  }
  program.lines[0] = bound + " = " + call_text(instance, arguments);
  if (!differentiated) return program;
  program.lines.emplace_back("l = sum(z0 * z0)");
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    const TensorMeta& meta = instance.inputs[i];
    if (meta.weak || meta.absent || (!is_floating(meta.dtype) && !is_complex(meta.dtype))) continue;
    program.lines.push_back(fmt::format("g{} = grad(l, x{})", i, i));
    program.names.push_back(fmt::format("g{}", i));
  }
  return program;
}

Job job_on(int mesh, const OpInstance& instance, const SampleProgram& program, unsigned seed) {
  Job job;
  job.meshes = {{"first", Mesh::parse(kMeshes[0])}, {"second", Mesh::parse(kMeshes[1])}};
  job.world = 4;
  job.program = parse_listing(program.lines);
  job.keep = program.names;
  const Mesh& at = job.meshes[static_cast<size_t>(mesh)].second;
  std::mt19937 bits(seed);
  for (size_t i = 0; i < instance.inputs.size(); ++i)
    if (const TensorMeta& meta = instance.inputs[i]; !meta.weak && !meta.absent)
      job.inputs.push_back({fmt::format("x{}", i), drawn_spec(bits, meta, at), at.ranks(),
                            instance.tensors[i], Category::activations});
  job.inputs.push_back({"chosen", Spec::replicated(at, {}, DType::boolean), at.ranks(),
                        tensor_of(DType::boolean, {}, {1}), Category::activations});
  return job;
}

// The results of one job as text: findings, placements and bits of all kept values; or a refusal.
std::string shown(const Job& job, bool with_refusal) {
  try {
    const Outcome outcome = check(job, builtin_registries());
    std::string text =
        fmt::format("{} findings, {} compared\n", outcome.findings.size(), outcome.values_compared);
    for (const std::string& name : job.keep) {
      const ValueInfo& value = outcome.values.at(name);
      text += fmt::format("{} {}", name, value.spec ? placements_text(*value.spec) : "unplaced");
      const Tensor held = value.value ? contiguous_copy(*value.value) : Tensor{};
      const size_t bytes = held.buffer ? static_cast<size_t>(held.elements()) *
                                             static_cast<size_t>(size_of(held.dtype))
                                       : 0;
      for (size_t i = 0; i < bytes; ++i)
        text += fmt::format(" {:02x}", static_cast<unsigned>(held.data()[i]));
      text += "\n";
    }
    return text;
  } catch (const Error& error) {
    if (!with_refusal) return "";
    return "refused: " + error.message();
  }
}

class SecondMeshLaw : public ::testing::TestWithParam<std::string> {};

TEST_P(SecondMeshLaw, OpAndGradient_OnSecondMesh_GiveWhatTheFirstGives) {
  const OpRecord& record = builtin_registries().ops.at(GetParam());
  const std::vector<Sample> samples = record.samples();
  size_t ran = 0;
  for (size_t s = 0; s < samples.size(); s += kSampleStep) {
    const OpInstance instance = instance_of(record, samples[s], 17);
    const auto seed = static_cast<unsigned>(s);
    SampleProgram program;
    std::string first;
    // A composite op does not state its number of results, and not every result has a gradient.
    for (const bool differentiated : {true, false})
      for (size_t results = 1; results <= kMostResults && first.empty(); ++results) {
        program = program_of(instance, results, differentiated);
        first = shown(job_on(0, instance, program, seed), false);
      }
    if (first.empty()) continue;  // dtypes that no program may use
    ++ran;
    EXPECT_EQ(shown(job_on(1, instance, program, seed), true), first)
        << fmt::format("{}", fmt::join(program.lines, "\n"));
  }
  EXPECT_TRUE(ran > 0 || samples.empty());
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpRecord* record : builtin_registries().ops.all()) names.push_back(record->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(AllOps, SecondMeshLaw, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace shardproof::testing::second_mesh_law_test
