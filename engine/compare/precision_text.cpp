// Implements precision_text.h.
#include "shardproof/engine/compare/precision_text.h"

#include <fmt/format.h>

#include <cmath>

#include "shardproof/localtensor/base/number_text.h"

namespace shardproof {

std::string precision_text(const ValuePrecision& precision) {
  const std::string name = precision.name.empty() ? "a value inside the line" : precision.name;
  if (precision.unequal > 0)
    return fmt::format(
        "{}: {} of {} elements differ by up to {}, because the ranks round and one device does not",
        name, precision.unequal, precision.of, rough_number(precision.difference));
  if (!std::isfinite(precision.error))
    return name + ": not finite on a rank where one device holds a number";
  const double explained = precision.ratio * precision.device_error;
  const bool is_to_device = std::abs(explained - precision.error) <= 0.1 * precision.error;
  return fmt::format("{}: error {} of its largest element, one device {}: {} times{}", name,
                     rough_number(precision.error), rough_number(precision.device_error),
                     factor_text(precision.ratio), is_to_device ? "" : " one unit of rounding");
}

}  // namespace shardproof
