// Implements shrink_ranks.h. A block is a line with the deeper lines after it; `else:` belongs to
// its `if`. Names are compared up to their first underscore, so that w1_0, w1_{i} and w1_{i + 1} of
// a loop are one. Example: to remove v2 from
//
//   v2 = all_gather(t1, dim=0, group=tp, backward=slice)      v3 = v2 * t2
//
// both lines are removed. The second binds v3, so v3 is removed too.
#include "shardproof/engine/generate/shrink_ranks.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "shardproof/engine/generate/forms/gradient_line.h"

namespace shardproof {
namespace {

using Names = std::set<std::string>;
using LineBlock = std::vector<std::string>;

std::string stem(const std::string& name) { return name.substr(0, name.find('_')); }

Names words_of(const LineBlock& block) {
  Names words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.insert(stem(word));
    word.clear();
  };
  for (const std::string& line : block) {
    for (const char c : line)
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
        word += c;
      else
        end_word();
    end_word();
  }
  return words;
}

std::vector<std::string> bound_by(const std::string& line) {
  const size_t end = line.find(" = ");
  if (end == std::string::npos) return {};
  std::vector<std::string> names;
  for (size_t from = line.find_first_not_of(' '); from < end;) {
    const size_t comma = std::min(line.find(", ", from), end);
    names.push_back(line.substr(from, comma - from));
    from = comma + 2;
  }
  return names;
}

std::vector<LineBlock> blocks_of(const std::vector<std::string>& lines) {
  std::vector<LineBlock> blocks;
  for (const std::string& line : lines) {
    if (blocks.empty() || (line[0] != ' ' && line.rfind("else", 0) != 0)) blocks.emplace_back();
    blocks.back().push_back(line);
  }
  return blocks;
}

// Removes gradients from a line, and names those removed. Returns false if none is left.
bool drop_gradients(GradientLine& line, Names& removed) {
  GradientLine left{line.value, {}, {}};
  for (size_t i = 0; i < line.inputs.size(); ++i)
    if (removed.contains(stem(line.inputs[i])) || removed.contains(stem(line.targets[i]))) {
      removed.insert(stem(line.targets[i]));
    } else {
      left.inputs.push_back(line.inputs[i]);
      left.targets.push_back(line.targets[i]);
    }
  line = left;
  return !line.inputs.empty();
}

// Removes blocks that hold a removed name, and names what they bind. Returns true if any went.
bool drop_blocks(std::vector<LineBlock>& blocks, Names& removed) {
  const size_t names = removed.size(), before = blocks.size();
  std::erase_if(blocks, [&](LineBlock& block) {
    if (std::optional<GradientLine> line = parse_gradient_line(block[0]);
        line && !removed.contains(stem(line->value))) {
      const bool left = drop_gradients(*line, removed);
      block[0] = to_string(*line);
      return !left;
    }
    const Names words = words_of(block);
    if (std::none_of(words.begin(), words.end(),
                     [&](const std::string& word) { return removed.contains(word); }))
      return false;
    for (const std::string& line : block)
      for (const std::string& name : bound_by(line)) removed.insert(stem(name));
    return true;
  });
  return names != removed.size() || before != blocks.size();
}

std::vector<std::string> joined(const std::vector<LineBlock>& blocks) {
  std::vector<std::string> lines;
  for (const LineBlock& block : blocks) lines.insert(lines.end(), block.begin(), block.end());
  return lines;
}

}  // namespace

std::vector<std::string> names_of_ranks(const ProgramText& text) {
  std::vector<std::string> names;
  for (const TensorText& tensor : text.tensors) names.push_back(tensor.name);
  for (const std::string& line : text.ranks)
    for (const std::string& name : bound_by(line)) names.push_back(name);
  std::reverse(names.begin(), names.end());
  return names;
}

ProgramText without_value(const ProgramText& text, const std::string& name) {
  Names removed{stem(name)};
  std::vector<LineBlock> ranks = blocks_of(text.ranks), truth = blocks_of(text.truth);
  for (bool more = true; more;) {
    more = drop_blocks(ranks, removed);
    more = drop_blocks(truth, removed) || more;
  }
  ProgramText fewer = text;
  fewer.ranks = joined(ranks);
  fewer.truth = joined(truth);
  std::erase_if(fewer.outputs,
                [&](const auto& output) { return removed.contains(stem(output.first)); });
  Names words = words_of(fewer.ranks);
  words.merge(words_of(fewer.truth));
  std::erase_if(fewer.tensors,
                [&](const TensorText& tensor) { return !words.contains(stem(tensor.name)); });
  return fewer;
}

ProgramText with_gradients_of(ProgramText text, const std::string& name) {
  for (std::vector<std::string>* lines : {&text.ranks, &text.truth})
    for (std::string& written : *lines)
      if (std::optional<GradientLine> line = parse_gradient_line(written)) {
        line->value = name;
        written = to_string(*line);
      }
  return text;
}

}  // namespace shardproof
