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

// Writes lines [first, last), which share `depth` blocks, indented by that depth.
void write_blocks(const std::vector<PrintedLine>& lines, size_t first, size_t last, size_t depth,
                  std::vector<ListingLine>& out) {
  const std::string indent(2 * depth, ' ');
  for (size_t at = first; at < last;) {
    const PrintedLine& line = lines[at];
    if (line.blocks.size() <= depth) {
      out.push_back({indent + line.text, line.remarks, line.origin});
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
  return fmt::format("{}{}{}{}", kMark, binds ? '+' : '-', id, kMarkEnd);
}

std::string named_text(std::string_view text,
                       const std::function<std::string(ValueId, bool)>& name) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != kMark) {
      out += text[at++];
      continue;
    }
    const size_t end = text.find(kMarkEnd, at);
    SP_CHECK(end != std::string_view::npos, "a mark without an end");
    ValueId id = kNoValue;
    std::from_chars(text.data() + at + 2, text.data() + end, id);
    out += name(id, text[at + 1] == '+');
    at = end + 1;
  }
  return out;
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

std::vector<ListingLine> with_blocks(const std::vector<PrintedLine>& lines) {
  std::vector<ListingLine> out;
  write_blocks(lines, 0, lines.size(), 0, out);
  return out;
}

std::vector<std::string> with_remarks(const std::vector<ListingLine>& lines) {
  size_t column = 0;
  for (const ListingLine& line : lines)
    if (const size_t width = characters(line.text); width < kRemarkColumn)
      column = std::max(column, width);
  std::vector<std::string> out;
  for (const ListingLine& line : lines) {
    std::string remark = line.remarks;
    if (line.origin.line > 0) {
      remark += fmt::format("{}line {}", remark.empty() ? "" : "  ", line.origin.line);
      if (!line.origin.instance.empty()) remark += fmt::format(" ({})", line.origin.instance);
    }
    std::string text = line.text;
    if (!remark.empty()) {
      const size_t width = characters(text);
      text += std::string(width < column ? column - width : 0, ' ') + "  # " + remark;
    }
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace shardproof
