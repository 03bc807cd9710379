// LibraryChoice: the user's choice of the libraries that a backend opens at run time.
#pragma once

#include <optional>
#include <string>

#include "shardproof/localtensor/dtype/matmul_precision.h"

namespace shardproof {

struct LibraryChoice {
  std::optional<std::string> nccl;  // path of the library; nullopt: search for it
  MatmulPrecision matmul = MatmulPrecision::highest;
};

// Returns how a recorded run names the precision: "full", or "tf32", the narrowest format allowed.
inline std::string matmul_fact(MatmulPrecision precision) {
  return precision == MatmulPrecision::highest ? "full" : "tf32";
}

}  // namespace shardproof
