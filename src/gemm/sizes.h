#pragma once

#include <string>
#include <vector>

#include "gemm/device.h"

namespace lathe::gemm {

/// All of {64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384} cubed: 1000, the smallest
/// first.
std::vector<Size> all_sizes();

/// Sizes that differ in kind, as the work on kernels is divided (docs/gemm.md).
enum class Family : char {
  kA = 'A',  ///< two waves of 128 x 256 tiles or more, K >= 512
  kB = 'B',  ///< the same, K <= 256: bound by writing C
  kC = 'C',  ///< one to two waves
  kD = 'D',  ///< fills the GPU with small tiles only, or K is short
  kE = 'E',  ///< few tiles, K >= 1024
  kF = 'F'   ///< tiny: under 1e8 FLOP
};
Family family_of(const Size& size, int sm_count);

/// "all", "slice" (50 of families E and F), "even:N" (N of all, evenly spread by work), or sizes:
/// "64x64x8192,...".
Result<std::vector<Size>> parse_sizes(const std::string& text);
std::string name_of(const Size& size);

}  // namespace lathe::gemm
