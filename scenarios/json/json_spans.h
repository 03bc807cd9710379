// JsonSpans: the span of each value of a JSON text in that text. Errors state the line and column
// of a value, and edits of a file replace the bytes of one value only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

// Offsets in bytes: of a value without its key, and of its key. `key` is `begin` for items of a
// list and for the whole text.
struct JsonSpan {
  size_t begin = 0, end = 0, key = 0;
};

class JsonSpans {
 public:
  // Requires a text that read_json accepts, which must outlive this object.
  explicit JsonSpans(std::string_view text);

  // Returns the span of the value at a JSON pointer, "" for the whole text.
  std::optional<JsonSpan> find(const std::string& pointer) const;
  // Returns the span of the last member of an object of the text, or nothing if it has none.
  std::optional<JsonSpan> last_member(const JsonSpan& object) const;
  // Returns `where` with file_line and file_column: the place of its value, or of the nearest value
  // above it if the text has none there. An unknown key is placed at the key. A column within a
  // string is added, unless the string contains "$", which pastes text.
  Where placed(Where where) const;

 private:
  size_t column_in_string(const JsonSpan& span, int column) const;

  std::string_view text_;
  std::map<std::string, JsonSpan> spans_;
};

// Returns line and column of a byte, from 1; columns count characters.
std::pair<int, int> line_and_column(std::string_view text, size_t byte);

}  // namespace shardproof
