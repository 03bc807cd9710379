// Implements printed_line.h.
//
// A mark is the byte 1, "+" or "-" (binds or reads), the number of the value, and the byte 2. The
// byte 3 is between the header of a block and its number.
#include "shardproof/program/ir/printed_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr char kMark = '\x01', kMarkEnd = '\x02', kBlockNumber = '\x03';
constexpr size_t kRemarkColumn = 60;  // remarks of shorter lines begin here

bool starts_block_on_own_line(std::string_view header) {
  return header == "group" || header.starts_with("for ");
}

// Moves lines [first, last) to `out`. They share `depth` blocks, indented by that depth.
void write_blocks(std::vector<PrintedLine>& lines, size_t first, size_t last, size_t depth,
                  std::vector<ListingLine>& out) {
  const std::string indent(2 * depth, ' ');
  for (size_t at = first; at < last;) {
    PrintedLine& line = lines[at];
    if (line.blocks.size() <= depth) {
      if (depth > 0) line.text.insert(0, indent);
      out.push_back({std::move(line.text), std::move(line.remarks), std::move(line.origin)});
      ++at;
      continue;
    }
    const std::string& block = line.blocks[depth];
    size_t end = at + 1;
    while (end < last && lines[end].blocks.size() > depth && lines[end].blocks[depth] == block)
      ++end;
    const std::string header(header_of(block));
    std::vector<ListingLine> body;
    write_blocks(lines, at, end, depth + 1, body);
    if (body.size() == 1 && !starts_block_on_own_line(header)) {
      const std::string inner = body[0].text.substr(body[0].text.find_first_not_of(' '));
      out.push_back(
          {fmt::format("{}{}: {}", indent, header, inner), body[0].remarks, body[0].origin});
    } else {
      out.push_back({indent + header + ":", "", {}});
      out.insert(out.end(), body.begin(), body.end());
    }
    at = end;
  }
}

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string mark_value(ValueId id, bool binds) {
  std::string mark{kMark, binds ? '+' : '-'};
  mark += std::to_string(id);
  mark += kMarkEnd;
  return mark;
}

std::string named_text(std::string_view text,
                       const std::function<std::string(ValueId, bool)>& name) {
  std::string out;
  out.reserve(text.size() + 16);  // most names are as short as marks
  for (size_t at = 0;;) {
    const size_t mark = std::min(text.find(kMark, at), text.size());
    out.append(text, at, mark - at);
    if (mark == text.size()) return out;
    const size_t end = text.find(kMarkEnd, mark);
    SP_CHECK(end != std::string_view::npos, "a mark without an end");
    ValueId id = kNoValue;
    std::from_chars(text.data() + mark + 2, text.data() + end, id);
    out += name(id, text[mark + 1] == '+');
    at = end + 1;
  }
}

std::string begin_block(std::string_view header, size_t number) {
  return fmt::format("{}{}{}", header, kBlockNumber, number);
}

std::string_view header_of(std::string_view block) {
  return block.substr(0, block.find(kBlockNumber));
}

std::string comma_list(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::vector<ListingLine> with_blocks(std::vector<PrintedLine> lines) {
  std::vector<ListingLine> out;
  out.reserve(lines.size());
  write_blocks(lines, 0, lines.size(), 0, out);
  return out;
}

std::vector<std::string> with_remarks(const std::vector<ListingLine>& lines) {
  size_t column = 0;
  std::vector<size_t> widths;
  widths.reserve(lines.size());
  for (const ListingLine& line : lines) {
    widths.push_back(characters(line.text));
    if (widths.back() < kRemarkColumn) column = std::max(column, widths.back());
  }
  std::vector<std::string> out;
  out.reserve(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const ListingLine& line = lines[i];
    std::string text;
    text.reserve(std::max(line.text.size(), column) + line.remarks.size() + 24);
    text += line.text;
    if (!line.remarks.empty() || line.origin.line > 0) {
      if (widths[i] < column) text.append(column - widths[i], ' ');
      text.append("  # ").append(line.remarks);
      if (line.origin.line > 0)
        text.append(line.remarks.empty() ? "line " : "  line ")
            .append(std::to_string(line.origin.line));
      if (line.origin.line > 0 && !line.origin.instance.empty())
        text.append(" (").append(line.origin.instance.str()).append(")");
    }
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace shardproof
