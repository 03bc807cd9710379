// Implements placement.h, except the parser (placement_text.cpp).
#include "shardproof/localtensor/placement/placement.h"

#include <fmt/format.h>

#include <array>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/join_text.h"

namespace shardproof {

namespace {

constexpr std::array<std::string_view, 10> kReduceNames = {
    "sum", "avg", "prod", "min", "max", "band", "bor", "bxor", "premul_sum", "norm"};

}  // namespace

std::string_view name(ReduceOp op) { return kReduceNames[static_cast<size_t>(op)]; }

std::string to_string(const Reduction& reduction) {
  const bool scaled = reduction.op == ReduceOp::premul_sum || reduction.op == ReduceOp::norm;
  if (!scaled) return std::string(name(reduction.op));
  return fmt::format("{}({})", name(reduction.op), reduction.scalar);
}

std::string to_string(const Placement& placement) {
  if (placement.is_replicate()) return "R";
  if (placement.is_partial()) return fmt::format("P({})", to_string(placement.partial().reduction));
  const Shard& shard = placement.shard();
  if (!shard.sizes.empty())
    return fmt::format("S({}, sizes=[{}])", shard.dim, join_text(shard.sizes, ", "));
  if (shard.split != 1) return fmt::format("S({}, split={})", shard.dim, shard.split);
  return "S(" + std::to_string(shard.dim) + ")";  // fast path: printed programs have thousands
}

}  // namespace shardproof
