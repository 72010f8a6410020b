#include "report/training_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "record/json.h"
#include "report/svg.h"

namespace lathe {
namespace {

constexpr double kCurvesWidth = 860, kCurvesLeft = 64, kCurvesRight = 20, kLossTop = 50, kLossBottom = 300,
                 kNormTop = 340, kNormBottom = 440;
constexpr const char* kCurveStyle =
    ".label{font:12px sans-serif;fill:#444}.title{font:15px sans-serif;fill:#222}.grid{stroke:#ddd}"
    ".raw{fill:none;stroke:#9ecae1}.smooth{fill:none;stroke:#08519c;stroke-width:2}"
    ".held{fill:#d94801}.norm{fill:none;stroke:#756bb1}";

using Points = std::vector<std::pair<double, double>>;

struct Curves {
  Points loss, norm, held_out;
};

Curves curves_of(std::string_view metrics) {
  Curves curves;
  while (!metrics.empty()) {
    const std::string_view line = metrics.substr(0, metrics.find('\n'));
    metrics.remove_prefix(std::min(metrics.size(), line.size() + 1));
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object()) continue;
    const auto add = [&](const char* field, Points& to) {
      const auto found = object.find(field);
      if (found == object.end() || !found->is_number()) return;
      const auto value = found->get<double>(), step = object.value("step", 0.0);
      if (std::isfinite(value)) to.emplace_back(step, value);
    };
    add("loss", curves.loss);
    add("gradient_norm", curves.norm);
    add("held_out_loss", curves.held_out);
  }
  return curves;
}

/// An exponential mean over a twentieth of the steps, corrected for its beginning.
Points smoothed(const Points& points) {
  const double keep = 1 - 1 / std::clamp(static_cast<double>(points.size()) / 20, 1.0, 50.0);
  Points result;
  double sum = 0, weight = 0;
  for (const auto& [step, value] : points) {
    sum = keep * sum + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    result.emplace_back(step, sum / weight);
  }
  return result;
}

std::string path_of(const Points& points, const Axis& x, const Axis& y) {
  std::string commands;
  for (const auto& [step, value] : points)
    commands += fmt::format("{}{:.1f} {:.1f}", commands.empty() ? "M" : "L", x(step), y(value));
  return commands;
}

Axis axis_of(const std::vector<const Points*>& all, double top, double bottom) {
  Axis axis{.low = 0, .high = 0, .pixel_low = bottom, .pixel_high = top};
  for (const Points* points : all)
    for (const auto& [step, value] : *points) axis.high = std::max(axis.high, value);
  axis.high = axis.high > 0 ? 1.05 * axis.high : 1;
  return axis;
}

void draw_axis(Svg& svg, const Axis& y, std::string_view name, double top) {
  for (const double tick : y.ticks()) {
    svg.line(kCurvesLeft, y(tick), kCurvesWidth - kCurvesRight, y(tick), "grid");
    svg.text(kCurvesLeft - 8, y(tick) + 4, fmt::format("{:g}", tick), "label", "end");
  }
  svg.text(kCurvesLeft, top - 6, name, "label");
}

}  // namespace

Result<std::string> training_chart(std::string_view metrics, std::string_view title) {
  const Curves curves = curves_of(metrics);
  if (curves.loss.empty()) return invalid("the metrics hold no step");
  const double last = std::max(curves.loss.back().first, curves.loss.front().first + 1);
  const Axis x{.low = std::min(1.0, curves.loss.front().first),
               .high = last,
               .pixel_low = kCurvesLeft,
               .pixel_high = kCurvesWidth - kCurvesRight};
  const Axis loss = axis_of({&curves.loss, &curves.held_out}, kLossTop, kLossBottom);
  const Axis norm = axis_of({&curves.norm}, kNormTop, kNormBottom);
  Svg svg(kCurvesWidth, kNormBottom + 40, title, 500);
  svg.text(kCurvesLeft, 22, title, "title");
  draw_axis(svg, loss, "loss of a step (pale), smoothed (dark), held out (dots)", kLossTop);
  draw_axis(svg, norm, "norm of the gradients", kNormTop);
  svg.path(path_of(curves.loss, x, loss), "raw");
  svg.path(path_of(smoothed(curves.loss), x, loss), "smooth");
  svg.path(path_of(curves.norm, x, norm), "norm");
  for (const auto& [step, value] : curves.held_out)
    svg.circle(x(step), loss(value), 4, "held", fmt::format("step {}: {:.4f}", step, value));
  for (const double tick : x.ticks())
    svg.text(x(tick), kNormBottom + 18, fmt::format("{:g}", tick), "label", "middle");
  svg.text(kCurvesLeft, kNormBottom + 34, "steps", "label");
  return svg.finish_file(kCurveStyle);
}

}  // namespace lathe
