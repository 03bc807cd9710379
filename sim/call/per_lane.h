// PerLane: one value for each lane of a cohort, stored once while all lanes agree. Clocks, counters
// and memory meters are such values: a cohort of 65,536 lanes costs as much as one lane until lanes
// differ. Each operation is constant while uniform, else linear in lanes. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardproof {

template <class T>
class PerLane {
 public:
  PerLane() = default;
  explicit PerLane(T value) : one_(std::move(value)) {}

  bool uniform() const { return each_.empty(); }
  const T& operator[](int64_t lane) const {
    return each_.empty() ? one_ : each_[static_cast<size_t>(lane)];
  }
  void set_all(T value) {
    one_ = std::move(value);
    each_.clear();
  }
  // Stores a value for each of `lanes` lanes and returns that of `lane`.
  T& at(int64_t lane, int64_t lanes) {
    if (lanes == 1) return one_;
    spread(lanes);
    return each_[static_cast<size_t>(lane)];
  }
  void spread(int64_t lanes) {
    if (each_.empty()) each_.assign(static_cast<size_t>(lanes), one_);
  }
  // Stores one value again if all lanes agree.
  void collapse() {
    if (each_.empty()) return;
    for (const T& value : each_)
      if (!(value == each_.front())) return;
    set_all(T(each_.front()));
  }
  template <class F>
  void for_each(F&& change) {
    if (each_.empty()) {
      change(one_);
    } else {
      for (T& value : each_) change(value);
    }
  }
  // Takes the maximum lane by lane. Requires lanes of the same cohort.
  void raise_to(const PerLane& other) {
    if (other.uniform()) {
      for_each([&](T& value) { value = std::max(value, other.one_); });
      return;
    }
    spread(static_cast<int64_t>(other.each_.size()));
    for (size_t i = 0; i < each_.size(); ++i) each_[i] = std::max(each_[i], other.each_[i]);
  }
  T max() const { return each_.empty() ? one_ : *std::max_element(each_.begin(), each_.end()); }

 private:
  T one_{};
  std::vector<T> each_;
};

}  // namespace shardproof
