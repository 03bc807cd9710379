// Implements legal_indices.h. Legal indices are an interval, so the ends of a fill are moved
// inwards one by one. While the fill of one input is narrowed, the index inputs after it hold 0.
//
// Example: "ints(-5, 5)" for a dim of 3: -5 and -4 are refused, -3 is accepted; 4 and 3 are
// refused, 2 is accepted; the fill becomes "ints(-3, 3)".
#include "shardproof/engine/check_ops/legal_indices.h"

#include <cstdio>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

std::string range_fill(int64_t low, int64_t high) { return fmt::format("ints({}, {})", low, high); }

// Returns false if the input has no fill "ints(low, high)".
bool read_range(const Sample& sample, size_t input, int64_t& low, int64_t& high) {
  long long from = 0, to = 0;
  if (sample.inputs[input].absent || !is_integral(sample.inputs[input].dtype) ||
      std::sscanf(sample.fills[input].c_str(), "ints(%lld, %lld)", &from, &to) != 2)
    return false;
  low = from;
  high = to;
  return true;
}

}  // namespace

bool narrow_indices(Sample& sample, const std::function<bool(const Sample&)>& accepts) {
  sample.fills.resize(sample.inputs.size());
  bool has_ranges = false;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    int64_t low = 0, high = 0;
    if (!read_range(sample, i, low, high)) continue;
    has_ranges = true;
    const auto is_legal = [&](int64_t number) {
      Sample probe = sample;
      for (size_t other = i + 1; other < sample.inputs.size(); ++other) {
        int64_t first = 0, end = 0;
        if (read_range(sample, other, first, end)) probe.fills[other] = range_fill(0, 1);
      }
      probe.fills[i] = range_fill(number, number + 1);
      return accepts(probe);
    };
    while (low < high && !is_legal(low)) ++low;
    while (low < high && !is_legal(high - 1)) --high;
    if (low >= high) return false;
    sample.fills[i] = range_fill(low, high);
  }
  return has_ranges || accepts(sample);
}

}  // namespace shardproof
