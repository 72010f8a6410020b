#include "gemm/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

namespace lathe::gemm {
namespace {

constexpr std::int64_t kExtents[] = {64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384};
constexpr std::int64_t kLargest = 1 << 24;

Result<std::int64_t> parse_extent(const std::string& text, const std::string& size) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 1 || value > kLargest)
    return invalid(fmt::format("'{}' is no size", size), "sizes are written 64x128x8192, as M x N x K");
  return value;
}

Result<Size> parse_size(const std::string& text) {
  std::istringstream stream(text);
  std::string part[4];
  for (std::string& one : part) std::getline(stream, one, 'x');
  if (!part[3].empty())
    return invalid(fmt::format("'{}' is no size", text), "sizes have three extents: M x N x K");
  Size size;
  LATHE_TRY(size.m, parse_extent(part[0], text));
  LATHE_TRY(size.n, parse_extent(part[1], text));
  LATHE_TRY(size.k, parse_extent(part[2], text));
  return size;
}

/// `count` of `from`, evenly spread.
std::vector<Size> spread(const std::vector<Size>& from, std::size_t count) {
  count = std::min(count, from.size());
  std::vector<Size> chosen;
  for (std::size_t i = 0; i < count; ++i)
    chosen.push_back(from[i * from.size() / count + from.size() / count / 2]);
  return chosen;
}

std::vector<Size> of_family(Family family) {
  constexpr int kSmCount = 132;
  std::vector<Size> found;
  for (const Size& size : all_sizes())
    if (family_of(size, kSmCount) == family) found.push_back(size);
  return found;
}

std::vector<Size> slice() {
  std::vector<Size> chosen = spread(of_family(Family::kF), 22);
  for (const Size& size : spread(of_family(Family::kE), 28)) chosen.push_back(size);
  return chosen;
}

}  // namespace

std::vector<Size> all_sizes() {
  std::vector<Size> sizes;
  for (const std::int64_t m : kExtents)
    for (const std::int64_t n : kExtents)
      for (const std::int64_t k : kExtents) sizes.push_back({m, n, k});
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const Size& a, const Size& b) { return flop_of(a) < flop_of(b); });
  return sizes;
}

Family family_of(const Size& size, int sm_count) {
  if (flop_of(size) < 1e8) return Family::kF;
  const double waves =
      std::ceil(static_cast<double>(size.m) / 128) * std::ceil(static_cast<double>(size.n) / 256) / sm_count;
  if (waves >= 2) return size.k <= 256 ? Family::kB : Family::kA;
  if (waves >= 1) return Family::kC;
  // A third of a wave is where splitting K starts to pay.
  return waves < 1.0 / 3 && size.k >= 1024 ? Family::kE : Family::kD;
}

Result<std::vector<Size>> parse_sizes(const std::string& text) {
  if (text == "all") return all_sizes();
  if (text == "slice") return slice();
  if (text.rfind("even:", 0) == 0) {
    LATHE_TRY(const std::int64_t count, parse_extent(text.substr(5), text));
    return spread(all_sizes(), static_cast<std::size_t>(count));
  }
  std::vector<Size> sizes;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    LATHE_TRY(const Size size, parse_size(one));
    sizes.push_back(size);
  }
  if (sizes.empty()) return invalid("no sizes", "name them: 64x128x8192,..., or all, slice, even:100");
  return sizes;
}

std::string name_of(const Size& size) { return fmt::format("{}x{}x{}", size.m, size.n, size.k); }

}  // namespace lathe::gemm
