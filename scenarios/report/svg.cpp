// Implements svg.h.
#include "shardproof/scenarios/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardproof {

std::string escaped_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&apos;"; break;
      case '\n': out += "&#10;"; break;
      case '\t': out += "&#9;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  return out;
}

void Svg::grow(double x, double y) {
  width_ = std::max(width_, x);
  height_ = std::max(height_, y);
}

void Svg::box(SvgPoint corner, double width, double height, const std::string& color,
              const std::string& hint) {
  shapes_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
      "stroke=\"#555\" stroke-width=\"0.5\">{}</rect>\n",
      corner.x, corner.y, width, height, color,
      hint.empty() ? "" : "<title>" + escaped_xml(hint) + "</title>");
  grow(corner.x + width, corner.y + height);
}

void Svg::text(SvgPoint baseline, const std::string& text, const std::string& anchor) {
  constexpr double kCharacterWidth = 7;
  shapes_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                         baseline.x, baseline.y, anchor, escaped_xml(text));
  const double width = kCharacterWidth * static_cast<double>(text.size());
  grow(baseline.x + (anchor == "start"    ? width
                     : anchor == "middle" ? width / 2
                                          : 0),
       baseline.y + 4);
}

void Svg::arrow(SvgPoint from, SvgPoint to, const std::string& color, double gap) {
  constexpr double kHead = 8;
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  if (length <= 2 * gap) return;
  const double x = (to.x - from.x) / length, y = (to.y - from.y) / length;
  const SvgPoint begin{from.x + gap * x, from.y + gap * y}, tip{to.x - gap * x, to.y - gap * y};
  shapes_ += fmt::format(
      "<path d=\"M{:.1f} {:.1f} L{:.1f} {:.1f} M{:.1f} {:.1f} L{:.1f} {:.1f} L{:.1f} {:.1f}\" "
      "fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
      begin.x, begin.y, tip.x, tip.y, tip.x - kHead * x + kHead / 2 * y,
      tip.y - kHead * y - kHead / 2 * x, tip.x, tip.y, tip.x - kHead * x - kHead / 2 * y,
      tip.y - kHead * y + kHead / 2 * x, color);
  grow(std::max(from.x, to.x), std::max(from.y, to.y));
}

std::string Svg::str(bool standalone) const {
  constexpr double kMargin = 4;
  const double width = std::ceil(width_ + kMargin), height = std::ceil(height_ + kMargin);
  return fmt::format(
      "{}<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" viewBox=\"0 "
      "0 "
      "{:.0f} {:.0f}\" role=\"img\" font-family=\"monospace\" font-size=\"11\">\n"
      "<title>{}</title>\n{}</svg>\n",
      standalone ? "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" : "", width, height, width,
      height, escaped_xml(title_), shapes_);
}

std::string light_color(size_t index) {
  constexpr double kGoldenAngle = 137.508;  // degrees; neighbours get distant hues
  return fmt::format("hsl({:.0f},65%,82%)",
                     std::fmod(static_cast<double>(index) * kGoldenAngle, 360));
}

}  // namespace shardproof
