#include "shardproof/ops/families.h"

namespace shardproof {

OpRegistry builtin_ops() {
  OpRegistry ops;
  add_matmul_ops(ops);
  add_einsum_ops(ops);
  add_view_ops(ops);
  add_reshape_ops(ops);
  add_piece_ops(ops);
  add_shift_ops(ops);
  add_index_ops(ops);
  add_along_dim_ops(ops);
  add_order_ops(ops);
  return ops;
}

}  // namespace shardproof
