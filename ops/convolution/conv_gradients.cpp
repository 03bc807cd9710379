// Implements conv_gradients.h. The input as windows [N, groups, C / groups, L', K, ..] makes the
// convolution one product, and so are its gradients. The gradient of the weight is a product with
// the windows. The gradient of the windows is a product with the weight; its entries are added up
// where windows overlap.
//
// Inside `as`, where sizes differ by rank, conv_windows and conv_windows_grad make the windows and
// add them up; elsewhere index_select and index_sum do.
//
// Letters: n is the batch, g the group, c and o the input and output channels of a group. l and m
// are the outputs along the spatial dims, p and q the window.
#include "shardproof/ops/convolution/conv_gradients.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

class ConvGradient {
 public:
  ConvGradient(Gradient& g, const ConvNumbers& numbers)
      : g_(g), n_(numbers), spatial_(g[0].dims() - 2) {
    for (int i = 0; i < spatial_; ++i) {
      places_ += kOutputs[i];
      window_ += kWindow[i];
      cells_ += kOutputs[i];
      cells_ += kWindow[i];
    }
    dy_ = split(g.dy(), 1);
  }

  F by_input() const {
    const F made =
        einsum(dy_, "ngo" + places_, split(g_.conj(g_[1]), 0), "goc" + window_, "ngc" + cells_);
    if (!g_.has_known_sizes()) return g_.op("conv_windows_grad", {made, g_[0], g_[1]}, attrs());
    F x = g_.op("flatten", {made}, {{"start_dim", int64_t{1}}, {"end_dim", int64_t{2}}});
    for (int i = 0; i < spatial_; ++i) {
      const int64_t dim = 2 + i;
      x = g_.op("flatten", {x}, {{"start_dim", dim}, {"end_dim", dim + 1}});
      x = g_.op("index_sum", {x, g_.none()},
                {{"dim", dim}, {"index", entries(i)}, {"size", padded_size(i)}});
    }
    return padded(x, -1);
  }

  F by_weight() const {
    const F made = einsum(windows(), "ngc" + cells_, dy_, "ngo" + places_, "goc" + window_);
    return g_.op("flatten", {made}, {{"start_dim", int64_t{0}}, {"end_dim", int64_t{1}}});
  }

  F by_bias() const {
    IntegerList dims = {0};
    for (int i = 0; i < spatial_; ++i) dims.push_back(2 + i);
    return g_.op("sum", {g_.dy()}, {{"dim", dims}});
  }

 private:
  static constexpr const char* kOutputs = "lm";
  static constexpr const char* kWindow = "pq";

  F einsum(const F& a, const std::string& of_a, const F& b, const std::string& of_b,
           const std::string& result) const {
    return g_.op("einsum", {a, b}, {{"equation", of_a + "," + of_b + "->" + result}});
  }
  // Splits the channels of a dim into [groups, channels of a group].
  F split(const F& x, int64_t dim) const {
    const int64_t of_group =
        g_.has_known_sizes() ? x.shape()[static_cast<int>(dim)] / n_.groups : -1;
    return g_.op("unflatten", {x}, {{"dim", dim}, {"sizes", IntegerList{n_.groups, of_group}}});
  }
  Attrs attrs() const {
    return {{"stride", n_.stride},
            {"padding", n_.padding},
            {"dilation", n_.dilation},
            {"groups", n_.groups}};
  }
  int64_t padded_size(int i) const {
    return g_[0].shape()[2 + i] + 2 * n_.padding[static_cast<size_t>(i)];
  }
  // The padded entry that each cell of each window reads.
  IntegerList entries(int i) const {
    IntegerList index;
    const auto at = static_cast<size_t>(i);
    for (int64_t l = 0; l < g_.dy().shape()[2 + i]; ++l)
      for (int64_t k = 0; k < g_[1].shape()[2 + i]; ++k)
        index.push_back(l * n_.stride[at] + k * n_.dilation[at]);
    return index;
  }
  F padded(const F& x, int64_t sign) const {
    IntegerList pad;
    bool any = false;
    for (int i = spatial_; i-- > 0;)
      for (int side = 0; side < 2; ++side) {
        pad.push_back(sign * n_.padding[static_cast<size_t>(i)]);
        any = any || pad.back() != 0;
      }
    return any ? g_.op("pad", {x}, {{"pad", pad}, {"value", 0.0}}) : x;
  }
  F windows() const {
    if (!g_.has_known_sizes()) return g_.op("conv_windows", {g_.conj(g_[0]), g_[1]}, attrs());
    F x = padded(g_.conj(g_[0]), 1);
    for (int i = spatial_; i-- > 0;) {
      const int64_t dim = 2 + i;
      x = g_.op("index_select", {x, g_.none()}, {{"dim", dim}, {"index", entries(i)}});
      const IntegerList sizes = {g_.dy().shape()[2 + i], g_[1].shape()[2 + i]};
      x = g_.op("unflatten", {x}, {{"dim", dim}, {"sizes", sizes}});
    }
    return split(x, 1);
  }

  Gradient& g_;
  ConvNumbers n_;
  int spatial_;
  std::string places_, window_, cells_;
  F dy_;
};

}  // namespace

FormulaTerms conv_gradient(Gradient& g, const ConvNumbers& numbers) {
  const ConvGradient parts(g, numbers);
  FormulaTerms found(g.call.inputs.size(), g.none());
  if (g.wanted(0)) found[0] = parts.by_input();
  if (g.wanted(1)) found[1] = parts.by_weight();
  if (g.has(2) && g.wanted(2)) found[2] = parts.by_bias();
  return found;
}

}  // namespace shardproof
