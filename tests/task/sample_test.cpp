#include "task/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>

#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

std::optional<Sample> draw(std::string_view graph, Distribution distribution, const std::string& tensor = "",
                           std::uint64_t seed = 1) {
  const TaskSpec spec =
      task_of("name = \"t\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\", \"n\"]" + tensor +
              " }]\ngraph = '''\n" + std::string(graph) + "\n'''\nshape = [{ n = 64 }]\n");
  const auto reference = make_reference(spec);
  auto sample = draw_sample(**reference, bind_first(spec), distribution, Seed::from_number(seed));
  EXPECT_TRUE(sample.ok());
  return *std::move(sample);
}

double largest_input(const Sample& sample) {
  double largest = 0;
  for (const double x : sample.inputs[0].decode()) largest = std::max(largest, std::fabs(x));
  return largest;
}

TEST(Sample, LargeInputsHaveRowsOfEqualValues) {
  const auto sample = draw("y = relu(x)", Distribution::kLarge);
  ASSERT_TRUE(sample);
  EXPECT_GT(largest_input(*sample), 200);
  const std::vector<double> x = sample->inputs[0].decode();
  int equal = 0;
  for (std::size_t row = 0; row < 64; ++row)
    equal += std::set<double>(x.begin() + static_cast<std::ptrdiff_t>(64 * row),
                              x.begin() + static_cast<std::ptrdiff_t>(64 * row + 64))
                 .size() == 1;
  EXPECT_GT(equal, 5);
  EXPECT_LT(equal, 40);
}

TEST(Sample, SomeValuesAreBeyondTheLimitsOfAGraph) {
  for (const char* graph : {"y = clamp(x, low = -64504, high = 64504)",
                            "t = transpose(x)\ns = add(x, t)\ny = clamp(s, low = -64504, high = 64504)",
                            "t = transpose(x)\ns = mul(x, t)\ny = clamp(s, low = -64504, high = 64504)"}) {
    const auto sample = draw(graph, Distribution::kIntegers);
    ASSERT_TRUE(sample);
    const std::vector<double>& y = sample->expected[0].value.data;
    EXPECT_GT(std::ranges::count(y, -64504.0), 64) << graph;
    EXPECT_GT(std::ranges::count(y, 64504.0), 64) << graph;
  }
  for (const char* behind :
       {"t = transpose(x)\ns = matmul(x, t)\n", "r = relu(x)\ns = sum(r, axis = 1)\n",
        "s = mean(x, axis = 0)\n",
        "t = transpose(x)\np = matmul(x, t)\nb = add_scalar(p, by = 3)\ns = gelu(b)\n"}) {
    const auto sample = draw(behind + std::string("y = clamp(s, high = 64504)"), Distribution::kOneHot);
    ASSERT_TRUE(sample);
    const std::vector<double>& y = sample->expected[0].value.data;
    EXPECT_GT(std::ranges::count(y, 64504.0), std::ssize(y) / 8) << behind;
    EXPECT_LT(std::ranges::count(y, 64504.0), std::ssize(y)) << behind;
  }
  const auto whole =
      draw("s = scale(x, by = 65536)\nr = round(s)\ny = cast(r, dtype = \"int32\")", Distribution::kIntegers);
  ASSERT_TRUE(whole);
  EXPECT_GT(std::ranges::count(whole->expected[0].value.data, 2147483647.0), 64);
  const auto largest = draw("z = full(shape = [1], value = -1e4)\ny = max(x, z)", Distribution::kIntegers);
  ASSERT_TRUE(largest);
  EXPECT_GT(std::ranges::count(largest->expected[0].value.data, -1e4), 64);
}

TEST(Sample, LimitsThatHonestKernelsCannotReachAreLeftAlone) {
  const auto sample = draw("e = exp(x)\nc = clamp(x, high = 1e4)\ny = add(e, c)", Distribution::kIntegers);
  ASSERT_TRUE(sample);
  EXPECT_LT(largest_input(*sample), 100);
}

TEST(Sample, OnlyNormalInputsMakeEvenTerms) {
  for (const Distribution distribution : all_distributions()) {
    const auto sample = draw("y = relu(x)", distribution);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->numerics.even_terms, distribution == Distribution::kNormal) << name(distribution);
  }
}

TEST(Sample, OffsetInputsHaveOneMeanFarAboveTheSpread) {
  const auto sample = draw("y = relu(x)", Distribution::kOffset);
  ASSERT_TRUE(sample);
  const auto [low, high] = std::ranges::minmax(sample->inputs[0].decode());
  EXPECT_GT(std::min(std::fabs(low), std::fabs(high)), 200);
  EXPECT_LT(high - low, 0.02 * std::fabs(low));
}

TEST(Sample, InputsThatAreOnlySelectedReachFarther) {
  for (const char* graph : {"y = reduce_max(x, axis = 1)", "a = abs(x)\nt = transpose(a)\ny = relu(t)",
                            "y = argmax(x, axis = 1)", "y = clamp(x, low = -1.0)"})
    for (const Distribution distribution : {Distribution::kLarge, Distribution::kOffset}) {
      const auto wide = draw(graph, distribution);
      ASSERT_TRUE(wide) << graph;
      EXPECT_GT(largest_input(*wide), 1e20) << graph;
      EXPECT_LT(largest_input(*wide), 1e30) << graph << ": a usual stand-in for infinity";
    }
  EXPECT_LT(largest_input(
                *draw("m = reduce_max(x, axis = 1, keepdims = true)\ny = sub(x, m)", Distribution::kOffset)),
            2000)
      << "sums round";
}

TEST(Sample, SelectedInputsOfNarrowDtypesAreFarFromTheMiddle) {
  const char* kMaxima = "y = reduce_max(x, axis = 1)";
  const double half = largest_input(*draw(kMaxima, Distribution::kOffset, ", dtype = \"fp16\""));
  EXPECT_GT(half, 8000);
  EXPECT_LT(half, 0.75 * 65504);
  EXPECT_GT(largest_input(*draw(kMaxima, Distribution::kOffset, ", dtype = \"bf16\"")), 1e20);
  EXPECT_GT(largest_input(*draw(kMaxima, Distribution::kOffset, ", gen = { kind = \"positive\" }")), 1e20);
  EXPECT_LT(largest_input(*draw("h = cast(x, dtype = \"fp16\")\ny = relu(h)", Distribution::kLarge)), 65504)
      << "what the cast's dtype holds";
}

TEST(Sample, SomeRowsOfSelectedInputsAreFarBelowZeroAndDiffer) {
  const auto sample = draw("y = reduce_max(x, axis = 1)", Distribution::kLarge);
  ASSERT_TRUE(sample);
  const std::vector<double> x = sample->inputs[0].decode();
  int below = 0, different = 0;
  for (auto row = x.begin(); row != x.end(); row += 64) {
    const std::set<double> values(row, row + 64);
    below += *values.rbegin() < -1e4;
    different += *values.rbegin() < -1e4 && values.size() > 30;
  }
  EXPECT_GT(below, 3);
  EXPECT_GT(different, 0);
}

TEST(Sample, InputsReachNoFartherThanAKernelsValuesCan) {
  const auto sample = draw("e = exp(x)\ny = log(e)", Distribution::kLarge);
  ASSERT_TRUE(sample);
  EXPECT_LT(largest_input(*sample), 88);
}

/// What is divided, or of which a root is taken, was larger before.
TEST(Sample, InputsReachNoFartherThanSumsOnTheWayCan) {
  const auto largest_sum = [](const Sample& sample, double power) {
    const std::vector<double> x = sample.inputs[0].decode();
    double largest = 0;
    for (std::size_t row = 0; row < x.size(); row += 64) {
      double sum = 0;
      for (std::size_t i = row; i < row + 64; ++i) sum += std::exp(power * x[i]);
      largest = std::max(largest, sum);
    }
    return largest;
  };
  const std::map<std::string, double> powers = {{"e = exp(x)\ny = mean(e, axis = -1)", 1},
                                                {"t = full(shape = [\"n\", \"n\"], value = 0)\n"
                                                 "y = poisson_nll_loss(x, t)",
                                                 1},
                                                {"e = exp(x)\ny = std(e, axis = -1)", 2},
                                                {"e = exp(x)\ny = norm(e, axis = -1)", 2},
                                                {"e = exp(x)\ny = rms_norm(e)", 2},
                                                {"e = exp(x)\ny = layer_norm(e)", 2},
                                                {"e = exp(x)\ny = l2_normalize(e)", 2}};
  for (const auto& [graph, power] : powers)
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto sample = draw(graph, Distribution::kLarge, "", seed);
      if (!sample) continue;
      EXPECT_LT(largest_sum(*sample, power), 0x1p128) << graph << ", seed " << seed;
    }
}

TEST(Sample, ThereIsNoneWhereEvenSmallOnesReachTooFar) {
  EXPECT_FALSE(draw("a = exp(x)\nb = exp(a)\nc = exp(b)\ny = log(c)", Distribution::kOffset));
  EXPECT_TRUE(draw("y = exp(x)", Distribution::kNormal));
}

TEST(Sample, SaysWhichSumsOfProductsItsElementsAre) {
  const auto sums = [](std::string_view graph, Distribution distribution = Distribution::kNormal,
                       const std::string& tensor = "") {
    return draw(graph, distribution, tensor)->expected[0].sums;
  };
  EXPECT_EQ(sums("y = matmul(x, x)"), Sums::kOwn);
  EXPECT_EQ(sums("p = matmul(x, x)\nt = transpose(p)\nq = matmul(t, x)\ny = gelu(q)"), Sums::kOwn);
  EXPECT_EQ(
      sums("a = reshape(x, shape = [1, \"n\", 1, \"n\"])\nb = reshape(x, shape = [\"n\", \"n\", 1, 1])\n"
           "c = conv2d(a, b)\ny = relu(c)"),
      Sums::kConvolution);
  EXPECT_EQ(sums("y = relu(x)"), Sums::kNone);
  EXPECT_EQ(sums("t = transpose(x)\ny = exp(t)"), Sums::kNone);
  EXPECT_EQ(sums("y = softmax(x)"), Sums::kUnknown) << "a row shares one";
  EXPECT_EQ(sums("s = softmax(x)\ny = matmul(s, x)"), Sums::kShared);
  EXPECT_EQ(sums("p = matmul(x, x)\ns = softmax(p)\ny = matmul(s, x)"), Sums::kShared);
  EXPECT_EQ(sums("y = attention(x, x, x)"), Sums::kShared);
  EXPECT_EQ(sums("p = matmul(x, x)\ns = sum(x, axis = 1, keepdims = true)\ny = add(p, s)"), Sums::kShared);
  EXPECT_EQ(sums("p = matmul(x, x)\ny = reciprocal(p)"), Sums::kAmplified)
      << "few elements have all of the error";
  EXPECT_EQ(sums("p = matmul(x, x)\nr = reciprocal(p)\ny = cumsum(r)"), Sums::kUnknown);
  EXPECT_EQ(sums("p = matmul(x, x)\nm = gt(x, value = 0)\nz = neg(x)\ny = where(m, p, z)"), Sums::kOwn)
      << "an input is on a certain side of zero";
  EXPECT_EQ(sums("p = matmul(x, x)\nm = gt(p, value = 0)\nz = neg(x)\ny = where(m, p, z)"), Sums::kJumping);
  EXPECT_EQ(sums("h = layer_norm(x)\np = matmul(h, x)\ny = exp(p)"), Sums::kAmplified)
      << "the sum is before the product";
  EXPECT_EQ(sums("y = matmul(x, x)", Distribution::kCancellation), Sums::kNone) << "values with a structure";
  const std::string half = ", dtype = \"fp16\"";
  EXPECT_EQ(sums("y = matmul(x, x)", Distribution::kNormal, half), Sums::kOwn);
  EXPECT_EQ(sums("p = matmul(x, x)\nq = cast(p, dtype = \"fp32\")\ny = relu(q)", Distribution::kNormal, half),
            Sums::kUnknown)
      << "p may be kept in halves, or not";
}

TEST(Sample, SaysWhichNarrowOutputsShowLongSums) {
  const auto shown = [](std::string_view graph, Distribution distribution = Distribution::kNormal,
                        const std::string& tensor = ", dtype = \"bf16\"") {
    const Expected expected = draw(graph, distribution, tensor)->expected[0];
    for (std::size_t i = 0; i < expected.unrounded.size(); ++i) {
      EXPECT_LT(expected.unrounded[i], 0.01 * expected.value.err[i]) << graph;
      EXPECT_GT(expected.unrounded[i], 0) << graph;
    }
    return expected.unrounded.size();
  };
  EXPECT_EQ(shown("s = square(x)\ny = mean(s)"), 1U) << "terms may be rounded, in either direction";
  EXPECT_EQ(shown("y = poisson_nll_loss(x, x)"), 1U);
  EXPECT_EQ(shown("f = cast(x, dtype = \"fp32\")\nm = norm(f)\ny = cast(m, dtype = \"bf16\")"), 1U);
  EXPECT_EQ(shown("y = norm(x)", Distribution::kLarge), 0U) << "of inputs with a structure";
  EXPECT_EQ(shown("y = norm(x)", Distribution::kNormal, ""), 0U) << "the bound tells";
  EXPECT_EQ(shown("y = norm(x, axis = 1)"), 0U) << "of short ones a sample is far off";
  EXPECT_EQ(shown("m = mean(x)\ny = sqrt(m)"), 0U) << "m may be kept in bf16";
  EXPECT_EQ(shown("r = reshape(x, shape = [1, \"n * n\"])\ny = softmax(r)"), 0U) << "perhaps twice, in place";
  EXPECT_EQ(shown("r = reshape(x, shape = [1, \"n * n\"])\ny = log_softmax(r)"), 4096U);
  EXPECT_EQ(shown("r = reshape(x, shape = [1, 1, \"n\", \"n\"])\ny = adaptive_avg_pool2d(r, size = [1, 1])"),
            1U);
  EXPECT_EQ(shown("y = log_softmax(x)"), 0U);
  EXPECT_EQ(shown("f = cast(x, dtype = \"fp32\")\nm = mean(f)\nd = sub(f, m)\ny = cast(d, dtype = \"bf16\")"),
            0U);
  EXPECT_EQ(shown("p = matmul(x, x)\ny = mean(p)"), 0U);
  const std::string coarse = ", dtype = \"fp32\", gen = { kind = \"positive\" }";
  EXPECT_EQ(shown("m = mean(x, axis = 1)\ny = cast(m, dtype = \"fp8e4m3\")", Distribution::kNormal, coarse),
            64U)
      << "half of 64 terms is nearer than a rounding";
  EXPECT_EQ(shown("m = mean(x, axis = 1)\ny = cast(m, dtype = \"bf16\")", Distribution::kNormal, coarse), 0U);
  const std::string eight = ", dtype = \"fp8e4m3\", gen = { kind = \"positive\" }";
  EXPECT_EQ(shown("y = mean(x, axis = 1)", Distribution::kNormal, eight), 64U);
  EXPECT_EQ(shown("s = square(x)\ny = mean(s, axis = 1)", Distribution::kNormal, eight), 0U)
      << "64 roundings of terms are as much as one of their mean";
  EXPECT_EQ(shown("s = square(x)\ny = mean(s)", Distribution::kNormal, eight), 1U);
}

/// A kernel that computes one by one in a wide dtype has no reason to round to a narrow one twice.
TEST(Sample, SaysWhichNarrowOutputsAreCastOnce) {
  const auto shown = [](std::string_view graph, const std::string& tensor = "") {
    return draw(graph, Distribution::kNormal, tensor)->expected[0].unrounded.size();
  };
  EXPECT_EQ(shown("y = cast(x, dtype = \"fp8e4m3\")"), 4096U);
  EXPECT_EQ(shown("e = silu(x)\ny = cast(e, dtype = \"bf16\")"), 4096U);
  EXPECT_EQ(shown("f = cast(x, dtype = \"fp32\")\ng = gelu(f)\ny = cast(g, dtype = \"bf16\")",
                  ", dtype = \"bf16\""),
            4096U);
  EXPECT_EQ(shown("h = cast(x, dtype = \"fp16\")\ne = silu(h)\ny = cast(e, dtype = \"fp8e4m3\")"), 0U)
      << "once more for the cast before";
  EXPECT_EQ(shown("y = silu(x)", ", dtype = \"bf16\""), 0U) << "its steps may be rounded";
  EXPECT_EQ(shown("m = softmax(x)\ny = cast(m, dtype = \"bf16\")"), 0U) << "perhaps twice, in place";
  EXPECT_EQ(shown("p = matmul(x, x)\ny = cast(p, dtype = \"bf16\")"), 0U);
}

/// Zeros of either sign in whole rows show who divides by what a row has, and who orders zeros; not
/// where nobody could compute with them.
TEST(Sample, SomeRowsOfASingleValueAreZeros) {
  const auto zero_rows = [](std::string_view graph, const std::string& tensor = "") {
    const std::vector<double> x = draw(graph, Distribution::kOneHot, tensor)->inputs[0].decode();
    int rows = 0, negative = 0;
    for (auto row = x.begin(); row != x.end(); row += 64) {
      if (std::any_of(row, row + 64, [](double one) { return one != 0; })) continue;
      ++rows;
      negative +=
          static_cast<int>(std::count_if(row, row + 64, [](double one) { return std::signbit(one); }));
    }
    if (tensor.empty()) {
      EXPECT_EQ(negative > 0, rows > 0);
    }
    return rows;
  };
  EXPECT_GT(zero_rows("y = relu(x)"), 1);
  EXPECT_LT(zero_rows("y = relu(x)"), 32);
  EXPECT_GT(zero_rows("r = norm(x, axis = 1, keepdims = true)\nc = clamp(r, low = 1e-6)\ny = div(x, c)"), 1);
  EXPECT_EQ(zero_rows("r = norm(x, axis = 1, keepdims = true)\ny = div(x, r)"), 0);
  EXPECT_GT(zero_rows("y = reduce_max(x, axis = 1)", ", dtype = \"int32\""), 1);
  EXPECT_GT(zero_rows("y = abs(x)", ", gen = { kind = \"uniform\", low = -2, high = 2 }"), 1);
  EXPECT_EQ(zero_rows("y = abs(x)", ", gen = { kind = \"uniform\", low = 1, high = 2 }"), 0);
}

/// Far below what somebody adds to them or takes them for at least, unless dtypes do not hold what
/// is made of them.
/// The quotient by a difference that is zero is none, the direction of two rows is.
TEST(Sample, RowsAreEqualWhereHonestKernelsCanComputeWithThem) {
  const auto equal_rows = [](std::string_view graph) {
    const TaskSpec spec = task_of(
        "name = \"pairs\"\ntensor = [{ name = \"a\", shape = [64, 32] }, { name = \"b\", shape = [64, 32] "
        "}]\n"
        "graph = \"\"\"\n" +
        std::string(graph) + "\n\"\"\"\n");
    const BoundTask task = bind_first(spec);
    const auto reference = make_reference(spec);
    EXPECT_TRUE(reference.ok());
    const auto sample = draw_sample(**reference, task, Distribution::kCancellation, Seed::from_number(1));
    EXPECT_TRUE(sample.ok() && sample->has_value());
    const std::vector<double> a = (*sample)->inputs[0].decode(), b = (*sample)->inputs[1].decode();
    int equal = 0;
    for (std::size_t row = 0; row < 64; ++row)
      equal += std::ranges::equal(std::span(a).subspan(32 * row, 32), std::span(b).subspan(32 * row, 32));
    return equal;
  };
  EXPECT_GT(equal_rows("y = cosine_similarity(a, b)"), 2);
  EXPECT_GT(equal_rows("d = sub(a, b)\ny = sum(d, axis = 1)"), 2);
  EXPECT_EQ(equal_rows("d = sub(a, b)\ny = div(a, d)"), 0);
}

TEST(Sample, PositiveInputsBesideDenormalsAreTiny) {
  const auto smallest = [](std::string_view graph) {
    const auto sample = draw(graph, Distribution::kDenormal, ", gen = { kind = \"positive\" }");
    return std::ranges::min(sample->inputs[0].decode());
  };
  EXPECT_LT(smallest("y = log(x)"), 1e-20);
  EXPECT_GT(smallest("y = log(x)"), 1e-33);
  EXPECT_LT(smallest("y = rsqrt(x)"), 1e-20);
  EXPECT_LT(smallest("y = pow_scalar(x, exponent = -3)"), 1e-8);
  EXPECT_GT(smallest("y = pow_scalar(x, exponent = -3)"), 1e-13);
}

/// What whole numbers of 64 bits and narrow formats hold is between what moves alone bear and what
/// sums do.
TEST(Sample, LargeInputsReachAsFarAsASelectionIntoAnotherFormatHolds) {
  const auto largest = [](const std::string& dtype) {
    return largest_input(*draw("y = cast(x, dtype = \"" + dtype + "\")", Distribution::kLarge));
  };
  EXPECT_GT(largest("bf16"), 1e20);
  EXPECT_GT(largest("int64"), 0x1p33);
  EXPECT_GT(largest("fp16"), 4096);
}

TEST(Sample, LargeInputsGoBeyondWhatSaturatesAndOthersDoNot) {
  const auto largest = [](Distribution distribution, const std::string& dtype) {
    const auto sample = draw("y = cast(x, dtype = \"" + dtype + "\")", distribution, ", gen = { scale = 8 }");
    EXPECT_TRUE(sample);
    return sample ? largest_input(*sample) : 0;
  };
  EXPECT_GT(largest(Distribution::kLarge, "fp8e4m3"), 464);
  EXPECT_LT(largest(Distribution::kOffset, "fp8e4m3"), 448);
  EXPECT_LT(largest(Distribution::kMixed, "fp8e4m3"), 448);
  EXPECT_LT(largest(Distribution::kLarge, "fp8e5m2"), 57344) << "an infinity, or not, by a rounding";
  const auto kept = draw("h = cast(x, dtype = \"fp8e4m3\")\nf = cast(h, dtype = \"fp32\")\ny = exp(f)",
                         Distribution::kLarge, ", gen = { scale = 8 }");
  EXPECT_TRUE(!kept || largest_input(*kept) < 448) << "who knows whether a kernel keeps h in eight bits";

  const auto sample = draw("y = cast(x, dtype = \"fp8e4m3\")", Distribution::kLarge, ", gen = { scale = 8 }");
  const Value& expected = sample->expected[0].value;
  const std::vector<double> x = sample->inputs[0].decode();
  int beyond = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(std::fabs(expected.data[i]), 448);
    if (std::fabs(x[i]) < 700) continue;
    ++beyond;
    EXPECT_EQ(expected.data[i], std::copysign(448, x[i]));
    EXPECT_EQ(expected.err[i], 0) << "no other number is right";
  }
  EXPECT_GT(beyond, 100);
}

TEST(Sample, SaysHowMuchTheOrderOfProductsMaySuffer) {
  const auto limit = [](const std::string& graph, Distribution distribution = Distribution::kNormal,
                        const std::string& tensor = "") {
    return draw(graph + "\ny = argsort(h)", distribution, tensor)->expected[0].order;
  };
  const std::string product = "p = matmul(x, x)\n";
  const OrderLimit plain = limit("h = matmul(x, x)");
  EXPECT_DOUBLE_EQ(plain.of_values, 256 * 0x1p-24);
  EXPECT_EQ(plain.of_bounds, 0);
  EXPECT_DOUBLE_EQ(limit(product + "s = scale(x, by = 2)\nm = mul(p, s)\nh = relu(m)").of_values,
                   256 * 0x1p-24);
  const OrderLimit chances = limit(product + "h = softmax(p)");
  EXPECT_TRUE(chances.applies());
  EXPECT_GT(chances.of_bounds, 0) << "an exponential loses more than the sums did";
  EXPECT_LT(chances.of_bounds, 0.5);
  EXPECT_EQ(limit("r = rms_norm(x)\nh = matmul(r, x)").of_bounds, 0);
  EXPECT_GT(limit("m = mean(x, axis = 1, keepdims = true)\nd = sub(x, m)\nh = matmul(d, x)").of_bounds, 0)
      << "what is left without the mean has the mean's error";
  EXPECT_GT(limit(product + "q = square(x)\ns = sum(q, axis = 1, keepdims = true)\nh = add(p, s)").of_bounds,
            0)
      << "which may cancel";
  EXPECT_FALSE(limit("h = relu(x)").applies()) << "no sums of products";
  EXPECT_FALSE(limit(product + "h = sub(p, p)").applies()) << "what is left may be roundings alone";
  EXPECT_FALSE(limit(product + "h = clamp(p, low = 0, high = 1)").applies());
  EXPECT_FALSE(limit(product + "h = tan(p)").applies());
  EXPECT_FALSE(limit(product + "h = cast(p, dtype = \"int32\")").applies()) << "a jump";
  EXPECT_FALSE(limit("h = matmul(x, x)", Distribution::kCancellation).applies()) << "values with a structure";
  const std::string half = ", dtype = \"fp16\"";
  EXPECT_DOUBLE_EQ(limit("h = matmul(x, x)", Distribution::kNormal, half).of_values, 8 * 0x1p-11);
  EXPECT_FALSE(limit(product + "h = cast(p, dtype = \"fp32\")", Distribution::kNormal, half).applies())
      << "p may be kept in halves, or not";
}

TEST(Sample, ArgmaxAndSlicesOfAnArgsortHaveThatLimitToo) {
  EXPECT_TRUE(draw("h = matmul(x, x)\ny = argmax(h)", Distribution::kNormal)->expected[0].order.applies());
  EXPECT_TRUE(
      draw("h = matmul(x, x)\nr = argsort(h)\ny = slice(r, axis = 1, stop = 1)", Distribution::kNormal)
          ->expected[0]
          .order.applies());
}

double largest_output(const Sample& sample) {
  double largest = 0;
  for (const double y : sample.expected[0].value.data) largest = std::max(largest, std::fabs(y));
  return largest;
}

TEST(Sample, UnsignedBytesAreOfTheirWholeRangeAndNeverNegative) {
  for (const Distribution distribution : all_distributions()) {
    const Sample sample = *draw("y = transpose(x)", distribution, ", dtype = \"uint8\"");
    EXPECT_GE(std::ranges::min(sample.expected[0].value.data), 0) << name(distribution);
    EXPECT_LE(largest_output(sample), 255) << name(distribution);
    EXPECT_GT(largest_output(sample), 0) << name(distribution);
  }
  EXPECT_GT(largest_output(*draw("y = transpose(x)", Distribution::kNormal, ", dtype = \"uint8\"")), 200);
  EXPECT_EQ(largest_output(*draw("y = transpose(x)", Distribution::kLarge, ", dtype = \"uint8\"")), 255);
}

TEST(Sample, WholeNumbersUseTheBitsThatSumsAllow) {
  const auto drawn = [](std::string_view graph, const char* dtype, Distribution distribution) {
    return *draw(graph, distribution, std::string(", dtype = \"") + dtype + "\"");
  };
  for (const Distribution distribution : all_distributions()) {
    const Sample sum = drawn("y = add(x, x)", "int8", distribution);
    EXPECT_LE(largest_output(sum), 128) << name(distribution);
    EXPECT_LE(largest_output(drawn("y = matmul(x, x)", "int32", distribution)), 0x1p31);
  }
  EXPECT_GT(largest_input(drawn("y = add(x, x)", "int8", Distribution::kNormal)), 60);
  EXPECT_EQ(largest_input(drawn("y = transpose(x)", "int8", Distribution::kNormal)), 128) << "either end";
  EXPECT_GT(largest_output(drawn("y = matmul(x, x)", "int8", Distribution::kNormal)), 0x1p15);
  EXPECT_GT(largest_output(drawn("y = matmul(x, x)", "int8", Distribution::kLarge)), 0x1p18);
  EXPECT_GT(largest_output(drawn("y = matmul(x, x)", "int32", Distribution::kLarge)), 0x1p24);
  EXPECT_GT(largest_input(drawn("y = transpose(x)", "int32", Distribution::kLarge)), 0x1p30);
  EXPECT_GT(largest_input(drawn("y = sum(x, axis = 1)", "int32", Distribution::kLarge)), 0x1p30)
      << "a few where sums allow no more";
  EXPECT_LE(largest_output(drawn("y = sum(x, axis = 1)", "int32", Distribution::kLarge)), 0x1p31);
  EXPECT_GT(largest_input(drawn("y = transpose(x)", "int64", Distribution::kOffset)), 0x1p51);
  EXPECT_LT(
      largest_output(drawn("h = cast(x, dtype = \"fp16\")\ny = mul(h, h)", "int32", Distribution::kNormal)),
      65504)
      << "what the cast's dtype holds";
}

TEST(Sample, RunningProductsOfWholeNumbersKeepToTheirRange) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    for (const char* const generator : {"", ", gen = { kind = \"positive\" }"}) {
      const std::string tensor = std::string(", dtype = \"int32\"") + generator;
      EXPECT_LE(largest_output(*draw("y = cumprod(x, axis = 1)", Distribution::kNormal, tensor, seed)),
                0x1p31)
          << generator << " " << seed;
    }
}

/// A double holds no integer beyond 2^53 exactly, so neither do sums on the way to a small one.
TEST(Sample, SumsOfInt64AreExactInAnyOrder) {
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (const Distribution distribution : {Distribution::kLarge, Distribution::kOffset}) {
      const Sample sample = *draw("y = sum(x, axis = 1)", distribution, ", dtype = \"int64\"", seed);
      const std::vector<double> x = sample.inputs[0].decode();
      const std::size_t rows = sample.expected[0].value.data.size(), cols = x.size() / rows;
      for (std::size_t row = 0; row < rows; ++row) {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < cols; ++i) sum += static_cast<std::int64_t>(x[row * cols + i]);
        ASSERT_EQ(static_cast<std::int64_t>(sample.expected[0].value.data[row]), sum) << seed;
      }
    }
}

TEST(Sample, OfANativeReferenceIsNeverExtreme) {
  TaskSpec spec = task_of(kLinearTask);
  const auto reference = make_reference(spec);
  const BoundTask task = bind_first(spec);
  spec.reference = ReferenceKind::kNative;
  EXPECT_FALSE(*draw_sample(**reference, task, Distribution::kLarge, Seed::from_number(1)));
}

/// Its diagonals lie along two of its three axes, so no slice of it is a task of its own.
TEST(Sample, APartOfALargeOutputIsAllThatIsKeptOfIt) {
  const TaskSpec spec = task_of(
      "name = \"t\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\", \"n\"] }]\n"
      "graph = \"y = diag(x)\"\nshape = [{ n = 168 }]\n");
  const auto reference = make_reference(spec);
  const BoundTask task = bind_first(spec);
  const Seed seed = Seed::from_number(1);
  const auto whole = draw_sample(**reference, task, Distribution::kNormal, seed);
  const auto part = draw_sample(**reference, task, Distribution::kNormal, seed, {{}, Part{50'000, 7}});
  ASSERT_TRUE(whole.ok() && part.ok());
  const Expected &all = (*whole)->expected[0], &kept = (*part)->expected[0];
  EXPECT_EQ(kept.value.data.size(), 50'000U);
  EXPECT_EQ(kept.known.size(), 25U);
  EXPECT_EQ(kept.elements(), all.value.data.size());
  kept.for_ranges(0, kept.value.data.size(), [&](const KnownRange& range) {
    for (std::size_t i = 0; i < range.count; ++i) {
      ASSERT_EQ(kept.value.data[range.value + i], all.value.data[range.element + i]) << i;
      ASSERT_EQ(kept.value.err[range.value + i], all.value.err[range.element + i]) << i;
    }
  });
}

/// A call that appends rows to a large cache may leave them out elsewhere and be right.
TEST(Sample, APartOfWhatFewRowsChangeInPlaceHasMostOfThem) {
  const TaskSpec spec = task_of(
      "name = \"t\"\ndims = [\"n\"]\ntensor = [{ name = \"c\", shape = [\"n\", 64], role = \"inout\" },\n"
      "{ name = \"at\", shape = [4], role = \"index\", gen = { kind = \"index\", limit = \"n\", order = "
      "\"distinct\" } }, { name = \"k\", shape = [4, 64] }]\n"
      "graph = \"c = scatter(c, at, k)\"\noutput = [{ name = \"c\" }]\nwhere = \"n > 4\"\n"
      "shape = [{ n = 131072 }]\n");
  const auto reference = make_reference(spec);
  const BoundTask task = bind_first(spec);
  const auto part =
      draw_sample(**reference, task, Distribution::kNormal, Seed::from_number(1), {{}, Part{40'000, 7}});
  ASSERT_TRUE(part.ok());
  const Expected& kept = (*part)->expected[0];
  const std::vector<double> before = (*part)->inputs[0].decode();
  std::set<std::size_t> changed;
  kept.for_ranges(0, kept.value.data.size(), [&](const KnownRange& range) {
    for (std::size_t i = 0; i < range.count; ++i)
      if (kept.value.data[range.value + i] != before[range.element + i])
        changed.insert((range.element + i) / 64);
  });
  EXPECT_EQ(changed.size(), 4U);
  EXPECT_EQ(kept.known.size(), 19U) << "others as well";
  EXPECT_LE(kept.value.data.size(), 40'000U);
  EXPECT_EQ(kept.value.err.size(), kept.value.data.size());
}

}  // namespace
}  // namespace lathe
