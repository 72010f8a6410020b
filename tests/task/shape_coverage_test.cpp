#include "task/shape_coverage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "task/bound_task.h"
#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

constexpr std::string_view kRows = R"toml(
name = "rows"
dims = { rows = [1, 4096], cols = [1, 4096] }
tensor = [{ name = "x", shape = ["rows", "cols"] }]
graph = "y = softmax(x)"
shape = [{ name = "base", rows = 1024, cols = 512 }, { name = "long", rows = 128, cols = 4096 }]
)toml";

Dims shape(std::int64_t rows, std::int64_t cols) { return {{"rows", rows}, {"cols", cols}}; }

TEST(ShapeCoverage, AShapeGainsWhatNoneBeforeHas) {
  ShapeCoverage coverage(task_of(kRows), Seed::from_number(1));
  const double all = coverage.gain(shape(100, 1));
  EXPECT_GT(all, 0);
  coverage.add(shape(100, 1));
  EXPECT_EQ(coverage.gain(shape(100, 1)), 0);
  coverage.add(shape(1, 100));
  EXPECT_EQ(coverage.gain(shape(100, 1)), 0);
  EXPECT_GT(coverage.gain(shape(100, 2)), 0);
}

TEST(ShapeCoverage, TellsRemaindersAndHalvesOfTilesApart) {
  ShapeCoverage coverage(task_of(kRows), Seed::from_number(1));
  coverage.add(shape(64, 65));
  EXPECT_EQ(coverage.gain(shape(64, 65 + 64)), 0);
  const double of_half = coverage.gain(shape(64, 64 + 33));
  EXPECT_GT(of_half, 0);
  EXPECT_GT(coverage.gain(shape(64, 64 + 34)), of_half);
}

constexpr std::string_view kFiveDims = R"toml(
name = "batches"
dims = { A = [1, 64], B = [1, 64], C = [1, 64], D = [1, 64], E = [1, 64] }
tensor = [{ name = "x", shape = ["A", "B", "C", "D", "E"] }]
graph = "y = softmax(x)"
shape = [{ name = "base", A = 8, B = 8, C = 16, D = 16, E = 32 }]
)toml";

/// What one verification sees beside the scored shapes.
std::vector<Dims> draw_all(const TaskSpec& spec, const Seed& seed) {
  std::vector<Dims> shapes = draw_hidden_shapes(spec, seed, 3, 2e7);
  if (auto large = draw_large_shape(spec, seed, {2e8, 1 << 23}, 2e7, shapes))
    shapes.push_back(*std::move(large));
  std::ranges::move(draw_shapes_beside(spec, seed, hidden_limits(2e7), shapes), std::back_inserter(shapes));
  return shapes;
}

/// Of many dims some shape is neither a cube nor all ones, and ragged in most of them.
TEST(ShapeCoverage, AVerificationOfManyDimsMeetsShapesOfUnlikeExtents) {
  const TaskSpec spec = task_of(kFiveDims);
  int unlike = 0;
  std::map<std::string, int> ragged;
  constexpr int kRuns = 40;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    bool found = false;
    std::set<std::string> met;
    for (const Dims& dims : draw_hidden_shapes(spec, Seed::from_number(seed), 3, 2e7)) {
      std::set<std::int64_t> extents;
      for (const auto& [name, n] : dims) {
        extents.insert(n);
        if (n > 8 && n % 8 != 0) met.insert(name);
      }
      found |= extents.size() >= 4 && *extents.rbegin() > 8;
    }
    unlike += found;
    for (const std::string& name : met) ++ragged[name];
  }
  EXPECT_GE(unlike, 36);
  for (const auto& [name, runs] : ragged)
    std::printf("%s is ragged beyond 8 in %d of %d\n", name.c_str(), runs, kRuns);
  for (const std::string& name : spec.dim_names) EXPECT_GE(ragged[name], 20) << name;
}

/// Left to chance, a remainder of two by four came in one of five verifications.
TEST(ShapeCoverage, AVerificationMeetsWhatKernelsTreatApartInEachDim) {
  const std::map<std::string, std::function<bool(std::int64_t)>> classes = {
      {"one", [](std::int64_t n) { return n == 1; }},
      {"few", [](std::int64_t n) { return n > 1 && n < 8; }},
      {"rest 1 of 4", [](std::int64_t n) { return n > 4 && n % 4 == 1; }},
      {"rest 2 of 4", [](std::int64_t n) { return n > 4 && n % 4 == 2; }},
      {"rest 3 of 4", [](std::int64_t n) { return n > 4 && n % 4 == 3; }},
      {"second half of 8", [](std::int64_t n) { return n > 8 && n % 8 >= 4; }},
      {"second half of 16", [](std::int64_t n) { return n > 16 && n % 16 >= 8; }},
      {"second half of 32", [](std::int64_t n) { return n > 32 && n % 32 >= 16; }},
      {"second half of 64", [](std::int64_t n) { return n > 64 && n % 64 >= 32; }},
      {"odd", [](std::int64_t n) { return n > 64 && n % 2 == 1; }},
      {"longer than half", [](std::int64_t n) { return n > 2048; }},
      {"in the last sixth", [](std::int64_t n) { return 6 * n > 5 * 4096; }},
  };
  const TaskSpec spec = task_of(kRows);
  constexpr int kRuns = 100;
  std::map<std::string, int> runs;
  int squares = 0;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    const std::vector<Dims> shapes = draw_all(spec, Seed::from_number(seed));
    for (const auto& [name, holds] : classes)
      for (const std::string& dim : spec.dim_names)
        runs[name + " of " + dim] +=
            std::ranges::any_of(shapes, [&, &is = holds](const Dims& dims) { return is(dims.at(dim)); });
    squares += std::ranges::any_of(
        shapes, [](const Dims& dims) { return dims.at("rows") == dims.at("cols") && dims.at("rows") > 1; });
  }
  for (const auto& [name, count] : runs) EXPECT_GE(count, kRuns * 6 / 10) << name;
  EXPECT_GE(squares, kRuns * 6 / 10);
}

/// Left to chance, 100 verifications have a number of rows that is a proper multiple of the columns
/// 27 times, and one that is one more twice.
TEST(ShapeCoverage, AVerificationMeetsExtentsThatAreTiedToEachOther) {
  const TaskSpec spec = task_of(kRows);
  constexpr int kRuns = 100;
  int of_cols = 0, of_rows = 0, either = 0, one_more = 0;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    const std::vector<Dims> shapes = draw_all(spec, Seed::from_number(seed));
    const auto any = [&](auto&& holds) {
      return std::ranges::any_of(shapes,
                                 [&](const Dims& dims) { return holds(dims.at("rows"), dims.at("cols")); });
    };
    const auto is_multiple = [](std::int64_t n, std::int64_t of) { return of > 1 && n > of && n % of == 0; };
    const bool rows = any(is_multiple), cols = any([&](auto n, auto m) { return is_multiple(m, n); });
    of_cols += rows;
    of_rows += cols;
    either += rows || cols;
    one_more += any([](auto n, auto m) { return std::abs(n - m) == 1 && std::min(n, m) > 1; });
  }
  EXPECT_GE(of_cols, kRuns * 6 / 10);
  EXPECT_GE(of_rows, kRuns * 6 / 10);
  EXPECT_GE(either, kRuns * 8 / 10);
  EXPECT_GE(one_more, kRuns * 5 / 10);
}

/// In how many of 100 verifications each small extent, each remainder by eight and each sixth of
/// the range comes in a dim.
std::map<std::string, int> count_classes(int small_shapes) {
  const TaskSpec spec = task_of(kRows);
  std::map<std::string, int> runs;
  for (std::uint64_t number = 0; number < 100; ++number) {
    const Seed seed = Seed::from_number(number);
    std::vector<Dims> shapes = draw_all(spec, seed);
    std::vector<Dims> small = draw_small_shapes(spec, seed, small_shapes, shapes);
    EXPECT_EQ(small.size(), static_cast<std::size_t>(small_shapes));
    for (const Dims& dims : small) EXPECT_LE(lathe::bind(spec, dims)->value_elements(), 1 << 13);
    std::ranges::move(small, std::back_inserter(shapes));
    for (const std::string& dim : spec.dim_names) {
      std::set<std::string> met;
      for (const Dims& dims : shapes) {
        const std::int64_t n = dims.at(dim);
        met.insert(n < 8 ? fmt::format("{} = {}", dim, n) : fmt::format("{} = 8k + {}", dim, n % 8));
        met.insert(fmt::format("{} in sixth {}", dim, (6 * n - 1) / spec.dim_ranges.at(dim).high));
      }
      for (const std::string& one : met) ++runs[one];
    }
  }
  return runs;
}

/// An extent of two came in 10 of 100 verifications, a remainder of four by eight in 9, the third
/// sixth of a range in 12.
TEST(ShapeCoverage, SmallShapesMeetWhatOthersHadNoRoomFor) {
  const auto of_few = count_classes(8), of_many = count_classes(16);
  EXPECT_EQ(of_few.size(), 2U * (7 + 8 + 6));
  EXPECT_EQ(of_many.size(), 2U * (7 + 8 + 6));
  for (const auto& [name, count] : of_few)
    EXPECT_GE(count, name.find("sixth") == std::string::npos ? 40 : 25) << name;
  for (const auto& [name, count] : of_many)
    EXPECT_GE(count, name.find("sixth") == std::string::npos ? 85 : 45) << name;
}

TEST(ShapeCoverage, ADomainWithoutSmallShapesHasNone) {
  TaskSpec spec = task_of(kRows);
  for (auto& [name, range] : spec.dim_ranges) range.low = 128;
  EXPECT_TRUE(draw_small_shapes(spec, Seed::from_number(1), 8).empty());
}

}  // namespace
}  // namespace lathe
