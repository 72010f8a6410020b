#include "task/generate_inputs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>

#include "base/statistics.h"
#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

constexpr std::string_view kKindsTask = R"toml(
name = "kinds"
dims = ["n"]
tensor = [
  { name = "plain", shape = ["n", "n"] },
  { name = "bounded", shape = ["n", "n"], gen = { low = 0.25, high = 0.75 } },
  { name = "positive", shape = ["n", "n"], gen = { kind = "positive" } },
  { name = "mask", shape = ["n", "n"], gen = { kind = "zeros_ones" } },
  { name = "alpha", role = "scalar", value = 2.5 },
]
graph = """
a = add(plain, bounded)
b = add(positive, mask)
c = add(a, b)
y = mul(c, alpha)
"""
shape = [{ n = 64 }]
)toml";

TEST(GenerateInputs, AreEqualForEqualSeedsOnly) {
  const TaskSpec spec = task_of(kLinearTask);
  const BoundTask task = bind_first(spec);
  for (const Distribution distribution : all_distributions()) {
    const auto first = generate_inputs(task, distribution, Seed::from_number(1));
    const auto again = generate_inputs(task, distribution, Seed::from_number(1));
    const auto other = generate_inputs(task, distribution, Seed::from_number(2));
    EXPECT_EQ(first[0].bytes, again[0].bytes) << name(distribution);
    EXPECT_NE(first[0].bytes, other[0].bytes) << name(distribution);
  }
}

TEST(GenerateInputs, KeepEveryTensorsRangeUnderEveryDistribution) {
  const TaskSpec spec = task_of(kKindsTask);
  const BoundTask task = bind_first(spec);
  for (const Distribution distribution : all_distributions()) {
    const auto inputs = generate_inputs(task, distribution, Seed::from_number(3));
    for (const double x : inputs[0].decode()) EXPECT_TRUE(std::isfinite(x));
    for (const double x : inputs[1].decode()) EXPECT_TRUE(x >= 0.25 && x <= 0.75) << name(distribution);
    for (const double x : inputs[2].decode()) EXPECT_GT(x, 1e-8) << name(distribution);
    for (const double x : inputs[3].decode()) EXPECT_TRUE(x == 0 || x == 1) << name(distribution);
    EXPECT_EQ(inputs[4].decode(), std::vector<double>{2.5});
  }
}

TEST(GenerateInputs, EachDistributionIsWhatItSays) {
  const TaskSpec spec = task_of(kKindsTask);
  const BoundTask task = bind_first(spec);
  const auto values = [&](Distribution distribution) {
    return generate_inputs(task, distribution, Seed::from_number(4))[0].decode();
  };
  const std::vector<double> normal = values(Distribution::kNormal);
  EXPECT_NEAR(mean(normal), 0, 0.2);
  EXPECT_NEAR(stddev(normal), 1.2, 0.4);
  const std::vector<double> one_hot = values(Distribution::kOneHot);
  for (std::size_t row = 0; row < 64; ++row) {
    EXPECT_EQ(std::count(one_hot.begin() + row * 64, one_hot.begin() + (row + 1) * 64, 0.0), 63);
  }
  const std::vector<double> cancelling = values(Distribution::kCancellation);
  EXPECT_LT(std::fabs(mean(std::span(cancelling).first(64))), 1e-3);
  const double spike = *std::ranges::max_element(one_hot);
  EXPECT_TRUE(spike >= 1 && spike < 2);
  EXPECT_NE(std::fmod(spike * 0x1p12, 1.0), 0) << "narrower formats round it";
  int denormal = 0, between = 0;
  for (const double x : values(Distribution::kDenormal)) {
    EXPECT_LT(std::fabs(x), 5);
    denormal += std::fabs(x) < 1e-36;
    between += std::fabs(x) > 1e-30 && std::fabs(x) < 1e-3;
  }
  EXPECT_GT(denormal, 64 * 64 / 5);
  EXPECT_GT(between, 64 * 64 / 8) << "where a norm is as small as what keeps it from zero";
  for (const double x : values(Distribution::kIntegers)) EXPECT_EQ(x, std::floor(x));
}

/// Ties, thresholds and their neighbours reach the ops that they tell from mistakes, through moves,
/// and never leave a tensor's range.
TEST(GenerateInputs, IntegersHoldWhatTellsAnOpFromItsMistakes) {
  const TaskSpec spec = task_of(R"toml(
name = "telling"
dims = ["n"]
tensor = [
  { name = "x", shape = ["n", "n"] },
  { name = "z", shape = ["n", "n"], gen = { kind = "uniform", low = 0, high = 1 } },
  { name = "w", shape = ["n", "n"], gen = { kind = "positive" } },
]
graph = """
t = transpose(x)
a = round(t)
b = floor(z)
c = gt(w, value = 3)
d = where(c, a, b)
i = argmax(w)
"""
output = [{ name = "d" }, { name = "i" }]
shape = [{ n = 64 }]
)toml");
  const auto inputs = generate_inputs(bind_first(spec), Distribution::kIntegers, Seed::from_number(1));
  const auto count = [&](std::size_t input, auto holds) {
    return std::ranges::count_if(inputs[input].decode(), holds);
  };
  EXPECT_GT(count(0, [](double x) { return std::fabs(x - std::floor(x)) == 0.5; }), 64);
  EXPECT_GT(count(0, [](double x) { return x == 0.5 - 0x1p-25; }), 5);
  EXPECT_EQ(count(1, [](double x) { return x < 0 || x > 1; }), 0);
  EXPECT_GT(count(2, [](double x) { return x == 3 + 0x1p-22; }), 64);
  EXPECT_GT(count(2, [](double x) { return x == 5 + 0x1p-21; }), 64) << "and 5 beside it";
  EXPECT_EQ(count(2, [](double x) { return x <= 0; }), 0);
}

/// How many of lines of `length` values, `stride` apart, have a single value on one side of a
/// threshold, and where it is.
struct Singles {
  int above = 0, below = 0;
  std::map<std::size_t, int> places;
};
Singles singles_of(const std::vector<double>& x, std::size_t length, std::size_t stride,
                   const std::function<bool(double)>& is_above) {
  Singles singles;
  for (std::size_t line = 0; line < x.size() / length; ++line) {
    const std::size_t first = line / stride * stride * length + line % stride;
    std::vector<std::size_t> above, below;
    for (std::size_t k = 0; k < length; ++k) (is_above(x[first + k * stride]) ? above : below).push_back(k);
    singles.above += above.size() == 1;
    singles.below += below.size() == 1;
    if (above.size() == 1) ++singles.places[above.front()];
  }
  return singles;
}

/// An `any` that leaves out the last of each row passed three of six verifications: no row had a
/// single value that decides.
TEST(GenerateInputs, SomeRowsHaveASingleValueBeyondWhatTheGraphComparesThemWith) {
  const TaskSpec spec = task_of(R"toml(
name = "any"
tensor = [{ name = "x", shape = [256, 100] }, { name = "z", shape = [256, 100] },
          { name = "i", shape = [256, 100], dtype = "int32" }]
graph = """
a = abs(z)
s = scale(a, by = 2)
m = gt(x, value = 3)
n = gt(s, value = 7)
k = eq(i, value = 77)
y = any(m, axis = -1)
w = any(n, axis = -1)
v = any(k, axis = -1)
"""
output = [{ name = "y" }, { name = "w" }, { name = "v" }]
)toml");
  for (const Distribution distribution :
       {Distribution::kOneHot, Distribution::kCancellation, Distribution::kDenormal}) {
    const auto inputs = generate_inputs(bind_first(spec), distribution, Seed::from_number(1));
    const Singles plain = singles_of(inputs[0].decode(), 100, 1, [](double x) { return x > 3; });
    EXPECT_GT(plain.above, 10) << name(distribution);
    EXPECT_GT(plain.below, 5) << name(distribution);
    EXPECT_GE(plain.places.at(99), 3) << name(distribution);
    const Singles made =
        singles_of(inputs[1].decode(), 100, 1, [](double x) { return 2 * std::fabs(x) > 7; });
    EXPECT_GT(made.above, 10) << name(distribution);
    EXPECT_GT(made.below, 5) << name(distribution);
    const Singles whole = singles_of(inputs[2].decode(), 100, 1, [](double x) { return x == 77; });
    EXPECT_GT(whole.above, 5) << name(distribution);
  }
}

TEST(GenerateInputs, ASingleValueIsOneOfThoseThatTheGraphTakesTogether) {
  const TaskSpec spec = task_of(R"toml(
name = "columns"
tensor = [{ name = "x", shape = [60, 100] }, { name = "z", shape = [8, 4, 25] }]
graph = """
m = lt(x, value = 2.5)
y = all(m, axis = 0)
s = square(z)
w = reduce_max(s, axes = [1, 2])
"""
output = [{ name = "y" }, { name = "w" }]
)toml");
  int columns = 0, last = 0, planes = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto inputs = generate_inputs(bind_first(spec), Distribution::kOneHot, Seed::from_number(seed));
    const Singles across = singles_of(inputs[0].decode(), 60, 100, [](double x) { return x >= 2.5; });
    columns += across.above > 5;
    last += across.places.contains(59);
    const Singles whole = singles_of(inputs[1].decode(), 100, 1, [](double x) { return x != 0; });
    planes += whole.above > 4;
  }
  EXPECT_GT(columns, 5);
  EXPECT_GT(last, 4);
  EXPECT_GT(planes, 4);
}

TEST(GenerateInputs, ASingleValueIsAtAnEndMoreOftenThanChanceHasIt) {
  const TaskSpec spec = task_of(R"toml(
name = "rows"
tensor = [{ name = "x", shape = [1024, 1000] }]
graph = "y = relu(x)"
)toml");
  const auto inputs = generate_inputs(bind_first(spec), Distribution::kOneHot, Seed::from_number(1));
  const Singles singles = singles_of(inputs[0].decode(), 1000, 1, [](double x) { return x != 0; });
  EXPECT_EQ(singles.above, 1024);
  EXPECT_GT(singles.places.at(0), 64);
  EXPECT_GT(singles.places.at(999), 128);
  int before = 0, behind = 0;
  for (const auto& [place, count] : singles.places) {
    if (place == 0 || place == 999) continue;
    behind += place % 32 == 0 ? count : 0;
    before += place % 32 == 31 ? count : 0;
  }
  EXPECT_GT(before, 48);
  EXPECT_GT(behind, 48);
  EXPECT_GT(singles.places.size(), 250U) << "and anywhere";
}

/// The upper half of a product is as good in fp32 for most numbers, and in fp64 for nearly all.
TEST(GenerateInputs, LargeWholeNumbersHaveProductsThatFloatsRoundUp) {
  const auto rounded_up = [](std::uint32_t factor, auto product) {
    const TaskSpec spec = task_of(
        "name = \"high\"\ntensor = [{ name = \"x\", shape = [64, 64], dtype = \"int32\" }]\n"
        "graph = \"y = mul_high(x, value = " +
        std::to_string(static_cast<std::int32_t>(factor)) + ")\"\n");
    const auto inputs =
        generate_inputs(bind_first(spec), Distribution::kLarge, Seed::from_number(1), {.integer_bits = 31});
    return std::ranges::count_if(inputs[0].decode(), [&](double value) {
      const auto x = static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
      const std::uint64_t exact = std::uint64_t{x} * factor >> 32;
      return std::floor(product(x, factor) * 0x1p-32) != static_cast<double>(exact);
    });
  };
  const auto in_fp32 = [](std::uint32_t x, std::uint32_t factor) {
    return static_cast<double>(static_cast<float>(x) * static_cast<float>(factor));
  };
  const auto in_fp64 = [](std::uint32_t x, std::uint32_t factor) {
    return static_cast<double>(x) * static_cast<double>(factor);
  };
  EXPECT_GT(rounded_up(1000, in_fp32), 40);
  EXPECT_GT(rounded_up(2654435769U, in_fp64), 40);
}

TEST(GenerateInputs, IntegersOfAModuleHoldHalves) {
  TaskSpec spec = task_of(
      "name = \"t\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"] }]\ngraph = \"y = relu(x)\"\n"
      "shape = [{ n = 640 }]\n");
  spec.reference = ReferenceKind::kProcess;
  const auto inputs = generate_inputs(bind_first(spec), Distribution::kIntegers, Seed::from_number(1));
  const auto is_half = [](double x) { return std::fabs(x - std::floor(x)) == 0.5; };
  EXPECT_GT(std::ranges::count_if(inputs[0].decode(), is_half), 200);
}

TEST(GenerateInputs, AVectorIsDenormalInPartOrAsAWhole) {
  const TaskSpec spec = task_of(R"toml(
name = "vector"
dims = ["n"]
tensor = [{ name = "x", shape = ["n"] }]
graph = "y = relu(x)"
shape = [{ n = 64 }]
)toml");
  const BoundTask task = bind_first(spec);
  int in_part = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto values = generate_inputs(task, Distribution::kDenormal, Seed::from_number(seed))[0].decode();
    const auto denormal = std::ranges::count_if(values, [](double x) { return std::fabs(x) < 1e-36; });
    EXPECT_GE(denormal, 8) << seed;
    in_part += denormal < 64;
  }
  EXPECT_GT(in_part, 10);
  EXPECT_LT(in_part, 40);
}

/// Rows that look like the others unless all their values are read.
TEST(GenerateInputs, AVectorIsLargeInPartOrAsAWhole) {
  const TaskSpec spec = task_of(R"toml(
name = "vector"
tensor = [{ name = "x", shape = [4096] }]
graph = "y = silu(x)"
)toml");
  int in_parts = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto inputs = generate_inputs(bind_first(spec), Distribution::kLarge, Seed::from_number(seed));
    const std::vector<double> x = inputs[0].decode();
    std::vector<double> means;
    for (std::size_t part = 0; part < 8; ++part) {
      double sum = 0;
      for (std::size_t i = 512 * part; i < 512 * (part + 1); ++i) sum += std::fabs(x[i]) / 512;
      means.push_back(sum);
    }
    in_parts += std::ranges::max(means) > 20 * std::ranges::min(means);
  }
  EXPECT_GT(in_parts, 12);
  EXPECT_LT(in_parts, 36);
}

TEST(GenerateInputs, MixedOnesHaveALargeValueOfEachSignInAFewRows) {
  const TaskSpec spec = task_of(kKindsTask);
  const BoundTask task = bind_first(spec);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto inputs = generate_inputs(task, Distribution::kMixed, Seed::from_number(seed));
    const std::vector<double> values = inputs[0].decode();
    int ordinary = 0;
    bool up = false, down = false;
    for (std::size_t row = 0; row < 64; ++row) {
      const auto own = std::span(values).subspan(row * 64, 64);
      const auto [low, high] = std::ranges::minmax(own);
      ordinary += low > -8 && high < 8;
      const auto small = std::ranges::count_if(own, [](double x) { return std::fabs(x) < 8; });
      up = up || (small == 62 && high > 200);
      down = down || (small == 62 && low < -200);
    }
    EXPECT_TRUE(up && down) << seed;
    EXPECT_GT(ordinary, 32) << seed;
    const std::vector<double> bounded = inputs[1].decode(), positive = inputs[2].decode();
    EXPECT_EQ(std::ranges::minmax(bounded).min, 0.25) << "the ends of what is declared";
    EXPECT_EQ(std::ranges::minmax(bounded).max, 0.75);
    EXPECT_GT(std::ranges::count_if(bounded, [](double x) { return x > 0.26 && x < 0.74; }),
              std::ssize(bounded) * 2 / 3);
    EXPECT_GT(std::ranges::min(positive), 0);
    EXPECT_LT(std::ranges::min(positive), 0.01);
    EXPECT_GT(std::ranges::max(positive), 8);
    EXPECT_GT(std::ranges::count_if(positive, [](double x) { return x > 0.04 && x < 4; }),
              std::ssize(positive) / 2);
  }
}

TEST(GenerateInputs, TheLargestOfARowIsAtAnEndMoreOftenThanChanceHasIt) {
  const TaskSpec spec = task_of(kKindsTask);
  const BoundTask task = bind_first(spec);
  for (const Distribution distribution : {Distribution::kLarge, Distribution::kMixed}) {
    std::map<std::pair<std::size_t, bool>, int> rows;  // by column, and whether it is the largest
    int all = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const std::vector<double> values =
          generate_inputs(task, distribution, Seed::from_number(seed))[0].decode();
      for (std::size_t row = 0; row < 64; ++row) {
        const auto own = std::span(values).subspan(row * 64, 64);
        const auto [low, high] = std::ranges::minmax_element(own);
        if (*high - *low < 100) continue;
        ++all;
        ++rows[{static_cast<std::size_t>(high - own.begin()), true}];
        ++rows[{static_cast<std::size_t>(low - own.begin()), false}];
      }
    }
    for (const std::size_t end : {std::size_t{0}, std::size_t{63}})
      for (const bool largest : {true, false})
        EXPECT_GT((20 * rows[{end, largest}]), all)
            << name(distribution) << " at " << end << ": chance has 1 of 64";
    EXPECT_LT((10 * rows[{20, true}]), all) << "and else anywhere";
  }
}

TEST(GenerateInputs, AParameterIsExtremeWhereAnOpComputesWithItAlone) {
  const auto largest = [](const std::string& graph, const std::string& more = "") {
    const TaskSpec spec = task_of(
        "name = \"gate\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"] },\n"
        "{ name = \"w\", shape = [\"n\"], role = \"parameter\" }" +
        more + "]\ngraph = \"\"\"\n" + graph + "\"\"\"\nshape = [{ n = 640 }]\n");
    const auto w = generate_inputs(bind_first(spec), Distribution::kLarge, Seed::from_number(5))[1].decode();
    return std::fabs(*std::ranges::max_element(w, {}, [](double value) { return std::fabs(value); }));
  };
  EXPECT_GT(largest("p = softmax(w)\ny = mul(x, p)\n"), 50);
  EXPECT_GT(largest("s = scale(w, by = 2)\np = exp(s)\ny = mul(x, p)\n"), 50);
  EXPECT_GT(
      largest(
          "e = gather(w, i)\np = softmax(e)\ny = mul(x, p)\n",
          ", { name = \"i\", shape = [\"n\"], role = \"index\", gen = { kind = \"index\", limit = \"n\" } }"),
      50)
      << "an index is no activation";
  EXPECT_LT(largest("y = mul(x, w)\n"), 20);
  EXPECT_LT(largest("s = scale(w, by = 2)\np = mul(x, s)\ny = softmax(p)\n"), 20);
}

TEST(GenerateInputs, EachTensorOfWholeNumbersIsLargeAloneAtTimes) {
  const TaskSpec spec = task_of(R"toml(
name = "gain"
dims = ["n"]
tensor = [{ name = "x", shape = ["n"], dtype = "int32" },
          { name = "w", shape = ["n"], dtype = "int32", role = "parameter" },
          { name = "s", dtype = "int32", role = "scalar" }]
graph = """
p = mul(x, w)
y = mul(p, s)
"""
shape = [{ n = 640 }]
)toml");
  std::array<int, 3> alone{};
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto inputs = generate_inputs(bind_first(spec), Distribution::kOffset, Seed::from_number(seed),
                                        {.integer_bits = 20});
    int large = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto values = inputs[i].decode();
      const bool is_large = std::ranges::any_of(values, [](double x) { return std::fabs(x) > 10000; });
      large += is_large;
      alone[i] += is_large;
    }
    EXPECT_EQ(large, 1);
  }
  for (const int times : alone) EXPECT_GE(times, 3);
}

/// How a row of one tensor stands to another's: equal, its negative, or neither.
enum class Relation { kEqual, kOpposite, kNone };

Relation relation_of(std::span<const double> a, std::span<const double> b) {
  if (std::ranges::equal(a, b)) return Relation::kEqual;
  return std::ranges::equal(a, b, {}, std::negate()) ? Relation::kOpposite : Relation::kNone;
}

TEST(GenerateInputs, SomeRowsAreThoseOfAnotherTensorOrTheirNegatives) {
  const TaskSpec spec = task_of(R"toml(
name = "pairs"
tensor = [{ name = "a", shape = [64, 32] }, { name = "b", shape = [64, 32] },
          { name = "w", shape = [64, 32], role = "parameter" }]
graph = """
c = mul(a, b)
y = mul(c, w)
"""
)toml");
  const BoundTask task = bind_first(spec);
  const auto relations = [&](std::size_t with, const Reach& reach) {
    const auto inputs = generate_inputs(task, Distribution::kCancellation, Seed::from_number(1), reach);
    const std::vector<double> a = inputs[0].decode(), other = inputs[with].decode();
    std::map<Relation, int> counts;
    for (std::size_t row = 0; row < 64; ++row)
      ++counts[relation_of(std::span(a).subspan(32 * row, 32), std::span(other).subspan(32 * row, 32))];
    return counts;
  };
  std::map<Relation, int> shared = relations(1, {.common_rows = true});
  EXPECT_GT(shared[Relation::kEqual], 2);
  EXPECT_GT(shared[Relation::kOpposite], 2);
  EXPECT_GT(shared[Relation::kNone], 32);
  EXPECT_EQ(relations(2, {.common_rows = true})[Relation::kNone], 64) << "a parameter has its own";
  EXPECT_EQ(relations(1, {})[Relation::kNone], 64);
}

TEST(GenerateInputs, SomeMatricesOfATensorAreZero) {
  const TaskSpec spec = task_of(R"toml(
name = "channels"
tensor = [{ name = "x", shape = [4, 16, 8, 8] }]
graph = "y = relu(x)"
)toml");
  const auto inputs =
      generate_inputs(bind_first(spec), Distribution::kOneHot, Seed::from_number(1), {.zero_rows = true});
  const std::vector<double> x = inputs[0].decode();
  int zero = 0;
  for (std::size_t matrix = 0; matrix < 64; ++matrix)
    zero += std::ranges::all_of(std::span(x).subspan(64 * matrix, 64), [](double v) { return v == 0; });
  EXPECT_GT(zero, 1);
  EXPECT_LT(zero, 32);
}

TEST(GenerateInputs, RisingIndicesBeginWithTheFirstAtTimes) {
  const TaskSpec spec = task_of(R"toml(
name = "rows"
tensor = [{ name = "x", shape = [100, 4] },
          { name = "i", shape = [40], role = "index", gen = { kind = "index", limit = 100 } }]
graph = "y = embedding(x, i)"
)toml");
  const BoundTask task = bind_first(spec);
  int first = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    first += generate_inputs(task, Distribution::kIntegers, Seed::from_number(seed))[1].decode()[0] == 0;
  EXPECT_GT(first, 8);
  EXPECT_LT(first, 32);
}

/// Of `shape`, in a graph that makes sums along an axis of it.
TEST(GenerateInputs, LinesOfAMaskAreOfOneValueWhereverTheyLie) {
  struct Case {
    const char* shape;
    const char* graph;
    std::size_t line, stride;
  };
  for (const Case& one : {Case{"[\"n\", 32, 1]", "k = mul(x, m)\ny = sum(k, axis = 1)", 32, 1},
                          Case{"[\"n\", 32, 8]", "k = mul(x, m)\ny = sum(k, axis = 1)", 32, 8},
                          Case{"[32, 8]", "k = mul(x, m)\ny = sum(k, axes = [0, 1])", 32, 8},
                          Case{"[\"n\", 32, 8]", "k = mul(x, m)\ny = sum(k)", 16 * 32 * 8, 1}}) {
    const TaskSpec spec =
        task_of("name = \"masks\"\ndims = [\"n\"]\ntensor = [\n" +
                std::string("{ name = \"x\", shape = [\"n\", 32, 8] },\n{ name = \"m\", shape = ") +
                one.shape + ", gen = { kind = \"zeros_ones\" } }]\ngraph = \"\"\"\n" + one.graph +
                "\n\"\"\"\nshape = [{ n = 16 }]\n");
    int zeros = 0, ones = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const std::vector<double> mask =
          generate_inputs(bind_first(spec), Distribution::kOffset, Seed::from_number(seed))[1].decode();
      const std::size_t lines = mask.size() / one.line;
      std::vector<double> sums(lines);
      for (std::size_t i = 0; i < mask.size(); ++i)
        sums[i / (one.stride * one.line) * one.stride + i % one.stride] += mask[i];
      zeros += std::ranges::count(sums, 0.0) > 0 ? 1 : 0;
      ones += std::ranges::count(sums, static_cast<double>(one.line)) > 0 ? 1 : 0;
    }
    EXPECT_GE(zeros, 6) << one.shape << " " << one.graph;
    EXPECT_GE(ones, 2) << one.shape << " " << one.graph;
  }
}

TEST(GenerateInputs, IndicesTellWhatAGraphComparesThemWith) {
  const TaskSpec spec = task_of(R"toml(
name = "window"
dims = ["n"]
tensor = [
  { name = "x", shape = ["n"] },
  { name = "at", shape = ["n"], role = "index", gen = { kind = "index", limit = 131072 } },
]
graph = """
m = lt(at, value = 8192)
z = full(shape = [1], value = 0)
y = where(m, x, z)
"""
shape = [{ n = 64 }]
)toml");
  const auto indices =
      generate_inputs(bind_first(spec), Distribution::kIntegers, Seed::from_number(1))[1].decode();
  for (const double at : {8191.0, 8192.0}) EXPECT_GT(std::ranges::count(indices, at), 3) << at;
  EXPECT_TRUE(std::ranges::all_of(indices, [](double i) { return i >= 0 && i < 131072; }));
}

TEST(GenerateInputs, IndicesComeInEveryOrder) {
  const TaskSpec spec = task_of(R"toml(
name = "rows"
dims = ["n"]
tensor = [
  { name = "x", shape = ["n", "n"] },
  { name = "at", shape = ["n"], role = "index", gen = { kind = "index", limit = "n" } },
]
graph = "y = gather(x, at)"
shape = [{ n = 64 }]
)toml");
  const auto indices = [&](Distribution distribution) {
    const std::vector<double> drawn =
        generate_inputs(bind_first(spec), distribution, Seed::from_number(1))[1].decode();
    EXPECT_TRUE(std::ranges::all_of(drawn, [](double i) { return i >= 0 && i < 64; }));
    return drawn;
  };
  EXPECT_EQ(indices(Distribution::kOffset), std::vector<double>(64, 63.0)) << "the last";
  EXPECT_TRUE(std::ranges::all_of(indices(Distribution::kLarge), [](double i) { return i == 0 || i == 63; }));
  const std::vector<double> rising = indices(Distribution::kIntegers);
  for (std::size_t i = 1; i < 64; ++i) EXPECT_EQ(rising[i], std::fmod(rising[i - 1] + 1, 64));
  const std::vector<double> crowded = indices(Distribution::kHeavyTail);
  EXPECT_GT(std::ranges::count(crowded, crowded[0]) + std::ranges::count(crowded, crowded[1]), 40);
}

/// A kernel that takes the first and the last index for all between them is wrong there.
TEST(GenerateInputs, SomeIndicesAreRegularButForOneInside) {
  const TaskSpec spec = task_of(R"toml(
name = "pages"
dims = ["n"]
tensor = [
  { name = "x", shape = ["n", 4] },
  { name = "at", shape = [8, 16], role = "index", gen = { kind = "index", limit = "n" } },
]
graph = "y = gather(x, at, axis = 0)"
shape = [{ n = 64 }]
)toml");
  const auto steps = [&](Distribution distribution) {
    std::map<double, int> counts;
    const std::vector<double> at =
        generate_inputs(bind_first(spec), distribution, Seed::from_number(1))[1].decode();
    for (std::size_t row = 0; row < 8; ++row)
      for (std::size_t i = 1; i < 16; ++i) ++counts[at[row * 16 + i] - at[row * 16 + i - 1]];
    return counts;
  };
  for (const auto& [distribution, step] : std::map<Distribution, double>{
           {Distribution::kOneHot, 0}, {Distribution::kCancellation, 1}, {Distribution::kDenormal, -1}}) {
    EXPECT_GE(steps(distribution)[step], 8 * 13) << name(distribution);
    EXPECT_LE(steps(distribution)[step], 8 * 14) << name(distribution);
  }
}

/// A recurrence that starts anew some steps before a place is right where little is kept that long.
TEST(GenerateInputs, ExtremeInputsStandStillInPlacesThatAFewValuesDoNotTellOf) {
  const TaskSpec spec = task_of(R"toml(
name = "gates"
dims = ["n"]
tensor = [
  { name = "a", shape = ["n", "n"], gen = { kind = "uniform", low = 0, high = 1 } },
  { name = "x", shape = ["n", "n"] },
]
graph = "y = linear_scan(a, x)"
shape = [{ n = 1024 }]
)toml");
  const auto longest_run = [](std::span<const double> row, auto belongs) {
    int longest = 0, run = 0;
    for (const double x : row) longest = std::max(longest, run = belongs(x) ? run + 1 : 0);
    return longest;
  };
  for (const Distribution distribution : {Distribution::kLarge, Distribution::kMixed}) {
    const auto inputs = generate_inputs(bind_first(spec), distribution, Seed::from_number(7));
    const std::vector<double> gates = inputs[0].decode(), values = inputs[1].decode();
    int forgets_in_part = 0, apart = 0;
    for (std::size_t row = 0; row < 1024; ++row) {
      const auto own = std::span(gates).subspan(row * 1024, 1024);
      const int kept = longest_run(own, [](double x) { return x == 1; });
      forgets_in_part += kept >= 64 && kept < 1024;
      const int large =
          longest_run(std::span(values).subspan(row * 1024, 1024), [](double x) { return std::fabs(x) > 4; });
      apart += large >= 60 && large <= 512;
    }
    EXPECT_GE(forgets_in_part, 1) << name(distribution);
    EXPECT_GE(apart, 40) << name(distribution);
    EXPECT_GT(std::ranges::count_if(gates, [](double x) { return x > 0 && x < 1; }), 1024 * 1024 / 6);
  }
}

/// A kernel that is careful until it knows that it is timed meets there what it is careless of.
TEST(GenerateInputs, MixedIndicesSegmentsAndMasksHaveWhatOrdinaryOnesHardlyHave) {
  const TaskSpec spec = task_of(R"toml(
name = "rare"
dims = ["n"]
tensor = [
  { name = "x", shape = ["n", 4] },
  { name = "at", shape = [64], role = "index", gen = { kind = "index", limit = "n" } },
  { name = "o", shape = [65], role = "index", gen = { kind = "index", limit = 64, order = "offsets" } },
  { name = "m", shape = [64, 64], gen = { kind = "zeros_ones" } },
]
graph = """
g = gather(x, at, axis = 0)
s = segment_sum(g, o)
t = sum(s, axis = 1, keepdims = true)
y = mul(t, m)
"""
shape = [{ n = 1000000 }]
)toml");
  const auto inputs = generate_inputs(bind_first(spec), Distribution::kMixed, Seed::from_number(1));
  const std::vector<double> at = inputs[1].decode(), offsets = inputs[2].decode(), mask = inputs[3].decode();
  int alike = 0, empty = 0, even = 0;
  for (std::size_t i = 1; i < at.size(); ++i) alike += at[i] == at[i - 1];
  for (std::size_t i = 1; i < offsets.size(); ++i) empty += offsets[i] == offsets[i - 1];
  for (std::size_t row = 0; row < 64; ++row) {
    const auto ones = std::count(mask.begin() + static_cast<std::ptrdiff_t>(row * 64),
                                 mask.begin() + static_cast<std::ptrdiff_t>(row * 64 + 64), 1.0);
    even += ones == 0 || ones == 64;
  }
  EXPECT_GE(alike, 6);
  EXPECT_LE(alike, 32);
  EXPECT_GE(empty, 24);
  EXPECT_EQ(offsets.back(), 64);
  EXPECT_GE(even, 4);
  EXPECT_LE(even, 32);
}

TEST(GenerateInputs, SomeSegmentsHaveOneLengthButForTwoInside) {
  const auto spec = parse_task(R"(
name = "ordered"
dims = { t = [1, 4096], s = [1, 512] }
tensor = [
  { name = "x", shape = ["t"] },
  { name = "at", shape = ["t"], role = "index", gen = { kind = "index", limit = "2 * t", order = "distinct" } },
  { name = "z", shape = ["2 * t"] },
  { name = "o", shape = ["s + 1"], role = "index", gen = { kind = "index", limit = "2 * t", order = "offsets" } },
]
graph = """
y = scatter(z, at, x)
w = segment_sum(y, o)
"""
shape = [{ t = 400, s = 10 }]
)",
                               "ordered.toml");
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  for (const Distribution distribution :
       {Distribution::kOneHot, Distribution::kCancellation, Distribution::kDenormal}) {
    const auto inputs = generate_inputs(bind_first(*spec), distribution, Seed::from_number(3));
    const std::vector<double> at = inputs[1].decode(), offsets = inputs[3].decode();
    int other_steps = 0, other_lengths = 0;
    for (std::size_t i = 1; i < at.size(); ++i)
      other_steps += std::fabs(std::remainder(at[i] - at[i - 1], 800)) == 1 ? 0 : 1;
    for (std::size_t i = 1; i < offsets.size(); ++i)
      other_lengths += offsets[i] - offsets[i - 1] == 80 ? 0 : 1;
    EXPECT_EQ(other_steps, 2) << name(distribution);
    EXPECT_EQ(other_lengths, 2) << name(distribution);
    EXPECT_EQ(offsets[1], 80) << name(distribution);
    EXPECT_EQ(offsets[9], 720) << name(distribution);
  }
}

TEST(GenerateInputs, DistinctIndicesAndOffsetsKeepTheirOrder) {
  const auto spec = parse_task(R"(
name = "ordered"
dims = { n = [1, 4096], t = [1, 4096], s = [1, 512] }
where = "n <= t"
tensor = [
  { name = "x", shape = ["t"] },
  { name = "z", shape = ["n"] },
  { name = "at", shape = ["n"], role = "index", gen = { kind = "index", limit = "t", order = "distinct" } },
  { name = "o", shape = ["s + 1"], role = "index", gen = { kind = "index", limit = "t", order = "offsets" } },
]
graph = """
y = scatter(x, at, z)
w = segment_sum(y, o)
"""
shape = [{ n = 300, t = 1000, s = 50 }, { n = 300, t = 300, s = 1 }]
)",
                               "ordered.toml");
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_FALSE(lathe::bind(*spec, {{"n", 301}, {"t", 300}, {"s", 1}}).ok());
  for (const NamedShape& shape : spec->shapes) {
    const auto task = lathe::bind(*spec, shape.dims);
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    const double limit = static_cast<double>(shape.dims.at("t"));
    std::set<std::vector<double>> drawn;
    for (const Distribution distribution : all_distributions()) {
      const auto inputs = generate_inputs(*task, distribution, Seed::from_number(2));
      const std::vector<double> at = inputs[2].decode(), offsets = inputs[3].decode();
      EXPECT_EQ(std::set<double>(at.begin(), at.end()).size(), at.size()) << name(distribution);
      EXPECT_TRUE(std::ranges::all_of(at, [&](double x) { return x >= 0 && x < limit; }))
          << name(distribution);
      EXPECT_EQ(offsets.front(), 0) << name(distribution);
      EXPECT_EQ(offsets.back(), limit) << name(distribution);
      EXPECT_TRUE(std::ranges::is_sorted(offsets)) << name(distribution);
      drawn.insert(at);
    }
    EXPECT_GE(drawn.size(), 8u) << "each distribution draws others";
  }
}

TEST(GenerateInputs, PositiveOnesAreTinyInSomeRowsAndMasksSparse) {
  const TaskSpec spec = task_of(kKindsTask);
  const auto inputs = generate_inputs(bind_first(spec), Distribution::kLarge, Seed::from_number(1));
  const std::vector<double> positive = inputs[2].decode(), mask = inputs[3].decode();
  EXPECT_GT(std::ranges::count_if(positive, [](double x) { return x < 1e-3; }), 64);
  int sparse = 0;
  for (auto row = mask.begin(); row != mask.end(); row += 64) {
    const auto ones = std::count(row, row + 64, 1.0);
    sparse += ones < 8 || ones > 56;
  }
  EXPECT_EQ(sparse, 64);
}

/// Whether any of a row is set, or all of it is, may hang on one value wherever that is.
TEST(GenerateInputs, OneHotMasksHaveASingleValueUnlikeTheOthersInEachRow) {
  const TaskSpec spec = task_of(kKindsTask);
  const auto inputs = generate_inputs(bind_first(spec), Distribution::kOneHot, Seed::from_number(1));
  const std::vector<double> mask = inputs[3].decode();
  std::set<std::ptrdiff_t> counts, places;
  for (auto row = mask.begin(); row != mask.end(); row += 64) {
    const auto ones = std::count(row, row + 64, 1.0);
    counts.insert(ones);
    places.insert(std::find(row, row + 64, ones == 1 ? 1.0 : 0.0) - row);
  }
  EXPECT_EQ(counts, (std::set<std::ptrdiff_t>{1, 63}));
  EXPECT_GT(places.size(), 20U);
}

TEST(GenerateInputs, PositiveWholeNumbersAreOneAtLeast) {
  const TaskSpec spec = task_of(
      "name = \"whole\"\ndims = [\"n\"]\n"
      "tensor = [{ name = \"x\", shape = [\"n\"], dtype = \"int32\", gen = { kind = \"positive\" } }]\n"
      "graph = \"y = add(x, x)\"\nshape = [{ n = 4096 }]");
  for (const Distribution distribution : all_distributions())
    for (const double x : generate_inputs(bind_first(spec), distribution, Seed::from_number(1))[0].decode())
      ASSERT_GE(x, 1) << name(distribution);
}

TEST(GenerateInputs, TheProbePairsFullMantissasWithAPermutation) {
  const TaskSpec spec = task_of(kLinearTask);
  const BoundTask task = bind_first(spec);
  const auto inputs = generate_inputs(task, Distribution::kProbe, Seed::from_number(5));
  int full = 0;
  for (const double x : inputs[0].decode()) full += std::fmod(std::fabs(x) * 0x1p12, 1.0) != 0 ? 1 : 0;
  EXPECT_GT(full, 32 * 64 * 9 / 10);
  const std::vector<double> weights = inputs[1].decode();
  for (std::size_t column = 0; column < 48; ++column) {
    double ones = 0;
    for (std::size_t row = 0; row < 64; ++row) ones += weights[row * 48 + column];
    EXPECT_TRUE(ones >= 1 && ones <= 2) << column;
  }
}

TEST(GenerateInputs, TakesMillisecondsForSixteenMegabytes) {
  const TaskSpec spec = task_of(
      "name = \"big\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"] }]\n"
      "graph = \"y = relu(x)\"\nshape = [{ n = 4194304 }]");
  const BoundTask task = bind_first(spec);
  const auto start = std::chrono::steady_clock::now();
  const auto inputs = generate_inputs(task, Distribution::kNormal, Seed::from_number(6));
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", std::to_string(spent.count()));
  EXPECT_LT(spent.count(), 500) << "50 ms on a quiet machine";
}

}  // namespace
}  // namespace lathe
