// What the steps of ranks may have lost until a declared output was made (error_program.h), and
// what that allows beside the truth: t is the truth as computed, v the value in real arithmetic, w
// what the ranks hold. |t - v| is within the bound of the truth and |w - v| within the errors of
// the ranks' steps, so |t - w| is within their sum.
#pragma once

#include <optional>
#include <vector>

#include "shardproof/engine/compare.h"

namespace shardproof {

// Of the whole value, row-major: `errors` (f64) lie as `spec` places the value. Nothing where some
// rank's errors have another shape.
std::optional<std::vector<double>> errors_of_whole(const LocalTensor& errors, const Spec& spec);

// Such that twice the bound is what both allow, and no less than before. What the ranks hold is no
// number where the truth is one, or most of it is 0 where the truth is not: that no rounding
// explains.
Bound with_step_errors(const Bound& bound, const Tensor& truth, const std::vector<double>& steps,
                       const std::vector<double>& held);

}  // namespace shardproof
