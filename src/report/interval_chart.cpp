#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html.h"
#include "report/page.h"
#include "report/svg.h"

namespace lathe {
namespace {

constexpr double kWidth = 800, kLeft = 260, kRight = 130, kRow = 26, kTop = 10, kBottom = 34;

Axis ratio_axis(const std::vector<Speedup>& rows) {
  Axis x{.low = 1, .high = 1, .logarithmic = true, .pixel_low = kLeft, .pixel_high = kWidth - kRight};
  for (const Speedup& row : rows) {
    x.low = std::min(x.low, row.ratio.low > 0 ? row.ratio.low : row.ratio.mid);
    x.high = std::max(x.high, std::isfinite(row.ratio.high) ? row.ratio.high : row.ratio.mid);
  }
  x.low /= 1.15, x.high *= 1.15;
  return x;
}

void draw_row(Svg& svg, const Axis& x, const Speedup& row, double y) {
  const std::string label = row.baseline + "  " + row.shape;
  const std::string tip =
      fmt::format("{} against {} at {}{}", format_interval(row.ratio), row.baseline, row.shape,
                  row.ambiguous ? " (interval wider than its depth promises)" : "");
  const bool loses = row.ratio.mid < 1;
  svg.text(kLeft - 14, y + 4, shorten(label, 36), "label", "end");
  const double low = x(row.ratio.low), high = x(row.ratio.high);
  svg.line(low, y, high, y, loses ? "whisker loss" : "whisker");
  svg.line(low, y - 5, low, y + 5, loses ? "whisker loss" : "whisker");
  svg.line(high, y - 5, high, y + 5, loses ? "whisker loss" : "whisker");
  svg.circle(x(row.ratio.mid), y, 4.5, loses ? "loss-dot" : "best-dot", tip);
  svg.text(kWidth - kRight + 12, y + 4, format_interval(row.ratio), "tick");
}

}  // namespace

std::string interval_chart(const RunView& view) {
  if (view.best == nullptr || view.best->verdict.speedups.empty())
    return "<p class=\"empty\">No kernel has been timed against a peer.</p>\n";
  std::vector<Speedup> rows = view.best->verdict.speedups;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Speedup& a, const Speedup& b) { return a.ratio.mid < b.ratio.mid; });
  const Axis x = ratio_axis(rows);
  const double height = kTop + kRow * static_cast<double>(rows.size()) + kBottom;
  Svg svg(kWidth, height, "Speedup of the best kernel over each peer at each shape, with intervals", 560);
  for (const double tick : x.ticks()) {
    svg.line(x(tick), kTop, x(tick), height - kBottom, "grid");
    svg.text(x(tick), height - kBottom + 18, fmt::format("{:g}×", tick), "tick", "middle");
  }
  svg.line(x(1), kTop, x(1), height - kBottom, "reference");
  for (std::size_t i = 0; i < rows.size(); ++i)
    draw_row(svg, x, rows[i], kTop + kRow * (static_cast<double>(i) + 0.5));
  return svg.finish();
}

}  // namespace lathe
