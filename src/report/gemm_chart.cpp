#include "report/gemm_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "report/svg.h"

namespace lathe {
namespace {

constexpr double kMapLeft = 80, kMapTop = 80, kMapCell = 15, kMapGap = 5;
constexpr std::array kRatioSteps = {0.5, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.2, 1.5};

/// Of the ratios below kRatioSteps[0], between the steps, and above the last.
std::size_t step_of(double ratio) {
  return static_cast<std::size_t>(std::upper_bound(kRatioSteps.begin(), kRatioSteps.end(), ratio) -
                                  kRatioSteps.begin());
}

constexpr const char* kMapStyle =
    ".label{font:12px sans-serif;fill:#444}.title{font:15px sans-serif;fill:#222}"
    ".r0{fill:#8c2d04}.r1{fill:#cc4c02}.r2{fill:#ec7014}.r3{fill:#fe9929}.r4{fill:#fed98e}.r5{fill:#f0f0f0}"
    ".r6{fill:#c7e9c0}.r7{fill:#a1d99b}.r8{fill:#74c476}.r9{fill:#31a354}.r10{fill:#006d2c}";

}  // namespace

std::string gemm_heat_map(const std::vector<gemm::Row>& rows) {
  std::set<std::int64_t> extents;
  for (const gemm::Row& row : rows) extents.insert({row.size.m, row.size.n, row.size.k});
  const auto place = [&](std::int64_t extent) {
    return static_cast<double>(std::distance(extents.begin(), extents.find(extent)));
  };
  // The cells of a square are its values of K, in as many rows as columns.
  const double side = std::ceil(std::sqrt(static_cast<double>(extents.size())));
  const double square = side * kMapCell + kMapGap;
  const double width = kMapLeft + square * static_cast<double>(extents.size()) + 20;
  const double height = kMapTop + square * static_cast<double>(extents.size()) + 60;
  Svg svg(width, height, "cuBLASLt autotuned over the kernel's time, by M, N and K", 600, 1600);
  svg.text(kMapLeft, 22, "Time of cuBLASLt autotuned over the kernel's: green is faster", "title");
  svg.text(kMapLeft, 40, "M downwards, N to the right; in a square K grows line by line, as M and N do",
           "label");
  for (const std::int64_t extent : extents) {
    svg.text(kMapLeft - 8, kMapTop + place(extent) * square + square / 2, std::to_string(extent), "label",
             "end");
    svg.text(kMapLeft + place(extent) * square + square / 2, kMapTop - 10, std::to_string(extent), "label",
             "middle");
  }
  for (const gemm::Row& row : rows) {
    if (row.warm.ours <= 0 || row.warm.lt_autotuned <= 0) continue;
    const double ratio = row.warm.lt_autotuned / row.warm.ours, k = place(row.size.k);
    svg.rect(kMapLeft + place(row.size.n) * square + std::fmod(k, side) * kMapCell,
             kMapTop + place(row.size.m) * square + std::floor(k / side) * kMapCell, kMapCell - 1,
             kMapCell - 1, fmt::format("r{}", step_of(ratio)),
             fmt::format("{}: {:.3f}x, {:.2f} us, {}", gemm::name_of(row.size), ratio, row.warm.ours / 1e3,
                         row.kernel));
  }
  double x = kMapLeft;
  for (std::size_t i = 0; i <= kRatioSteps.size(); ++i, x += 62) {
    svg.rect(x, height - 40, 14, 14, fmt::format("r{}", i));
    svg.text(x + 18, height - 28,
             i == 0 ? fmt::format("< {}", kRatioSteps[0]) : fmt::format("{}", kRatioSteps[i - 1]), "label");
  }
  return svg.finish_file(kMapStyle);
}

}  // namespace lathe
