// Recorded rows of op values as programs of the scenario language: inputs x0, x1, ... and results
// y0, y1, ...
#pragma once

#include <string>
#include <vector>

#include "shardproof/localtensor/tensor/tensor.h"
#include "shardproof/tests/conformance/cases.h"

namespace shardproof::conformance {

// The reason for which a row is not run.
struct Skip {
  std::string why;
};

// Throws Skip.
std::vector<std::string> lines_of(const Json& row);

// An input by the fill rules of torch/README.md. Throws Skip.
Tensor filled_input(const Json& input, int number);

}  // namespace shardproof::conformance
