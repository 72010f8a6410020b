#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html.h"
#include "report/page.h"
#include "report/svg.h"

namespace lathe {
namespace {

constexpr double kRooflineWidth = 860, kRooflineHeight = 400, kRooflineLeft = 70, kRooflineRight = 20,
                 kRooflineTop = 16, kRooflineBottom = 50;
constexpr double kSpacing = 12;  // pixels between contenders

/// One contender at one shape.
struct RooflinePoint {
  std::string contender;
  std::string css_class;
  std::string shape;
  double intensity;  ///< flop per byte
  double rate;       ///< flop per second
};

void add_points(std::vector<RooflinePoint>& points, const RunView& view, const std::string& contender,
                const std::string& css_class, const std::vector<Timing>& timings) {
  for (const Timing& timing : timings) {
    const ShapeWork* work = view.work_of(timing.shape);
    if (work == nullptr || !(work->flops > 0) || !(work->bytes > 0) || !(timing.median_ns > 0)) continue;
    points.push_back({contender, css_class, timing.shape, work->flops / work->bytes,
                      work->flops / (timing.median_ns * 1e-9)});
  }
}

std::vector<RooflinePoint> all_points(const RunView& view) {
  std::vector<RooflinePoint> points;
  for (std::size_t i = 0; i < view.extras.baselines.size(); ++i) {
    const BaselineTime& baseline = view.extras.baselines[i];
    add_points(points, view, baseline.name, "series-" + std::to_string(std::min<std::size_t>(i, 3)),
               baseline.timings);
  }
  if (view.best) add_points(points, view, "best kernel", "series-best", view.best->verdict.timings);
  return points;
}

struct Plane {
  Axis x;
  Axis y;
};

Plane make_plane(const std::vector<RooflinePoint>& points, const DevicePeaks& peaks) {
  double ridge = 0;
  for (const auto& level : peaks.levels) {
    if (level.bytes_per_second > 0) ridge = std::max(ridge, peaks.flops_per_second / level.bytes_per_second);
  }
  Plane plane;
  plane.x = {.low = points[0].intensity,
             .high = std::max(points[0].intensity, ridge),
             .logarithmic = true,
             .pixel_low = kRooflineLeft,
             .pixel_high = kRooflineWidth - kRooflineRight};
  plane.y = {.low = points[0].rate,
             .high = std::max(points[0].rate, peaks.flops_per_second),
             .logarithmic = true,
             .pixel_low = kRooflineHeight - kRooflineBottom,
             .pixel_high = kRooflineTop};
  for (const RooflinePoint& point : points) {
    plane.x.low = std::min(plane.x.low, point.intensity);
    plane.x.high = std::max(plane.x.high, point.intensity);
    plane.y.low = std::min(plane.y.low, point.rate);
    plane.y.high = std::max(plane.y.high, point.rate);
  }
  plane.x.low /= 4, plane.x.high *= 4;
  plane.y.low /= 3, plane.y.high *= 2;
  return plane;
}

/// "50 G": ticks are round, so they need no decimals.
std::string tick_label(double value) {
  const char* const prefixes[] = {"", " k", " M", " G", " T", " P"};
  std::size_t prefix = 0;
  for (; value >= 999.5 && prefix < 5; ++prefix) value /= 1000;
  return fmt::format("{:g}{}", value, prefixes[prefix]);
}

void draw_grid(Svg& svg, const Plane& plane) {
  for (const double tick : plane.y.ticks()) {
    svg.line(kRooflineLeft, plane.y(tick), kRooflineWidth - kRooflineRight, plane.y(tick), "grid");
    svg.text(kRooflineLeft - 8, plane.y(tick) + 4, tick_label(tick), "tick", "end");
  }
  for (const double tick : plane.x.ticks()) {
    svg.line(plane.x(tick), kRooflineTop, plane.x(tick), kRooflineHeight - kRooflineBottom, "grid");
    svg.text(plane.x(tick), kRooflineHeight - kRooflineBottom + 18, fmt::format("{:g}", tick), "tick",
             "middle");
  }
  svg.text((kRooflineLeft + kRooflineWidth - kRooflineRight) / 2, kRooflineHeight - 8,
           "arithmetic intensity, flop per byte", "axis", "middle");
  svg.text(14, (kRooflineTop + kRooflineHeight - kRooflineBottom) / 2, "flop per second", "axis", "middle",
           -90);
}

/// A bandwidth roof: a diagonal from the left or bottom edge up to the compute roof, labelled at
/// its start.
void draw_level(Svg& svg, const Plane& plane, const DevicePeaks::Level& level, double roof) {
  if (!(level.bytes_per_second > 0)) return;
  const double from = std::max(plane.x.low, plane.y.low / level.bytes_per_second);
  const double to = std::min(plane.x.high, roof / level.bytes_per_second);
  if (from >= to) return;
  const double x1 = plane.x(from), y1 = plane.y(from * level.bytes_per_second);
  const double x2 = plane.x(to), y2 = plane.y(to * level.bytes_per_second);
  svg.line(x1, y1, x2, y2, "roof");
  const double degrees = std::atan2(y2 - y1, x2 - x1) * 180 / M_PI;
  const double share = 14 / std::hypot(x2 - x1, y2 - y1);
  svg.text(x1 + share * (x2 - x1) - 3, y1 + share * (y2 - y1) - 5,
           level.name + ", " + format_si(level.bytes_per_second, "B/s"), "tick halo", "start", degrees);
}

void draw_roofs(Svg& svg, const Plane& plane, const DevicePeaks& peaks) {
  if (!(peaks.flops_per_second > 0)) return;
  double start = plane.x.high;
  for (const auto& level : peaks.levels) {
    draw_level(svg, plane, level, peaks.flops_per_second);
    if (level.bytes_per_second > 0) start = std::min(start, peaks.flops_per_second / level.bytes_per_second);
  }
  if (peaks.levels.empty()) start = plane.x.low;
  const double y = plane.y(peaks.flops_per_second);
  svg.line(plane.x(start), y, kRooflineWidth - kRooflineRight, y, "roof");
  svg.text(kRooflineWidth - kRooflineRight, y - 6, "peak, " + format_si(peaks.flops_per_second, "FLOP/s"),
           "tick halo", "end");
}

/// Contenders have the same intensity, so they are drawn slightly apart.
std::string draw_points(Svg& svg, const Plane& plane, const std::vector<RooflinePoint>& points) {
  std::vector<std::string> contenders;
  std::string legend;
  for (const RooflinePoint& point : points) {
    if (!contenders.empty() && contenders.back() == point.contender) continue;
    contenders.push_back(point.contender);
    legend +=
        fmt::format("<span><i class=\"{}\"></i>{}</span>", point.css_class, escape_html(point.contender));
  }
  const double middle = (static_cast<double>(contenders.size()) - 1) / 2;
  for (const RooflinePoint& point : points) {
    const auto index = std::find(contenders.begin(), contenders.end(), point.contender) - contenders.begin();
    svg.circle(plane.x(point.intensity) + kSpacing * (static_cast<double>(index) - middle),
               plane.y(point.rate), 5.5, point.css_class,
               fmt::format("{} at {}: {}, {:.3g} flop per byte", point.contender, point.shape,
                           format_si(point.rate, "FLOP/s"), point.intensity));
  }
  return "<p class=\"legend\">" + legend + "</p>\n";
}

/// For tasks without arithmetic, to which a roofline does not apply: bandwidth against each level's
/// peak.
std::string bandwidth_table(const RunView& view) {
  std::string rows;
  const auto add = [&](const std::string& contender, const std::vector<Timing>& timings) {
    for (const Timing& timing : timings) {
      const ShapeWork* work = view.work_of(timing.shape);
      if (work == nullptr || !(timing.median_ns > 0)) continue;
      rows +=
          fmt::format("<tr><td>{}</td><td>{}</td><td class=\"num\">{}</td></tr>\n", escape_html(contender),
                      escape_html(timing.shape), format_si(work->bytes / (timing.median_ns * 1e-9), "B/s"));
    }
  };
  for (const BaselineTime& baseline : view.extras.baselines) add(baseline.name, baseline.timings);
  if (view.best) add("best kernel", view.best->verdict.timings);
  for (const auto& level : view.extras.peaks.levels) {
    rows += fmt::format("<tr class=\"peak\"><td>peak of {}</td><td></td><td class=\"num\">{}</td></tr>\n",
                        escape_html(level.name), format_si(level.bytes_per_second, "B/s"));
  }
  if (rows.empty()) return "<p class=\"empty\">Nothing has been timed.</p>\n";
  return "<div class=\"scroll\"><table><caption>Achieved bandwidth: this task has no arithmetic to "
         "plot</caption>"
         "<thead><tr><th scope=\"col\">contender</th><th scope=\"col\">shape</th><th scope=\"col\" "
         "class=\"num\">bandwidth</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

}  // namespace

std::string roofline_chart(const RunView& view) {
  const std::vector<RooflinePoint> points = all_points(view);
  if (points.empty()) return bandwidth_table(view);
  const Plane plane = make_plane(points, view.extras.peaks);
  Svg svg(kRooflineWidth, kRooflineHeight,
          "Roofline: achieved rate against arithmetic intensity, with the device's measured peaks", 600);
  draw_grid(svg, plane);
  draw_roofs(svg, plane, view.extras.peaks);
  const std::string legend = draw_points(svg, plane, points);
  return legend + svg.finish() +
         "<p class=\"caption\">One point a scored shape; contenders are set side by side to stay "
         "apart.</p>\n";
}

}  // namespace lathe
