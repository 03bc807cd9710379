#include "shardproof/ops/families.h"

namespace shardproof {

OpRegistry builtin_ops() {
  OpRegistry ops;
  add_matmul_ops(ops);
  return ops;
}

}  // namespace shardproof
