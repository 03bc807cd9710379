// Implements rank_choice.h. An axis is used if all ranks are on its mesh and the text depends on
// only their coordinates along it.
#include "shardproof/program/ir/rank_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "shardproof/program/ir/printed_line.h"

namespace shardproof {
namespace {

constexpr size_t kMostRanges = 4;  // in a condition; more are a list

// Returns index(axis) of each rank as a program computes it; empty if some rank has none.
std::vector<int64_t> indices_of(const std::string& axis, const Lanes& lanes,
                                const NamedMeshes& meshes) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    std::optional<int64_t> index;
    for (const auto& [key, mesh] : meshes) {
      const std::optional<int> at = mesh.find_axis(axis);
      if (index || !at) continue;
      if (const std::optional<Dims> coordinate = mesh.coordinate_of(lanes[i]))
        index = (*coordinate)[*at];
    }
    if (!index) return {};
    indices.push_back(*index);
  }
  return indices;
}

std::vector<std::string> axes_of(const NamedMeshes& meshes) {
  std::vector<std::string> axes;
  for (const auto& [key, mesh] : meshes)
    for (const MeshAxis& axis : mesh.axes())
      if (std::find(axes.begin(), axes.end(), axis.name) == axes.end()) axes.push_back(axis.name);
  return axes;
}

// Returns the texts by place, with places that have none filled up from the place before.
std::vector<std::string> table_of(const std::vector<int64_t>& places, int64_t first,
                                  const std::vector<std::string>& texts) {
  std::map<int64_t, std::string> known;
  for (size_t i = 0; i < places.size(); ++i) known.emplace(places[i] - first, texts[i]);
  std::vector<std::string> table;
  for (int64_t place = 0; place <= known.rbegin()->first; ++place) {
    const auto found = known.find(place);
    table.push_back(found != known.end() ? found->second
                    : table.empty()      ? known.begin()->second
                                         : table.back());
  }
  return table;
}

// True if ranks with one index have one text.
bool depends_on(const std::vector<int64_t>& indices, const std::vector<std::string>& texts) {
  std::map<int64_t, std::string> known;
  for (size_t i = 0; i < indices.size(); ++i)
    if (known.emplace(indices[i], texts[i]).first->second != texts[i]) return false;
  return !indices.empty();
}

bool counts(const std::vector<int64_t>& indices, const std::vector<std::string>& texts) {
  for (size_t i = 0; i < indices.size(); ++i)
    if (texts[i] != std::to_string(indices[i])) return false;
  return true;
}

std::vector<int64_t> ranks_of(const Lanes& lanes) {
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < lanes.size(); ++i) ranks.push_back(lanes[i]);
  return ranks;
}

// Returns a condition on a number that holds for `some` of the `all` values, both ascending;
// nullopt if it would have too many parts.
std::optional<std::string> ranges_text(const std::string& number, const std::vector<int64_t>& some,
                                       const std::vector<int64_t>& all, size_t most) {
  std::vector<std::string> ranges;
  for (size_t at = 0, i = 0; i < some.size();) {
    while (all[at] != some[i]) ++at;
    const size_t first = at;
    while (i < some.size() && at < all.size() && all[at] == some[i]) ++at, ++i;
    const bool from_start = first == 0, to_end = at == all.size();
    if (at == first + 1)
      ranges.push_back(fmt::format("{} == {}", number, all[first]));
    else if (from_start && to_end)
      ranges.push_back("true");
    else if (from_start)
      ranges.push_back(fmt::format("{} < {}", number, all[at]));
    else if (to_end)
      ranges.push_back(fmt::format("{} >= {}", number, all[first]));
    else
      ranges.push_back(fmt::format("{0} >= {1} and {0} < {2}", number, all[first], all[at]));
    if (ranges.size() > most) return std::nullopt;
  }
  return fmt::format("{}", fmt::join(ranges, " or "));
}

std::optional<std::string> axis_condition(const std::string& axis, const Lanes& some,
                                          const Lanes& all, const NamedMeshes& meshes) {
  const std::vector<int64_t> indices = indices_of(axis, all, meshes);
  std::vector<std::string> met;
  for (int64_t i = 0; i < all.size(); ++i) met.emplace_back(some.contains(all[i]) ? "1" : "0");
  if (!depends_on(indices, met)) return std::nullopt;
  std::map<int64_t, bool> by_index;
  for (size_t i = 0; i < indices.size(); ++i) by_index[indices[i]] = met[i] == "1";
  std::vector<int64_t> taken, every;
  for (const auto& [index, meets] : by_index) {
    every.push_back(index);
    if (meets) taken.push_back(index);
  }
  return ranges_text(fmt::format("index({})", axis), taken, every, 1);
}

}  // namespace

std::string choice_text(const Lanes& lanes, const std::vector<std::string>& texts,
                        const NamedMeshes& meshes) {
  if (std::all_of(texts.begin(), texts.end(), [&](const auto& t) { return t == texts[0]; }))
    return texts[0];
  const std::vector<int64_t> ranks = ranks_of(lanes);
  if (counts(ranks, texts)) return "rank";
  for (const std::string& axis : axes_of(meshes)) {
    const std::vector<int64_t> indices = indices_of(axis, lanes, meshes);
    if (!depends_on(indices, texts)) continue;
    const std::string index = fmt::format("index({})", axis);
    if (counts(indices, texts)) return index;
    return fmt::format("[{}][{}]", comma_list(table_of(indices, 0, texts)), index);
  }
  const std::string table = comma_list(table_of(ranks, ranks[0], texts));
  return ranks[0] == 0 ? fmt::format("[{}][rank]", table)
                       : fmt::format("[{}][rank - {}]", table, ranks[0]);
}

std::string condition_text(const Lanes& some, const Lanes& all, const NamedMeshes& meshes) {
  for (const std::string& axis : axes_of(meshes))
    if (std::optional<std::string> text = axis_condition(axis, some, all, meshes)) return *text;
  const std::vector<int64_t> ranks = ranks_of(all);
  if (std::optional<std::string> text = ranges_text("rank", ranks_of(some), ranks, kMostRanges))
    return *text;
  std::vector<std::string> met;
  for (int64_t i = 0; i < all.size(); ++i) met.emplace_back(some.contains(all[i]) ? "1" : "0");
  return choice_text(all, met, {}) + " == 1";
}

}  // namespace shardproof
