#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "report/html.h"
#include "report/model_summary.h"
#include "report/page.h"
#include "report/page_parts.h"

namespace lathe {
namespace {

constexpr std::size_t kMaxCases = 200;

std::string utc_date(std::int64_t unix_seconds) {
  const std::time_t time = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  char text[32] = "";
  if (gmtime_r(&time, &utc) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

/// Geometric mean over the scored shapes of floor / time; 0 when a floor or time is missing.
double share_of_floor(const RunView& view) {
  double sum = 0, count = 0;
  for (const Timing& timing : view.best->verdict.timings) {
    const ShapeWork* work = view.work_of(timing.shape);
    if (work == nullptr || !(work->floor_ns > 0) || !(timing.median_ns > 0)) return 0;
    sum += std::log(work->floor_ns / timing.median_ns);
    count += 1;
  }
  return count > 0 ? std::exp(sum / count) : 0;
}

/// A win or a loss only if the whole interval lies on one side of 1.
std::pair<const char*, const char*> standing(const Interval& ratio) {
  if (ratio.low > 1) return {"win", "good"};
  if (ratio.high < 1) return {"loss", "bad"};
  return {"tie", "even"};
}

std::string interval_note(const std::optional<Interval>& ratio, const std::string& peer) {
  if (!ratio) return "not timed against " + (peer.empty() ? std::string("a peer") : peer);
  return fmt::format("{}, over {}", format_interval(*ratio).substr(format_ratio(ratio->mid).size() + 1),
                     peer);
}

}  // namespace

std::string page_header(const RunView& view) {
  const RunRecord& run = view.run;
  return header_text(run.task_name, fmt::format("{} · {} · run {} · {}", view.extras.device,
                                                utc_date(run.created_unix), run.id, run.status));
}

std::string summary_cards(const RunView& view) {
  std::string cards;
  if (view.best) {
    const Verdict& verdict = view.best->verdict;
    const std::string naive = view.extras.baselines.empty() ? "naive" : view.extras.baselines.front().name;
    const auto over_best = verdict.speedup(view.extras.best_baseline);
    const auto over_naive = verdict.speedup(naive);
    cards += card("over the best peer", over_best ? format_ratio(over_best->mid) : "–",
                  interval_note(over_best, view.extras.best_baseline));
    cards += card("over the naive build", over_naive ? format_ratio(over_naive->mid) : "–",
                  interval_note(over_naive, naive));
    cards += card("best kernel", format_ns(verdict.median_ns()),
                  fmt::format("{} depth, evaluation {}", name(verdict.depth), view.best->sequence + 1));
    const double share = share_of_floor(view);
    cards += card("of the roofline", share > 0 ? format_percent(share) : "–", "floor from measured peaks");
  } else {
    cards += card("best kernel", "none", "no evaluation passed");
  }
  cards += card(
      "evaluations", std::to_string(view.experiences.size()),
      fmt::format("{} passed, in {}, {} of them the device's", view.passed,
                  format_seconds(view.extras.seconds), format_seconds(device_seconds(view.experiences))));
  if (const ModelSummary model = model_summary(view.experiences, view.extras.best_baseline); model.exists())
    cards += card("answers of a model", std::to_string(model.all.answers),
                  fmt::format("{} built, {} correct; {:.0f} tokens{}", model.all.built, model.all.correct,
                              model.prompt_tokens + model.answer_tokens,
                              model.usd > 0 ? fmt::format(", ${:.4f}", model.usd) : ""));
  return "<dl class=\"cards\">\n" + cards + "</dl>\n";
}

/// A comparison says which contenders were not there.
std::string left_out_note(const std::vector<std::string>& left_out) {
  if (left_out.empty()) return "";
  return escape_html(fmt::format(" Left out, for they fail on this machine: {}.", fmt::join(left_out, ", ")));
}

std::string baseline_table(const RunView& view) {
  struct Row {
    const BaselineTime* baseline;
    std::optional<Interval> ratio;
  };
  std::vector<Row> rows;
  for (const BaselineTime& baseline : view.extras.baselines) {
    rows.push_back({&baseline, view.best ? view.best->verdict.speedup(baseline.name) : std::nullopt});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return (a.ratio ? a.ratio->mid : HUGE_VAL) < (b.ratio ? b.ratio->mid : HUGE_VAL);
  });
  std::string body;
  for (const Row& row : rows) {
    const auto [word, css_class] = row.ratio ? standing(*row.ratio) : std::pair("not timed", "even");
    body +=
        fmt::format("<tr><th scope=\"row\">{}{}</th>{}{}<td><span class=\"pill {}\">{}</span></td></tr>\n",
                    escape_html(row.baseline->name),
                    row.baseline->name == view.extras.best_baseline ? " <small>best peer</small>" : "",
                    number_cell(format_ns(row.baseline->median_ns)),
                    number_cell(row.ratio ? format_interval(*row.ratio) : "–"), css_class, word);
  }
  if (view.best) {
    body += fmt::format("<tr class=\"winner\"><th scope=\"row\">best kernel</th>{}<td></td><td></td></tr>\n",
                        number_cell(format_ns(view.best->verdict.median_ns())));
  }
  if (body.empty()) return "<p class=\"empty\">No baseline has been timed.</p>\n";
  return "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">contender</th><th scope=\"col\" "
         "class=\"num\">time</th><th scope=\"col\" class=\"num\">best kernel's speedup</th>"
         "<th scope=\"col\">result</th></tr></thead><tbody>\n" +
         body +
         "</tbody></table></div>\n<p class=\"caption\">Times are geometric means of medians over the scored "
         "shapes. "
         "Losses come first; a tie is an interval that holds 1." +
         left_out_note(view.extras.left_out) + "</p>\n";
}

std::string verdict_table(const RunView& view) {
  std::vector<std::pair<std::pair<Outcome, std::string>, int>> rows(view.verdicts.begin(),
                                                                    view.verdicts.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (rows.empty()) return "<p class=\"empty\">No evaluation has finished.</p>\n";
  std::string body;
  const double all = static_cast<double>(view.experiences.size());
  for (const auto& [verdict, count] : rows) {
    const bool passed = verdict.first == Outcome::kPass;
    body +=
        fmt::format("<tr><td><span class=\"pill {}\">{}</span></td>{}{}{}{}</tr>\n", passed ? "good" : "bad",
                    name(verdict.first), cell(verdict.second), number_cell(std::to_string(count)),
                    number_cell(format_percent(count / all)), bar_cell(count / all, passed ? "good" : "bad"));
  }
  return "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">verdict</th><th scope=\"col\">reason</th>"
         "<th scope=\"col\" class=\"num\">count</th><th scope=\"col\" class=\"num\">share</th>"
         "<th scope=\"col\"><span class=\"hidden\">share as a bar</span></th></tr></thead><tbody>\n" +
         body + "</tbody></table></div>\n";
}

std::string evidence_table(const RunView& view) {
  if (view.best == nullptr || view.best->verdict.evidence.cases.empty())
    return "<p class=\"empty\">No evidence has been recorded.</p>\n";
  std::vector<CaseEvidence> cases = view.best->verdict.evidence.cases;
  std::stable_sort(cases.begin(), cases.end(), [](const CaseEvidence& a, const CaseEvidence& b) {
    return std::pair(a.pass, -a.worst_ratio) < std::pair(b.pass, -b.worst_ratio);
  });
  std::string body;
  for (std::size_t i = 0; i < std::min(cases.size(), kMaxCases); ++i) {
    const CaseEvidence& c = cases[i];
    body += fmt::format(
        "<tr>{}{}<td>{}</td><td><span class=\"pill {}\">{}</span></td>{}{}{}</tr>\n", cell(c.shape),
        cell(c.distribution), c.hidden ? "hidden" : "scored", c.pass ? "good" : "bad",
        c.pass ? "pass" : escape_html(c.reason), number_cell(fmt::format("{:.3g}", c.worst_ratio)),
        bar_cell(c.worst_ratio, c.pass ? "good" : "bad"), number_cell(fmt::format("{:.2e}", c.rms_error)));
  }
  const std::string more = cases.size() > kMaxCases
                               ? fmt::format("<p class=\"caption\">The {} mildest cases are left out.</p>\n",
                                             cases.size() - kMaxCases)
                               : "";
  return "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">shape</th><th scope=\"col\">inputs</th>"
         "<th scope=\"col\">kind</th><th scope=\"col\">result</th><th scope=\"col\" class=\"num\">worst "
         "error / "
         "bound</th><th scope=\"col\"><span class=\"hidden\">worst error as a bar</span></th>"
         "<th scope=\"col\" class=\"num\">RMS error</th></tr></thead><tbody>\n" +
         body + "</tbody></table></div>\n" + more;
}

std::string details_section(const RunView& view) {
  std::string rows;
  const auto add = [&](std::string_view what, const std::string& value) {
    rows +=
        fmt::format("<tr><th scope=\"row\">{}</th><td><code>{}</code></td></tr>\n", what, escape_html(value));
  };
  add("run", view.run.id);
  add("task digest", view.run.task.hex());
  if (view.best) {
    add("candidate digest", view.best->candidate.hex());
    add("proposed by", view.best->lineage.policy + ", " + view.best->lineage.operation);
    if (!view.best->verdict.detail.empty()) add("verdict", view.best->verdict.detail);
    for (const auto& [stage, seconds] : view.best->verdict.stage_seconds)
      add(escape_html(stage), format_seconds(seconds));
  }
  if (const ModelSummary model = model_summary(view.experiences, view.extras.best_baseline); model.exists()) {
    add("model", to_text(model));
    if (model.conversations > 0) add("conversations", turns_text(model));
    for (std::size_t turn = 0; turn < model.turns.size(); ++turn) {
      const AnswerCounts& counts = model.turns[turn];
      add(fmt::format("turn {}", turn + 1),
          fmt::format("{} answers, {} built, {} correct, best {}", counts.answers, counts.built,
                      counts.correct, counts.best > 0 ? format_ratio(counts.best) : "none"));
    }
  }
  if (!view.run.config.empty()) add("configuration", view.run.config);
  return "<details><summary>Identity and configuration</summary><div class=\"scroll\"><table "
         "class=\"plain\"><tbody>\n" +
         rows + "</tbody></table></div></details>\n<details><summary>The task</summary><pre>" +
         escape_html(view.run.task_text) + "</pre></details>\n";
}

}  // namespace lathe
