// Implements copy_segments.h. The common_* functions merge two ascending lists from their fronts.
#include "shardproof/localtensor/placement/copy_segments.h"

#include <algorithm>

#include "shardproof/localtensor/tensor/copy_strided.h"

namespace shardproof {

Segments gather_segments(const Runs& owned) {
  Segments segments;
  int64_t local = 0;
  for (const Run& run : owned) {
    segments.push_back({run.start, local, run.length});
    local += run.length;
  }
  return segments;
}

Segments scatter_segments(const Runs& owned) {
  Segments segments = gather_segments(owned);
  for (Segment& segment : segments) std::swap(segment.from, segment.to);
  return segments;
}

// Both lists ascend, because every cut of a spec keeps the order of the indices.
Segments common_segments(const Runs& source, const Runs& target) {
  Segments segments;
  size_t i = 0, j = 0;
  int64_t local_i = 0, local_j = 0;
  while (i < source.size() && j < target.size()) {
    const Run &a = source[i], &b = target[j];
    const int64_t start = std::max(a.start, b.start);
    const int64_t end = std::min(a.start + a.length, b.start + b.length);
    if (start < end) {
      const Segment next{local_i + start - a.start, local_j + start - b.start, end - start};
      if (!segments.empty() && segments.back().from + segments.back().length == next.from &&
          segments.back().to + segments.back().length == next.to)
        segments.back().length += next.length;
      else
        segments.push_back(next);
    }
    if (a.start + a.length <= b.start + b.length) {
      local_i += a.length;
      ++i;
    } else {
      local_j += b.length;
      ++j;
    }
  }
  return segments;
}

int64_t common_length(const Runs& a, const Runs& b) {
  int64_t total = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t start = std::max(a[i].start, b[j].start);
    const int64_t end_a = a[i].start + a[i].length, end_b = b[j].start + b[j].length;
    total += std::max<int64_t>(0, std::min(end_a, end_b) - start);
    end_a < end_b ? ++i : ++j;
  }
  return total;
}

Runs common_runs(const Runs& a, const Runs& b) {
  Runs runs;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t start = std::max(a[i].start, b[j].start);
    const int64_t end_a = a[i].start + a[i].length, end_b = b[j].start + b[j].length;
    const int64_t end = std::min(end_a, end_b);
    if (start < end) {
      if (!runs.empty() && runs.back().start + runs.back().length == start)
        runs.back().length += end - start;
      else
        runs.push_back({start, end - start});
    }
    if (end_a <= end_b)
      ++i;
    else
      ++j;
  }
  return runs;
}

int64_t length(const Segments& segments) {
  int64_t total = 0;
  for (const Segment& segment : segments) total += segment.length;
  return total;
}

void copy_segments(const CopyPlace& place, const std::byte* source, const Dims& source_strides,
                   std::byte* target, const Dims& target_strides,
                   const std::vector<Segments>& by_dim, int64_t element_bytes) {
  const int dims = static_cast<int>(by_dim.size());
  Dims counts;
  for (const Segments& segments : by_dim) {
    if (segments.empty()) return;
    counts.push_back(static_cast<int64_t>(segments.size()));
  }
  Dims at = Dims::filled(dims, 0);
  for (bool more = true; more;) {
    Dims box;
    int64_t from = 0, to = 0;
    for (int d = 0; d < dims; ++d) {
      const Segment& segment = by_dim[static_cast<size_t>(d)][static_cast<size_t>(at[d])];
      box.push_back(segment.length);
      from += segment.from * source_strides[d];
      to += segment.to * target_strides[d];
    }
    place.copy_strided(source + from * element_bytes, source_strides, target + to * element_bytes,
                       target_strides, box, element_bytes);
    more = false;
    for (int d = dims; d-- > 0;) {
      if (++at[d] < counts[d]) {
        more = true;
        break;
      }
      at[d] = 0;
    }
  }
}

}  // namespace shardproof
