// Wire: the encoding of messages between processes of one run. Both ends are the same program on
// machines of one byte order, so no field has a tag.
//
// | item    | bytes     | written by       | read by   | form                             |
// |---------|-----------|------------------|-----------|----------------------------------|
// | number  | 8         | add(int64_t)     | number()  | signed, little-endian            |
// | real    | 8         | add_real(double) | real()    | IEEE 754 binary64                |
// | text    | 8 + n     | add(string_view) | text()    | count of bytes n, then the bytes |
// | numbers | 8 + 8 * n | add(vector)      | numbers() | count n, then n numbers          |
// | bytes   | n         | add_bytes        | read_bytes(n) | n is known to both ends          |
//
// A reader throws Error(io) if a message ends early. Views that it returns point into the message.
// messages.h lists the messages.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

inline constexpr int64_t kWireVersion = 8;

class WireWriter {
 public:
  void add(int64_t value) { add_bytes(&value, sizeof(value)); }
  void add_real(double value) { add_bytes(&value, sizeof(value)); }
  void add(std::string_view text) {
    add(static_cast<int64_t>(text.size()));
    add_bytes(text.data(), text.size());
  }
  void add(const std::vector<int64_t>& values) {
    add(static_cast<int64_t>(values.size()));
    add_bytes(values.data(), values.size() * sizeof(int64_t));
  }
  void add_bytes(const void* data, size_t size) {
    if (size != 0) bytes_.append(static_cast<const char*>(data), size);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}
  int64_t number() {
    int64_t value;
    std::memcpy(&value, read_bytes(sizeof(value)).data(), sizeof(value));
    return value;
  }
  double real() {
    double value;
    std::memcpy(&value, read_bytes(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string_view text() { return read_bytes(static_cast<size_t>(number())); }
  std::vector<int64_t> numbers() {
    const std::string_view bytes = read_bytes(static_cast<size_t>(number()) * sizeof(int64_t));
    std::vector<int64_t> values(bytes.size() / sizeof(int64_t));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::string_view read_bytes(size_t size) {
    if (size > rest_.size()) throw Error(ErrorKind::io, "a message between processes is too short");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace shardproof
