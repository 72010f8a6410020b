#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html.h"
#include "report/page.h"
#include "report/svg.h"

namespace lathe {
namespace {

constexpr double kProgressWidth = 860, kProgressHeight = 320, kProgressLeft = 58, kProgressRight = 16,
                 kProgressTop = 14, kProgressBottom = 46;
constexpr std::size_t kMaxDots = 2000;

struct Point {
  std::int64_t evaluation;  ///< from 1
  double speedup;
  const Experience* experience;
};

std::vector<Point> timed_points(const RunView& view) {
  std::vector<Point> points;
  for (const Experience& e : view.experiences) {
    if (!e.verdict.passed()) continue;
    if (const auto ratio = view.speedup(e); ratio && ratio->mid > 0 && std::isfinite(ratio->mid))
      points.push_back({e.sequence + 1, ratio->mid, &e});
  }
  return points;
}

std::string tip_of(const Experience& e) {
  std::string tip =
      fmt::format("evaluation {}: {} {}", e.sequence + 1, name(e.verdict.outcome), e.verdict.reason);
  if (!e.lineage.operation.empty()) tip += fmt::format("\n{} {}", e.lineage.operation, e.lineage.description);
  return tip;
}

Axis speedup_axis(const std::vector<Point>& points) {
  Axis y{.low = 1, .high = 1, .pixel_low = kProgressHeight - kProgressBottom, .pixel_high = kProgressTop};
  for (const Point& point : points) {
    y.low = std::min(y.low, point.speedup);
    y.high = std::max(y.high, point.speedup);
  }
  y.logarithmic = y.high / y.low > 10;
  y.high *= 1.1;
  y.low = y.logarithmic ? y.low / 1.1 : 0;
  return y;
}

void draw_frame(Svg& svg, const Axis& x, const Axis& y, const std::string& peer) {
  for (const double tick : y.ticks()) {
    svg.line(kProgressLeft, y(tick), kProgressWidth - kProgressRight, y(tick), "grid");
    svg.text(kProgressLeft - 8, y(tick) + 4, fmt::format("{:g}×", tick), "tick", "end");
  }
  for (const double tick : x.ticks()) {
    if (tick != std::floor(tick)) continue;
    svg.text(x(tick), kProgressHeight - kProgressBottom + 18, fmt::format("{:g}", tick), "tick", "middle");
  }
  svg.text((kProgressLeft + kProgressWidth - kProgressRight) / 2, kProgressHeight - 8, "evaluations", "axis",
           "middle");
  svg.line(kProgressLeft, y(1), kProgressWidth - kProgressRight, y(1), "reference");
  svg.text(kProgressLeft + 6, y(1) - 6, peer, "tick halo");
}

/// The staircase of the best so far, and its last point.
void draw_best(Svg& svg, const Axis& x, const Axis& y, const std::vector<Point>& points) {
  std::string commands;
  double best = 0;
  for (const Point& point : points) {
    if (point.speedup <= best) continue;
    commands += commands.empty()
                    ? fmt::format("M{:.1f} {:.1f}", x(double(point.evaluation)), y(point.speedup))
                    : fmt::format("H{:.1f}V{:.1f}", x(double(point.evaluation)), y(point.speedup));
    best = point.speedup;
  }
  svg.path(commands + fmt::format("H{:.1f}", x.pixel_high), "best-line");
  best = 0;
  for (const Point& point : points) {
    if (point.speedup <= best) continue;
    best = point.speedup;
    svg.circle(x(double(point.evaluation)), y(best), 4, "best-dot",
               format_ratio(best) + ", " + tip_of(*point.experience));
  }
}

}  // namespace

std::string progress_chart(const RunView& view) {
  const std::vector<Point> points = timed_points(view);
  if (points.empty()) return "<p class=\"empty\">No evaluation has been timed against a peer.</p>\n";
  const Axis y = speedup_axis(points);
  const double last = static_cast<double>(std::max<std::int64_t>(2, view.experiences.back().sequence + 1));
  const Axis x{
      .low = 1, .high = last, .pixel_low = kProgressLeft + 8, .pixel_high = kProgressWidth - kProgressRight};
  Svg svg(kProgressWidth, kProgressHeight, "Speedup over the best peer against the number of evaluations",
          560);
  draw_frame(svg, x, y, view.extras.best_baseline);

  const std::size_t every = points.size() / kMaxDots + 1;
  for (std::size_t i = 0; i < points.size(); i += every) {
    svg.circle(x(double(points[i].evaluation)), y(points[i].speedup), 2.5, "dot",
               format_ratio(points[i].speedup) + ", " + tip_of(*points[i].experience));
  }
  const std::size_t failed = view.experiences.size() - static_cast<std::size_t>(view.passed);
  std::size_t seen = 0;
  for (const Experience& e : view.experiences) {
    if (e.verdict.passed() || seen++ % (failed / kMaxDots + 1) != 0) continue;
    svg.rect(x(double(e.sequence + 1)) - 1, kProgressHeight - kProgressBottom - 7, 2, 7, "failure",
             tip_of(e));
  }
  draw_best(svg, x, y, points);
  return svg.finish() +
         "<p class=\"caption\">Line: best so far. Dots: kernels that passed. Red ticks at the foot: "
         "evaluations "
         "that did not pass.</p>\n";
}

}  // namespace lathe
