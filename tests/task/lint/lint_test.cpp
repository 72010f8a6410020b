#include "task/lint/lint.h"

#include <gmock/gmock.h>

#include "task/lint/cases.h"
#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

LintReport lint_of(const TaskSpec& spec) {
  Result<LintReport> report = lint(spec, Seed::from_number(1));
  if (!report.ok()) {
    ADD_FAILURE() << report.error().to_string();
    return {};
  }
  return *std::move(report);
}

std::vector<std::string> fatal_checks(const LintReport& report) {
  std::vector<std::string> checks;
  for (const LintFinding& finding : report.findings) {
    if (finding.fatal) checks.push_back(finding.check);
  }
  return checks;
}

/// y = graph of x and a second tensor b, both [n, n].
std::string square_task(std::string_view graph, std::string_view x_generator = "") {
  return "name = \"square\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\", \"n\"]" +
         std::string(x_generator) + " }, { name = \"b\", shape = [\"n\", \"n\"] }]\ngraph = '''\n" +
         std::string(graph) + "\n'''\nshape = [{ n = 32 }]\n";
}

TEST(Lint, ASoundTaskPasses) {
  const LintReport report = lint_of(task_of(kLinearTask));
  EXPECT_TRUE(report.sound());
  EXPECT_THAT(fatal_checks(report), IsEmpty());
}

/// A value that is off by nearly its bound is rounded where it lies, not where it ought to.
TEST(Lint, TakesNarrowOutputsOfLargeBounds) {
  const auto fatal_of = [](const std::string& dtype, const std::string& graph) {
    return fatal_checks(lint_of(
        task_of("name = \"narrow\"\ndims = [\"n\", \"k\"]\ntensor = [{ name = \"x\", shape = [\"n\", \"k\"], "
                "dtype = \"" +
                dtype + "\" }, { name = \"w\", shape = [\"k\", \"n\"], dtype = \"" + dtype +
                "\" }]\ngraph = \"\"\"\n" + graph + "\n\"\"\"\nshape = [{ n = 64, k = 256 }]\n")));
  };
  EXPECT_THAT(fatal_of("bf16", "y = matmul(x, w)"), IsEmpty());
  EXPECT_THAT(fatal_of("fp16",
                       "p = matmul(x, w)\nf = cast(p, dtype = \"fp32\")\nh = layer_norm(f)\ny = cast(h, "
                       "dtype = \"fp16\")"),
              IsEmpty());
}

TEST(Lint, RefusesAConvolutionThatItsClampHides) {
  const Result<TaskSpec> spec = load_task(LATHE_SOURCE_DIR "/tests/task/lint/degenerate_conv_transpose.toml");
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  const LintReport report = lint_of(*spec);
  EXPECT_FALSE(report.sound());
  EXPECT_THAT(fatal_checks(report), Contains("mutant:zero"));
  EXPECT_THAT(fatal_checks(report), Contains("constant_output"));
  EXPECT_THAT(fatal_checks(report), Contains("input_matters:x"));
  EXPECT_THAT(fatal_checks(report), Contains("input_matters:w"));
}

TEST(Lint, RefusesAnInputThatDoesNotMatter) {
  const LintReport report = lint_of(task_of(square_task("s = scale(b, by = 1e-12)\ny = add(x, s)")));
  EXPECT_THAT(fatal_checks(report), Contains("input_matters:b"));
  EXPECT_THAT(fatal_checks(report), Not(Contains("input_matters:x")));
}

TEST(Lint, RefusesTheIdentity) {
  const LintReport report = lint_of(task_of(square_task("s = scale(b, by = 1e-30)\ny = add(x, s)")));
  EXPECT_THAT(fatal_checks(report), Contains("mutant:input_copy"));
}

TEST(Lint, RefusesABoundThatHidesPrecision) {
  const LintReport report = lint_of(task_of("tolerance = 1e5\n" + std::string(kLinearTask)));
  EXPECT_THAT(fatal_checks(report), Contains("mutant:low_precision"));
}

TEST(Lint, RefusesABoundThatSaysNothing) {
  const LintReport report = lint_of(task_of("tolerance = 1e6\n" + std::string(kLinearTask)));
  EXPECT_THAT(fatal_checks(report), Contains("loose_bound"));
}

TEST(Lint, RefusesATaskThatHidesAnOpsMistake) {
  const LintReport report = lint_of(task_of("tolerance = 1e4\n" + square_task("z = add(x, b)\ny = gelu(z)")));
  EXPECT_THAT(fatal_checks(report), Contains("mutant:y.other_approximation"));
}

TEST(Lint, RefusesAnOutputThatRarelyDiffers) {
  const LintReport report =
      lint_of(task_of(square_task("d = min(x, b)\nc = clamp(d, low = 7.5)\ny = relu(c)")));
  EXPECT_THAT(fatal_checks(report), Contains("constant_output"));
}

/// The mistakes that differ at ties and thresholds alone.
TEST(Lint, SeesTheMistakesAtJumps) {
  for (const char* graph : {"a = add(x, b)\nr = round(x)\ny = add(a, r)", "r = floor(x)\ny = add(r, b)",
                            "m = gt(x, b)\ny = where(m, x, b)", "m = ge(x, value = 0.5)\ny = where(m, x, b)",
                            "m = eq(x, b)\np = add(x, b)\ny = where(m, x, p)", "r = sign(x)\ny = add(r, b)",
                            "r = ceil(x)\ny = mul(r, b)", "r = trunc(x)\ny = add(r, b)"}) {
    const LintReport report = lint_of(task_of(square_task(graph)));
    EXPECT_THAT(fatal_checks(report), IsEmpty()) << graph;
    for (const std::string& skipped : report.skipped)
      EXPECT_THAT(skipped, Not(HasSubstr("textbook"))) << graph;
  }
}

/// fp16 holds small whole numbers, and of large ones nothing that a check could use.
TEST(Lint, AsksForNoPrecisionOfWholeNumbers) {
  const LintReport report =
      lint_of(task_of("name = \"whole\"\ndims = [\"n\"]\n"
                      "tensor = [{ name = \"x\", shape = [\"n\"], gen = { scale = 3 } }]\n"
                      "graph = \"y = round(x)\"\nshape = [{ n = 4096 }]\n"));
  EXPECT_THAT(fatal_checks(report), IsEmpty());
}

/// Differences of positions are exact, so that no mask is open where they are equal.
TEST(Lint, TakesMasksOfPositions) {
  const LintReport report =
      lint_of(task_of(square_task("i = iota(shape = [\"n\", 1], axis = 0)\nj = iota(shape = [\"n\"])\n"
                                  "d = sub(i, j)\nm = ge(d, value = 0)\nf = full(shape = [1], value = -inf)\n"
                                  "s = add(x, b)\nw = where(m, s, f)\ny = softmax(w)")));
  EXPECT_THAT(fatal_checks(report), IsEmpty());
}

/// What is masked by -inf may be scaled, added to and told by exp before a softmax sees it.
TEST(Lint, TakesWhatIsMadeOfAMasksInfinity) {
  const auto fatal_of = [](const std::string& dtype, const std::string& graph) {
    return fatal_checks(lint_of(task_of(
        "name = \"masked\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\", \"n\"], dtype = "
        "\"" +
        dtype + "\" }]\ngraph = \"\"\"\nf = full(shape = [\"n\", \"n\"], value = -inf, dtype = \"" + dtype +
        "\")\nu = triu(f, diagonal = 1)\nm = add(x, u)\ns = scale(m, by = 0.3)\n" + graph +
        "\n\"\"\"\nshape = [{ n = 32 }]\n")));
  };
  for (const char* dtype : {"fp32", "fp16", "fp64"}) {
    EXPECT_THAT(fatal_of(dtype, "y = softmax(s)"), IsEmpty()) << dtype;
    EXPECT_THAT(fatal_of(dtype, "c = clamp(s, high = 4)\ny = exp(c)"), IsEmpty()) << dtype;
  }
}

/// No rounding makes a sum of powers negative, of which there is no root.
TEST(Lint, TakesRootsOfSumsOfPowers) {
  const LintReport report =
      lint_of(task_of(square_task("d = sub(x, b)\na = abs(d)\np = pow_scalar(a, exponent = 3)\n"
                                  "s = sum(p, axis = -1)\ny = pow_scalar(s, exponent = 0.3333333333)")));
  EXPECT_THAT(fatal_checks(report), IsEmpty());
}

/// Weights of four bits whose zero point is in the middle: what is zero on paper is the difference
/// of two rounded numbers in kernels that scale before they subtract.
TEST(Lint, TakesProductsOfWeightsAroundAZeroPoint) {
  const TaskSpec spec = task_of(R"toml(
name = "zero_point"
dims = ["m", "n", "k"]
tensor = [{ name = "x", shape = ["m", "k"] }, { name = "w", shape = ["n", "k"], dtype = "uint8" }]
graph = """
q = bitwise_and(w, value = 15)
f = cast(q, dtype = "fp32")
z = add_scalar(f, by = -8)
y = matmul(x, z, transpose_b = true)
"""
shape = [{ m = 8, n = 32, k = 64 }]
)toml");
  EXPECT_THAT(fatal_checks(lint_of(spec)), IsEmpty());
}

TEST(Lint, TakesOutputsOfEightBits) {
  for (const char* dtype : {"fp8e4m3", "fp8e5m2"}) {
    const std::string cast = "y = cast(s, dtype = \"" + std::string(dtype) + "\")";
    EXPECT_THAT(fatal_checks(lint_of(task_of(square_task("s = add(x, b)\n" + cast)))), IsEmpty());
    const LintReport constant =
        lint_of(task_of(square_task("d = min(x, b)\ns = clamp(d, low = 7.5)\n" + cast)));
    EXPECT_THAT(fatal_checks(constant), Contains("constant_output"));
  }
}

/// Bytes without a sign are pictures: computed with in wider types, and never below zero.
TEST(Lint, TakesUnsignedBytesAndRefusesTheirDifferences) {
  const auto fatal_of = [](const std::string& graph) {
    const std::string bytes = ", dtype = \"uint8\" }";
    return fatal_checks(
        lint_of(task_of("name = \"bytes\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\", \"n\"]" +
                        bytes + ", { name = \"b\", shape = [\"n\", \"n\"]" + bytes + "]\ngraph = \"\"\"\n" +
                        graph + "\n\"\"\"\nshape = [{ n = 32 }]\n")));
  };
  EXPECT_THAT(fatal_of("p = cast(x, dtype = \"int32\")\nq = cast(b, dtype = \"int32\")\nd = sub(p, q)\n"
                       "y = cast(d, dtype = \"uint8\")"),
              IsEmpty());
  EXPECT_THAT(fatal_of("a = bitwise_xor(x, b)\ny = shift_right(a, by = 2)"), IsEmpty());
  EXPECT_THAT(fatal_of("y = matmul(x, b)"), IsEmpty()) << "of sums in int32";
  EXPECT_THAT(fatal_of("y = sub(x, b)"), Contains("whole_numbers"));
  EXPECT_THAT(fatal_of("y = add(x, b)"), IsEmpty()) << "of halves of the range";
}

TEST(Lint, RefusesWholeNumbersThatTheReferenceDoesNotHold) {
  const auto report_of = [](const std::string& dtype, const std::string& high) {
    const std::string type =
        "dtype = \"" + dtype + "\", gen = { kind = \"uniform\", low = 0, high = " + high + " }";
    return lint_of(
        task_of("name = \"products\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"], " + type +
                " }, { name = \"b\", shape = [\"n\"], " + type +
                " }]\ngraph = \"y = mul(x, b)\"\nshape = [{ n = 64 }]\n"));
  };
  EXPECT_THAT(fatal_checks(report_of("int64", "1000000000")), Contains("whole_numbers"));
  EXPECT_THAT(fatal_checks(report_of("int32", "1000000000")), Contains("whole_numbers"));
  EXPECT_THAT(fatal_checks(report_of("int64", "10000000")), IsEmpty());
  EXPECT_THAT(fatal_checks(report_of("int32", "40000")), IsEmpty());
}

TEST(Lint, TakesWholeNumbersThatWrap) {
  const auto checks_of = [](const std::string& graph) {
    return fatal_checks(lint_of(task_of(
        "name = \"mixed\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"], dtype = \"int32\" }]\n"
        "graph = '''\n" +
        graph + "\n'''\nshape = [{ n = 1024 }]\n")));
  };
  EXPECT_THAT(checks_of("k = full(shape = [1], value = -2048144789, dtype = \"int32\")\ny = mul(x, k)"),
              Contains("whole_numbers"));
  EXPECT_THAT(checks_of("a = wrapping_mul(x, value = -2048144789)\nb = shift_right(a, by = 13)\n"
                        "c = bitwise_xor(a, b)\ny = wrapping_add(c, value = 2147483647)"),
              IsEmpty());
}

/// fp64 has no wider format that this run could be computed in.
TEST(Lint, TakesSumsAndProductsOfDoubles) {
  const LintReport report = lint_of(task_of(R"toml(
name = "axpy"
dims = ["n"]
tensor = [
  { name = "x", shape = ["n", "n"], dtype = "fp64" },
  { name = "z", shape = ["n", "n"], dtype = "fp64" },
]
graph = """
a = scale(x, by = 0.1)
b = add(a, z)
c = mul(b, x)
y = sub(c, a)
"""
shape = [{ n = 64 }]
)toml"));
  EXPECT_THAT(fatal_checks(report), IsEmpty());
}

TEST(Lint, TakesScalesThatArePowersOfTwo) {
  const LintReport report = lint_of(task_of(R"toml(
name = "block_scaled"
dims = ["n"]
tensor = [{ name = "x", shape = ["n", 32] }]
graph = """
a = abs(x)
m = reduce_max(a, axis = -1, keepdims = true)
c = clamp(m, low = 1e-10)
e = exponent(c)
d = add_scalar(e, by = -8)
f = neg(d)
r = exp2(f)
s = mul(x, r)
t = clamp(s, low = -448, high = 448)
q = cast(t, dtype = "fp8e4m3")
"""
output = [{ name = "q" }, { name = "d" }]
shape = [{ n = 64 }]
)toml"));
  EXPECT_THAT(fatal_checks(report), IsEmpty());
}

TEST(Lint, SaysWhereTiesDecide) {
  const LintReport report = lint_of(task_of(R"toml(
name = "nearest_code"
dims = ["n"]
tensor = [{ name = "x", shape = ["n", 16] }, { name = "c", shape = ["n", 16] }]
graph = """
d = matmul(x, c, transpose_b = true)
i = argmax(d)
y = gather(c, i)
"""
shape = [{ n = 64 }]
)toml"));
  const auto found = std::ranges::find(report.findings, "rounded_run", &LintFinding::check);
  ASSERT_NE(found, report.findings.end());
  EXPECT_THAT(found->text, HasSubstr("make the index itself the output"));
}

/// On the other side of a jump a value is larger, and so are the roundings of what is made of it;
/// and what allows for flushed results carries no exact zero across one.
TEST(Lint, TakesWhatIsComputedBehindAJump) {
  for (const char* first : {"atan(x)", "neg(x)"}) {
    const TaskSpec spec = task_of(std::string(R"toml(
name = "behind_a_jump"
dims = ["m", "n"]
tensor = [{ name = "x", shape = ["m", "n"] }, { name = "w", shape = ["m", 1] }]
graph = """
z = )toml") + first + R"toml(
a = l2_normalize(z)
b = mean(a, axis = 0, keepdims = true)
d = sub(a, b)
f = floor(d)
g = norm(f, axis = 0, keepdims = true)
p = mul(f, g)
y = add(p, w)
"""
shape = [{ m = 4, n = 40 }]
)toml");
    for (std::uint64_t seed = 1; seed < 40; ++seed) {
      const auto report = lint(spec, Seed::from_number(seed));
      ASSERT_TRUE(report.ok());
      EXPECT_THAT(fatal_checks(*report), Not(Contains("rounded_run"))) << first << seed;
    }
  }
}

/// Logits of 2^25 are rounded by whole numbers, once as errors of the softmax's argument and once
/// in it.
TEST(Lint, TakesASoftmaxOfLogitsThatAreRoundedByWholeNumbers) {
  const TaskSpec spec = task_of(R"toml(
name = "rounded_attention"
dims = ["t"]
tensor = [{ name = "x", shape = ["t", 24] }, { name = "w", shape = [24, 12] }, { name = "u", shape = [12, 9] }]
graph = """
g = round(x)
h = matmul(g, w)
s = softmax(h)
y = matmul(s, u)
"""
shape = [{ t = 5 }]
)toml");
  for (std::uint64_t seed = 1; seed < 60; ++seed) {
    const auto report = lint(spec, Seed::from_number(seed));
    ASSERT_TRUE(report.ok());
    EXPECT_THAT(fatal_checks(*report), Not(Contains("rounded_run"))) << seed;
  }
}

/// Whole numbers that are made of indices are compared exactly: no bound makes up for another
/// order.
TEST(Lint, SaysWhereTiesDecideWholeNumbers) {
  const auto findings = [](const std::string& scores) {
    return lint_of(task_of(R"toml(
name = "beams"
dims = ["b", "v"]
tensor = [{ name = "x", shape = ["b", 4, "v"] }, { name = "s", shape = ["b", 4, 1] }]
graph = """
)toml" + scores + R"toml(
f = reshape(t, shape = ["b", "4 * v"])
o = argsort(f, descending = true)
i = slice(o, axis = 1, stop = 4)
n = full(shape = [1], value = "v", dtype = "int64")
y = remainder(i, n)
"""
shape = [{ b = 8, v = 100 }]
)toml"))
        .findings;
  };
  const auto computed = findings("l = log_softmax(x)\nt = add(l, s)");
  const auto found = std::ranges::find(computed, "rounded_run", &LintFinding::check);
  ASSERT_NE(found, computed.end());
  EXPECT_THAT(found->text, HasSubstr("make the index itself the output"));
  const auto chosen = findings("t = max(x, s)");
  EXPECT_EQ(std::ranges::find(chosen, "rounded_run", &LintFinding::check), chosen.end())
      << "equal values have one order, and nothing is rounded";
}

TEST(Lint, TakesQuantisedOutputs) {
  const LintReport report = lint_of(task_of(R"toml(
name = "quantise"
dims = ["n"]
tensor = [{ name = "x", shape = ["n", "n"] }]
graph = """
a = abs(x)
t = reduce_max(a, axis = -1, keepdims = true)
u = clamp(t, low = 1e-5)
s = scale(u, by = 0.007874015748031496)
d = div(x, s)
r = round(d)
c = clamp(r, low = -127, high = 127)
q = cast(c, dtype = "int8")
"""
output = [{ name = "q" }, { name = "s" }]
shape = [{ n = 32 }]
)toml"));
  EXPECT_THAT(fatal_checks(report), IsEmpty());
}

TEST(RoundedRun, FailsABoundThatIsTooTight) {
  const TaskSpec spec = task_of(kLinearTask);
  const BoundTask task = bind_first(spec);
  const auto reference = make_reference(spec);
  ASSERT_TRUE(reference.ok());
  Result<std::optional<Sample>> drawn =
      draw_sample(**reference, task, Distribution::kNormal, Seed::from_number(1));
  ASSERT_TRUE(drawn.ok());
  std::optional<Sample>& sample = *drawn;
  Rng rng(Seed::from_number(2));
  const auto values = rounded_run(task, *sample, rng);
  ASSERT_TRUE(values.ok());
  EXPECT_TRUE(judge(sample->expected[0], values->at("y").data).pass);
  for (double& err : sample->expected[0].value.err) err /= 16;
  EXPECT_FALSE(judge(sample->expected[0], values->at("y").data).pass);
}

TEST(RoundedRun, RoundsNoWholeNumbers) {
  const TaskSpec spec = task_of(R"toml(
name = "lengths"
dims = { rows = [1, 4096], segments = [1, 256], width = [1, 128], table = [1, 1024] }
tensor = [
  { name = "t", shape = ["table", "width"] },
  { name = "i", shape = ["rows"], role = "index", gen = { kind = "index", limit = "table" } },
  { name = "o", shape = ["segments + 1"], role = "index", gen = { kind = "index", limit = "rows", order = "offsets" } },
]
graph = """
x = embedding(t, i)
s = segment_sum(x, o)
ends = slice(o, start = 1)
begins = slice(o, stop = "segments")
n = sub(ends, begins)
m = cast(n, dtype = "fp32")
c = clamp(m, low = 1)
d = reshape(c, shape = ["segments", 1])
y = div(s, d)
"""
shape = [{ rows = 4096, segments = 64, width = 128, table = 1024 }]
)toml");
  EXPECT_THAT(fatal_checks(lint_of(spec)), IsEmpty());
}

TEST(Lint, SaysWhichIndexLeavesItsTable) {
  const auto text_of = [](const std::string& graph) {
    const LintReport report = lint_of(task_of(R"toml(
name = "stray"
dims = { rows = [1, 4096], width = [1, 128], table = [1, 1024] }
tensor = [
  { name = "t", shape = ["table", "width"] },
  { name = "x", shape = ["rows", "width"] },
  { name = "i", shape = ["rows"], role = "index", gen = { kind = "index", limit = "2 * table" } },
]
graph = """
)toml" + graph + R"toml(
"""
shape = [{ rows = 512, width = 8, table = 16 }]
)toml"));
    const auto found = std::ranges::find(report.findings, "finite_output", &LintFinding::check);
    return found == report.findings.end() ? "" : found->text;
  };
  EXPECT_THAT(text_of("e = embedding(t, i)\ny = add(e, x)"),
              AllOf(HasSubstr("'i' names place "), HasSubstr("makes 'e' of "), Not(HasSubstr("epsilon"))));
  EXPECT_THAT(text_of("y = scatter_add(t, i, x)"), HasSubstr("and scatter_add makes 'y' of "));
}

TEST(Lint, PassesARecurrenceAndProductsOfGroups) {
  const TaskSpec scan = task_of(R"toml(
name = "selective_scan"
dims = { L = [1, 512], D = [1, 128] }
tensor = [{ name = "x", shape = [2, "L", "D"] }, { name = "d", shape = [2, "L", "D"] }, { name = "w", shape = ["D"] }]
graph = """
s = softplus(d)
e = exp(w)
f = mul(s, e)
g = neg(f)
a = exp(g)
b = mul(s, x)
y = linear_scan(a, b, axis = 1)
"""
shape = [{ L = 96, D = 48 }]
)toml");
  EXPECT_THAT(fatal_checks(lint_of(scan)), IsEmpty());
  const TaskSpec experts = task_of(R"toml(
name = "experts"
dims = { T = [1, 512], K = [1, 128], N = [1, 128], G = [1, 8] }
tensor = [
  { name = "x", shape = ["T", "K"] },
  { name = "w", shape = ["G", "K", "N"] },
  { name = "o", shape = ["G + 1"], role = "index", gen = { kind = "index", limit = "T", order = "offsets" } },
]
graph = """
h = grouped_matmul(x, w, o)
y = silu(h)
"""
shape = [{ T = 128, K = 64, N = 48, G = 4 }]
)toml");
  EXPECT_THAT(fatal_checks(lint_of(experts)), IsEmpty());
}

TEST(Lint, RefusesOutputsThatAreNotNumbers) {
  const LintReport report = lint_of(task_of(square_task("l = log(x)\ny = add(l, b)")));
  EXPECT_THAT(fatal_checks(report), Contains("finite_output"));
}

class TextbookFormula : public testing::TestWithParam<const char*> {};

TEST_P(TextbookFormula, IsCaughtWhereverInputsMayBeLarge) {
  const TaskSpec spec =
      task_of("where = \"n % 2 == 0\"\n" + square_task("z = add(x, b)\ny = " + std::string(GetParam())));
  const BoundTask task = bind_first(spec);
  const auto reference = make_reference(spec);
  bool caught = false;
  for (const Mutant& mutant : op_mutants(task))
    for (const Distribution distribution : {Distribution::kLarge, Distribution::kOffset}) {
      if (mutant.name != "y.textbook") continue;
      const auto sample = draw_sample(**reference, task, distribution, Seed::from_number(1));
      ASSERT_TRUE(sample.ok() && *sample);
      caught = caught || !judge((*sample)->expected[0], *mutant.run(**sample)).pass;
    }
  EXPECT_TRUE(caught);
}

INSTANTIATE_TEST_SUITE_P(Ops, TextbookFormula,
                         testing::Values("softmax(z)", "softmax(z, axis = 0)", "log_softmax(z)",
                                         "logsumexp(z, axis = 1)", "attention(x, z, b)", "layer_norm(z)",
                                         "group_norm(z, groups = 2)", "var(z, axis = 1)", "std(z, axis = 0)",
                                         "sigmoid(z)", "silu(z)", "tanh(z)", "mish(z)", "softplus(z)",
                                         "gelu(z, approximate = \"tanh\")"));

TEST(Lint, SumsInHalfOfTheirBitsAreCaught) {
  for (const char* dtype : {"int8", "int32"}) {
    const TaskSpec spec =
        task_of(square_task("h = matmul(x, x)\nf = cast(h, dtype = \"fp32\")\ny = add(f, b)",
                            std::string(", dtype = \"") + dtype + "\""));
    const BoundTask task = bind_first(spec);
    const auto reference = make_reference(spec);
    const std::vector<Mutant> mutants = op_mutants(task);
    const auto narrowed = std::ranges::find(mutants, "h.narrowed", &Mutant::name);
    ASSERT_NE(narrowed, mutants.end());
    const auto sample = draw_sample(**reference, task, Distribution::kLarge, Seed::from_number(1));
    ASSERT_TRUE(sample.ok() && *sample);
    EXPECT_FALSE(judge((*sample)->expected[0], *narrowed->run(**sample)).pass) << dtype;
  }
}

TEST(Lint, ATextbooksFormulaThatInputsCannotUpsetIsListed) {
  const LintReport report = lint_of(task_of(
      square_task("s = sigmoid(x)\nz = add(s, b)\ny = layer_norm(z)", ", gen = { kind = \"uniform\" }")));
  EXPECT_TRUE(report.sound());
  EXPECT_THAT(report.skipped, Contains(HasSubstr("s.textbook: within the tolerance")));
}

TEST(Lint, ListsWhatMakesNoDifference) {
  const LintReport report = lint_of(
      task_of("name = \"shifted\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\", \"n\"] }]\n"
              "graph = '''\ni = argmax(x)\n'''\nshape = [{ n = 32 }]\n"));
  EXPECT_TRUE(report.sound());
  EXPECT_THAT(report.skipped, Contains(HasSubstr("low_precision")));
}

}  // namespace
}  // namespace lathe
