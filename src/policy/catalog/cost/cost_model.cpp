#include "policy/catalog/cost/cost_model.h"

#include <algorithm>

namespace lathe::catalog {
namespace {

constexpr double kLaunchSeconds = 2e-7;
/// fp32 operations that one exp, tanh or erf takes.
constexpr double kSpecialFlops = 32;

}  // namespace

double predict_ns(const std::vector<Work>& work, const DevicePeaks& peaks, int threads) {
  const double flops = peaks.flops_per_second > 0 ? peaks.flops_per_second : 5e10 * threads;
  double seconds = 0;
  for (const Work& step : work) {
    const double memory = peaks.levels.empty() ? step.bytes / 2e10 : peaks.memory_floor_seconds(step.bytes);
    seconds += std::max(memory, (step.flops + step.special * kSpecialFlops) / flops) + kLaunchSeconds;
  }
  return seconds * 1e9;
}

}  // namespace lathe::catalog
