// Compares local shapes, offsets and owned indices of each rank with recorded results of PyTorch.
#include "shardproof/tests/conformance/cases.h"

namespace shardproof::conformance::local_shapes_test {
namespace {

void check_rank(const Json& row, const Spec& spec, int64_t rank) {
  const auto at = static_cast<size_t>(rank);
  EXPECT_EQ(spec.local_shape(rank), dims_of(row["local_shape"][at])) << row["id"] << " " << rank;
  EXPECT_EQ(spec.start(rank), dims_of(row["global_offset"][at])) << row["id"] << " rank " << rank;
  if (row["owned"].is_array()) {
    EXPECT_EQ(owned_indices(spec, *spec.mesh().coordinate_of(rank)),
              row["owned"][at].get<std::vector<int64_t>>())
        << row["id"] << " rank " << rank;
  }
}

// A spec with an order of cutting must give the same owned indices.
void check_order(const Json& row, const Spec& strided) {
  const Json& from = row["from_shard_order"];
  std::vector<Placement> placements = strided.placements();
  for (Placement& p : placements)
    if (p.is_shard()) p = S(p.shard().dim);
  Json order;
  order[std::to_string(from["tensor_dim"].get<int>())] = from["mesh_axes_in_order"];
  const Spec ordered(strided.mesh(), placements, strided.shape(), strided.dtype(),
                     order_of(order, strided.mesh().axis_count()));
  for (int64_t rank = 0; rank < strided.mesh().size(); ++rank) {
    EXPECT_EQ(
        owned_indices(ordered, *strided.mesh().coordinate_of(rank)),
        row["owned_if_cut_in_that_order"][static_cast<size_t>(rank)].get<std::vector<int64_t>>())
        << row["id"] << " rank " << rank;
  }
  EXPECT_EQ(ordered.same_ownership(strided), row["strided_form_equals_order"].get<bool>())
      << row["id"];
}

TEST(LocalShapes, RecordedCases) {
  Tally tally("local_shapes");
  for (const Json& row : read_cases("torch/local_shapes.jsonl")) {
    const Mesh mesh = mesh_of(row["mesh"]);
    const Spec spec(mesh, placements_of(row["placements"]), dims_of(row["shape"]), DType::f32);
    for (int64_t rank = 0; rank < mesh.size(); ++rank) check_rank(row, spec, rank);
    if (row.contains("from_shard_order")) check_order(row, spec);
    EXPECT_EQ(Spec::parse(placements_text(spec), mesh, spec.shape(), spec.dtype()), spec);
    tally.ran();
  }
}

}  // namespace
}  // namespace shardproof::conformance::local_shapes_test
