// Implements constant_meshes.h in three passes over the instructions.
//
// 1. Forward: the mesh of each value that a tensor of the scenario or a redistribution determines.
//    All other tensors are constants.
// 2. Backward: the meshes on which each constant is read, the first reader's first. An instruction
//    that makes a constant runs on the meshes of its results, and so do the constants it reads.
// 3. Forward: write each instruction once for each of its meshes.
#include "shardproof/engine/partition/constant_meshes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace shardproof {
namespace {

constexpr int kNoMesh = -1;  // of a number and a constant
using Meshes = std::vector<int>;

class ConstantPlacer {
 public:
  ConstantPlacer(const GlobalProgram& program, const Job& job)
      : given_(program),
        job_(job),
        mesh_of_(program.values.size(), kNoMesh),
        read_on_(program.values.size()) {}

  ConstantMeshes run() {
    find_meshes();
    runs_on_.resize(given_.instrs.size());
    for (size_t i = given_.instrs.size(); i-- > 0;) find_readers(i);
    write();
    return std::move(result_);
  }

 private:
  int& mesh_of(ValueId id) { return mesh_of_[static_cast<size_t>(id)]; }
  Meshes& read_on(ValueId id) { return read_on_[static_cast<size_t>(id)]; }
  bool is_constant(ValueId id) {
    return id != kNoValue && mesh_of(id) == kNoMesh && !given_.values[static_cast<size_t>(id)].weak;
  }
  // Returns all values that an instruction reads, including a value of which it only uses the
  // placements.
  static std::vector<ValueId> read_by(const GlobalInstr& instr) {
    std::vector<ValueId> values = instr.inputs;
    if (instr.like != kNoValue) values.push_back(instr.like);
    return values;
  }

  int index_of(const Mesh& mesh) const {
    for (size_t m = 0; m < job_.meshes.size(); ++m)
      if (job_.meshes[m].second == mesh) return static_cast<int>(m);
    return kNoMesh;
  }

  void find_meshes() {
    for (size_t i = 0; i < given_.inputs.size(); ++i)
      mesh_of(given_.inputs[i]) = index_of(job_.inputs[i].spec.mesh());
    for (const GlobalInstr& instr : given_.instrs)
      for (const ValueId output : instr.outputs) mesh_of(output) = mesh_of_result(instr, output);
  }

  int mesh_of_result(const GlobalInstr& instr, ValueId output) {
    for (size_t m = 0; m < job_.meshes.size(); ++m)
      if (!instr.mesh.empty() && job_.meshes[m].first == instr.mesh) return static_cast<int>(m);
    if (instr.like != kNoValue && mesh_of(instr.like) != kNoMesh) return mesh_of(instr.like);
    for (const ValueId input : instr.inputs)
      if (input != kNoValue && mesh_of(input) != kNoMesh) return mesh_of(input);
    const ValueId state = given_.values[static_cast<size_t>(output)].state_of;
    return state == kNoValue ? kNoMesh : mesh_of(state);
  }

  bool has_axes(int mesh, const GlobalInstr& instr) const {
    const Mesh& found = job_.meshes[static_cast<size_t>(mesh)].second;
    return std::all_of(
        instr.placements.begin(), instr.placements.end(),
        [&](const PlacementText& one) { return one.axis.empty() || found.find_axis(one.axis); });
  }

  // Returns the one mesh of an instruction that places a constant, from those of its readers.
  int mesh_with_axes(const GlobalInstr& instr, Meshes candidates) const {
    for (size_t m = 0; m < job_.meshes.size(); ++m) candidates.push_back(static_cast<int>(m));
    for (const int mesh : candidates)
      if (has_axes(mesh, instr)) return mesh;
    return candidates.front();
  }

  Meshes meshes_of_instr(const GlobalInstr& instr) {
    Meshes meshes;
    for (const ValueId output : instr.outputs) {
      if (!is_constant(output)) return {mesh_of(output)};
      for (const int mesh : read_on(output))
        if (std::find(meshes.begin(), meshes.end(), mesh) == meshes.end()) meshes.push_back(mesh);
    }
    if (instr.kind != GlobalKind::op) return {mesh_with_axes(instr, std::move(meshes))};
    if (meshes.empty()) meshes.push_back(0);
    return meshes;
  }

  void find_readers(size_t i) {
    const GlobalInstr& instr = given_.instrs[i];
    runs_on_[i] = meshes_of_instr(instr);
    for (const ValueId input : read_by(instr)) {
      if (!is_constant(input)) continue;
      Meshes meshes = runs_on_[i];
      for (const int later : read_on(input))
        if (std::find(meshes.begin(), meshes.end(), later) == meshes.end()) meshes.push_back(later);
      read_on(input) = std::move(meshes);
    }
  }

  void write() {
    result_.program = given_;
    result_.program.instrs.clear();
    for (size_t i = 0; i < given_.instrs.size(); ++i)
      for (const int mesh : runs_on_[i]) write_on(given_.instrs[i], mesh, mesh != runs_on_[i][0]);
  }

  void write_on(GlobalInstr instr, int mesh, bool is_copy) {
    const auto read = [&](ValueId& id) {
      const auto copy = copies_.find({id, mesh});
      if (copy != copies_.end()) id = copy->second;
    };
    for (ValueId& input : instr.inputs) read(input);
    read(instr.like);
    for (ValueId& output : instr.outputs) {
      if (!is_copy) continue;
      GlobalValue value = given_.values[static_cast<size_t>(output)];
      value.name.clear();
      const ValueId made = static_cast<ValueId>(result_.program.values.size());
      result_.program.values.push_back(std::move(value));
      copies_[{std::exchange(output, made), mesh}] = made;
    }
    result_.program.instrs.push_back(std::move(instr));
    result_.mesh_of.push_back(&job_.meshes[static_cast<size_t>(std::max(mesh, 0))].second);
  }

  const GlobalProgram& given_;
  const Job& job_;
  std::vector<int> mesh_of_;                           // by value
  std::vector<Meshes> read_on_;                        // by value: of a constant
  std::vector<Meshes> runs_on_;                        // by instruction
  std::map<std::pair<ValueId, int>, ValueId> copies_;  // by constant and mesh
  ConstantMeshes result_;
};

}  // namespace

std::optional<ConstantMeshes> place_constants(const GlobalProgram& program, const Job& job) {
  if (job.meshes.size() < 2) return std::nullopt;
  return ConstantPlacer(program, job).run();
}

}  // namespace shardproof
