// Shared and SharedText: immutable values that copies share. It holds data that many values and
// instructions of a program share, such as the pass of a loop. A copy is a pointer, not the text.
// Safe to copy on several threads.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "shardproof/localtensor/base/memory_pool.h"

namespace shardproof {

// A T that never changes, or nothing; used as an optional. Equal if the values are.
template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(T value) : value_(std::allocate_shared<const T>(PoolAllocator<T>(), std::move(value))) {}
  Shared(const std::optional<T>& value) {
    if (value) *this = Shared(*value);
  }
  explicit operator bool() const { return value_ != nullptr; }
  operator std::optional<T>() const { return value_ ? std::optional<T>(*value_) : std::nullopt; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  void reset() { value_.reset(); }
  bool operator==(const Shared& other) const {
    if (value_ == other.value_) return true;
    return value_ && other.value_ && *value_ == *other.value_;
  }

 private:
  std::shared_ptr<const T> value_;
};

// A text that never changes. The empty text takes no memory.
class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text) {
    if (!text.empty()) text_ = Shared<std::string>(std::move(text));
  }
  SharedText(const char* text) : SharedText(std::string(text)) {}
  const std::string& str() const {
    static const std::string empty;
    return text_ ? *text_ : empty;
  }
  operator const std::string&() const { return str(); }
  bool empty() const { return !text_; }
  bool operator==(const SharedText& other) const { return text_ == other.text_; }
  bool operator==(const std::string& other) const { return str() == other; }
  bool operator==(const char* other) const { return str() == other; }

 private:
  Shared<std::string> text_;
};

}  // namespace shardproof

template <>
struct fmt::formatter<shardproof::SharedText> : fmt::formatter<fmt::string_view> {
  template <class Context>
  auto format(const shardproof::SharedText& text, Context& context) const {
    return fmt::formatter<fmt::string_view>::format(text.str(), context);
  }
};
