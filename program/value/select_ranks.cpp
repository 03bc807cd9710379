// Implements select_ranks.h.
#include "shardproof/program/value/select_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/value/names.h"

namespace shardproof {
namespace {

// Returns the text in quotes, with control characters escaped as in JSON, so that a message is one
// line.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    out += byte < 0x20 || byte == 0x7F ? fmt::format("\\u{:04x}", byte) : std::string(1, c);
  }
  return out + "\"";
}

struct AxisRange {
  std::string axis;
  Lanes indices;
};

AxisRange parse_axis_range(const std::string& word) {
  const size_t equals = word.find('=');
  AxisRange range{word.substr(0, equals), {}};
  const std::string numbers = word.substr(equals + 1);
  const std::optional<Lanes> indices = parse_lanes(numbers);
  if (!is_name(range.axis) || !indices || indices->empty())
    throw_bad_input("expected axis=index or axis=first-last, found {}", word);
  range.indices = *indices;
  return range;
}

void check_axes_known(const std::vector<AxisRange>& ranges, const NamedMeshes& meshes) {
  for (const AxisRange& range : ranges) {
    bool known = false;
    NearestName nearest(range.axis);
    std::string axes;
    for (const auto& [name, mesh] : meshes) {
      for (const MeshAxis& axis : mesh.axes()) {
        nearest.offer(axis.name);
        axes += (axes.empty() ? "" : ", ") + axis.name;
      }
      const std::optional<int> found = mesh.find_axis(range.axis);
      if (!found) continue;
      known = true;
      const int64_t size = mesh.axes()[static_cast<size_t>(*found)].size;
      if (meshes.size() == 1 && range.indices[range.indices.size() - 1] >= size)
        throw_bad_input("{0}={1} is out of range: axis {0} has size {2}", range.axis,
                        to_string(range.indices), size);
    }
    if (!known && range.axis == "rank")
      throw_bad_input("unknown axis rank; ranks are written without it: \"{}\"",
                      to_string(range.indices));
    if (!known)
      throw_bad_input("unknown axis {}{}", range.axis,
                      nearest.best().empty() ? "; the axes are " + axes : nearest.hint());
  }
}

bool selected(const Mesh& mesh, const std::vector<AxisRange>& ranges, int32_t rank) {
  const std::optional<Dims> coordinate = mesh.coordinate_of(rank);
  for (const AxisRange& range : ranges)
    if (!range.indices.contains((*coordinate)[mesh.axis(range.axis)])) return false;
  return true;
}

Lanes select_by_axes(const std::vector<std::string>& words, const NamedMeshes& meshes) {
  std::vector<AxisRange> ranges;
  for (const std::string& word : words) ranges.push_back(parse_axis_range(word));
  check_axes_known(ranges, meshes);
  std::vector<int32_t> ranks;
  for (const auto& [name, mesh] : meshes) {
    bool has_all = true;
    for (const AxisRange& range : ranges) has_all = has_all && mesh.find_axis(range.axis);
    if (!has_all) continue;
    const Lanes all = mesh.ranks();
    for (int64_t i = 0; i < all.size(); ++i)
      if (selected(mesh, ranges, all[i])) ranks.push_back(all[i]);
  }
  return Lanes::of(std::move(ranks));
}

}  // namespace

Lanes select_ranks(const std::string& text, const NamedMeshes& meshes, int64_t world) {
  std::istringstream in(text);
  std::vector<std::string> words;
  size_t with_axis = 0;
  for (std::string word; in >> word; words.push_back(word))
    if (word.find('=') != std::string::npos) ++with_axis;
  if (words == std::vector<std::string>{"all"}) return Lanes::range(0, world);
  Lanes lanes;
  if (with_axis > 0 && with_axis == words.size()) {
    lanes = select_by_axes(words, meshes);
  } else if (const std::optional<Lanes> parsed = parse_lanes(text); parsed && !words.empty()) {
    lanes = *parsed;
    int64_t named = 0;
    for (const std::string& word : words) named += parse_lanes(word)->size();
    if (named > lanes.size())
      throw_bad_input("{} lists a rank twice; list each rank once", quoted(text));
  } else {
    std::string spaced = text;
    std::replace(spaced.begin(), spaced.end(), ',', ' ');
    const bool commas = spaced != text && parse_lanes(spaced);
    if (text == "rest")
      throw_bad_input("\"rest\" is only a key of \"ranks\"; write the ranks, such as 2-3");
    throw_bad_input("expected ranks such as all, 3, 0-3, 0 2 5 or pp=1, found {}{}", quoted(text),
                    commas ? "; write " + quoted(spaced) : "");
  }
  if (lanes.empty()) throw_bad_input("{} selects no rank", quoted(text));
  if (lanes[lanes.size() - 1] >= world)
    throw_bad_input("rank {} does not exist: the world has {} rank{}; ranks count from 0",
                    lanes[lanes.size() - 1], world, world == 1 ? "" : "s");
  return lanes;
}

}  // namespace shardproof
