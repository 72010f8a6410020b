#include "backend/cpu_peaks.h"

#include <immintrin.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/function_versions.h"

namespace lathe {
namespace {

// Of about 1 ms each, so that other processes leave some of them undisturbed.
constexpr int kPasses = 25;

/// The best rate (units per second) over several passes of `work` on every thread at once.
double best_rate(int threads, double units_per_thread, const std::function<void(int)>& work) {
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = steady_clock().now_ns();
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
    work(0);
    for (std::thread& other : others) other.join();
    const double seconds = seconds_since(begin);
    best = std::max(best, units_per_thread * threads / seconds);
  }
  return best;
}

#if defined(__x86_64__)
constexpr std::int64_t kFmaRounds = 400'000;

__attribute__((target("avx512f"))) float fma_512() {
  __m512 sums[16];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (std::int64_t i = 0; i < kFmaRounds; ++i)
#pragma GCC unroll 16
    for (auto& sum : sums) sum = _mm512_fmadd_ps(sum, a, b);
  __m512 total = sums[0];
  for (const auto& sum : sums) total = _mm512_add_ps(total, sum);
  float lanes[16];
  _mm512_storeu_ps(lanes, total);
  return lanes[0];
}

__attribute__((target("avx2,fma"))) float fma_256() {
  __m256 sums[12];
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (std::int64_t i = 0; i < kFmaRounds; ++i)
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm256_fmadd_ps(sum, a, b);
  __m256 total = sums[0];
  for (const auto& sum : sums) total = _mm256_add_ps(total, sum);
  float lanes[8];
  _mm256_storeu_ps(lanes, total);
  return lanes[0];
}

double measure_flops(int threads) {
  const bool wide = __builtin_cpu_supports("avx512f");
  const double flops = static_cast<double>(kFmaRounds) * 2 * (wide ? 16 * 16 : 12 * 8);
  std::vector<float> sinks(static_cast<std::size_t>(threads));
  return best_rate(threads, flops,
                   [&](int self) { sinks[static_cast<std::size_t>(self)] = wide ? fma_512() : fma_256(); });
}

LATHE_VERSIONS std::uint64_t sum_words(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[32] = {};
  for (std::size_t i = 0; i + 32 <= count; i += 32)
    for (std::size_t lane = 0; lane < 32; ++lane) sums[lane] |= words[i + lane];
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total |= sum;
  return total;
}
#endif

double measure_read_bandwidth(int threads, std::size_t bytes_per_thread) {
  std::vector<std::vector<std::uint64_t>> buffers(static_cast<std::size_t>(threads),
                                                  std::vector<std::uint64_t>(bytes_per_thread / 8, 1));
  const std::size_t repeats = std::max<std::size_t>(1, (16u << 20) / bytes_per_thread);
  std::vector<std::uint64_t> sinks(static_cast<std::size_t>(threads));
  return best_rate(threads, static_cast<double>(bytes_per_thread * repeats), [&](int self) {
    const auto& buffer = buffers[static_cast<std::size_t>(self)];
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < repeats; ++i) {
      seen |= sum_words(buffer.data(), buffer.size());
      asm volatile("" : "+r"(seen) : : "memory");
    }
    sinks[static_cast<std::size_t>(self)] = seen;
  });
}

}  // namespace

DevicePeaks measure_cpu_peaks(int threads, const Dims& facts) {
  DevicePeaks peaks;
  peaks.flops_per_second = measure_flops(threads);
  const auto level = [&](const char* name, double capacity, double use) {
    const auto bytes = static_cast<std::size_t>(use) / 256 * 256;
    peaks.levels.push_back({name, capacity, measure_read_bandwidth(threads, bytes)});
  };
  const auto l1 = static_cast<double>(facts.at("l1_bytes")), l2 = static_cast<double>(facts.at("l2_bytes")),
             l3 = static_cast<double>(facts.at("l3_bytes"));
  level("L1", l1 * threads, l1 / 2);
  level("L2", l2 * threads, l2 / 2);
  // The last-level cache is shared, so only a small buffer is sure to stay in it.
  if (l3 > l2) level("L3", l3, std::min(4 * l2, l3 / 2 / threads));
  level("memory", 1e18, std::max(l3 * 4, 128e6) / threads);
  for (std::size_t i = peaks.levels.size() - 1; i > 0; --i)
    peaks.levels[i - 1].bytes_per_second =
        std::max(peaks.levels[i - 1].bytes_per_second, peaks.levels[i].bytes_per_second);
  return peaks;
}

}  // namespace lathe
