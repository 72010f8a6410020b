#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// Maps values to pixels, on a linear or logarithmic scale.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  double pixel_low = 0;
  double pixel_high = 1;

  double operator()(double value) const;  ///< clamped to the axis
  std::vector<double> ticks() const;      ///< round numbers, at most about eight
};

/// One chart as an SVG element. Text is escaped here; colours are CSS classes of the page's style.
class Svg {
 public:
  /// `title` is read by screen readers. The chart scales with the page between `min_width` pixels,
  /// below which its container scrolls, and `max_width` pixels.
  Svg(double width, double height, std::string_view title, int min_width, int max_width = 1200);

  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  void path(const std::string& commands, std::string_view css_class);
  /// `tip` is a tooltip; none if empty.
  void circle(double x, double y, double radius, std::string_view css_class, std::string_view tip = {});
  void rect(double x, double y, double width, double height, std::string_view css_class,
            std::string_view tip = {});
  /// `anchor`: start, middle or end. `degrees` rotates the text about its position.
  void text(double x, double y, std::string_view text, std::string_view css_class,
            std::string_view anchor = "start", double degrees = 0);
  std::string finish() const;                           ///< the element, in its container
  std::string finish_file(std::string_view css) const;  ///< a file of its own, with the style of its classes

 private:
  void close(std::string_view element, std::string_view tip);
  std::string label_, view_box_, style_, body_;
};

}  // namespace lathe
