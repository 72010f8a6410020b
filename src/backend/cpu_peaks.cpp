#include "backend/cpu_peaks.h"

#include <immintrin.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "base/clock.h"

namespace lathe {
namespace {

// Of about 1 ms each, so that other processes leave some of them undisturbed.
constexpr int kPasses = 25;
constexpr std::size_t kUnit = 3 * 1024;  // whole rounds of all loops below

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

/// What a pass over a buffer gives; its registers bound no pass, so several accumulators.
__attribute__((target("avx512f"))) std::uint64_t read_512(const std::uint64_t* words, std::size_t count) {
  __m512i seen[16];
  for (auto& one : seen) one = _mm512_setzero_si512();
  for (std::size_t i = 0; i + 128 <= count; i += 128)
#pragma GCC unroll 16
    for (std::size_t k = 0; k < 16; ++k)
      seen[k] = _mm512_or_si512(seen[k], _mm512_loadu_si512(words + i + 8 * k));
  for (std::size_t k = 1; k < 16; ++k) seen[0] = _mm512_or_si512(seen[0], seen[k]);
  std::uint64_t lanes[8];
  _mm512_storeu_si512(lanes, seen[0]);
  return lanes[0];
}

__attribute__((target("avx2"))) std::uint64_t read_256(const std::uint64_t* words, std::size_t count) {
  __m256i seen[12];
  for (auto& one : seen) one = _mm256_setzero_si256();
  for (std::size_t i = 0; i + 48 <= count; i += 48)
#pragma GCC unroll 12
    for (std::size_t k = 0; k < 12; ++k)
      seen[k] =
          _mm256_or_si256(seen[k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + i + 4 * k)));
  for (std::size_t k = 1; k < 12; ++k) seen[0] = _mm256_or_si256(seen[0], seen[k]);
  std::uint64_t lanes[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), seen[0]);
  return lanes[0];
}

/// Two thirds of a buffer are read and one is written: near the core that moves more bytes than
/// reading does.
__attribute__((target("avx512f"))) void merge_512(std::uint64_t* words, std::size_t count) {
  const std::size_t third = count / 3 / 32 * 32;
  for (std::size_t i = 0; i < third; i += 32)
#pragma GCC unroll 4
    for (std::size_t k = 0; k < 32; k += 8)
      _mm512_storeu_si512(
          words + 2 * third + i + k,
          _mm512_or_si512(_mm512_loadu_si512(words + i + k), _mm512_loadu_si512(words + third + i + k)));
}

__attribute__((target("avx2"))) void merge_256(std::uint64_t* words, std::size_t count) {
  const std::size_t third = count / 3 / 16 * 16;
  for (std::size_t i = 0; i < third; i += 16)
#pragma GCC unroll 4
    for (std::size_t k = 0; k < 16; k += 4) {
      const auto* from = reinterpret_cast<const __m256i*>(words + i + k);
      const auto* other = reinterpret_cast<const __m256i*>(words + third + i + k);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 2 * third + i + k),
                          _mm256_or_si256(_mm256_loadu_si256(from), _mm256_loadu_si256(other)));
    }
}
#endif

std::uint64_t pass_over(std::vector<std::uint64_t>& words, bool merging) {
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!merging) return wide ? read_512(words.data(), words.size()) : read_256(words.data(), words.size());
  wide ? merge_512(words.data(), words.size()) : merge_256(words.data(), words.size());
  return words.back();
}

/// Of reading, or of reading two operands and writing a result, whichever is faster.
double measure_bandwidth(int threads, std::size_t bytes_per_thread) {
  std::vector<std::vector<std::uint64_t>> buffers(static_cast<std::size_t>(threads),
                                                  std::vector<std::uint64_t>(bytes_per_thread / 8, 1));
  const std::size_t repeats = std::max<std::size_t>(1, (16u << 20) / bytes_per_thread);
  std::vector<std::uint64_t> sinks(static_cast<std::size_t>(threads));
  double best = 0;
  for (const bool merging : {false, true})
    best = std::max(best, best_rate(threads, static_cast<double>(bytes_per_thread * repeats), [&](int self) {
                      std::uint64_t seen = 0;
                      for (std::size_t i = 0; i < repeats; ++i) {
                        seen |= pass_over(buffers[static_cast<std::size_t>(self)], merging);
                        asm volatile("" : "+r"(seen) : : "memory");
                      }
                      sinks[static_cast<std::size_t>(self)] = seen;
                    }));
  return best;
}

}  // namespace

DevicePeaks measure_cpu_peaks(int threads, const Dims& facts) {
  DevicePeaks peaks;
  peaks.flops_per_second = measure_flops(threads);
  const auto level = [&](const char* name, double capacity, double use) {
    const auto bytes = static_cast<std::size_t>(use) / kUnit * kUnit;
    peaks.levels.push_back({name, capacity, measure_bandwidth(threads, bytes)});
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
