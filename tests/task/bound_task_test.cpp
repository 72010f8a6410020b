#include "task/bound_task.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

TEST(Bind, CountsFlopsAndBytes) {
  const TaskSpec spec = task_of(kLinearTask);
  const BoundTask task = bind_first(spec);
  EXPECT_EQ(task.shape_of("y"), (Shape{32, 48}));
  EXPECT_EQ(task.flops, 2.0 * 32 * 48 * 64 + 32 * 48);
  EXPECT_EQ(task.bytes_min, 4.0 * (32 * 64 + 64 * 48 + 48 + 32 * 48));
  EXPECT_EQ(task.site(0).in[1], (Shape{64, 48}));
}

/// The mandatory bytes of a graph of `x` and `w`, both [16, 16], in fp32 elements.
double needed_elements(const std::string& graph) {
  const bool two = graph.find(", w)") != std::string::npos;
  const TaskSpec spec = task_of(R"(
name = "chain"
description = "What of its inputs a chain of ops needs."
dims = { n = [16, 64] }
tensor = [{ name = "x", shape = ["n", "n"] })" +
                                std::string(two ? R"(, { name = "w", shape = ["n", "n"] })" : "") + R"(]
graph = """
)" + graph + R"(
"""
[[shape]]
n = 16
)");
  const BoundTask task = bind_first(spec);
  return (task.bytes_min - 4.0 * task.output_elements()) / 4;
}

TEST(Bind, CountsOnlyWhatEveryKernelReads) {
  const double kept = 136;  // of a 16 x 16 triangle
  EXPECT_EQ(needed_elements("a = tril(x)\ny = relu(a)"), kept);
  EXPECT_EQ(needed_elements("a = relu(x)\ny = slice(a, axis=0, stop=3)"), 3 * 16);
  EXPECT_EQ(needed_elements("a = tril(x)\ny = matmul(a, w)"), kept) << "w's rows may meet zeros only";
  EXPECT_EQ(needed_elements("a = triu(x)\ny = mul(a, w)"), kept + kept) << "what zeros are multiplied with";
  EXPECT_EQ(needed_elements("a = matmul(x, w)\ny = triu(a)"), 0) << "some rows of x are read, but which";
  EXPECT_EQ(needed_elements("a = pad(x, after=16)\ny = slice(a, start=16)"), 0);
  EXPECT_EQ(needed_elements("a = gelu(x)\nb = mul(a, w)\ny = sum(b, axis=1)"), 256 + 256);
  EXPECT_EQ(needed_elements("y = softmax(x)"), 256);
}

TEST(Bind, WhatIsLeftInPlaceNeedNotBeTouched) {
  const auto bytes = [](const std::string& role, const std::string& out, const std::string& op = "scatter") {
    const TaskSpec spec = task_of(
        "name = \"append\"\ntensor = [{ name = \"b\", shape = [64, 4]" + role +
        " }, { name = \"i\", shape = [5], role = \"index\", gen = { kind = \"index\", limit = 64, order "
        "= \"distinct\" } }, { name = \"x\", shape = [5, 4] }]\ngraph = \"" +
        out + " = " + op + "(b, i, x)\"\n");
    return bind_first(spec).bytes_min;
  };
  EXPECT_EQ(bytes("", "y"), 4.0 * (64 * 4 + 59 * 4 + 5 + 5 * 4));
  EXPECT_EQ(bytes(", role = \"inout\"", "b"), 4.0 * (5 * 4 + 5 + 5 * 4));
  EXPECT_EQ(bytes(", role = \"inout\"", "b", "scatter_add"), 4.0 * (2 * 4 + 5 + 5 * 4))
      << "all may go to one place";
  const TaskSpec triangle = task_of(
      "name = \"lower\"\ntensor = [{ name = \"x\", shape = [4, 4], role = \"inout\" }]\ngraph = \"x = "
      "tril(x)\"\n");
  EXPECT_EQ(bind_first(triangle).bytes_min, 4.0 * 6);
}

/// A row appended to each sequence of a cache; values that hardly ever leave their bounds.
TEST(Bind, WhatMayStayAsItIsInPlaceNeedNotBeWritten) {
  const auto bytes = [](const std::string& graph, const std::string& role = ", role = \"inout\"") {
    const TaskSpec spec = task_of(
        "name = \"in_place\"\ntensor = [{ name = \"x\", shape = [2, 64, 4]" + role +
        " }, { name = \"k\", shape = [2, 1, 4] }, { name = \"at\", shape = [2, 1, 1], role = \"index\", gen "
        "= { "
        "kind = \"index\", limit = 64 } }]\ngraph = '''\np = iota(shape = [1, 64, 1], axis = 1, dtype = "
        "\"int32\")\nm = eq(p, at)\n" +
        graph + "\n'''\n");
    return bind_first(spec).bytes_min;
  };
  EXPECT_LE(bytes("x = where(m, k, x)"), 4.0 * (2 * 4 + 2));
  EXPECT_GE(bytes("y = where(m, k, x)", ""), 4.0 * 512);
  const auto in_place = [](const std::string& op) {
    return bind_first(task_of("name = \"t\"\ntensor = [{ name = \"x\", shape = [64], role = \"inout\" "
                              "}]\ngraph = \"x = " +
                              op + "\"\n"))
        .bytes_min;
  };
  EXPECT_EQ(in_place("clamp(x, low = -9, high = 9)"), 4.0 * 64) << "all of it is read";
  EXPECT_EQ(in_place("neg(x)"), 4.0 * 128);
}

TEST(Bind, WhatABlindQueryIsMultipliedWithNeedNotBeRead) {
  EXPECT_EQ(
      needed_elements("k = slice(x, axis=0, stop=4)\na = attention(x, k, k, causal=true)\ny = mul(a, w)"),
      4 * 16 + 4 * 16);
}

/// Who sees a zero skips what it would be multiplied with: rows that a mask drops, weights of
/// neurons that are off.
TEST(Bind, WhatZerosAreMultipliedWithNeedNotBeRead) {
  const double all = 256;
  EXPECT_EQ(needed_elements("a = relu(x)\ny = matmul(a, w)"), all);
  EXPECT_EQ(needed_elements("a = gelu(x)\ny = matmul(a, w)"), all + all) << "which is hardly ever zero";
  EXPECT_EQ(needed_elements("a = gt(x, value=0)\nb = cast(a, dtype=\"fp32\")\ny = mul(b, w)"), all);
  EXPECT_EQ(needed_elements("a = relu(x)\nb = scale(a, by=2)\nc = transpose(b)\ny = mul(c, w)"), all);
  EXPECT_EQ(needed_elements("a = relu(x)\nb = exp(a)\nc = add_scalar(b, by=1)\nd = add(c, w)\ny = sum(d)"),
            2 * all);
  EXPECT_EQ(needed_elements("a = relu(x)\ny = prod(a, axis=1)"), 0) << "after the first zero";
  EXPECT_EQ(needed_elements("a = relu(x)\ny = sum(a, axis=1)"), all);
  EXPECT_EQ(needed_elements("a = gt(x, value=0)\nb = cast(a, dtype=\"fp32\")\ny = reduce_max(b, axis=1)"), 0)
      << "the first that is true";
  EXPECT_EQ(needed_elements("y = reduce_max(x, axis=1)"), all);
  EXPECT_EQ(
      needed_elements("m = gt(x, value=0)\nc = cast(m, dtype=\"fp32\")\nf = scale(c, by=-1e9)\ns = add(x, "
                      "f)\np = softmax(s)\ny = matmul(p, w)"),
      all)
      << "keys that no query sees";
  const auto needed_of_masked = [](const std::string& kind) {
    const TaskSpec spec = task_of(
        "name = \"rows\"\ntensor = [{ name = \"x\", shape = [64, 8] }, { name = \"m\", shape = [64, 1], gen "
        "= "
        "{ kind = \"" +
        kind + "\" } }]\ngraph = \"y = mul(x, m)\"\n");
    return bind_first(spec).bytes_min / 4;
  };
  EXPECT_EQ(needed_of_masked("zeros_ones"), 512 + 64);
  EXPECT_EQ(needed_of_masked("normal"), 512 + 64 + 512);
}

TEST(Bind, ProductsWithSingleOnesHaveNoFloorOfArithmetic) {
  const auto essential = [](const std::string& kind) {
    const TaskSpec spec =
        task_of("name = \"choose\"\ntensor = [{ name = \"x\", shape = [8, 64], gen = { kind = \"" + kind +
                "\" } }, { name = \"w\", shape = [64, 8] }]\ngraph = \"y = matmul(x, w)\"\n");
    return bind_first(spec).essential_flops;
  };
  EXPECT_EQ(essential("one_hot"), 0);
  EXPECT_EQ(essential("normal"), 2.0 * 8 * 64 * 8);
}

TEST(Bind, WindowsOfStrangersTakeNoTime) {
  const TaskSpec spec = task_of(
      "name = \"wide_window\"\ntensor = [{ name = \"x\", shape = [1, 1, 4194304] }]\n"
      "graph = \"y = max_pool1d(x, kernel = 1048576, stride = 1)\"\n");
  const Result<BoundTask> task = lathe::bind(spec, {});
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  EXPECT_EQ(task->bytes_min, 4 * task->output_elements());
}

TEST(Bind, RefusesMissingDimsAndHugeTensors) {
  const TaskSpec spec = task_of(kLinearTask);
  EXPECT_FALSE(lathe::bind(spec, Dims{{"M", 4}}).ok());
  EXPECT_FALSE(lathe::bind(spec, Dims{{"M", 1 << 20}, {"N", 4}, {"K", 1 << 20}}).ok());
  EXPECT_FALSE(lathe::bind(spec, Dims{{"M", 0}, {"N", 4}, {"K", 4}}).ok());
}

TEST(HiddenShapes, AreFreshDistinctAndSmall) {
  const TaskSpec spec = task_of(kLinearTask);
  const std::vector<Dims> shapes = draw_hidden_shapes(spec, Seed::from_number(7), 8, 1e5);
  ASSERT_EQ(shapes.size(), 8U);
  EXPECT_EQ(std::set<Dims>(shapes.begin(), shapes.end()).size(), 8U);
  bool has_odd = false;
  for (const Dims& dims : shapes) {
    const Result<BoundTask> task = lathe::bind(spec, dims);
    ASSERT_TRUE(task.ok());
    EXPECT_LE(task->flops, 1e5);
    EXPECT_NE(dims, spec.shapes[0].dims);
    for (const auto& [name, extent] : dims) has_odd = has_odd || extent % 2 == 1;
  }
  EXPECT_TRUE(has_odd);
  EXPECT_EQ(shapes, draw_hidden_shapes(spec, Seed::from_number(7), 8, 1e5));
  EXPECT_NE(shapes, draw_hidden_shapes(spec, Seed::from_number(8), 8, 1e5));
}

TEST(ShapesBeside, DifferFromAScoredShapeInOneDimEach) {
  const TaskSpec spec = task_of(kLinearTask);
  std::set<std::string> varied;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto shapes = draw_shapes_beside(spec, Seed::from_number(seed), hidden_limits(2e7));
    ASSERT_EQ(shapes.size(), 2U);
    std::set<std::string> names;
    for (const Dims& dims : shapes) {
      std::vector<std::string> differing;
      for (const auto& [name, extent] : dims)
        if (extent != spec.shapes[0].dims.at(name)) differing.push_back(name);
      ASSERT_EQ(differing.size(), 1U);
      names.insert(differing[0]);
    }
    EXPECT_EQ(names.size(), 2U);
    varied.merge(names);
  }
  EXPECT_EQ(varied.size(), spec.dim_names.size());
}

constexpr std::string_view kWindows = R"toml(
name = "windows"
dims = { C = [1, 16], H = [1, 64], W = [4, 64], L = [1, 64] }
tensor = [
  { name = "x", shape = ["1", "C", "H", "W"] },
  { name = "w", shape = ["C", "1", "5", "3"], role = "parameter" },
  { name = "v", shape = ["L"] },
]
graph = """
y = conv2d(x, w, groups = "C", padding = [2, 1])
z = roll(v, shift = -3)
"""
output = [{ name = "y" }, { name = "z" }]
shape = [{ name = "base", C = 8, H = 32, W = 32, L = 64 }]
)toml";

/// Left to chance, an extent of two came in one of twelve verifications, and one of one is right
/// where a shift that wraps once is not.
TEST(HiddenShapes, OneIsShorterThanAWindowAlongIt) {
  const TaskSpec spec = task_of(kWindows);
  std::map<std::string, int> short_of;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto dims = draw_short_shape(spec, Seed::from_number(seed), hidden_limits(2e7));
    ASSERT_TRUE(dims.has_value());
    const bool in_h = dims->at("H") > 1 && dims->at("H") < 5, in_l = dims->at("L") == 2;
    EXPECT_TRUE(in_h || in_l);
    EXPECT_EQ(dims->at("C"), 8);
    EXPECT_EQ(dims->at("W"), 32);  // none is shorter than three
    short_of["H"] += in_h;
    short_of["L"] += in_l;
  }
  for (const auto& [name, count] : short_of) EXPECT_GE(count, 20) << name;
  EXPECT_FALSE(draw_short_shape(task_of(kLinearTask), Seed::from_number(1), hidden_limits(2e7)).has_value());
}

TEST(HiddenShapes, StayInsideTheDomain) {
  const TaskSpec spec =
      task_of(std::string("where = \"K % 16 == 0 && N == 2 * M\"\n") +
              std::string(kLinearTask).replace(std::string(kLinearTask).find("M = 32"), 6, "M = 24"));
  const std::vector<Dims> shapes = draw_hidden_shapes(spec, Seed::from_number(1), 3, 1e9);
  ASSERT_FALSE(shapes.empty());
  for (const Dims& dims : shapes) {
    EXPECT_EQ(dims.at("K") % 16, 0);
    EXPECT_EQ(dims.at("N"), 2 * dims.at("M"));
  }
}

TEST(HiddenShapes, AFixedTaskHasNone) {
  const TaskSpec spec = task_of("fixed = true\n" + std::string(kLinearTask));
  EXPECT_TRUE(draw_hidden_shapes(spec, Seed::from_number(1), 4, 1e9).empty());
  EXPECT_FALSE(draw_large_shape(spec, Seed::from_number(1), {1e9, 1e9}, 2e7));
}

constexpr std::string_view kWideTask = R"toml(
name = "wide"
dims = { M = [1, 4096], N = [1, 4096], K = [1, 4096] }
tensor = [{ name = "x", shape = ["M", "K"] }, { name = "w", shape = ["K", "N"] }]
graph = "y = matmul(x, w)"
shape = [{ name = "small", M = 32, N = 48, K = 64 }]
)toml";

bool all_multiples_of(const Dims& dims, std::int64_t tile) {
  return std::ranges::all_of(dims, [&](const auto& dim) { return dim.second % tile == 0; });
}

TEST(HiddenShapes, OneOfThreeHasExtentsThatAreAllMultiplesOf64) {
  const TaskSpec spec = task_of(kWideTask);
  int of_128 = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<Dims> shapes = draw_hidden_shapes(spec, Seed::from_number(seed), 3, 2e7);
    ASSERT_EQ(shapes.size(), 3U);
    EXPECT_TRUE(all_multiples_of(shapes[1], 64)) << seed;
    EXPECT_FALSE(all_multiples_of(shapes[0], 64) && all_multiples_of(shapes[2], 64)) << seed;
    of_128 += all_multiples_of(shapes[1], 128);
  }
  EXPECT_GT(of_128, 10);
}

/// A kernel that is wrong at multiples of 64 but for a scored shape, which it knows by an extent or
/// by the number of elements alone, is wrong here.
TEST(HiddenShapes, TheAlignedOneResemblesNoScoredShape) {
  const TaskSpec spec = task_of(R"toml(
name = "rows"
dims = { rows = [1, 2048], cols = [1, 1500] }
tensor = [{ name = "x", shape = ["rows", "cols"] }]
graph = "y = softmax(x)"
shape = [{ name = "main", rows = 256, cols = 1024 }]
)toml");
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const std::vector<Dims> shapes = draw_hidden_shapes(spec, Seed::from_number(seed), 3, 2e7);
    ASSERT_EQ(shapes.size(), 3U);
    const std::int64_t rows = shapes[1].at("rows"), cols = shapes[1].at("cols");
    EXPECT_TRUE(all_multiples_of(shapes[1], 64)) << seed;
    EXPECT_TRUE(rows != 256 && cols != 1024 && rows * cols != 256 * 1024) << rows << " x " << cols;
  }
}

bool is_prime(std::int64_t n) {
  if (n < 2) return false;
  for (std::int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return true;
}

/// What a kernel may get wrong and nowhere else: each has its chance in every verification.
TEST(HiddenShapes, EveryClassOfShapesHasItsChance) {
  const TaskSpec spec = task_of(kWideTask);
  const auto any = [](const Dims& dims, auto&& holds) {
    return std::ranges::any_of(dims, [&](const auto& dim) { return holds(dim.second); });
  };
  const std::map<std::string, std::function<bool(const Dims&)>> classes = {
      {"one", [&](const Dims& dims) { return any(dims, [](std::int64_t n) { return n == 1; }); }},
      {"prime", [&](const Dims& dims) { return any(dims, is_prime); }},
      {"odd",
       [&](const Dims& dims) { return any(dims, [](std::int64_t n) { return n > 16 && n % 2 == 1; }); }},
      {"ragged",
       [&](const Dims& dims) { return any(dims, [](std::int64_t n) { return n > 256 && n % 16 != 0; }); }},
      {"square",
       [](const Dims& dims) { return dims.at("M") == dims.at("N") && dims.at("N") == dims.at("K"); }},
      {"powers of two",
       [](const Dims& dims) {
         return std::ranges::all_of(dims, [](const auto& dim) {
           return std::has_single_bit(static_cast<std::uint64_t>(dim.second));
         });
       }},
      {"tall", [](const Dims& dims) { return dims.at("M") > 16 * dims.at("N"); }},
      {"wide", [](const Dims& dims) { return dims.at("N") > 16 * dims.at("M"); }},
      {"long", [&](const Dims& dims) { return any(dims, [](std::int64_t n) { return n > 2048; }); }},
  };
  constexpr int kRuns = 400;
  std::map<std::string, int> runs;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    const std::vector<Dims> shapes = draw_hidden_shapes(spec, Seed::from_number(seed), 3, 2e7);
    for (const auto& [name, holds] : classes) runs[name] += std::ranges::any_of(shapes, holds);
  }
  for (const auto& [name, holds] : classes) EXPECT_GE(runs[name], kRuns / 10) << name;
}

constexpr std::string_view kHeadsTask = R"toml(
name = "heads"
dims = { B = [1, 8], H = [1, 16], S = [1, 512], D = [1, 128] }
tensor = [{ name = "q", shape = ["B", "H", "S", "D"] }, { name = "k", shape = ["B", "H", "S", "D"] },
          { name = "v", shape = ["B", "H", "S", "D"] }]
graph = "y = attention(q, k, v)"
shape = [{ name = "small", B = 1, H = 4, S = 192, D = 64 }]
)toml";

/// What one verification sees beside the scored shapes.
std::vector<Dims> draw_unscored(const TaskSpec& spec, const Seed& seed) {
  std::vector<Dims> shapes = draw_hidden_shapes(spec, seed, 3, 2e7);
  if (auto large = draw_large_shape(spec, seed, {2e8, 1 << 23}, 2e7)) shapes.push_back(*std::move(large));
  return shapes;
}

/// Where arithmetic grows with a power of one dim, that dim is not what all shapes save on.
TEST(HiddenShapes, EveryDimIsLongerThanScoredInMostVerifications) {
  for (const std::string_view text : {kHeadsTask, kWideTask}) {
    const TaskSpec spec = task_of(text);
    constexpr int kRuns = 200;
    std::map<std::string, int> longer;
    for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
      const std::vector<Dims> shapes = draw_unscored(spec, Seed::from_number(seed));
      for (const auto& [name, scored] : spec.shapes.front().dims)
        longer[name] += std::ranges::any_of(shapes, [&, &name = name, &scored = scored](const Dims& dims) {
          return 10 * dims.at(name) > 13 * scored;
        });
    }
    for (const auto& [name, runs] : longer) EXPECT_GE(runs, kRuns / 2) << spec.name << ' ' << name;
  }
}

TEST(HiddenShapes, AlignedOnesDiffer) {
  const TaskSpec spec = task_of(kHeadsTask);
  std::set<Dims> seen;
  int odd_multiples = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<Dims> shapes = draw_hidden_shapes(spec, Seed::from_number(seed), 3, 2e7);
    ASSERT_EQ(shapes.size(), 3U);
    seen.insert(shapes[1]);
    odd_multiples += shapes[1].at("S") % 96 == 0 || shapes[1].at("D") % 96 == 0;
  }
  EXPECT_GE(seen.size(), 10U);
  EXPECT_GE(odd_multiples, 2);
}

/// Of a domain that ties extents to each other, chance alone finds hardly a shape, and none whose
/// extents shrink one by one.
TEST(HiddenShapes, ThereAreAsManyInADomainThatTiesExtents) {
  for (const auto& [where, shape] :
       std::map<std::string, std::string>{{"N == 2 * M && K % 16 == 0", "M = 64, N = 128, K = 32"},
                                          {"N == M", "M = 64, N = 64, K = 16"},
                                          {"N == 4 * K && M % 16 == 0", "M = 64, N = 128, K = 32"}}) {
    std::string text(kWideTask);
    text.replace(text.find("M = 32, N = 48, K = 64"), 22, shape);
    const TaskSpec spec = task_of("where = \"" + where + "\"\n" + text);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      EXPECT_EQ(draw_hidden_shapes(spec, Seed::from_number(seed), 3, 2e7).size(), 3U) << where << seed;
      EXPECT_TRUE(draw_large_shape(spec, Seed::from_number(seed), {2e8, 1 << 23}, 2e7)) << where << seed;
    }
  }
}

/// Nor need a large shape have many values: a product of three matrices has few.
TEST(LargeShape, ExistsWhereOnlyArithmeticIsLarge) {
  const TaskSpec spec = task_of(kHeadsTask);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto dims = draw_large_shape(spec, Seed::from_number(seed), {2e8, 1 << 21}, 2e7);
    ASSERT_TRUE(dims) << seed;
    EXPECT_GT(lathe::bind(spec, *dims)->flops, 2e7);
  }
}

TEST(LargeShape, ComesCloseToItsLimits) {
  const TaskSpec spec = task_of(kWideTask);
  int aligned = 0;
  std::set<Dims> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto dims = draw_large_shape(spec, Seed::from_number(seed), {1e11, 1 << 23}, 2e7);
    ASSERT_TRUE(dims);
    const auto task = lathe::bind(spec, *dims);
    ASSERT_TRUE(task.ok());
    EXPECT_LE(task->value_elements(), 1 << 23);
    EXPECT_TRUE(task->value_elements() > 1 << 21 || task->flops > 2e7);
    aligned += all_multiples_of(*dims, 64);
    seen.insert(*dims);
  }
  EXPECT_GT(aligned, 2);
  EXPECT_LT(aligned, 38);
  EXPECT_GT(seen.size(), 30U);
}

TEST(LargeShape, ReachesTheDomainsEnd) {
  const TaskSpec spec = task_of(kWideTask);
  bool reached = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto dims = draw_large_shape(spec, Seed::from_number(seed), {1e12, 1e9}, 2e7);
    ASSERT_TRUE(dims);
    for (const auto& [name, extent] : *dims) reached = reached || extent == 4096;
  }
  EXPECT_TRUE(reached);
}

TEST(ShapeBeyond, ExceedsWhatIsScoredInEveryExtentThatCan) {
  const TaskSpec spec = task_of(kLinearTask);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto dims = draw_shape_beyond(spec, Seed::from_number(seed), {1e12, 1e9});
    ASSERT_TRUE(dims);
    for (const auto& [name, extent] : *dims) {
      const std::int64_t scored = spec.shapes.front().dims.at(name), high = spec.dim_ranges.at(name).high;
      EXPECT_GE(extent, std::min(scored + 1, high)) << name;
      EXPECT_LE(extent, high);
    }
  }
  EXPECT_FALSE(draw_shape_beyond(spec, Seed::from_number(1), {1, 1}));
}

TEST(LargeShape, IsNoneWhereTheDomainIsSmall) {
  EXPECT_FALSE(draw_large_shape(task_of(kLinearTask), Seed::from_number(1), {1e12, 1e9}, 2e9));
}

}  // namespace
}  // namespace lathe
