// Implements the text form of mesh.h, in both directions.
//
//   mesh  := axes [ "on" ranks ]
//   axes  := name "=" size { "," name "=" size }    or    size { "x" size }
//   ranks := range { range },  range := rank [ "-" rank ]
//
// Examples: "dp=2, tp=4", "2x4", "tp=4 on 2-5", "tp=3 on 0 4 2".
#include <fmt/format.h>

#include <cctype>
#include <charconv>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/trim_text.h"
#include "shardproof/localtensor/mesh/mesh.h"

namespace shardproof {

namespace {

class MeshReader {
 public:
  explicit MeshReader(std::string_view text) : text_(text) {}

  Mesh read() {
    skip_blanks();
    if (at_ == text_.size()) fail("expected at least one axis, such as \"dp=2, tp=4\"");
    const bool product = is_digit(peek());
    if (product)
      read_product();
    else
      read_named();
    std::vector<int32_t> ranks;
    skip_blanks();
    if (at_ < text_.size()) ranks = read_ranks(product ? "'x'" : "','");
    return Mesh::make(std::move(axes_), std::move(ranks));
  }

 private:
  static bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  std::string found() const {
    return at_ < text_.size() ? fmt::format("'{}'", character_at(text_, at_))
                              : "the end of the text";
  }
  [[noreturn]] void fail_expected(std::string_view expected) const {
    fail(fmt::format("expected {}, found {}", expected, found()));
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::bad_input, fmt::format("mesh \"{}\": {}", text_, message),
                Where{"", "", 0, static_cast<int>(at_) + 1});
  }

  int64_t number(int64_t largest) {
    if (!is_digit(peek())) fail_expected("a number");
    int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [stop, code] = std::from_chars(text_.data() + at_, end, value);
    if (code != std::errc() || value > largest)
      fail(fmt::format("expected a number of at most {}, found a larger one", largest));
    at_ = static_cast<size_t>(stop - text_.data());
    return value;
  }

  void read_product() {
    for (;;) {
      axes_.emplace_back(fmt::format("dim{}", axes_.size()), number(INT32_MAX));
      if (peek() != 'x') return;
      ++at_;
    }
  }

  // Returns "dp=2" for an axis that another sign than '=' follows, as in dp:2.
  std::string axis_hint(const std::string& name) const {
    if (peek() == '(') return "axes as dp=2, tp=4";
    const size_t first = std::min(text_.find_first_not_of(": \t-", at_), text_.size());
    const size_t end = std::min(text_.find_first_not_of("0123456789", first), text_.size());
    const std::string_view size = text_.substr(first, end - first);
    return fmt::format("{}={}", name, size.empty() ? "4" : size);
  }

  void read_named() {
    for (;;) {
      skip_blanks();
      const size_t start = at_;
      if (is_digit(peek())) fail_expected("an axis name that begins with a letter");
      while (is_word(peek())) ++at_;
      if (at_ == start) fail_expected("an axis such as tp=4");
      std::string name(text_.substr(start, at_ - start));
      skip_blanks();
      if (peek() != '=')
        fail(fmt::format("expected '=' after the axis {}, found {}; write {}", name, found(),
                         axis_hint(name)));
      ++at_;
      skip_blanks();
      if (!is_digit(peek()))
        fail(fmt::format("expected the size of the axis {0}, found {1}; write {0}=4", name,
                         found()));
      axes_.emplace_back(std::move(name), number(INT32_MAX));
      skip_blanks();
      if (peek() != ',') return;
      ++at_;
    }
  }

  // Reads `on` and ranks. A message names what else may follow the axes.
  std::vector<int32_t> read_ranks(std::string_view or_else) {
    if (text_.substr(at_, 2) != "on" || is_word(at_ + 2 < text_.size() ? text_[at_ + 2] : ' '))
      fail(fmt::format("expected {} or 'on', found {}; write axes as dp=2, tp=4 or 2x4", or_else,
                       found()));
    at_ += 2;
    std::vector<int32_t> ranks;
    for (skip_blanks(); at_ < text_.size(); skip_blanks()) {
      if (!is_digit(peek())) fail_expected("ranks after 'on', such as 0-3 or 0 4 2");
      const int64_t first = number(INT32_MAX);
      int64_t last = first;
      if (peek() == '-') {
        ++at_;
        last = number(INT32_MAX);
      }
      if (last < first)
        fail(
            fmt::format("expected a range from the lower to the higher rank, found {0}-{1}; write "
                        "{1}-{0}",
                        first, last));
      constexpr int64_t kMostInRange = (int64_t{1} << 26) + 1;
      if (last - first >= kMostInRange)
        fail(fmt::format("expected a range of at most {} ranks, found {}", kMostInRange,
                         last - first + 1));
      for (int64_t rank = first; rank <= last; ++rank) ranks.push_back(static_cast<int32_t>(rank));
    }
    if (ranks.empty()) fail("expected ranks after 'on', such as 0-3 or 0 4 2, found none");
    return ranks;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<std::pair<std::string, int64_t>> axes_;
};

// Returns the ranks in mesh order; rising runs of three and more are written "2-5".
std::string rank_list(const Mesh& mesh) {
  std::string out;
  const Dims shape = mesh.shape();
  const int64_t count = mesh.size();
  for (int64_t i = 0; i < count;) {
    const int64_t first = mesh.rank_at(unravel(i, shape));
    int64_t length = 1;
    while (i + length < count && mesh.rank_at(unravel(i + length, shape)) == first + length)
      ++length;
    if (length == 2) length = 1;
    out +=
        length == 1 ? fmt::format(" {}", first) : fmt::format(" {}-{}", first, first + length - 1);
    i += length;
  }
  return out;
}

}  // namespace

Mesh Mesh::parse(std::string_view text) { return MeshReader(text).read(); }

std::string to_string(const Mesh& mesh) {
  std::string out;
  for (const MeshAxis& axis : mesh.axes())
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", axis.name, axis.size);
  const bool whole = !mesh.is_mapped() && mesh.size() == mesh.root_size();
  if (whole && mesh.rank_of_position(0) == 0) return out;
  return out + " on" + rank_list(mesh);
}

}  // namespace shardproof
