// Implements pictures.h.
#include "shardproof/scenarios/report/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

namespace shardproof {
namespace {

constexpr int64_t kMaxShapes = 400;
constexpr double kCellWidth = 44, kCellHeight = 22, kTitleHeight = 16;

std::string ranks_label(const Lanes& lanes) { return to_string(lanes); }

// The two dims that a picture shows: rows and columns; -1 means a dim of size 1.
struct ShownDims {
  int row = -1, column = -1;
};

ShownDims shown_dims(const Spec& spec) {
  const int dims = static_cast<int>(spec.shape().size());
  std::vector<int> chosen;
  for (int dim = 0; dim < dims && chosen.size() < 2; ++dim)
    if (!spec.axes_of_dim(dim).empty()) chosen.push_back(dim);
  for (int dim = dims - 1; dim >= 0 && chosen.size() < 2; --dim)
    if (std::find(chosen.begin(), chosen.end(), dim) == chosen.end()) chosen.push_back(dim);
  std::sort(chosen.begin(), chosen.end());
  if (chosen.size() == 2) return {chosen[0], chosen[1]};
  return {chosen.empty() ? -1 : chosen[0], -1};
}

Runs runs_of(const Spec& spec, int64_t rank, int dim) {
  return dim < 0 ? Runs{{0, 1}} : spec.owned(rank, dim);
}

int64_t extent_of(const Spec& spec, int dim) {
  return dim < 0 ? 1 : spec.shape()[static_cast<size_t>(dim)];
}

// A rectangle of global indices, as (row, rows, column, columns).
using Part = std::array<int64_t, 4>;

// Returns the ranks that own each rectangle.
std::map<Part, std::vector<int32_t>> parts_of(const Spec& spec, const ShownDims& dims) {
  std::map<Part, std::vector<int32_t>> parts;
  const Lanes ranks = spec.mesh().ranks();
  for (int64_t lane = 0; lane < ranks.size(); ++lane)
    for (const Run& row : runs_of(spec, ranks[lane], dims.row))
      for (const Run& column : runs_of(spec, ranks[lane], dims.column))
        parts[{row.start, row.length, column.start, column.length}].push_back(ranks[lane]);
  return parts;
}

// Draws the owners below `top`. Returns the y below the picture, or 0 if there are too many parts.
double draw_owners(Svg& svg, const std::string& title, const Spec& spec, double top) {
  constexpr double kWidth = 320, kHeight = 160;
  if (spec.mesh().size() > kMaxShapes) return 0;
  const ShownDims dims = shown_dims(spec);
  const auto rows = static_cast<double>(extent_of(spec, dims.row));
  const auto columns = static_cast<double>(extent_of(spec, dims.column));
  if (rows == 0 || columns == 0) return 0;
  const auto parts = parts_of(spec, dims);
  if (parts.size() > static_cast<size_t>(kMaxShapes)) return 0;
  const double width = dims.column < 0 ? kWidth / 4 : kWidth;
  svg.text({0, top + 11}, title);
  size_t color = 0;
  for (const auto& [part, ranks] : parts) {
    const SvgPoint corner{static_cast<double>(part[2]) / columns * width,
                          top + kTitleHeight + static_cast<double>(part[0]) / rows * kHeight};
    const double w = static_cast<double>(part[3]) / columns * width;
    const double h = static_cast<double>(part[1]) / rows * kHeight;
    const std::string label = ranks_label(Lanes::of(ranks));
    const std::string hint =
        fmt::format("ranks {}: dim {} [{}, {}), dim {} [{}, {})", label, dims.row, part[0],
                    part[0] + part[1], dims.column, part[2], part[2] + part[3]);
    svg.box(corner, w, h, light_color(color++), hint);
    if (h >= 12 && w >= 7 * static_cast<double>(label.size()))
      svg.text({corner.x + w / 2, corner.y + h / 2 + 4}, label, "middle");
  }
  return top + kTitleHeight + kHeight;
}

// An arrow of a wait-for graph.
using WaitArrow = std::pair<int32_t, int32_t>;

// Reads a number at the front of a text, or returns -1.
int64_t leading_number(std::string_view text) {
  int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Reads "rank 0  line 4  send(x)  waits for rank 1 to receive".
void add_waits(const std::string& detail, std::set<WaitArrow>& arrows) {
  constexpr std::string_view kWaits = "waits for rank";
  const size_t line = detail.find("  line "), waits = detail.rfind(kWaits);
  if (!detail.starts_with("rank") || line == std::string::npos || waits == std::string::npos)
    return;
  const auto lanes_at = [&](size_t begin, size_t end) {
    std::string text = detail.substr(begin, end - begin);
    text.erase(0, text.find_first_not_of("s "));
    text.erase(std::min(text.find_first_not_of("0123456789 -"), text.size()));
    text.erase(text.find_last_not_of(' ') + 1);
    return parse_lanes(text).value_or(Lanes());
  };
  const Lanes from = lanes_at(4, line), to = lanes_at(waits + kWaits.size(), detail.size());
  for (int64_t i = 0; i < std::min<int64_t>(from.size(), 64); ++i)
    for (int64_t k = 0; k < std::min<int64_t>(to.size(), 64); ++k) arrows.insert({from[i], to[k]});
}

// Reads "cycle   0 -> 2 -> 0   over groups dp and tp".
void add_cycle(const std::string& detail, std::set<WaitArrow>& arrows) {
  if (!detail.starts_with("cycle")) return;
  int64_t last =
      leading_number(detail.substr(std::min(detail.find_first_of("0123456789"), detail.size())));
  for (size_t at = detail.find("-> "); at != std::string::npos; at = detail.find("-> ", at + 1)) {
    const int64_t next = leading_number(std::string_view(detail).substr(at + 3));
    if (last >= 0 && next >= 0)
      arrows.insert({static_cast<int32_t>(last), static_cast<int32_t>(next)});
    last = next;
  }
}

struct TimeRow {
  int32_t rank;
  std::string stream;
  auto operator<=>(const TimeRow&) const = default;
};

}  // namespace

std::string mesh_picture(const Mesh& mesh) {
  if (mesh.size() > kMaxShapes) return "";
  Svg svg("mesh " + to_string(mesh));
  const int64_t columns = mesh.axis_count() == 0 ? 1 : mesh.axis_size(mesh.axis_count() - 1);
  std::string axes;
  for (const MeshAxis& axis : mesh.axes())
    axes += fmt::format("{}{}={}", axes.empty() ? "" : ", ", axis.name, axis.size);
  svg.text({0, 11}, axes.empty() ? "one rank" : axes + "; the last axis runs to the right");
  for (int64_t i = 0; i < mesh.size(); ++i) {
    const Dims coordinate = unravel(i, mesh.shape());
    const SvgPoint corner{static_cast<double>(i % columns) * kCellWidth,
                          kTitleHeight + static_cast<double>(i / columns) * kCellHeight};
    std::string hint;
    for (int axis = 0; axis < mesh.axis_count(); ++axis)
      hint += fmt::format("{}{}={}", hint.empty() ? "" : " ",
                          mesh.axes()[static_cast<size_t>(axis)].name,
                          coordinate[static_cast<size_t>(axis)]);
    svg.box(corner, kCellWidth, kCellHeight, light_color(static_cast<size_t>(i / columns)), hint);
    svg.text({corner.x + kCellWidth / 2, corner.y + 15}, std::to_string(mesh.rank_at(coordinate)),
             "middle");
  }
  return svg.str();
}

std::string owners_picture(const std::string& title, const Spec& spec, bool standalone) {
  Svg svg("owners of " + title);
  return draw_owners(svg, title, spec, 0) == 0 ? "" : svg.str(standalone);
}

std::string plan_picture(const Plan& plan, const Spec& from) {
  Svg svg("redistribution plan");
  double top = draw_owners(svg, placements_text(from), from, 0);
  for (const PlanStep& step : plan.steps) {
    if (top == 0) return "";
    const std::string pieces = step.pieces == 1 ? "" : fmt::format(" in {} pieces", step.pieces);
    top = draw_owners(svg,
                      fmt::format("{}{} -> {}", name(step.kind), pieces, placements_text(step.to)),
                      step.to, top + 20);
  }
  return top == 0 ? "" : svg.str(true);
}

std::string wait_graph_picture(const Finding& finding) {
  std::set<WaitArrow> arrows, cycles;
  for (const std::string& detail : finding.details) {
    add_waits(detail, arrows);
    add_cycle(detail, cycles);
  }
  arrows.insert(cycles.begin(), cycles.end());
  std::map<int32_t, SvgPoint> places;
  for (const auto& [from, to] : arrows) places[from] = places[to] = {};
  if (arrows.empty() || places.size() > 64 || arrows.size() > static_cast<size_t>(kMaxShapes))
    return "";
  const double radius = std::max(40.0, 9.0 * static_cast<double>(places.size()));
  size_t index = 0;
  for (auto& [rank, place] : places) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(index++) / static_cast<double>(places.size());
    place = {radius + 20 - radius * std::cos(angle), radius + 20 - radius * std::sin(angle)};
  }
  Svg svg("wait-for graph: an arrow points to the rank that is waited for");
  for (const auto& [rank, place] : places) {
    svg.box({place.x - 14, place.y - 10}, 28, 20, "#eee", fmt::format("rank {}", rank));
    svg.text({place.x, place.y + 4}, std::to_string(rank), "middle");
  }
  for (const WaitArrow& arrow : arrows)
    svg.arrow(places[arrow.first], places[arrow.second], cycles.contains(arrow) ? "#c00" : "#555",
              17);
  return svg.str();
}

std::string timeline_picture(const std::vector<Record>& records) {
  constexpr double kWidth = 720, kRow = 18, kLabel = 110;
  constexpr size_t kMaxBars = 2000, kMaxRows = 64;
  std::map<TimeRow, std::vector<const Record*>> rows;
  Duration end;
  size_t bars = 0;
  for (const Record& record : records) {
    if (record.state != RecordState::done || record.end <= record.start) continue;
    end = std::max(end, record.end);
    for (int64_t i = 0; i < record.ranks.size() && rows.size() <= kMaxRows; ++i, ++bars)
      rows[{record.ranks[i], record.stream}].push_back(&record);
  }
  if (rows.empty() || rows.size() > kMaxRows || bars > kMaxBars) return "";
  Svg svg("timeline of " + rounded_text(end));
  double top = 0;
  for (const auto& [row, list] : rows) {
    svg.text({0, top + 13}, fmt::format("rank {} {}", row.rank, row.stream));
    for (const Record* record : list) {
      const double begin = static_cast<double>(record->start.ps) / static_cast<double>(end.ps);
      const double part =
          static_cast<double>((record->end - record->start).ps) / static_cast<double>(end.ps);
      svg.box({kLabel + begin * kWidth, top + 2}, std::max(part * kWidth, 0.5), kRow - 4,
              record->group.empty() ? "#9ecae1" : "#fdae6b",
              fmt::format("line {} {} {}: {} to {}", record->line, record->kind, record->group,
                          rounded_text(record->start), rounded_text(record->end)));
    }
    top += kRow;
  }
  svg.text({kLabel + kWidth, top + 12}, rounded_text(end), "end");
  return svg.str();
}

}  // namespace shardproof
