#include "data/fault.h"

#include <algorithm>
#include <array>

namespace lathe {
namespace {

enum class Where { kPlan, kCode };
enum class Extent { kMatch, kLine };

/// Replaces one occurrence of `find`, or the line that holds it, by `put`.
struct FaultRule {
  std::string_view name, find, put;
  Where where;
  Extent extent;
  std::string_view repair;
};

constexpr std::array kRules = {
    FaultRule{"barrier", "__syncthreads();", "", Where::kCode, Extent::kLine,
              "Threads read shared memory before others had written it: a barrier was missing."},
    FaultRule{"sum", " + ", " - ", Where::kCode, Extent::kMatch,
              "One term was subtracted that belongs to a sum, or an offset was subtracted."},
    FaultRule{"product", " * t", " + t", Where::kCode, Extent::kMatch, "A factor was added instead."},
    FaultRule{"difference", " - t", " + t", Where::kCode, Extent::kMatch,
              "A term was added that has to be subtracted."},
    FaultRule{"maximum", "max(", "min(", Where::kCode, Extent::kMatch,
              "A minimum was taken where the maximum is meant."},
    FaultRule{
        "neutral", "-kInfinity", "0.0f", Where::kCode, Extent::kMatch,
        "A maximum began with 0, which is wrong where all values are negative; it begins with -infinity."},
    FaultRule{"initial", "(0.0f)", "(1.0f)", Where::kCode, Extent::kMatch, "A sum did not begin with 0."},
    FaultRule{"stride", " * n_", " + n_", Where::kCode, Extent::kMatch,
              "A row's offset is its index times the length of a row."},
    FaultRule{"tail", "if (at < stop)", "if (at > stop)", Where::kCode, Extent::kMatch,
              "The elements after the last whole vector were left out."},
    FaultRule{"bound", "< stop;", "< stop - 1;", Where::kCode, Extent::kMatch, "A loop ended too early."},
    FaultRule{"beyond", "< end;", "<= end;", Where::kCode, Extent::kMatch, "A loop went one step too far."},
    FaultRule{"declaration", "const f32v t", "", Where::kCode, Extent::kLine,
              "A value was used that had not been declared."},
    FaultRule{"semicolon", ";\n", "\n", Where::kCode, Extent::kMatch, "A semicolon was missing."},
    FaultRule{"argument", "args = [\"", "args = [\"missing\", \"", Where::kPlan, Extent::kMatch,
              "The plan passed something that the task does not have."},
    FaultRule{"type", "const float* __restrict__ p_", "const double* __restrict__ p_", Where::kCode,
              Extent::kMatch, "A parameter had another type than its tensor."},
    FaultRule{"grid", "grid = [\"", "grid = [\"1 + 0 * ", Where::kPlan, Extent::kMatch,
              "The grid did not cover the whole output."},
    FaultRule{"items", "items = \"", "items = \"1 + 0 * ", Where::kPlan, Extent::kMatch,
              "The work items did not cover the whole output."},
};

std::vector<std::size_t> occurrences(std::string_view text, std::string_view find, std::size_t begin,
                                     std::size_t end) {
  std::vector<std::size_t> places;
  for (std::size_t at = text.find(find, begin); at < end; at = text.find(find, at + 1)) places.push_back(at);
  return places;
}

}  // namespace

std::vector<FaultyKernel> inject_faults(std::string_view text, int count, Rng& rng) {
  const std::size_t plan_end = std::min(text.find("*/"), text.size());
  auto rules = kRules;
  rng.shuffle(rules);
  std::vector<FaultyKernel> faulty;
  for (const FaultRule& rule : rules) {
    if (static_cast<int>(faulty.size()) >= count) break;
    const bool in_plan = rule.where == Where::kPlan;
    const auto places =
        occurrences(text, rule.find, in_plan ? 0 : plan_end, in_plan ? plan_end : text.size());
    if (places.empty()) continue;
    std::size_t begin = places[rng.below(places.size())], end = begin + rule.find.size();
    if (rule.extent == Extent::kLine) {
      begin = text.rfind('\n', begin) + 1;
      end = std::min(text.find('\n', end), text.size() - 1) + 1;
    }
    std::string changed(text.substr(0, begin));
    changed.append(rule.put).append(text.substr(end));
    faulty.push_back({std::move(changed), std::string(rule.name), std::string(rule.repair)});
  }
  return faulty;
}

}  // namespace lathe
