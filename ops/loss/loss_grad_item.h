// Items of the gradients of losses. An item of cross_entropy_grad is the gradient by all logits of
// one row; an item of nll_loss_grad is one element.
#pragma once

#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/elementwise/float_math.h"
#include "shardproof/ops/reduction/fold_functors.h"

namespace shardproof {

// Logits as [outer, classes, inner]; a row is a number of outer and one of inner. With p the
// softmax of the row, the gradient of class c is dy (p - hit at the label - spread).
template <typename T>
struct CrossEntropyGradItem {
  static constexpr int kGradient = 0, kInput = 1, kLabels = 2, kLogSum = 3;
  int64_t classes, inner;
  int64_t first;  // the lane's first class
  bool has_sum;   // log(sum(exp(x))) of each row is given
  T hit, spread;

  struct Strided {
    T* x;
    int64_t step;
    constexpr T& operator[](int64_t i) const { return x[i * step]; }
  };
  struct StridedInput {
    const T* x;
    int64_t step;
    constexpr T operator[](int64_t i) const { return x[i * step]; }
  };

  constexpr int64_t start_of(int64_t r) const { return r / inner * classes * inner + r % inner; }
  constexpr StridedInput row_of(int64_t r, const LaneCall& lane) const {
    return {lane.in<T>(kInput) + start_of(r), inner};
  }
  constexpr Strided result_of(int64_t r, const LaneCall& lane) const {
    return {lane.out<T>(0) + start_of(r), inner};
  }
  // Returns the position of a row's label among the lane's classes. It may lie outside.
  constexpr int64_t label_of(int64_t r, const LaneCall& lane) const {
    return lane.in<int64_t>(kLabels)[r] - first;
  }
  constexpr T largest_of(int64_t r, T most, const LaneCall& lane) const {
    return has_sum ? lane.in<T>(kLogSum)[r] : most;
  }
  constexpr T slope(T dy, T chance, bool is_label) const {
    return dy * ((is_label ? chance - hit : chance) - spread);
  }

  constexpr void operator()(int64_t r, const LaneCall& lane) const {
    run(r, label_of(r, lane), lane);
  }
  constexpr void run(int64_t r, int64_t label, const LaneCall& lane) const {
    const T* x = lane.in<T>(kInput) + start_of(r);
    T* to = lane.out<T>(0) + start_of(r);
    if (inner > 1) return write(r, label, StridedInput{x, inner}, Strided{to, inner}, lane);
    const T* __restrict from = x;
    T* __restrict target = to;
    write(r, label, from, target, lane);
  }

 private:
  // Locals, because a store to the result might change a member.
  template <typename From, typename To>
  constexpr void write(int64_t r, int64_t label, From x, To to, const LaneCall& lane) const {
    const int64_t count = classes;
    const T dy = lane.in<T>(kGradient)[r], share = spread;
    const T most =
        largest_of(r, has_sum ? T{0} : fold_run(MaxFold::identity<T>(), x, count, MaxFold()), lane);
    for (int64_t c = 0; c < count; ++c) to[c] = exp_of(x[c] - most);
    const T sum = has_sum ? T{1} : fold_run(T{0}, to, count, Plus());
    const bool holds = label >= 0 && label < count;
    const T at_label = holds ? slope(dy, to[label] / sum, true) : T{0};
    for (int64_t c = 0; c < count; ++c) to[c] = dy * (to[c] / sum - share);
    if (holds) to[label] = at_label;
  }
};

// The result is [outer, classes, inner]: -dy of each row at its label, 0 elsewhere.
template <typename T>
struct LabelGradItem {
  static constexpr int kGradient = 0, kLabels = 1;
  int64_t classes, inner;

  constexpr void operator()(int64_t index, const LaneCall& lane) const {
    const int64_t r = index / (classes * inner) * inner + index % inner;
    const bool is_label = lane.in<int64_t>(kLabels)[r] == index / inner % classes;
    lane.out<T>(0)[index] = is_label ? -lane.in<T>(kGradient)[r] : T{0};
  }
  constexpr void write_label(int64_t r, const LaneCall& lane) const {
    const int64_t label = lane.in<int64_t>(kLabels)[r];
    if (label >= 0 && label < classes)
      lane.out<T>(0)[(r / inner * classes + label) * inner + r % inner] = -lane.in<T>(kGradient)[r];
  }
};

}  // namespace shardproof
