#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

/// One task's result; `speedup` counts only if `correct`.
struct TaskResult {
  bool correct = false;
  double speedup = 0;
};

/// Share of all tasks that are correct and strictly faster than `p` times the baseline
/// (KernelBench).
double fast_p(std::span<const TaskResult> results, double p);

/// Probability that one of `k` samples drawn without replacement from `n`, of which `c` are
/// correct, is correct: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021). 1 <= k <= n.
double pass_at_k(std::int64_t n, std::int64_t c, std::int64_t k);

/// Expected best speedup of `k` samples drawn without replacement: sum_j C(j-1, k-1) / C(n, k) *
/// s_j with s in ascending order, failures being samples of speedup 0 (ParEval's definition; its
/// code drops failures and sorts the other way). 1 <= k <= speedups.size().
double speedup_at_k(std::vector<double> speedups, std::int64_t k);

/// speedup_at_k of speedups that are each divided by the resources (threads, GPUs) the sample used.
double efficiency_at_k(std::span<const double> speedups, std::span<const double> resources, std::int64_t k);

}  // namespace lathe
