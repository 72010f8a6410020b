#include "reward/reward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "base/named.h"

namespace lathe {
namespace {

constexpr double kMostSpeedup =
    3;  // what Dr. Kernel clips at (arXiv 2602.05885): outliers do not lead a search

/// 0 for a failure, else `of_correct` of the lower bound.
template <class OfCorrect>
Result<double> of(const Verdict& verdict, std::string_view peer, OfCorrect of_correct) {
  if (verdict.outcome == Outcome::kInfra)
    return Error{ErrorCode::kUnavailable, "INFRA says nothing about the candidate: " + verdict.reason,
                 "evaluate it again"};
  if (verdict.passed() && verdict.depth == Depth::kBuild)
    return Error{ErrorCode::kUnavailable,
                 "the verdict does not say whether the kernel is correct: it was built alone",
                 "evaluate it at depth verify or deeper"};
  return verdict.passed() ? of_correct(speedup_low(verdict, peer)) : 0.0;
}

Result<double> correct(const Verdict& verdict, std::string_view peer) {
  return of(verdict, peer, [](double) { return 1.0; });
}

Result<double> speedup(const Verdict& verdict, std::string_view peer) {
  return of(verdict, peer, [](double low) { return 1 + std::min(low, kMostSpeedup); });
}

Result<double> log_speedup(const Verdict& verdict, std::string_view peer) {
  return of(verdict, peer, [](double low) { return 1 + std::log2(1 + low); });
}

Result<double> dr_kernel(const Verdict& verdict, std::string_view peer) {
  return of(verdict, peer, [](double low) { return 0.5 + 0.5 * std::min(low, kMostSpeedup); });
}

Result<double> dr_kernel_profiled(const Verdict& verdict, std::string_view peer) {
  const auto share = verdict.profile.find("launched_share");
  if (verdict.passed() && share == verdict.profile.end())
    return Error{ErrorCode::kUnavailable,
                 "the verdict does not say which share of the time is in launched kernels", "use dr_kernel"};
  return of(verdict, peer, [&](double low) {
    return 0.5 + 0.5 * std::min(low, kMostSpeedup) + 0.5 * std::clamp(share->second, 0.0, 1.0);
  });
}

/// Of a shape that is not covered too: a kernel must not gain by leaving out where it is far from
/// the roof.
std::optional<double> speedup_of_roof(const Verdict& verdict, std::string_view peer) {
  double logs = 0, shapes = 0;
  for (const Speedup& s : verdict.speedups) {
    if (s.baseline != peer) continue;
    if (!(s.roof > 0)) return std::nullopt;
    logs += std::log(s.roof), shapes += 1;
  }
  if (shapes == 0) return std::nullopt;
  return std::exp(logs / shapes);
}

Result<double> roofline(const Verdict& verdict, std::string_view peer) {
  const auto roof = speedup_of_roof(verdict, peer);
  if (verdict.passed() && speedup_low(verdict, peer) > 0 && !roof)
    return Error{ErrorCode::kUnavailable, "the verdict does not say where the roof is",
                 "evaluate it again where the device's peaks are known"};
  return of(verdict, peer, [&](double low) { return 1 + (low > 0 ? std::min(1.0, low / *roof) : 0); });
}

/// Not the paper's scales: a reward is positive for whatever is correct, so what the error and the
/// length cost is bounded, and errors are comparable over tasks as shares of their bounds.
Result<double> cuda_l2(const Verdict& verdict, std::string_view peer) {
  constexpr double kMostBytes = 16384, kCost = 0.25;
  if (verdict.passed() && (verdict.text_bytes <= 0 || verdict.evidence.cases.empty()))
    return Error{ErrorCode::kUnavailable, "the verdict does not say how long the kernel is, or how far off",
                 "evaluate it again"};
  double error = 0;
  for (const CaseEvidence& one : verdict.evidence.cases) error = std::max(error, one.worst_ratio);
  const double length = static_cast<double>(verdict.text_bytes) / kMostBytes;
  return of(verdict, peer, [&](double low) {
    return 1 + std::min(low, kMostSpeedup) - kCost * std::min(error, 1.0) - kCost * std::min(length, 1.0);
  });
}

template <int percent>
Result<double> fast(const Verdict& verdict, std::string_view peer) {
  return of(verdict, peer, [](double low) { return 100 * low > percent ? 1.0 : 0.5; });
}

constexpr std::array<Reward, 11> kRewards{{
    {"correct", "C", correct, {}, Depth::kVerify},
    {"cuda_l2", "C (1 + min(S, 3) - 0.25 (largest error / its bound) - 0.25 min(bytes of text / 16384, 1))",
     cuda_l2, "evidence"},
    {"dr_kernel", "0.5 C + 0.5 C min(S, 3)", dr_kernel},
    {"dr_kernel_profiled", "dr_kernel + 0.5 C (share of device time in launched kernels)", dr_kernel_profiled,
     "launched_share", Depth::kProfile},
    {"fast_1", "0.5 C + 0.5 C [S > 1]", fast<100>},
    {"fast_1.2", "0.5 C + 0.5 C [S > 1.2]", fast<120>},
    {"fast_1.5", "0.5 C + 0.5 C [S > 1.5]", fast<150>},
    {"fast_2", "0.5 C + 0.5 C [S > 2]", fast<200>},
    {"log_speedup", "C (1 + log2(1 + S))", log_speedup},
    {"roofline", "C (1 + min(1, S / what the roof would gain over the peer))", roofline, "roof"},
    {"speedup", "C (1 + min(S, 3))", speedup},
}};

}  // namespace

double speedup_low(const Verdict& verdict, std::string_view peer) {
  const auto covered = verdict.covered_speedup(peer);
  if (!covered || !(covered->low > 0)) return 0;
  std::set<std::string_view> shapes;
  for (const Speedup& s : verdict.speedups)
    if (s.baseline == peer && std::ranges::find(verdict.uncovered, s.shape) == verdict.uncovered.end())
      shapes.insert(s.shape);
  const auto timed = static_cast<double>(shapes.size());
  const auto all = timed + static_cast<double>(verdict.uncovered.size());
  const double elsewhere = std::log(std::min(1.0, covered->low));
  return std::exp((timed * std::log(covered->low) + (all - timed) * elsewhere) / all);
}

std::span<const Reward> rewards() { return kRewards; }

Result<Reward> find_reward(std::string_view name) { return find_named(kRewards, name, "reward"); }

}  // namespace lathe
