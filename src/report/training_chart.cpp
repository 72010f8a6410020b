#include "report/training_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "report/step_lines.h"
#include "report/svg.h"

namespace lathe {
namespace {

constexpr double kCurvesWidth = 860, kCurvesLeft = 64, kCurvesRight = 20, kFirstTop = 50, kBetween = 40;
constexpr const char* kCurveStyle =
    ".label{font:12px sans-serif;fill:#444}.title{font:15px sans-serif;fill:#222}.grid{stroke:#ddd}"
    ".raw{fill:none;stroke:#9ecae1}.smooth{fill:none;stroke:#08519c;stroke-width:2}"
    ".held{fill:#d94801}";

/// A field of the metrics, and how it is drawn.
struct Panel {
  const char* field;
  const char* name;
  double height;
  const char* dots = nullptr;  ///< a second field, as dots
  bool logarithm = false;      ///< the field is one, and what it is of is drawn
};
constexpr Panel kSupervised[] = {
    {"loss", "loss of a step (pale), smoothed (dark), held out (dots)", 250, "held_out_loss"},
    {"gradient_norm", "norm of the gradients", 100},
};
constexpr Panel kReinforced[] = {
    {"reward", "mean reward of a step (pale), smoothed (dark)", 180},
    {"log_speedup_low", "speedup over the best peer, lower bounds, of answers that passed", 140, nullptr,
     true},
    {"pass_rate", "share of answers that passed", 80},
    {"entropy", "entropy of answers, nats", 80},
    {"reference_kl", "divergence from the weights that the run began with, nats a token", 80},
    {"mismatch", "mismatch of rollout and training: mean |log ratio| of a token", 80},
    {"kept_tokens", "share of tokens that the filters left in the loss", 80},
    {"gradient_norm", "norm of the gradients", 80},
    {"hacks", "attempts to deceive the gym (TAMPERED)", 80},
    {"naive_deceived", "answers that a naive grader would have paid for and the gym refused", 80},
    {"tokens", "tokens of an answer", 80},
    {"rollout_seconds", "seconds of a step in which answers were drawn", 80},
    {"judging_seconds", "seconds in which they were judged", 80},
    {"update_seconds", "seconds in which the weights were updated", 80},
};

using Points = std::vector<std::pair<double, double>>;
using Curves = std::map<std::string, Points>;  ///< by field

/// Of counts by their names.
double sum_of(const nlohmann::json& counts) {
  double sum = 0;
  for (const auto& count : counts)
    if (count.is_number()) sum += count.get<double>();
  return sum;
}

Curves curves_of(std::string_view metrics) {
  Curves curves;
  each_step_line(metrics, [&](const nlohmann::json& object) {
    const double step = object["step"].get<double>();
    for (const auto& [field, value] : object.items()) {
      if (value.is_number() && std::isfinite(value.get<double>()))
        curves[field].emplace_back(step, value.get<double>());
      if (value.is_object()) curves[field].emplace_back(step, sum_of(value));
    }
  });
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
    for (const auto& [step, value] : *points) {
      axis.high = std::max(axis.high, 1.05 * value);
      axis.low = std::min(axis.low, 1.05 * value);
    }
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  return axis;
}

void draw(Svg& svg, const Panel& panel, Curves& curves, const Axis& x, double top) {
  Points& points = curves[panel.field];
  if (panel.logarithm)
    for (auto& [step, value] : points) value = std::exp(value);
  const Points dots = panel.dots != nullptr ? curves[panel.dots] : Points();
  const Axis y = axis_of({&points, &dots}, top, top + panel.height);
  for (const double tick : y.ticks()) {
    svg.line(kCurvesLeft, y(tick), kCurvesWidth - kCurvesRight, y(tick), "grid");
    svg.text(kCurvesLeft - 8, y(tick) + 4, fmt::format("{:g}", tick), "label", "end");
  }
  svg.text(kCurvesLeft, top - 6, panel.name, "label");
  svg.path(path_of(points, x, y), "raw");
  svg.path(path_of(smoothed(points), x, y), "smooth");
  for (const auto& [step, value] : dots)
    svg.circle(x(step), y(value), 4, "held", fmt::format("step {}: {:.4f}", step, value));
}

}  // namespace

Result<std::string> training_chart(std::string_view metrics, std::string_view title, ChartPlace place) {
  Curves curves = curves_of(metrics);
  if (curves["loss"].empty()) return invalid("the metrics hold no step");
  const bool reinforced = !curves["reward"].empty();
  std::vector<Panel> panels;  // of what these metrics have
  for (const Panel& panel :
       reinforced ? std::span<const Panel>(kReinforced) : std::span<const Panel>(kSupervised))
    if (!curves[panel.field].empty()) panels.push_back(panel);
  const Points& steps = curves["loss"];
  const Axis x{.low = std::min(1.0, steps.front().first),
               .high = std::max(steps.back().first, steps.front().first + 1),
               .pixel_low = kCurvesLeft,
               .pixel_high = kCurvesWidth - kCurvesRight};
  double bottom = kFirstTop - kBetween;
  for (const Panel& panel : panels) bottom += kBetween + panel.height;
  Svg svg(kCurvesWidth, bottom + 40, title, 500);
  svg.text(kCurvesLeft, 22, title, "title");
  double top = kFirstTop;
  for (const Panel& panel : panels) {
    draw(svg, panel, curves, x, top);
    top += panel.height + kBetween;
  }
  for (const double tick : x.ticks())
    svg.text(x(tick), bottom + 18, fmt::format("{:g}", tick), "label", "middle");
  svg.text(kCurvesLeft, bottom + 34, "steps", "label");
  return place == ChartPlace::kFile ? svg.finish_file(kCurveStyle) : svg.finish();
}

}  // namespace lathe
