// Implements program_text.h: parses mesh, placements and listings, as the scenario loader does.
#include "shardproof/engine/generate/forms/program_text.h"

namespace shardproof {
namespace {

JobInput input_of(const TensorText& tensor, const Mesh& mesh) {
  const Spec spec = tensor.placements.empty()
                        ? Spec::replicated(mesh, tensor.shape, tensor.dtype)
                        : Spec::parse(tensor.placements, mesh, tensor.shape, tensor.dtype);
  return {tensor.name, spec, mesh.ranks(), tensor_of(tensor.dtype, tensor.shape, tensor.values),
          Category::activations};
}

}  // namespace

Job job_of(const ProgramText& text) {
  Job job;
  const Mesh mesh = Mesh::parse(text.mesh);
  job.meshes = {{"", mesh}};
  job.world = mesh.size();
  job.dtype = text.dtype;
  for (const TensorText& tensor : text.tensors) job.inputs.push_back(input_of(tensor, mesh));
  if (text.is_global()) {
    job.program = parse_listing(text.program);
    return job;
  }
  job.ranks.push_back({mesh.ranks(), parse_listing(text.ranks), "/ranks/all"});
  job.truth = parse_listing(text.truth);
  for (const auto& [name, placements] : text.outputs)
    job.outputs.push_back({name, placements, "", mesh.ranks(), "/outputs/" + name});
  return job;
}

}  // namespace shardproof
