#include "report/training_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "record/verdict.h"
#include "report/html.h"
#include "report/page_parts.h"
#include "report/step_lines.h"
#include "report/svg.h"
#include "report/training_chart.h"

namespace lathe {
namespace {

using nlohmann::json;

constexpr std::size_t kShownSteps = 8, kMostBars = 120, kMostTextBytes = 20'000;
constexpr int kAnswersOfStep = 4;
constexpr double kMixWidth = 860, kMixHeight = 220, kMixLeft = 44, kMixRight = 8, kMixTop = 8,
                 kMixBottom = 36;
/// From the bottom of a bar to its top; a colour of the style sheet each (mix-0, ...).
constexpr std::array kMix = {Outcome::kPass,  Outcome::kSuspect,  Outcome::kWrong,   Outcome::kBuildFailed,
                             Outcome::kCrash, Outcome::kTampered, Outcome::kTimeout, Outcome::kInfra};

std::optional<double> number_of(const json& line, const char* field) {
  const auto found = line.find(field);
  if (found == line.end() || !found->is_number() || !std::isfinite(found->get<double>())) return std::nullopt;
  return found->get<double>();
}

std::string text_of(const json& line, const char* field) {
  const auto found = line.find(field);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

using Counts = std::map<std::string, double>;

Counts counts_of(const json& line, const char* field) {
  Counts counts;
  const auto found = line.find(field);
  if (found != line.end() && found->is_object())
    for (const auto& [name, count] : found->items())
      if (count.is_number()) counts[name] = count.get<double>();
  return counts;
}

double mean_of(const std::vector<json>& steps, std::size_t begin, std::size_t end, const char* field) {
  double sum = 0, count = 0;
  for (std::size_t i = begin; i < end; ++i)
    if (const auto value = number_of(steps[i], field)) sum += *value, count += 1;
  return count > 0 ? sum / count : 0;
}

/// How a field began and ended: means of a tenth of the steps each.
struct Trend {
  double first = 0, last = 0;
};
Trend trend_of(const std::vector<json>& steps, const char* field) {
  const std::size_t tenth = std::max<std::size_t>(1, steps.size() / 10);
  return {mean_of(steps, 0, tenth, field), mean_of(steps, steps.size() - tenth, steps.size(), field)};
}

std::string cards(const std::vector<json>& steps) {
  const auto share = [](double value) { return format_percent(value); };
  const auto plain = [](double value) { return fmt::format("{:.3g}", value); };
  const auto from = [](const std::string& first) {
    return "the last tenth of the steps; the first: " + first;
  };
  std::string cards = card("steps", fmt::format("{:.0f}", *number_of(steps.back(), "step")), "");
  double seconds = 0, attempts = 0;
  for (const json& step : steps) {
    seconds += number_of(step, "seconds").value_or(0);
    for (const auto& [reason, count] : counts_of(step, "hacks")) attempts += count;
  }
  const Trend pass = trend_of(steps, "pass_rate"), reward = trend_of(steps, "reward");
  const Trend speedup = trend_of(steps, "log_speedup_low");
  cards += card("answers that passed", share(pass.last), from(share(pass.first)));
  cards += card("reward", plain(reward.last), from(plain(reward.first)));
  cards += card("speedup of those that passed", format_ratio(std::exp(speedup.last)),
                "lower bounds over the best peer; the first tenth: " + format_ratio(std::exp(speedup.first)));
  cards += card("attempts to deceive the gym", fmt::format("{:.0f}", attempts),
                "answers that the gym calls TAMPERED");
  cards += card("time", format_seconds(seconds), "of all steps");
  return "<dl class=\"cards\">\n" + cards + "</dl>\n";
}

/// Of each step, or of neighbours together, which share of its answers had which verdict.
std::string verdict_mix(const std::vector<json>& steps) {
  const std::size_t bars = std::min(steps.size(), kMostBars);
  Svg svg(kMixWidth, kMixHeight, "verdicts by step", 500);
  const Axis x{.low = 0,
               .high = static_cast<double>(bars),
               .pixel_low = kMixLeft,
               .pixel_high = kMixWidth - kMixRight};
  const Axis y{.low = 0, .high = 1, .pixel_low = kMixHeight - kMixBottom, .pixel_high = kMixTop};
  std::set<std::size_t> seen;
  for (std::size_t bar = 0; bar < bars; ++bar) {
    const std::size_t begin = bar * steps.size() / bars, end = (bar + 1) * steps.size() / bars;
    Counts counts;
    double all = 0;
    for (std::size_t i = begin; i < end; ++i)
      for (const auto& [outcome, count] : counts_of(steps[i], "outcomes"))
        counts[outcome] += count, all += count;
    double below = 0;
    for (std::size_t kind = 0; kind < kMix.size() && all > 0; ++kind) {
      const double share = counts[std::string(name(kMix[kind]))] / all;
      if (share == 0) continue;
      seen.insert(kind);
      svg.rect(x(static_cast<double>(bar)), y(below + share), x(1) - x(0) - (bars < kMostBars ? 1 : 0),
               y(below) - y(below + share), fmt::format("mix-{}", kind),
               fmt::format("step {:.0f}: {} {}", *number_of(steps[begin], "step"), name(kMix[kind]),
                           format_percent(share)));
      below += share;
    }
    if (bar == 0 || bar + 1 == bars)
      svg.text(x(static_cast<double>(bar) + 0.5), kMixHeight - kMixBottom + 18,
               fmt::format("{:.0f}", *number_of(steps[begin], "step")), "label", bar == 0 ? "start" : "end");
  }
  if (seen.empty()) return "<p class=\"empty\">The metrics have no verdicts.</p>\n";
  for (const double tick : {0.0, 0.5, 1.0})
    svg.text(kMixLeft - 6, y(tick) + 4, format_percent(tick), "label", "end");
  svg.text(kMixWidth / 2, kMixHeight - 6, "steps", "label", "middle");
  std::string legend;
  for (const std::size_t kind : seen)
    legend += fmt::format("<span><i class=\"mix-{}\"></i>{}</span>", kind, name(kMix[kind]));
  return "<p class=\"legend\">" + legend + "</p>\n" + svg.finish();
}

std::string attempts_table(const std::vector<json>& steps) {
  struct Attempts {
    double count = 0, first = 0, last = 0, late = 0;
  };
  std::map<std::string, Attempts> reasons;
  double answers = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const auto& [outcome, count] : counts_of(steps[i], "outcomes")) answers += count;
    for (const auto& [reason, count] : counts_of(steps[i], "hacks")) {
      Attempts& known = reasons[reason];
      const double step = *number_of(steps[i], "step");
      if (known.count == 0) known.first = step;
      known.count += count, known.last = step;
      if (2 * i >= steps.size()) known.late += count;
    }
  }
  if (reasons.empty()) return "<p class=\"empty\">No answer was TAMPERED.</p>\n";
  std::string body;
  for (const auto& [reason, known] : reasons)
    body += "<tr>" + cell(reason) + number_cell(fmt::format("{:.0f}", known.count)) +
            number_cell(answers > 0 ? format_percent(known.count / answers) : "–") +
            number_cell(fmt::format("{:.0f}", known.late)) +
            number_cell(fmt::format("{:.0f} to {:.0f}", known.first, known.last)) + "</tr>\n";
  return "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">reason</th><th scope=\"col\" "
         "class=\"num\">attempts</th><th scope=\"col\" class=\"num\">of all answers</th><th scope=\"col\" "
         "class=\"num\">in the second half</th><th scope=\"col\" "
         "class=\"num\">steps</th></tr></thead><tbody>\n" +
         body + "</tbody></table></div>\n";
}

std::string phases_table(const std::vector<json>& steps) {
  double all = 0, told = 0;
  for (const json& step : steps) all += number_of(step, "seconds").value_or(0);
  if (all <= 0) return "<p class=\"empty\">The metrics have no times.</p>\n";
  std::string body;
  const auto row = [&](std::string_view phase, double seconds) {
    body += "<tr>" + cell(phase) + number_cell(format_seconds(seconds)) +
            number_cell(fmt::format("{:.2f} s", seconds / static_cast<double>(steps.size()))) +
            number_cell(format_percent(seconds / all)) + bar_cell(seconds / all, "good") + "</tr>\n";
  };
  for (const auto& [field, phase] : {std::pair{"rollout_seconds", "drawing answers"},
                                     {"judging_seconds", "waiting for verdicts"},
                                     {"update_seconds", "updating the weights"}}) {
    double seconds = 0;
    for (const json& step : steps) seconds += number_of(step, field).value_or(0);
    told += seconds;
    row(phase, seconds);
  }
  row("else", std::max(0.0, all - told));
  return "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">phase</th><th scope=\"col\" "
         "class=\"num\">in all</th><th scope=\"col\" class=\"num\">a step</th><th scope=\"col\" "
         "class=\"num\">share</th><th scope=\"col\"><span class=\"hidden\">share as a "
         "bar</span></th></tr></thead>"
         "<tbody>\n" +
         body + "</tbody></table></div>\n";
}

std::string answer_text(const json& sample) {
  const std::string outcome = text_of(sample, "outcome"), detail = text_of(sample, "detail");
  std::string numbers;
  for (const auto& [field, label] : {std::pair{"reward", "reward"},
                                     {"advantage", "advantage"},
                                     {"speedup_low", "speedup, lower bound"},
                                     {"tokens", "tokens"}})
    if (const auto value = number_of(sample, field)) numbers += fmt::format(" · {} {:.4g}", label, *value);
  std::string text = text_of(sample, "text");
  if (text.size() > kMostTextBytes) text = text.substr(0, kMostTextBytes) + "\n...";
  return fmt::format(
      "<details><summary><span class=\"pill {}\">{}</span> {} · {}{}</summary>\n<p "
      "class=\"caption\">candidate "
      "{}{}</p>\n{}</details>\n",
      outcome == name(Outcome::kPass) ? "good" : "bad", escape_html(outcome),
      escape_html(text_of(sample, "reason")), escape_html(text_of(sample, "task")), escape_html(numbers),
      escape_html(text_of(sample, "candidate")), detail.empty() ? "" : ": " + escape_html(detail),
      text.empty() ? std::string("<p class=\"empty\">Its text was not kept.</p>\n")
                   : "<pre>" + escape_html(text) + "</pre>\n");
}

/// Of some steps, from the first to the last, the best answer and then one of each other verdict.
std::string answers_to_read(const std::vector<json>& steps, std::string_view samples) {
  const std::size_t shown = std::min(steps.size(), kShownSteps);
  std::map<double, std::vector<json>> answers;
  for (std::size_t i = 0; i < shown; ++i)
    answers[*number_of(steps[shown == 1 ? 0 : i * (steps.size() - 1) / (shown - 1)], "step")];
  each_step_line(samples, [&](const json& line) {
    if (const auto found = answers.find(*number_of(line, "step")); found != answers.end())
      found->second.push_back(line);
  });
  std::erase_if(answers, [](const auto& step) { return step.second.empty(); });
  if (answers.empty()) return "<p class=\"empty\">The run kept no answers.</p>\n";
  std::string body;
  for (auto& [step, lines] : answers) {
    const auto rank = [](const json& line) {
      return std::pair(number_of(line, "reward").value_or(-HUGE_VAL), line.contains("text"));
    };
    std::ranges::stable_sort(lines, std::ranges::greater{}, rank);
    body += fmt::format("<h3>step {:.0f}: {} answers</h3>\n", step, lines.size());
    std::set<std::pair<std::string, std::string>> told;
    for (const json& line : lines) {
      if (static_cast<int>(told.size()) == kAnswersOfStep) break;
      if (told.insert({text_of(line, "outcome"), text_of(line, "reason")}).second) body += answer_text(line);
    }
  }
  return body;
}

}  // namespace

Result<std::string> training_page(const TrainingRun& run) {
  LATHE_TRY(const std::string curves, training_chart(run.metrics, run.title, ChartPlace::kPage));
  std::vector<json> steps;
  each_step_line(run.metrics, [&](const json& line) { steps.push_back(line); });
  const bool reinforced = steps.front().contains("reward");
  std::string body =
      header_text(run.title, reinforced ? "reinforcement learning" : "supervised training") + "<main>\n";
  if (reinforced) body += cards(steps);
  body += section("Curves", curves);
  if (reinforced)
    body += section("Verdicts by step", verdict_mix(steps)) +
            section("Attempts to deceive the gym", attempts_table(steps)) +
            section("Where the seconds went", phases_table(steps)) +
            section("Answers to read", answers_to_read(steps, run.samples));
  return page_text(run.title, body + "</main>\n");
}

}  // namespace lathe
