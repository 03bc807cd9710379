// Placements text: "dp:S(0, after=tp) tp:P(norm(2))", "S(0) R", and reductions: "sum", "norm(2)".
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/placement.h"

namespace shardproof {

namespace {

constexpr std::string_view kReductionList =
    "sum, avg, prod, min, max, band, bor, bxor, premul_sum(f), norm(p)";

// A cursor over one text; every error tells the column.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  int column() const { return static_cast<int>(at_) + 1; }
  char peek() const { return done() ? '\0' : text_[at_]; }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}' was due", c));
  }
  [[noreturn]] void fail(const std::string& message) const { fail_at(column(), message); }
  [[noreturn]] void fail_at(int column, const std::string& message) const {
    throw Error(ErrorKind::bad_input, fmt::format("placements \"{}\": {}", text_, message),
                Where{"", "", 0, column});
  }

  std::string_view word() {
    skip_blanks();
    const size_t start = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_') ++at_;
    return text_.substr(start, at_ - start);
  }

  int64_t integer() {
    skip_blanks();
    int64_t value = 0;
    const auto [stop, code] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (code != std::errc()) fail("an integer was due");
    at_ = static_cast<size_t>(stop - text_.data());
    return value;
  }

  double number() {
    skip_blanks();
    double value = 0;
    const auto [stop, code] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (code != std::errc()) fail("a number was due");
    at_ = static_cast<size_t>(stop - text_.data());
    return value;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

std::optional<ReduceOp> find_reduce_op(std::string_view word) {
  for (int i = 0; i <= static_cast<int>(ReduceOp::norm); ++i)
    if (name(static_cast<ReduceOp>(i)) == word) return static_cast<ReduceOp>(i);
  return std::nullopt;
}

Reduction read_reduction(Reader& in) {
  in.skip_blanks();
  const int column = in.column();
  const std::string_view word = in.word();
  const auto op = find_reduce_op(word);
  if (!op) in.fail_at(column, fmt::format("no reduction '{}'; there are {}", word, kReductionList));
  Reduction reduction{*op, 0};
  if (*op == ReduceOp::premul_sum || *op == ReduceOp::norm) {
    in.expect('(');
    reduction.scalar = in.number();
    in.expect(')');
  }
  if (*op == ReduceOp::norm && (reduction.scalar == 0 || !std::isfinite(reduction.scalar)))
    in.fail_at(column, "norm needs a finite exponent other than 0");
  return reduction;
}

std::vector<int64_t> read_sizes(Reader& in) {
  std::vector<int64_t> sizes;
  in.expect('[');
  if (in.accept(']')) in.fail("sizes need one entry for each rank of the axis");
  do {
    const int column = in.column();
    sizes.push_back(in.integer());
    if (sizes.back() < 0) in.fail_at(column, "a size cannot be negative");
  } while (in.accept(','));
  in.expect(']');
  return sizes;
}

std::vector<std::string> read_axes(Reader& in) {
  std::vector<std::string> axes;
  const bool list = in.accept('[');
  do {
    axes.emplace_back(in.word());
    if (axes.back().empty()) in.fail("an axis was due");
  } while (list && in.accept(','));
  if (list) in.expect(']');
  return axes;
}

void read_shard(Reader& in, PlacementText& entry) {
  Shard shard;
  const int64_t dim = in.integer();
  if (dim < -64 || dim > 64) in.fail(fmt::format("dim {} is out of range", dim));
  shard.dim = static_cast<int>(dim);
  while (in.accept(',')) {
    in.skip_blanks();
    const int column = in.column();
    const std::string_view key = in.word();
    if (key != "split" && key != "sizes" && key != "after")
      in.fail_at(column, fmt::format("S takes split=, sizes= or after=, not '{}'", key));
    in.expect('=');
    if (key == "after") {
      entry.after = read_axes(in);
    } else if (key == "sizes") {
      shard.sizes = read_sizes(in);
    } else {
      shard.split = in.integer();
      if (shard.split < 1) in.fail_at(column, "split starts at 1");
    }
    if (!shard.sizes.empty() && shard.split != 1)
      in.fail_at(column, "split and sizes exclude each other");
  }
  entry.placement = shard;
}

void read_placement(Reader& in, PlacementText& entry, std::string_view kind, int column) {
  if (kind == "R") {
    entry.placement = R();
    return;
  }
  if (kind != "S" && kind != "P")
    in.fail_at(column, fmt::format("a placement was due: R, S(dim) or P(op), not '{}'", kind));
  if (in.peek() != '(')
    in.fail(kind == "P" ? "P needs its operator, as in P(sum)" : "S needs its dim, as in S(0)");
  in.expect('(');
  if (kind == "S") {
    read_shard(in, entry);
  } else {
    const int op_column = in.column();
    const Reduction reduction = read_reduction(in);
    if (reduction.op == ReduceOp::premul_sum)
      in.fail_at(op_column, "premul_sum is a reduction of calls, not of placements");
    entry.placement = Partial{reduction};
  }
  in.expect(')');
}

}  // namespace

Reduction parse_reduction(std::string_view text) {
  Reader in(text);
  const Reduction reduction = read_reduction(in);
  in.skip_blanks();
  if (!in.done()) in.fail("nothing was due after the reduction");
  return reduction;
}

std::vector<PlacementText> parse_placements(std::string_view text) {
  Reader in(text);
  std::vector<PlacementText> entries;
  for (in.skip_blanks(); !in.done(); in.skip_blanks()) {
    PlacementText entry;
    entry.column = in.column();
    std::string_view word = in.word();
    if (word.empty()) in.fail("a placement was due, as in tp:S(0)");
    int column = entry.column;
    if (in.peek() == ':') {
      in.expect(':');
      entry.axis = word;
      in.skip_blanks();
      column = in.column();
      word = in.word();
    }
    read_placement(in, entry, word, column);
    if (!in.done() && in.peek() != ' ' && in.peek() != '\t')
      in.fail("placements are separated by spaces");
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace shardproof
