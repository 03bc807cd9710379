// Errors of the call of a row in a rule table: at which key of the row the call is wrong, and what
// is accepted there.
//
//   dtype      /inputs/0/dtype, and the dtypes that the call takes
//   argument   /attrs/dim, if the message is about a key of `attrs`
//   other      /call, /attrs or /inputs
#pragma once

#include <functional>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/scenarios/json/json_reader.h"

namespace shardproof {

// Returns whether a call is legal for these inputs.
using IsLegalCall = std::function<bool(const std::vector<TensorMeta>& inputs)>;

// Returns the error of a call that is not legal, with the key of the row. Other errors are returned
// as they are.
Error row_call_error(const Error& error, const JsonReader& row,
                     const std::vector<TensorMeta>& inputs, const IsLegalCall& is_legal);

}  // namespace shardproof
