#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html.h"

namespace lathe {

double Axis::operator()(double value) const {
  value = std::clamp(value, low, high);
  const double share =
      logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return pixel_low + share * (pixel_high - pixel_low);
}

namespace {

std::vector<double> multiples(double low, double high) {
  const double rough = (high - low) / 6;
  const double magnitude = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * magnitude;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * magnitude >= rough) {
      step = factor * magnitude;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9) + 0.0;  // never minus zero, which would be printed so
  for (double i = first; i * step <= high * (1 + 1e-9); ++i) ticks.push_back(i * step);
  return ticks;
}

}  // namespace

std::vector<double> Axis::ticks() const {
  if (!logarithmic || high / low < 3) return multiples(low, high);
  const double decades = std::log10(high / low);
  const int every = std::max(1, static_cast<int>(std::ceil(decades / 8)));
  std::vector<double> ticks;
  for (int power = static_cast<int>(std::floor(std::log10(low))); power <= std::log10(high) + 1e-9;
       power += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, power);
      if ((factor == 1 || decades < 2.5) && tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9))
        ticks.push_back(tick);
    }
  }
  return ticks;
}

Svg::Svg(double width, double height, std::string_view title, int min_width, int max_width)
    : label_(escape_html(title)),
      view_box_(fmt::format("viewBox=\"0 0 {:g} {:g}\"", width, height)),
      style_(fmt::format("min-width:{}px;max-width:{}px", min_width, max_width)) {}

void Svg::close(std::string_view element, std::string_view tip) {
  body_ += tip.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escape_html(tip), element);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1,
                       y1, x2, y2, css_class);
}

void Svg::path(const std::string& commands, std::string_view css_class) {
  body_ += fmt::format("<path d=\"{}\" class=\"{}\"/>\n", commands, css_class);
}

void Svg::circle(double x, double y, double radius, std::string_view css_class, std::string_view tip) {
  body_ +=
      fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" class=\"{}\"", x, y, radius, css_class);
  close("circle", tip);
}

void Svg::rect(double x, double y, double width, double height, std::string_view css_class,
               std::string_view tip) {
  body_ +=
      fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\" class=\"{}\"",
                  x, y, width, height, css_class);
  close("rect", tip);
}

void Svg::text(double x, double y, std::string_view text, std::string_view css_class, std::string_view anchor,
               double degrees) {
  const std::string turn =
      degrees == 0 ? "" : fmt::format(" transform=\"rotate({:.1f} {:.1f} {:.1f})\"", degrees, x, y);
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                       css_class, anchor, turn, escape_html(text));
}

std::string Svg::finish() const {
  return fmt::format(
      "<div class=\"scroll\"><svg {} style=\"{}\" role=\"img\" aria-label=\"{}\"><title>{}</title>\n"
      "{}</svg></div>\n",
      view_box_, style_, label_, label_, body_);
}

std::string Svg::finish_file(std::string_view css) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" {}><title>{}</title>\n<style>{}</style>\n{}</svg>\n",
      view_box_, label_, css, body_);
}

}  // namespace lathe
