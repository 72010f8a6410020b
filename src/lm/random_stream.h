#pragma once

#include <cstdint>

/// Random numbers by counter, equal on every device: what is drawn for a token depends on its
/// request's seed, its sample and its place alone.
namespace lathe::lm {

#if defined(__CUDACC__)
#define LATHE_HOST_DEVICE __host__ __device__
#else
#define LATHE_HOST_DEVICE
#endif

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): 64 random
/// bits.
LATHE_HOST_DEVICE inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream,
                                                   std::uint64_t counter) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(stream), c3 = static_cast<std::uint32_t>(stream >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0, p1 = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return (std::uint64_t{c1} << 32) | c0;
}

/// The high half of the product: uniform in [0, bound) from 64 random bits.
LATHE_HOST_DEVICE inline std::uint64_t scale_to(std::uint64_t bits, std::uint64_t bound) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(bits, bound);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * bound) >> 64);
#endif
}

/// How drawing measures a token of logit l: `depth` = (most - l) / temperature is cut into
/// kCutLevels levels up to kDeepest, and its mass is exp(-depth) in units of 2^-40. Sums of
/// integers do not depend on their order.
inline constexpr float kDeepest = 28;
inline constexpr int kCutLevels = 1 << 20;
inline constexpr int kCoarse = 1024;  ///< levels are found in two steps: kCoarse times kCoarse
inline constexpr float kMassUnit = 1099511627776.0F;  // 2^40

LATHE_HOST_DEVICE inline int cut_level(float depth) {
  const float level = depth * (static_cast<float>(kCutLevels) / kDeepest);
  return level < static_cast<float>(kCutLevels - 1) ? static_cast<int>(level) : kCutLevels - 1;
}

}  // namespace lathe::lm
