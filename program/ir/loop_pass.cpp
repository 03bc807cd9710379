// Implements loop_pass.h.
//
// A value that the passes read at one place is one of these:
//   the same value in all passes;
//   the result of one line of the same pass;
//   values with the author's names h0, h1, ..., which are h{i};
//   the result of one line of the pass before, which is a state.
#include "shardproof/program/ir/loop_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "shardproof/program/value/names.h"

namespace shardproof::detail {
namespace {

// A run of digits, or of other characters.
struct TextRun {
  std::string text;
  bool digits = false, quoted = false;
  bool number = false;  // outside quotes: the digits are a whole integer
};

std::vector<TextRun> runs_of(const std::string& text, bool is_name) {
  std::vector<TextRun> runs;
  bool quoted = is_name;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    const bool digits = is_digit(text[at]);
    while (end < text.size() && is_digit(text[end]) == digits) {
      if (text[end] == '\'' && !is_name) quoted = !quoted;
      ++end;
    }
    const auto joins = [](char c) { return is_name_character(c) || c == '.' || c == '-'; };
    const bool alone =
        (at == 0 || !joins(text[at - 1])) && (end == text.size() || !joins(text[end]));
    runs.push_back({text.substr(at, end - at), digits, quoted, digits && !quoted && alone});
    at = end;
  }
  return runs;
}

// Returns "i", "i + 2" or "i - 1".
std::string shifted(const std::string& variable, int64_t by) {
  if (by == 0) return variable;
  return fmt::format("{} {} {}", variable, by > 0 ? '+' : '-', by > 0 ? by : -by);
}

std::optional<int64_t> integer_of(const std::string& digits) {
  int64_t value = 0;
  const char* const last = digits.data() + digits.size();
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  if (std::from_chars(digits.data(), last, value).ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::string> in_loop(const std::vector<std::string>& texts,
                                   const std::string& variable, int64_t first, bool is_name) {
  if (std::all_of(texts.begin(), texts.end(), [&](const auto& t) { return t == texts[0]; }))
    return texts[0];
  std::vector<std::vector<TextRun>> runs;
  for (const std::string& text : texts) runs.push_back(runs_of(text, is_name));
  std::string out;
  for (size_t r = 0; r < runs[0].size(); ++r) {
    bool equal = true;
    for (const std::vector<TextRun>& pass : runs) {
      if (pass.size() != runs[0].size() || pass[r].digits != runs[0][r].digits) return std::nullopt;
      equal = equal && pass[r].text == runs[0][r].text;
    }
    const TextRun& run = runs[0][r];
    if (equal) {
      out += run.text;
      continue;
    }
    if (!run.digits || (!run.quoted && !run.number)) return std::nullopt;
    std::optional<int64_t> by;
    for (size_t k = 0; k < runs.size(); ++k) {
      const std::optional<int64_t> value = integer_of(runs[k][r].text);
      if (!value) return std::nullopt;
      const int64_t shift = *value - first - static_cast<int64_t>(k);
      if (by.value_or(shift) != shift) return std::nullopt;
      by = shift;
    }
    out += run.quoted ? "{" + shifted(variable, *by) + "}" : shifted(variable, *by);
  }
  return out;
}

// Compares the passes of one loop.
class PassComparison {
 public:
  PassComparison(const LoopPasses& passes, const std::vector<std::string>& bound, ValueId& next_id)
      : passes_(passes), bound_(bound), next_id_(next_id), count_(passes.lines.size()) {}
  std::optional<LoopBody> body(const std::set<ValueId>& read_after);

 private:
  using Results = std::vector<ValueId>;  // of one place of the passes
  bool collect_results();
  bool add_line(size_t line);
  std::optional<std::string> bind(const Results& ids);
  std::optional<std::string> read(const Results& ids);
  std::optional<std::string> by_name(const Results& ids) const;
  std::string name_of(ValueId id) const {
    return id >= 0 && static_cast<size_t>(id) < bound_.size() ? bound_[static_cast<size_t>(id)]
                                                              : "";
  }
  std::string state_of(size_t made, ValueId first);

  const LoopPasses& passes_;
  const std::vector<std::string>& bound_;
  ValueId& next_id_;
  size_t count_;
  std::vector<std::vector<std::vector<LinePiece>>> pieces_;  // by pass and line
  std::vector<Results> results_;
  std::vector<std::vector<size_t>> result_lines_;
  std::map<ValueId, size_t> place_of_;  // of values of any pass, in results_
  LoopBody body_;
};

bool PassComparison::collect_results() {
  for (const std::vector<PrintedLine>& pass : passes_.lines) {
    if (pass.size() != passes_.lines[0].size()) return false;
    std::vector<std::vector<LinePiece>>& lines = pieces_.emplace_back();
    for (const PrintedLine& line : pass) lines.push_back(pieces_of(line.text));
  }
  for (size_t line = 0; line < pieces_[0].size(); ++line)
    for (size_t at = 0; at < pieces_[0][line].size(); ++at) {
      if (!pieces_[0][line][at].binds) continue;
      Results ids;
      for (const auto& pass : pieces_) {
        if (pass[line].size() <= at || !pass[line][at].binds) return false;
        ids.push_back(pass[line][at].id);
      }
      for (const ValueId id : ids) {
        const auto [known, fresh] = place_of_.emplace(id, results_.size());
        // Lines for different ranks may bind one value.
        if (!fresh && results_[known->second] != ids) return false;
      }
      if (const size_t known = place_of_.at(ids[0]); known != results_.size()) {
        result_lines_[known].push_back(line);
        continue;
      }
      results_.push_back(std::move(ids));
      result_lines_.push_back({line});
    }
  return true;
}

std::optional<std::string> PassComparison::by_name(const Results& ids) const {
  std::vector<std::string> names;
  std::set<ValueId> different;
  for (const ValueId id : ids) {
    names.push_back(name_of(id));
    if (names.back().empty() || !different.insert(id).second) return std::nullopt;
    if (std::count(bound_.begin(), bound_.end(), names.back()) != 1) return std::nullopt;
  }
  std::optional<std::string> text = name_in_loop(names, passes_.variable, passes_.first);
  if (!text || text->find('{') == std::string::npos) return std::nullopt;
  return text;
}

std::optional<std::string> PassComparison::bind(const Results& ids) {
  if (std::optional<std::string> text = by_name(ids)) {
    body_.named_by_author.insert(ids.begin(), ids.end());
    return text;
  }
  for (const ValueId id : ids) {
    if (name_of(id) != name_of(ids[0])) return std::nullopt;
    if (id != ids[0]) body_.same[id] = ids[0];
  }
  return mark_value(ids[0], true);
}

std::string PassComparison::state_of(size_t made, ValueId first) {
  for (const LoopState& state : body_.states)
    if (state.made == results_[made][0] && state.first == first) return mark_value(state.id, false);
  body_.states.push_back({results_[made][0], first, next_id_++, result_lines_[made]});
  return mark_value(body_.states.back().id, false);
}

std::optional<std::string> PassComparison::read(const Results& ids) {
  const auto place = place_of_.find(ids.back());
  const bool one = std::all_of(ids.begin(), ids.end(), [&](ValueId id) { return id == ids[0]; });
  if (one && place == place_of_.end()) return mark_value(ids[0], false);
  if (std::optional<std::string> text = by_name(ids)) {
    body_.named_by_author.insert(ids.begin(), ids.end());
    return text;
  }
  if (place == place_of_.end()) return std::nullopt;
  const Results& made = results_[place->second];
  if (made == ids) return mark_value(ids[0], false);
  for (size_t k = 1; k < count_; ++k)
    if (ids[k] != made[k - 1]) return std::nullopt;
  if (place_of_.contains(ids[0])) return std::nullopt;
  return state_of(place->second, ids[0]);
}

bool PassComparison::add_line(size_t line) {
  const PrintedLine& first = passes_.lines[0][line];
  PrintedLine joined = first;
  joined.text.clear();
  for (const std::vector<PrintedLine>& pass : passes_.lines)
    if (pass[line].blocks.size() != first.blocks.size() || pass[line].remarks != first.remarks ||
        pass[line].origin.line != first.origin.line)
      return false;
  for (size_t b = 0; b < first.blocks.size(); ++b)
    for (const std::vector<PrintedLine>& pass : passes_.lines)
      if (header_of(pass[line].blocks[b]) != header_of(first.blocks[b])) return false;
  for (size_t at = 0; at < pieces_[0][line].size(); ++at) {
    std::vector<std::string> texts;
    Results ids;
    const LinePiece& piece = pieces_[0][line][at];
    for (const auto& pass : pieces_) {
      if (pass[line].size() != pieces_[0][line].size()) return false;
      const LinePiece& other = pass[line][at];
      if ((other.id == kNoValue) != (piece.id == kNoValue) || other.binds != piece.binds)
        return false;
      texts.push_back(other.text);
      ids.push_back(other.id);
    }
    const std::optional<std::string> text =
        piece.id == kNoValue ? text_in_loop(texts, passes_.variable, passes_.first)
        : piece.binds        ? bind(ids)
                             : read(ids);
    if (!text) return false;
    joined.text += *text;
  }
  body_.lines.push_back(std::move(joined));
  return true;
}

std::optional<LoopBody> PassComparison::body(const std::set<ValueId>& read_after) {
  if (!collect_results()) return std::nullopt;
  for (size_t line = 0; line < pieces_[0].size(); ++line)
    if (!add_line(line)) return std::nullopt;
  // A result with a name for each pass has no one name that a state could have.
  for (const LoopState& state : body_.states)
    if (body_.named_by_author.contains(state.made)) return std::nullopt;
  // After the loop, a name has its value of the last pass.
  for (const Results& ids : results_)
    for (size_t k = 0; k + 1 < count_; ++k)
      if (read_after.contains(ids[k]) && !body_.named_by_author.contains(ids[k]))
        return std::nullopt;
  return std::move(body_);
}

}  // namespace

std::vector<LinePiece> pieces_of(std::string_view text) {
  std::vector<LinePiece> pieces(1);
  // A mark ends one text and begins the next.
  const std::string rest = named_text(text, [&](ValueId id, bool binds) {
    pieces.push_back({"", id, binds});
    return std::string(1, '\x04');
  });
  std::vector<LinePiece> ordered;
  size_t next = 1, from = 0;
  for (size_t at = 0; at <= rest.size(); ++at) {
    if (at < rest.size() && rest[at] != '\x04') continue;
    if (at > from) ordered.push_back({rest.substr(from, at - from)});
    if (at < rest.size()) ordered.push_back(pieces[next++]);
    from = at + 1;
  }
  return ordered;
}

std::optional<std::string> text_in_loop(const std::vector<std::string>& texts,
                                        const std::string& variable, int64_t first) {
  return in_loop(texts, variable, first, false);
}

std::optional<std::string> name_in_loop(const std::vector<std::string>& names,
                                        const std::string& variable, int64_t first) {
  return in_loop(names, variable, first, true);
}

std::optional<LoopBody> body_of(const LoopPasses& passes, const std::vector<std::string>& bound,
                                const std::set<ValueId>& read_after, ValueId& next_id) {
  return PassComparison(passes, bound, next_id).body(read_after);
}

}  // namespace shardproof::detail
