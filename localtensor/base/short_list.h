// ShortList: a list of few values, held inline, so that temporary lists allocate nothing.
// Initializes and copies only the values in use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

template <typename Value, size_t kCapacity>
class ShortList {
  static_assert(std::is_trivially_copyable_v<Value> && std::is_trivially_destructible_v<Value>);

 public:
  ShortList() {}
  explicit ShortList(std::span<const Value> values) { append(values); }
  ShortList(const ShortList& o) { append(o); }
  ShortList& operator=(const ShortList& o) {
    if (this == &o) return *this;
    size_ = 0;
    append(o);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Value* begin() { return values_; }
  Value* end() { return values_ + size_; }
  const Value* begin() const { return values_; }
  const Value* end() const { return values_ + size_; }
  Value& operator[](size_t at) { return values_[at]; }
  const Value& operator[](size_t at) const { return values_[at]; }
  const Value& back() const { return values_[size_ - 1]; }
  operator std::span<const Value>() const { return {begin(), size_}; }

  // Throw Error(limit) if the list is full.
  void push_back(const Value& value) {
    refuse_more(1);
    values_[size_++] = value;
  }
  void append(std::span<const Value> values) {
    refuse_more(values.size());
    std::copy(values.begin(), values.end(), end());
    size_ += values.size();
  }
  // Inserts before position `at`.
  void insert(size_t at, const Value& value) {
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(size_t at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }
  void pop_back() { --size_; }
  void resize(size_t size) { size_ = size; }  // requires size <= size()

  friend bool operator==(const ShortList& a, const ShortList& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void refuse_more(size_t count) const {
    if (size_ + count > kCapacity)
      throw Error(ErrorKind::limit,
                  fmt::format("expected at most {} values, found {}", kCapacity, size_ + count));
  }

  size_t size_ = 0;
  union {  // so that values are not initialized
    Value values_[kCapacity];
  };
};

}  // namespace shardproof
