// Svg: a picture that is built shape by shape. All pictures of reports and commands use it.
// Units are pixels; x grows to the right, y downwards. Texts are escaped here.
#pragma once

#include <string>
#include <string_view>

namespace shardproof {

// Returns the text for XML and HTML. XML 1.0 cannot represent most control characters, which become
// "?".
std::string escaped_xml(std::string_view text);

struct SvgPoint {
  double x = 0, y = 0;
};

class Svg {
 public:
  // `title` describes the picture for readers that do not show it.
  explicit Svg(std::string title) : title_(std::move(title)) {}

  // Each adds a shape and grows the picture to hold it. `color` is a CSS color; `hint` is shown
  // when the pointer rests on the shape.
  void box(SvgPoint corner, double width, double height, const std::string& color,
           const std::string& hint = "");
  void text(SvgPoint baseline, const std::string& text, const std::string& anchor = "start");
  // An arrow that ends `gap` pixels before `to`.
  void arrow(SvgPoint from, SvgPoint to, const std::string& color, double gap);

  // Returns the <svg> element; with `standalone` as a whole file.
  std::string str(bool standalone = false) const;

 private:
  void grow(double x, double y);

  std::string title_, shapes_;
  double width_ = 0, height_ = 0;
};

// Returns a light color that differs between neighbouring indices.
std::string light_color(size_t index);

}  // namespace shardproof
