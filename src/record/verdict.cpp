#include "record/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace lathe {
namespace {

constexpr std::array<std::pair<Outcome, std::string_view>, 8> kOutcomes{{
    {Outcome::kPass, "PASS"},
    {Outcome::kBuildFailed, "BUILD_FAILED"},
    {Outcome::kWrong, "WRONG"},
    {Outcome::kCrash, "CRASH"},
    {Outcome::kTimeout, "TIMEOUT"},
    {Outcome::kTampered, "TAMPERED"},
    {Outcome::kSuspect, "SUSPECT"},
    {Outcome::kInfra, "INFRA"},
}};

constexpr std::array<std::pair<Depth, std::string_view>, 5> kDepths{{
    {Depth::kBuild, "build"},
    {Depth::kVerify, "verify"},
    {Depth::kScreen, "screen"},
    {Depth::kFinal, "final"},
    {Depth::kProfile, "profile"},
}};

template <class Table, class Enum>
std::string_view name_in(const Table& table, Enum value) {
  for (const auto& [candidate, text] : table) {
    if (candidate == value) return text;
  }
  return "?";
}

template <class Enum, std::size_t N>
Result<Enum> value_in(const std::array<std::pair<Enum, std::string_view>, N>& table, std::string_view kind,
                      std::string_view text) {
  std::string known;
  for (const auto& [value, spelling] : table) {
    if (spelling == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(spelling);
  }
  return invalid("unknown " + std::string(kind) + " '" + std::string(text) + "'", "one of: " + known);
}

// Shapes are timed in separate blocks, so their errors are independent: log half-widths add in
// quadrature, each side on its own because intervals from order statistics are not symmetric.
template <class Wanted>
std::optional<Interval> compose(const std::vector<Speedup>& speedups, const Wanted& wanted) {
  double n = 0, log_mid = 0, below = 0, above = 0;
  for (const Speedup& s : speedups) {
    if (!wanted(s)) continue;
    n += 1;
    log_mid += std::log(s.ratio.mid);
    const double down = s.ratio.low > 0 ? std::log(s.ratio.mid / s.ratio.low) : HUGE_VAL;
    const double up = std::log(s.ratio.high / s.ratio.mid);
    below += down * down;
    above += up * up;
  }
  if (n == 0) return std::nullopt;
  const double mid = log_mid / n;
  return Interval{std::exp(mid - std::sqrt(below) / n), std::exp(mid), std::exp(mid + std::sqrt(above) / n)};
}

}  // namespace

std::string_view name(Outcome outcome) { return name_in(kOutcomes, outcome); }
Result<Outcome> parse_outcome(std::string_view text) { return value_in(kOutcomes, "outcome", text); }

std::string_view name(Depth depth) { return name_in(kDepths, depth); }
Result<Depth> parse_depth(std::string_view text) { return value_in(kDepths, "depth", text); }

std::optional<Interval> Verdict::speedup(std::string_view baseline) const {
  return compose(speedups, [&](const Speedup& s) { return s.baseline == baseline; });
}

std::optional<Interval> Verdict::covered_speedup(std::string_view baseline) const {
  return compose(speedups, [&](const Speedup& s) {
    return s.baseline == baseline && std::ranges::find(uncovered, s.shape) == uncovered.end();
  });
}

double Verdict::median_ns() const {
  std::vector<double> medians;
  for (const Timing& timing : timings) medians.push_back(timing.median_ns);
  return medians.empty() ? 0 : geometric_mean(medians);
}

}  // namespace lathe
