// LibraryChoice: what a user says of the libraries that a backend opens when it runs.
#pragma once

#include <optional>
#include <string>

#include "shardproof/localtensor/dtype/matmul_precision.h"

namespace shardproof {

struct LibraryChoice {
  std::optional<std::string> nccl;  // its path; else it is looked for
  MatmulPrecision matmul = MatmulPrecision::highest;
};

// What a recorded run says of its products: "full", or the fewest bits that they may have, "tf32".
inline std::string matmul_fact(MatmulPrecision precision) {
  return precision == MatmulPrecision::highest ? "full" : "tf32";
}

}  // namespace shardproof
