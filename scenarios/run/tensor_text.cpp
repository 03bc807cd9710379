// Implements tensor_text.h. Elements are formatted with the digits that their dtype holds, then
// padded to one width.
#include "shardproof/scenarios/run/tensor_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

constexpr int64_t kMostElements = 1000;  // printed in full
constexpr int64_t kEdge = 3;             // entries at each end of a dim that is abbreviated
constexpr int64_t kSkip = -1;            // the entries that are left out

std::string float_text(double value, DType dtype) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text;
  switch (dtype) {
    case DType::f64: text = fmt::format("{}", value); break;
    case DType::f32: text = fmt::format("{}", static_cast<float>(value)); break;
    case DType::f16: text = fmt::format("{:.5g}", value); break;
    case DType::bf16: text = fmt::format("{:.4g}", value); break;
    default: text = fmt::format("{:.3g}", value);
  }
  return text.find_first_of(".en") == std::string::npos ? text + "." : text;
}

std::string element_text(const Tensor& tensor, const Dims& index) {
  int64_t at = tensor.offset;
  for (int d = 0; d < index.size(); ++d) at += index[d] * tensor.strides[d];
  const int64_t bytes = size_of(tensor.dtype);
  const std::byte* const base = tensor.buffer->bytes.data();
  const std::byte* const element = base + at * bytes;
  if (tensor.dtype == DType::boolean)
    return load_i64(element, tensor.dtype) != 0 ? "true" : "false";
  if (is_integral(tensor.dtype)) return fmt::format("{}", load_i64(element, tensor.dtype));
  if (!is_complex(tensor.dtype)) return float_text(load_f64(element, tensor.dtype), tensor.dtype);
  const DType part = component_dtype(tensor.dtype);
  const double imaginary = load_f64(element + bytes / 2, part);
  return fmt::format("{}{}{}j", float_text(load_f64(element, part), part),
                     std::signbit(imaginary) ? "" : "+", float_text(imaginary, part));
}

class TensorPrinter {
 public:
  explicit TensorPrinter(const Tensor& tensor)
      : tensor_(tensor), abbreviates_(tensor.elements() > kMostElements) {}

  std::string text() {
    index_ = Dims::filled(tensor_.shape.size(), 0);
    visit(0, [&] { width_ = std::max(width_, element_text(tensor_, index_).size()); });
    std::string out;
    print(0, out);
    out += "\n";
    if (abbreviates_)
      out += fmt::format("{} of {} elements are left out\n", tensor_.elements() - shown_,
                         tensor_.elements());
    return out;
  }

 private:
  // Returns the entries of a dim that are printed; kSkip is those in between.
  std::vector<int64_t> entries(int dim) const {
    std::vector<int64_t> list;
    const int64_t size = tensor_.shape[dim];
    const bool skips = abbreviates_ && size > 2 * kEdge;
    for (int64_t i = 0; i < size; ++i) {
      if (skips && i == kEdge) {
        list.push_back(kSkip);
        i = size - kEdge;
      }
      list.push_back(i);
    }
    return list;
  }

  template <typename Visit>
  void visit(int dim, const Visit& each) {
    if (dim == tensor_.shape.size()) return each();
    for (const int64_t entry : entries(dim)) {
      if (entry == kSkip) continue;
      index_[dim] = entry;
      visit(dim + 1, each);
    }
  }

  void print(int dim, std::string& out) {
    if (dim == tensor_.shape.size()) {
      out += fmt::format("{:>{}}", element_text(tensor_, index_), width_);
      ++shown_;
      return;
    }
    const bool innermost = dim + 1 == tensor_.shape.size();
    // One empty line between matrices, two between blocks of matrices, as numpy does.
    const std::string between =
        innermost ? ", "
                  : "," + std::string(static_cast<size_t>(tensor_.shape.size() - dim - 1), '\n') +
                        std::string(static_cast<size_t>(dim + 1), ' ');
    out += "[";
    bool first = true;
    for (const int64_t entry : entries(dim)) {
      if (!std::exchange(first, false)) out += between;
      if (entry == kSkip) {
        out += "...";
        continue;
      }
      index_[dim] = entry;
      print(dim + 1, out);
    }
    out += "]";
  }

  const Tensor& tensor_;
  bool abbreviates_;
  Dims index_;
  size_t width_ = 0;
  int64_t shown_ = 0;
};

std::string head(const std::string& who, const Tensor& tensor, const std::string& more) {
  return fmt::format("{}   {} {}{}{}\n", who, name(tensor.dtype), to_string(tensor.shape),
                     more.empty() ? "" : "   ", more);
}

// Returns the global indices that a rank holds of each cut dim: "[12:16] of dim 0 of [16, 64]".
std::string place_text(const Spec& spec, int64_t rank) {
  std::string text;
  for (int dim = 0; dim < spec.shape().size(); ++dim) {
    if (spec.axes_of_dim(dim).empty()) continue;
    std::string runs;
    for (const Run& run : spec.owned(rank, dim))
      runs += fmt::format("{}{}:{}", runs.empty() ? "" : " ", run.start, run.start + run.length);
    text += fmt::format("{}[{}] of dim {}", text.empty() ? "" : ", ", runs, dim);
  }
  if (spec.has_partial()) text += text.empty() ? "a partial value" : ", partial";
  return text.empty() ? "" : text + " of " + to_string(spec.shape());
}

// Returns a rank's own tensor: its part of the whole value, or the tensor that was stored for it.
std::optional<Tensor> part_of_rank(const ValueInfo& info, int64_t rank) {
  for (const RecordedShard& shard : info.elsewhere)
    if (shard.lanes.contains(rank)) return shard.tensor;
  const bool whole = info.spec.has_value() && !info.spec->has_partial();
  for (const RecordedShard& copy : info.copies)
    if (copy.lanes.contains(rank)) {
      if (!whole) return copy.tensor;
      return split(copy.tensor, *info.spec).of_rank(rank);
    }
  if (whole && info.value) return split(*info.value, *info.spec).of_rank(rank);
  return std::nullopt;
}

Lanes holders_of(const ValueInfo& info) {
  Lanes lanes;
  for (const LocalShape& local : info.shapes) lanes = lanes.unite(local.lanes);
  return lanes;
}

}  // namespace

std::string tensor_text(const Tensor& tensor) { return TensorPrinter(tensor).text(); }

PrintedName parse_printed_name(const std::string& text) {
  const size_t at = text.find('@');
  PrintedName printed{text.substr(0, at)};
  if (at == std::string::npos) return printed;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + at + 1, end, printed.rank);
  if (read.ec != std::errc() || read.ptr != end || printed.rank < 0)
    throw_bad_input("--print {}: expected a rank after \"@\", as in {}@3, found \"{}\"", text,
                    printed.name, text.substr(at + 1));
  return printed;
}

std::string value_text(const PrintedName& printed, const Outcome& outcome) {
  const auto found = outcome.values.find(printed.name);
  if (found == outcome.values.end()) {
    NearestName nearest(printed.name);
    for (const auto& [name, info] : outcome.values) nearest.offer(name);
    throw_bad_input("--print: the program has no value {}{}", printed.name,
                    nearest.best().empty() ? "; shardproof show prints all" : nearest.hint());
  }
  const ValueInfo& info = found->second;
  const std::string placed = info.spec ? placements_text(*info.spec) : "";
  if (printed.rank >= 0) {
    const Lanes holders = holders_of(info);
    if (!holders.contains(printed.rank))
      throw_bad_input("--print: rank {} does not hold {}; {} do{}", printed.rank, printed.name,
                      all_ranks_text(holders), holders.size() == 1 ? "es" : "");
    const std::optional<Tensor> part = part_of_rank(info, printed.rank);
    const std::string who = fmt::format("{} on rank {}", printed.name, printed.rank);
    if (!part) return who + "   has no value: the run did not make it\n";
    const bool is_placed = info.spec && std::none_of(info.elsewhere.begin(), info.elsewhere.end(),
                                                     [&](const RecordedShard& shard) {
                                                       return shard.lanes.contains(printed.rank);
                                                     });
    return head(who, *part, is_placed ? place_text(*info.spec, printed.rank) : "") +
           tensor_text(*part);
  }
  if (info.value) return head(printed.name, *info.value, placed) + tensor_text(*info.value);
  if (info.copies.empty()) return printed.name + "   has no value: the run did not make it\n";
  std::string text;
  for (const RecordedShard& copy : info.copies)
    text += head(fmt::format("{} on {}", printed.name, all_ranks_text(copy.lanes)), copy.tensor,
                 placed) +
            tensor_text(copy.tensor);
  return text;
}

}  // namespace shardproof
