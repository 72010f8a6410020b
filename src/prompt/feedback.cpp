#include "prompt/feedback.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "prompt/fence.h"

namespace lathe {
namespace {

constexpr int kShownErrors = 3;
constexpr std::size_t kMaxLineBytes = 300;
constexpr std::size_t kMaxDetailLine = 600;
constexpr std::size_t kMaxDetailBytes = 1500;
constexpr std::size_t kLastLines = 3;
constexpr std::size_t kShownBottlenecks = 3;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// The line that "candidate.cpp:12:5: error" (g++) or "kernel.cu(12): error" (NVRTC) names; 0 for
/// none.
std::size_t line_number(std::string_view message) {
  const std::size_t error = message.find("error");
  for (std::size_t at = 0; at < std::min(error, message.size()); ++at) {
    if (message[at] != ':' && message[at] != '(') continue;
    std::size_t number = 0;
    const char* const end = message.data() + message.size();
    const auto [stop, code] = std::from_chars(message.data() + at + 1, end, number);
    if (code == std::errc{} && stop != end && (*stop == ':' || *stop == ')' || *stop == ',')) return number;
  }
  return 0;
}

bool is_error(std::string_view line) {
  return line.find(" error: ") != std::string_view::npos || line.find(": error") != std::string_view::npos ||
         line.find("undefined reference") != std::string_view::npos;
}

/// The lines of a long text by their importance: its end, where an exception is named, what of a
/// traceback is the candidate's own, latest first, and the rest from the end on.
std::vector<std::size_t> by_importance(const std::vector<std::string_view>& lines) {
  std::vector<std::size_t> order;
  const auto add = [&](std::size_t i) {
    if (i < lines.size() && std::ranges::find(order, i) == order.end()) order.push_back(i);
  };
  const auto is_frame = [](std::string_view line) { return line.starts_with("  File \""); };
  const auto last_frame = std::find_if(lines.rbegin(), lines.rend(), is_frame);
  const auto named = std::find_if(last_frame.base(), lines.end(),
                                  [](std::string_view line) { return !line.empty() && line[0] != ' '; });
  if (last_frame != lines.rend()) add(static_cast<std::size_t>(named - lines.begin()));
  for (std::size_t i = lines.size(); i > 0 && i + kLastLines > lines.size(); --i) add(i - 1);
  for (std::size_t i = lines.size(); i > 0; --i)
    if (is_frame(lines[i - 1]) && lines[i - 1].find("candidate.py") != std::string_view::npos)
      add(i - 1), add(i);
  for (std::size_t i = lines.size(); i > 0; --i) add(i - 1);
  return order;
}

/// Text of several lines without what matters least of it; "..." stands for what is left out.
std::string shortened(std::string_view text) {
  const auto lines = lines_of(text);
  std::vector<bool> shown(lines.size());
  std::size_t bytes = 0;
  for (const std::size_t i : by_importance(lines)) {
    bytes += std::min(lines[i].size(), kMaxLineBytes) + 1;
    if (bytes > kMaxDetailBytes) break;
    shown[i] = true;
  }
  std::string kept;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (shown[i]) {
      kept += lines[i].substr(0, kMaxLineBytes);
      kept += lines[i].size() > kMaxLineBytes ? " ...\n" : "\n";
    } else if (i == 0 || shown[i - 1]) {
      kept += "...\n";
    }
  }
  return kept;
}

std::string detail_text(std::string_view detail) {
  while (detail.ends_with('\n')) detail.remove_suffix(1);
  if (detail.find('\n') == std::string_view::npos) return quoted_line(detail, kMaxDetailLine);
  return fenced(shortened(detail));
}

std::string speeds_text(const Verdict& verdict) {
  std::string text;
  std::set<std::string> peers;
  for (const Speedup& speedup : verdict.speedups) peers.insert(speedup.baseline);
  for (const std::string& peer : peers)
    if (const auto ratio = verdict.speedup(peer))
      text += fmt::format("- {:.2f}x the speed of {} [{:.2f}, {:.2f}]\n", ratio->mid, peer, ratio->low,
                          ratio->high);
  for (const Timing& timing : verdict.timings)
    text += fmt::format("- {:.4g} us at {}\n", timing.median_ns * 1e-3, timing.shape);
  if (!verdict.uncovered.empty())
    text += fmt::format("- not covered by `requires`: {}\n", fmt::join(verdict.uncovered, "; "));
  return text;
}

std::string bottleneck_text(const Verdict& verdict) {
  std::string text;
  for (const ShapeProfile& profile : verdict.profiles) {
    std::vector<std::string> named;
    for (const Bottleneck& bottleneck : profile.bottlenecks)
      if (named.size() < kShownBottlenecks)
        named.push_back(
            fmt::format("{} {:.0f}% ({})", bottleneck.name, 100 * bottleneck.share, bottleneck.detail));
    if (!named.empty()) text += fmt::format("- limited at {}: {}\n", profile.shape, fmt::join(named, "; "));
  }
  return text;
}

std::string facts_text(const Verdict& verdict) {
  std::vector<std::string> facts;
  for (const auto& [name, value] : verdict.build.facts)
    facts.push_back(fmt::format("{} {:.4g}", name, value));
  return facts.empty() ? "" : fmt::format("- machine code: {}", fmt::join(facts, ", "));
}

/// What wrong cases have in common, and right ones not.
std::string pattern_text(const Evidence& evidence) {
  std::size_t wrong = 0, wrong_hidden = 0;
  const CaseEvidence* worst = nullptr;
  std::set<std::string> wrong_inputs, right_inputs, wrong_shapes, right_shapes;
  for (const CaseEvidence& one : evidence.cases) {
    wrong += !one.pass;
    if (!one.pass && (!worst || one.worst_ratio > worst->worst_ratio)) worst = &one;
    wrong_hidden += !one.pass && one.hidden;
    (one.pass ? right_inputs : wrong_inputs).insert(one.distribution);
    if (!one.hidden) (one.pass ? right_shapes : wrong_shapes).insert(one.shape);
  }
  if (wrong == 0) return "";
  std::string text = fmt::format("{} of {} cases are wrong", wrong, evidence.cases.size());
  if (wrong == evidence.cases.size())
    text += ": all that were tried, so the computation itself is not the task's.";
  else if (wrong == wrong_hidden)
    text += ", only shapes that are not the timed ones: remainders or small extents are not handled.";
  else if (std::ranges::none_of(wrong_inputs, [&](const auto& name) { return right_inputs.contains(name); }))
    text += fmt::format(", only with inputs of the kinds {}: the arithmetic does not hold for them.",
                        fmt::join(wrong_inputs, ", "));
  else if (std::ranges::none_of(wrong_shapes, [&](const auto& name) { return right_shapes.contains(name); }))
    text += fmt::format(", at the shapes {}.", fmt::join(wrong_shapes, "; "));
  else
    text += ", and others of the same shapes and inputs are right: a race, or memory that nobody wrote.";
  return text + fmt::format(" The worst, at {} with {} inputs, has an error of {:.3g} times the bound.",
                            worst->hidden ? "a hidden shape" : worst->shape, worst->distribution,
                            worst->worst_ratio);
}

std::string template_of(const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::kPass:
      return "feedback_pass";
    case Outcome::kBuildFailed:
      return verdict.reason == "bad_candidate" ? "feedback_bad_candidate" : "feedback_build_failed";
    case Outcome::kWrong:
      return "feedback_wrong";
    case Outcome::kCrash:
    case Outcome::kTimeout:
    case Outcome::kInfra:
      return "feedback_crash";
    case Outcome::kTampered:
    case Outcome::kSuspect:
      return "feedback_refused";
  }
  return "feedback_crash";
}

}  // namespace

std::string compiler_cause(std::string_view log, std::string_view source, std::size_t max_bytes) {
  const auto lines = lines_of(log);
  const auto sources = lines_of(source);
  std::string cause;
  int shown = 0;
  const auto add = [&](std::string_view line) {
    line = line.substr(0, kMaxLineBytes);
    if (cause.size() + line.size() + 1 <= max_bytes) cause.append(line).push_back('\n');
  };
  for (const std::string_view line : lines) {
    if (line.starts_with("hint: ")) add(line);
    if (!is_error(line) || shown == kShownErrors) continue;
    ++shown;
    add(line);
    if (const std::size_t number = line_number(line); number > 0 && number <= sources.size())
      add(fmt::format("{:>5} | {}", number, sources[number - 1]));
  }
  if (shown == 0)
    for (const std::string_view line : lines) add(line);
  return cause;
}

FeedbackParts feedback_parts(const Verdict& verdict, std::string_view candidate_text) {
  FeedbackParts parts;
  parts.template_name = template_of(verdict);
  parts.outcome = name(verdict.outcome);
  parts.reason = quoted_line(verdict.reason);
  if (verdict.outcome == Outcome::kBuildFailed) {
    const std::string& log = verdict.build.log.empty() ? verdict.detail : verdict.build.log;
    parts.log = fenced(compiler_cause(log, candidate_text));
    return parts;
  }
  parts.detail = detail_text(verdict.detail);
  if (verdict.outcome == Outcome::kWrong) parts.pattern = pattern_text(verdict.evidence);
  parts.speeds = speeds_text(verdict);
  parts.bottleneck = bottleneck_text(verdict);
  parts.facts = facts_text(verdict);
  return parts;
}

std::string feedback_text(const Verdict& verdict, std::string_view candidate_text) {
  const FeedbackParts parts = feedback_parts(verdict, candidate_text);
  std::string text = fmt::format("{} ({})\n", parts.outcome, parts.reason);
  for (const std::string& part :
       {parts.detail, parts.log, parts.pattern, parts.speeds, parts.bottleneck, parts.facts})
    if (!part.empty()) text += part + (part.back() == '\n' ? "" : "\n");
  return text;
}

std::string feedback_line(const Verdict& verdict) {
  if (!verdict.passed()) return fmt::format("{} ({})", name(verdict.outcome), quoted_line(verdict.reason));
  return fmt::format("correct, {:.4g} us", verdict.median_ns() * 1e-3);
}

}  // namespace lathe
