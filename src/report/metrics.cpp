#include "report/metrics.h"

#include <algorithm>
#include <cassert>

namespace lathe {

double fast_p(std::span<const TaskResult> results, double p) {
  if (results.empty()) return 0;
  const auto fast = std::count_if(results.begin(), results.end(),
                                  [p](const TaskResult& r) { return r.correct && r.speedup > p; });
  return static_cast<double>(fast) / static_cast<double>(results.size());
}

// The ratio of binomials as a product of n-c terms at most, so that nothing overflows.
double pass_at_k(std::int64_t n, std::int64_t c, std::int64_t k) {
  assert(0 <= c && c <= n && 1 <= k && k <= n);
  if (n - c < k) return 1;
  double all_wrong = 1;
  for (std::int64_t i = n - c + 1; i <= n; ++i)
    all_wrong *= 1 - static_cast<double>(k) / static_cast<double>(i);
  return 1 - all_wrong;
}

// The weight of the j-th slowest, C(j-1, k-1) / C(n, k), is k/n for j = n and falls by (j-k)/(j-1)
// with each step down.
double speedup_at_k(std::vector<double> speedups, std::int64_t k) {
  const auto n = static_cast<std::int64_t>(speedups.size());
  assert(1 <= k && k <= n);
  std::sort(speedups.begin(), speedups.end());
  double sum = 0;
  double weight = static_cast<double>(k) / static_cast<double>(n);
  for (std::int64_t j = n; j >= k; --j) {
    sum += weight * speedups[static_cast<std::size_t>(j - 1)];
    if (j > 1) weight *= static_cast<double>(j - k) / static_cast<double>(j - 1);
  }
  return sum;
}

double efficiency_at_k(std::span<const double> speedups, std::span<const double> resources, std::int64_t k) {
  assert(speedups.size() == resources.size());
  std::vector<double> per_resource(speedups.size());
  std::transform(speedups.begin(), speedups.end(), resources.begin(), per_resource.begin(),
                 [](double speedup, double count) { return speedup / count; });
  return speedup_at_k(std::move(per_resource), k);
}

}  // namespace lathe
