#pragma once

#include <stdint.h>

namespace lathe {

/// ceil(a / b) for a >= 0, b > 0.
constexpr int64_t cdiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
/// The least multiple of b that is >= a.
constexpr int64_t align(int64_t a, int64_t b) { return cdiv(a, b) * b; }

}  // namespace lathe
