// Implements the parsers of placement.h: parse_placements and parse_reduction.
//
//   placements := entry { blank entry },  entry := [ axis ":" ] placement
//   placement  := "R" | "P(" reduction ")" | "S(" dim { "," option } ")"
//   option     := "split=" integer | "sizes=[" integers "]" | "after=" axis | "after=[" axes "]"
//   reduction  := name [ "(" number ")" ],  the number only for premul_sum and norm
//
// Examples: "dp:S(0, after=tp) tp:P(norm(2))", "S(0) R".
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/trim_text.h"
#include "shardproof/localtensor/placement/placement.h"

namespace shardproof {

namespace {

constexpr std::string_view kReductionList = "sum, avg, prod, min, max, band, bor, bxor, norm(p)";

// A cursor over one text; every error has the column.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::string_view rest() const { return text_.substr(at_); }
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
    if (!accept(c)) fail(fmt::format("expected '{}', found {}", c, found()));
  }
  std::string found() const {
    return done() ? "the end of the text" : fmt::format("'{}'", character_at(text_, at_));
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
    if (code == std::errc::result_out_of_range)
      fail("expected an integer of 64 bits, found a larger one");
    if (code != std::errc()) fail(fmt::format("expected an integer, found {}", found()));
    at_ = static_cast<size_t>(stop - text_.data());
    return value;
  }

  double number() {
    skip_blanks();
    double value = 0;
    const auto [stop, code] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (code != std::errc()) fail(fmt::format("expected a number, found {}", found()));
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

// Reads a reduction; `scales` is true if it may be premul_sum, which no placement is.
Reduction read_reduction(Reader& in, bool scales) {
  in.skip_blanks();
  const int column = in.column();
  const std::string_view word = in.word();
  const auto op = find_reduce_op(word);
  if (word.empty()) in.fail(fmt::format("expected a reduction such as sum, found {}", in.found()));
  if (!op && word == "mean") in.fail_at(column, "unknown reduction 'mean'; write avg");
  if (!op)
    in.fail_at(column, fmt::format("unknown reduction '{}'; write one of {}{}", word,
                                   kReductionList, scales ? ", premul_sum(f)" : ""));
  Reduction reduction{*op, 0};
  if (*op == ReduceOp::premul_sum || *op == ReduceOp::norm) {
    if (in.peek() != '(')
      in.fail(fmt::format("expected the number of {0}, found {1}; write {0}(2)", word, in.found()));
    in.expect('(');
    reduction.scalar = in.number();
    in.expect(')');
  }
  if (*op == ReduceOp::norm && (reduction.scalar == 0 || !std::isfinite(reduction.scalar)))
    in.fail_at(column, fmt::format("expected norm(p) with a finite p other than 0, found norm({})",
                                   reduction.scalar));
  return reduction;
}

std::vector<int64_t> read_sizes(Reader& in) {
  std::vector<int64_t> sizes;
  in.expect('[');
  if (in.accept(']')) in.fail("expected one size for each rank of the axis, found none");
  do {
    const int column = in.column();
    sizes.push_back(in.integer());
    if (sizes.back() < 0)
      in.fail_at(column, fmt::format("expected sizes from 0 on, found {}", sizes.back()));
  } while (in.accept(','));
  in.expect(']');
  return sizes;
}

std::vector<std::string> read_axes(Reader& in) {
  std::vector<std::string> axes;
  const bool list = in.accept('[');
  do {
    axes.emplace_back(in.word());
    if (axes.back().empty()) in.fail(fmt::format("expected an axis, found {}", in.found()));
  } while (list && in.accept(','));
  if (list) in.expect(']');
  return axes;
}

void read_shard(Reader& in, PlacementText& entry) {
  Shard shard;
  const int64_t dim = in.integer();
  if (dim < -64 || dim > 64)
    in.fail(fmt::format("expected a dim of the tensor, found {}, which no tensor has", dim));
  shard.dim = static_cast<int>(dim);
  while (in.accept(',')) {
    in.skip_blanks();
    const int column = in.column();
    const std::string_view key = in.word();
    if (key != "split" && key != "sizes" && key != "after")
      in.fail_at(column, fmt::format("expected split=, sizes= or after= in S(..), found {}",
                                     key.empty() ? in.found() : fmt::format("'{}'", key)));
    in.expect('=');
    if (key == "after") {
      entry.after = read_axes(in);
    } else if (key == "sizes") {
      shard.sizes = read_sizes(in);
    } else {
      shard.split = in.integer();
      if (shard.split < 1)
        in.fail_at(column, fmt::format("expected a split from 1 on, found {}", shard.split));
    }
    if (!shard.sizes.empty() && shard.split != 1)
      in.fail_at(column, "expected split= or sizes=, found both");
  }
  entry.placement = std::move(shard);
}

// Returns the dims and options of `Shard(1)` and `_StridedShard(dim=0, split_factor=2)`: "1" and
// "0, split=2"; "0" if the parentheses hold no number.
std::string shard_arguments(std::string_view rest) {
  std::string out;
  for (size_t i = 0; i < rest.size() && rest[i] != ')'; ++i) {
    const bool begins = std::isdigit(static_cast<unsigned char>(rest[i])) != 0 || rest[i] == '-';
    if (!begins) continue;
    const size_t end = std::min(rest.find_first_not_of("0123456789", i + 1), rest.size());
    out += (out.empty() ? "" : ", split=") + std::string(rest.substr(i, end - i));
    i = end - 1;
  }
  return out.empty() ? "0" : out;
}

// Returns the placement to write in place of a word of PyTorch or JAX, whose arguments are `rest`;
// empty for any other word.
std::string placement_for(std::string_view word, std::string_view rest) {
  if (word == "Shard" || word == "shard" || word == "s" || word == "_StridedShard")
    return fmt::format("S({})", shard_arguments(rest));
  const bool is_letter_and_dim = word.size() == 2 && (word[0] == 'S' || word[0] == 's') &&
                                 std::isdigit(static_cast<unsigned char>(word[1])) != 0;
  if (is_letter_and_dim) return fmt::format("S({})", word[1]);
  if (word == "Replicate" || word == "replicate" || word == "r" || word == "None") return "R";
  if (word == "Partial" || word == "partial" || word == "_Partial" || word == "p") return "P(sum)";
  return "";
}

// Returns "dp:S(0) tp:S(2)" for the arguments of JAX's PartitionSpec: 'dp', None, 'tp'.
std::string placements_of_partition(std::string_view items) {
  std::string out, axis;
  int dim = 0;
  bool quoted = false;
  for (const char c : items) {
    if (c == '\'') {
      if (quoted && !axis.empty())
        out += fmt::format("{}{}:S({})", out.empty() ? "" : " ", axis, dim);
      quoted = !quoted;
      axis.clear();
    } else if (quoted) {
      axis += c;
    } else if (c == ')') {
      break;
    } else if (c == ',') {
      ++dim;
    }
  }
  return out.empty() ? "R" : out;
}

void read_placement(Reader& in, PlacementText& entry, std::string_view kind, int column) {
  if (kind == "R") {
    entry.placement = R();
    return;
  }
  if (kind != "S" && kind != "P") {
    const std::string here = placement_for(kind, in.rest());
    // "as" is a word of a line, and no axis has its name.
    const bool is_axis = here.empty() && entry.axis.empty() && !kind.empty() && kind != "as";
    const std::string hint = is_axis ? fmt::format("; after an axis write a placement: {}:R", kind)
                             : here.empty() || !entry.axis.empty()
                                 ? (here.empty() ? "" : "; write " + here)
                                 : fmt::format("; write AXIS:{0}, such as tp:{0}", here);
    in.fail_at(column, fmt::format("expected a placement (R, S(dim) or P(op)), found {}{}",
                                   kind.empty() ? in.found() : fmt::format("'{}'", kind), hint));
  }
  if (in.peek() != '(')
    in.fail(kind == "P" ? "expected an operator after P; write P(sum)"
                        : "expected a dim after S; write S(0)");
  in.expect('(');
  if (kind == "P" && (in.peek() == '\'' || in.rest().starts_with("None")))
    in.fail_at(column, fmt::format("expected a placement, found a PartitionSpec; write {}",
                                   placements_of_partition(in.rest())));
  if (kind == "S") {
    read_shard(in, entry);
  } else {
    const int op_column = in.column();
    const Reduction reduction = read_reduction(in, false);
    if (reduction.op == ReduceOp::premul_sum)
      in.fail_at(op_column, "expected a reduction of placements, found premul_sum; write P(sum)");
    entry.placement = Partial{reduction};
  }
  in.expect(')');
}

}  // namespace

Reduction parse_reduction(std::string_view text) {
  Reader in(text);
  const Reduction reduction = read_reduction(in, true);
  in.skip_blanks();
  if (!in.done())
    in.fail(fmt::format("expected nothing after the reduction, found {}", in.found()));
  return reduction;
}

std::vector<PlacementText> parse_placements(std::string_view text) {
  Reader in(text);
  std::vector<PlacementText> entries;
  for (in.skip_blanks(); !in.done(); in.skip_blanks()) {
    PlacementText entry;
    entry.column = in.column();
    std::string_view word = in.word();
    if (word.empty())
      in.fail(fmt::format("expected a placement such as tp:S(0), found {}", in.found()));
    int column = entry.column;
    if (in.peek() == ':') {
      in.expect(':');
      entry.axis = word;
      in.skip_blanks();
      column = in.column();
      word = in.word();
    }
    if (in.peek() == '=')
      in.fail(fmt::format("expected ':' after an axis, found '='; write {}:S(0)", word));
    read_placement(in, entry, word, column);
    if (!in.done() && in.peek() != ' ' && in.peek() != '\t')
      in.fail(fmt::format("expected a space after a placement, found {}; write \"dp:S(0) tp:R\"",
                          in.found()));
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace shardproof
