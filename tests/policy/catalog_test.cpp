#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "policy/catalog/compile.h"
#include "task/compare.h"
#include "task/generate_inputs.h"
#include "task/sample.h"
#include "tests/baseline/graph_case.h"
#include "tests/policy/candidate_runner.h"
#include "tests/policy/inout_tasks.h"
#include "tests/policy/op_tasks.h"
#include "tests/task/shipped_tasks.h"

namespace lathe {
namespace {

std::vector<TaskSpec> chosen_tasks() {
  std::vector<TaskSpec> tasks = shipped_tasks();
  if (const char* only = std::getenv("LATHE_TASK"))
    std::erase_if(tasks, [&](const TaskSpec& task) { return task.name != only; });
  return tasks;
}

struct Emitted {
  const TaskSpec* task;
  std::string label;
  int index;
};

/// Runs one candidate at one shape on two distributions, drawn as verifications do; an empty string
/// when all is within the tolerance.
std::string check(const CandidateRunner& runner, const Emitted& emitted, const Reference& reference,
                  const Dims& dims, int threads) {
  const auto bound = bind(*emitted.task, dims);
  if (!bound.ok()) return bound.error().to_string();
  for (const Distribution distribution : {Distribution::kNormal, Distribution::kCancellation}) {
    const auto drawn = draw_sample(reference, *bound, distribution, Seed::from_number(7));
    if (!drawn.ok()) return drawn.error().to_string();
    if (!drawn->has_value()) return emitted.label + ": no sample";
    const Sample& sample = **drawn;
    const auto outputs = runner.run(emitted.index, *bound, sample.inputs, threads);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Comparison result = compare(sample.expected[i], outputs[i], nullptr);
      if (result.pass) continue;
      std::string shape;
      for (const auto& [name, value] : dims) shape += " " + name + "=" + std::to_string(value);
      return emitted.label + " " + std::string(name(distribution)) + shape + ": " + sample.expected[i].name +
             " " + result.reason + " at " + std::to_string(result.first_bad) + " got " +
             std::to_string(result.got) + " want " + std::to_string(result.want) + ", " +
             std::to_string(result.bad_count) + " bad";
    }
  }
  return {};
}

constexpr catalog::Target kPairs{.bf16_pairs = true};

catalog::Target native() { return {.lanes = __builtin_cpu_supports("avx512f") ? 16 : 8}; }

/// The schedules of a task that are checked.
struct Schedules {
  int random = 0;
  bool with_default = true;
};

/// Every task with some schedules, at its smallest scored shape and at hidden ones, for the width
/// of this processor's vectors.
void check_tasks(const std::vector<TaskSpec>& tasks, Schedules schedules, int hidden,
                 catalog::Target target = {}) {
  target.lanes = native().lanes;
  if (target.bf16_pairs && target.lanes < 16) GTEST_SKIP() << "pairs of bf16 are multiplied by AVX-512";
  std::vector<Emitted> all;
  CandidateRunner runner;
  int known = 0;
  Rng rng(Seed::from_number(1));
  for (const TaskSpec& spec : tasks) {
    const auto graph = catalog::lower_for(spec, target);
    if (!graph.ok()) {
      std::printf("%s: %s\n", spec.name.c_str(), graph.error().to_string().c_str());
      continue;
    }
    bool any = false;
    for (int i = schedules.with_default ? 0 : 1; i <= schedules.random; ++i) {
      const auto emission = catalog::compile(*graph, {}, i == 0 ? nullptr : &rng, target);
      if (!emission.ok()) {
        std::printf("%s: %s\n", spec.name.c_str(), emission.error().to_string().c_str());
        continue;
      }
      if (std::getenv("LATHE_SHOW") != nullptr) std::printf("%s\n", emission->text.c_str());
      const auto candidate = parse_candidate(emission->text, spec.name);
      ASSERT_TRUE(candidate.ok()) << candidate.error().to_string() << "\n" << emission->text;
      const auto checked = check_plan(*candidate, spec);
      ASSERT_TRUE(checked.ok()) << checked.error().to_string() << "\n" << emission->text;
      all.push_back(
          {&spec, spec.name + " [" + catalog::to_text(emission->schedule) + "]", runner.add(*candidate)});
      any = true;
    }
    known += any ? 1 : 0;
  }
  runner.build();
  for (const Emitted& emitted : all) {
    const auto reference = make_reference(*emitted.task);
    ASSERT_TRUE(reference.ok()) << reference.error().to_string();
    std::vector<Dims> shapes = draw_hidden_shapes(*emitted.task, Seed::from_number(3), hidden, 2e7);
    if (shapes.empty()) shapes.push_back(emitted.task->shapes.back().dims);
    int threads = 1;
    for (const Dims& dims : shapes) {
      EXPECT_EQ(check(runner, emitted, **reference, dims, threads), "");
      threads = threads % 3 + 1;
    }
  }
  std::printf("%d of %zu tasks have candidates\n", known, tasks.size());
}

TEST(CatalogSlow, RandomSchedulesAreCorrectAtAwkwardShapes) { check_tasks(chosen_tasks(), {2, false}, 2); }

TEST(Catalog, DefaultSchedulesAreCorrectAtAwkwardShapes) { check_tasks(chosen_tasks(), {}, 4); }

TEST(Catalog, TensorsOf16BitsAreComputedInFp32) {
  for (const char* type : {"bf16", "fp16"}) {
    const std::vector<TaskSpec> tasks = shipped_tasks_of(type);
    EXPECT_GE(tasks.size(), 60U);
    check_tasks(tasks, {}, 1);
  }
}

/// Each in a test of its own: they take minutes, and may run side by side.
TEST(CatalogSlow, RandomSchedulesOverFp16AreCorrect) { check_tasks(shipped_tasks_of("fp16"), {2, false}, 2); }

TEST(CatalogSlow, RandomSchedulesOverBf16AreCorrect) { check_tasks(shipped_tasks_of("bf16"), {2, false}, 2); }

TEST(CatalogSlow, RandomSchedulesOverPairsOfBf16AreCorrect) {
  check_tasks(shipped_tasks_of("bf16"), {2}, 2, kPairs);
}

/// Sums of int8 leave its range, so it comes in cases of its own.
std::vector<TaskSpec> op_cases_of(const std::string& dtype) {
  std::vector<TaskSpec> tasks;
  for (const GraphCase& graph_case : op_cases())
    if (auto task = parse_case(retyped(graph_case, dtype)); task.ok()) tasks.push_back(*std::move(task));
  if (!dtype.starts_with("fp") && dtype != "bf16")  // no whole number is a half
    std::erase_if(tasks, [](const TaskSpec& task) { return task.name.starts_with("pad_"); });
  const char* only = std::getenv("LATHE_TASK");
  if (only != nullptr) std::erase_if(tasks, [&](const TaskSpec& task) { return task.name != only; });
  return tasks;
}

/// A product of `dtype`, of one matrix or of several.
TaskSpec product_task(const std::string& dtype, bool batch, const std::string& attributes,
                      const std::string& more = "") {
  const std::string of = "dtype = \"" + dtype + "\", shape = [" + (batch ? "\"B\", " : "");
  const auto matrix = [&](const std::string& name, bool transposed, const char* rows, const char* columns) {
    const std::string first = transposed ? columns : rows, second = transposed ? rows : columns;
    return "{ name = \"" + name + "\", " + of + "\"" + first + "\", \"" + second + "\"] }";
  };
  const auto has = [&](const char* what) { return attributes.find(what) != std::string::npos; };
  const auto task = parse_task(
      "name = \"product\"\n" + more + "dims = { " + (batch ? "B = [1, 5], " : "") +
          "M = [1, 150], N = [1, 150], K = [1, 1300] }\ntensor = [" + matrix("x", has("a ="), "M", "K") +
          ", " + matrix("w", has("b ="), "K", "N") + "]\ngraph = \"y = matmul(x, w" + attributes +
          ")\"\nshape = [{ " + (batch ? "B = 3, " : "") + "M = 100, N = 70, K = 90 }]\n",
      "product.toml");
  EXPECT_TRUE(task.ok()) << task.error().to_string();
  return *task;
}

std::string text_of(const TaskSpec& task, const catalog::Target& target) {
  return catalog::compile(*catalog::lower_for(task, target), {}, nullptr, target)->text;
}

TEST(Catalog, PairsOfBf16AreMultipliedAtAnyShape) {
  std::vector<TaskSpec> tasks;
  for (const bool batch : {false, true})
    for (const char* attributes :
         {"", ", transpose_a = true", ", transpose_b = true", ", transpose_a = true, transpose_b = true"})
      tasks.push_back(product_task("bf16", batch, attributes));
  for (const TaskSpec& task : tasks) EXPECT_NE(text_of(task, kPairs).find("gemm_pairs"), std::string::npos);
  check_tasks(tasks, {2}, 2, kPairs);
}

TEST(Catalog, PairsOfBf16AreMultipliedInEveryTaskThatHasThem) {
  std::vector<TaskSpec> tasks = shipped_tasks_of("bf16");
  for (std::vector<TaskSpec> more : {op_tasks("bf16"), op_cases_of("bf16")})
    std::ranges::move(more, std::back_inserter(tasks));
  std::erase_if(tasks, [](const TaskSpec& task) {
    const auto graph = catalog::lower_for(task, kPairs);
    const auto emission = graph.ok() ? catalog::compile(*graph, {}, nullptr, kPairs) : graph.error();
    return !emission.ok() || emission->text.find("gemm_pairs") == std::string::npos;
  });
  EXPECT_GE(tasks.size(), 20U);
  check_tasks(tasks, {}, 1, kPairs);
}

/// fp16 has no such instruction, and that of bf16 takes denormals for zero.
TEST(Catalog, OnlyBf16IsMultipliedInPairsAndOnlyWhereDenormalsMayBeLost) {
  const auto pairs = [](const TaskSpec& task, const catalog::Target& target) {
    return text_of(task, target).find("gemm_pairs") != std::string::npos;
  };
  EXPECT_TRUE(pairs(product_task("bf16", false, ""), kPairs));
  EXPECT_FALSE(pairs(product_task("bf16", false, ""), {}));
  EXPECT_FALSE(pairs(product_task("fp16", false, ""), kPairs));
  EXPECT_FALSE(pairs(product_task("bf16", false, "", "denormals = true\n"), kPairs));
}

class CatalogOfType : public testing::TestWithParam<const char*> {};

TEST_P(CatalogOfType, EveryCaseOfTheNaiveBuildIsRight) { check_tasks(op_cases_of(GetParam()), {1}, 1); }

INSTANTIATE_TEST_SUITE_P(Types, CatalogOfType,
                         testing::Values("fp32", "fp16", "bf16", "fp64", "int32", "int64"),
                         [](const auto& given) { return std::string(given.param); });

/// What a narrow tensor's buffer holds is what its output or its view says, whatever computes it.
TEST(Catalog, NarrowResultsMayBeViewsOrOverwriteTensors) {
  std::vector<TaskSpec> tasks;
  const auto add = [&](const std::string& tensors, const std::string& graph, const std::string& outputs) {
    const std::string text = "name = \"narrow\"\ndims = { m = [1, 40], n = [1, 70] }\ntensor = [" + tensors +
                             "]\ngraph = \"\"\"\n" + graph + "\n\"\"\"\noutput = [" + outputs +
                             "]\n[[shape]]\nname = \"s\"\nm = 33\nn = 48\n";
    const auto task = parse_task(text, "narrow.toml");
    EXPECT_TRUE(task.ok()) << graph << ": " << task.error().to_string();
    if (task.ok()) tasks.push_back(*task);
  };
  const std::string x = "{ name = \"x\", dtype = \"bf16\", shape = [\"m\", \"n\"] }",
                    w = "{ name = \"w\", dtype = \"bf16\", shape = [\"n\", \"n\"] }",
                    wide = "{ name = \"s\", shape = [\"m\", \"n\"] }",
                    r = "{ name = \"r\", dtype = \"fp16\", role = \"inout\", shape = [\"m\", \"n\"] }",
                    z = "{ name = \"z\", dtype = \"fp16\", shape = [\"m\", \"n\"] }";
  add(x, "a = reshape(x, shape = [\"m * n\"])\nb = exp(a)\ny = reshape(b, shape = [\"n\", \"m\"])",
      "{ name = \"y\" }");
  add(x, "y = reshape(x, shape = [\"n\", \"m\"])", "{ name = \"y\" }");
  add(x + ", " + w, "h = matmul(x, w)\ny = silu(h)", "{ name = \"h\" }, { name = \"y\" }");
  add(x + ", " + w, "h = matmul(x, w)\ny = reshape(h, shape = [\"m * n\"])\nt = transpose(h)",
      "{ name = \"y\" }, { name = \"t\" }");
  add(x, "s = sum(x, axis = 1)\nc = cumsum(x)\nt = transpose(c)",
      "{ name = \"s\" }, { name = \"c\" }, { name = \"t\" }");
  add(x + ", " + wide,
      "a = cast(x, dtype = \"fp32\")\nb = mul(a, s)\nc = cast(b, dtype = \"fp16\")\ny = sum(b, axis = 1)",
      "{ name = \"c\" }, { name = \"y\" }");
  add(r + ", " + z,
      "a = add(r, z)\nl = l1_norm(a, axis = -1, keepdims = true)\nr = div(a, l)\nq = square(r)\ny = sum(q, "
      "axis = 0)",
      "{ name = \"r\" }, { name = \"y\" }");
  add(r + ", " + z, "a = add(r, z)\nt = cumsum(a)\nr = flip(t)", "{ name = \"r\" }");
  add(x, "g = gt(x, value = 0.5)\nk = argmax(x, axis = 1)", "{ name = \"g\" }, { name = \"k\" }");
  check_tasks(tasks, {2}, 3);
}

/// A task over x [2, channels, slices, 9, width] and the tensors named, all of `dtype`.
TaskSpec volume_task(const std::string& tensors, const std::string& graph,
                     const std::string& dtype = "fp32") {
  std::string text =
      "name = \"volume\"\ndims = { channels = [1, 4], slices = [5, 9], width = [5, 40] }\ntensor = [{ "
      "name = \"x\", shape = [2, \"2 * channels\", \"slices\", 9, \"width\"] }" +
      tensors + "]\ngraph = \"" + graph +
      "\"\n[[shape]]\nname = \"s\"\nchannels = 2\nslices = 5\nwidth = 17\n";
  const std::string shape = "\", shape", typed = "\", dtype = \"" + dtype + shape;
  for (std::size_t at = 0; (at = text.find(shape, at)) != std::string::npos; at += typed.size())
    text.replace(at, shape.size(), typed);
  const auto task = parse_task(text, "volume.toml");
  EXPECT_TRUE(task.ok()) << graph << ": " << task.error().to_string();
  return *task;
}

/// Extents, strides, paddings and dilations differ by axis, so that none passes for another.
std::vector<TaskSpec> convolutions_of_three_axes(const std::string& dtype = "fp32") {
  const std::string filters = ", { name = \"w\", shape = [6, \"channels\", 3, 2, 4] }";
  const std::string bias = ", { name = \"b\", shape = [6] }";
  const std::string turned = ", { name = \"w\", shape = [\"2 * channels\", 3, 3, 2, 4] }";
  std::vector<TaskSpec> tasks;
  const auto add = [&](const std::string& tensors, const std::string& graph) {
    tasks.push_back(volume_task(tensors, graph, dtype));
  };
  add(filters + bias, "y = conv3d(x, w, b, stride = [2, 3, 1], padding = [1, 0, 2], groups = 2)");
  add(filters, "y = conv3d(x, w, stride = [1, 2, 3], dilation = [2, 3, 1], groups = 2)");
  add(turned,
      "y = conv_transpose3d(x, w, stride = [2, 1, 3], padding = [1, 0, 2], output_padding = [1, 0, 2], "
      "groups "
      "= 2)");
  add(turned, "y = conv_transpose3d(x, w, dilation = [2, 3, 1])");
  add(", { name = \"w\", shape = [6, \"channels\", 1, 1, 1] }",
      "y = conv3d(x, w, stride = [1, 1, 2], groups = 2)");
  return tasks;
}

TEST(Catalog, WindowsOfThreeAxesMayDifferByAxis) {
  std::vector<TaskSpec> tasks = convolutions_of_three_axes();
  tasks.push_back(
      volume_task("", "y = max_pool3d(x, kernel = [3, 2, 5], stride = [1, 2, 3], padding = [1, 0, 2])"));
  tasks.push_back(
      volume_task("", "y = max_pool3d(x, kernel = [3, 2, 4], stride = [2, 1, 1], dilation = [1, 3, 1])"));
  tasks.push_back(
      volume_task("", "y = max_pool3d(x, kernel = 2, stride = 2, padding = 1, dilation = [2, 1, 3])"));
  tasks.push_back(volume_task("", "y = avg_pool3d(x, kernel = [2, 3, 4], padding = [1, 1, 2])"));
  tasks.push_back(volume_task(
      "", "y = avg_pool3d(x, kernel = [3, 1, 1], stride = 1, padding = [1, 0, 0], count_padding = false)"));
  tasks.push_back(volume_task("", "y = avg_pool3d(x, kernel = 1)"));
  check_tasks(tasks, {2}, 3);
}

/// Two channels of a group at a time, of which there are 1 to 4.
TEST(Catalog, ConvolutionsOfBf16MultiplyPairsOfChannels) {
  const std::vector<TaskSpec> tasks = convolutions_of_three_axes("bf16");
  for (const TaskSpec& task : tasks) EXPECT_NE(text_of(task, kPairs).find("gemm_pairs"), std::string::npos);
  check_tasks(tasks, {2}, 4, kPairs);
}

/// A convolution of one axis is one of a plane of height 1, which its activation does not see.
TEST(Catalog, AnActivationBehindAConvolutionOfOneAxisIsFused) {
  const auto task = parse_task(
      "name = \"line\"\ndims = { cout = [1, 20], width = [5, 90] }\ntensor = [{ name = \"x\", shape = [2, 3, "
      "\"width\"] }, "
      "{ name = \"w\", shape = [\"cout\", 3, 3] }, { name = \"b\", shape = [\"cout\"] }, "
      "{ name = \"z\", shape = [2, \"cout\", \"width\"] }]\ngraph = \"\"\"\nh = conv1d(x, w, b, padding = "
      "1)\n"
      "r = relu(h)\ny = add(r, z)\n\"\"\"\nshape = [{ cout = 8, width = 40 }]\n",
      "line.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  for (const bool cuda : {false, true}) {
    const auto emission = catalog::compile(*catalog::lower(*task), {}, nullptr, {.cuda = cuda});
    ASSERT_TRUE(emission.ok()) << emission.error().to_string();
    EXPECT_EQ(parse_candidate(emission->text, "line")->plan().steps.size(), cuda ? 1U : 3U) << emission->text;
  }
  check_tasks({*task}, {2}, 4);
}

/// Kernels of a task with the dim n. `outputs` may be empty: the graph's last value.
void check_chain(const std::string& tensors, const std::string& graph, const std::string& outputs = "") {
  const std::string named = outputs.empty() ? "" : "output = [" + outputs + "]\n";
  const auto task =
      parse_task("name = \"chain\"\ndims = { n = [1, 300] }\ntensor = [" + tensors + "]\ngraph = \"\"\"\n" +
                     graph + "\"\"\"\n" + named + "shape = [{ n = 100 }]\n",
                 "chain.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  check_tasks({*task}, {2}, 2);
}

TEST(Catalog, PadsWithAllDigitsOfANumber) {
  const std::string x = "{ name = \"x\", shape = [3, \"n\"] }";
  for (const char* value : {"0.123456789", "1e-7", "-3e30", "-inf"})
    check_chain(x, std::string("y = pad(x, before = 2, after = 3, value = ") + value + ")\n");
}

TEST(Catalog, AChainOfManyOperandsIsSeveralKernels) {
  std::string tensors = "{ name = \"x0\", shape = [\"n\"] }", graph = "h1 = add(x0, x1)\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string number = std::to_string(i);
    tensors += ", { name = \"x" + number + "\", shape = [\"n\"] }";
    if (i > 1) graph += "h" + number + " = add(h" + std::to_string(i - 1) + ", x" + number + ")\n";
  }
  check_chain(tensors, graph);
}

TEST(Catalog, AChainOfManyResultsIsSeveralKernels) {
  std::string graph = "h1 = sin(x)\n", outputs = "{ name = \"h1\" }";
  for (int i = 2; i <= 30; ++i) {
    const std::string number = std::to_string(i);
    graph += "h" + number + " = sin(h" + std::to_string(i - 1) + ")\n";
    outputs += ", { name = \"h" + number + "\" }";
  }
  check_chain("{ name = \"x\", shape = [\"n\"] }", graph, outputs);
}

TEST(Catalog, AChainOfManyScalarsIsSeveralKernels) {
  std::string tensors = "{ name = \"h0\", shape = [\"n\"] }", graph;
  for (int i = 1; i <= 10; ++i) {
    const std::string number = std::to_string(i);
    tensors += ", { name = \"a" + number + "\", role = \"scalar\" }";
    graph += "h" + number + " = mul(h" + std::to_string(i - 1) + ", a" + number + ")\n";
  }
  check_chain(tensors, graph);
}

TEST(Catalog, AnIndexOfALastKeyMayLieOutside) {
  for (const std::string causal : {"false", "true"}) {
    const auto task = parse_task(
        "name = \"ragged\"\ndims = { L = [1, 9], S = [1, 40] }\ntensor = [{ name = \"q\", shape = [4, 3, "
        "\"L\", 8] }, { name = \"k\", shape = [4, 3, \"S\", 8] }, { name = \"v\", shape = [4, 3, \"S\", 6] "
        "}, "
        "{ name = \"last\", shape = [4], role = \"index\", gen = { kind = \"index\", limit = \"S\" } }]\n"
        "graph = \"y = attention(q, k, v, last, causal = " +
            causal + ")\"\nshape = [{ L = 5, S = 20 }]\n",
        "ragged.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    const auto emission = catalog::compile(*catalog::lower(*task), {}, nullptr, native());
    ASSERT_TRUE(emission.ok()) << emission.error().to_string();
    CandidateRunner runner;
    const int index = runner.add(*parse_candidate(emission->text, task->name));
    runner.build();
    const auto bound = lathe::bind(*task, task->shapes[0].dims);
    ASSERT_TRUE(bound.ok()) << bound.error().to_string();
    std::vector<HostTensor> inputs = generate_inputs(*bound, Distribution::kNormal, Seed::from_number(7));
    const std::int32_t last[] = {-1, 7, 22, 1'000'000};
    ASSERT_EQ(inputs[3].bytes.size(), sizeof last);
    std::memcpy(inputs[3].bytes.data(), last, sizeof last);
    const auto reference = make_reference(*task);
    ASSERT_TRUE(reference.ok()) << reference.error().to_string();
    const auto expected = (*reference)->evaluate(*bound, inputs, Numerics{});
    ASSERT_TRUE(expected.ok()) << expected.error().to_string();
    const Comparison result = compare((*expected)[0], runner.run(index, *bound, inputs)[0], nullptr);
    EXPECT_TRUE(result.pass) << "causal = " << causal << ": " << result.reason << " at " << result.first_bad;
  }
}

TEST(Catalog, AQueryThatSeesNoKeyGivesZeros) {
  const auto task = parse_task(
      "name = \"blind\"\ndims = { L = [9, 40], S = [1, 8] }\ntensor = [{ name = \"q\", shape = [3, \"L\", "
      "8] }, "
      "{ name = \"k\", shape = [3, \"S\", 8] }, { name = \"v\", shape = [3, \"S\", 6] }]\n"
      "graph = \"y = attention(q, k, v, causal = true)\"\nshape = [{ L = 20, S = 7 }]\n",
      "blind.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  check_tasks({*task}, {2}, 4);
}

TEST(Catalog, WhatOverwritesATensorIsComputedFromWhatWasInIt) { check_tasks(inout_tasks(), {3}, 2); }

TEST(Catalog, OpsThatNoShippedTaskHas) { check_tasks(op_tasks(), {2}, 4); }

TEST(Catalog, OpsThatNoShippedTaskHasOverTensorsOf16Bits) {
  const std::vector<TaskSpec> tasks = op_tasks("bf16");
  EXPECT_GE(tasks.size(), 30U);
  check_tasks(tasks, {2}, 2);
}

TEST(Catalog, PositionsAreCountedInTheKernelThatUsesThem) {
  for (const TaskSpec& task : op_tasks()) {
    if (task.name != "weighted_by_position" && task.name != "positions_of_one_axis_of_three") continue;
    const auto emission = catalog::compile(*catalog::lower(task), {}, nullptr, native());
    ASSERT_TRUE(emission.ok()) << emission.error().to_string();
    EXPECT_EQ(parse_candidate(emission->text, task.name)->plan().steps.size(), 1U) << emission->text;
  }
}

TEST(Catalog, AResidualIsAddedInTheKernelThatNormalises) {
  for (const TaskSpec& task : inout_tasks()) {
    if (task.name != "norm_of_the_new_value" && task.name != "momentum") continue;
    for (const bool cuda : {false, true}) {
      const auto emission = catalog::compile(*catalog::lower(task), {}, nullptr, {.cuda = cuda});
      ASSERT_TRUE(emission.ok()) << emission.error().to_string();
      EXPECT_EQ(parse_candidate(emission->text, task.name)->plan().steps.size(), 1U) << emission->text;
    }
  }
}

TEST(Catalog, ReductionsOfSingleElementsAreNoLoops) {
  std::vector<TaskSpec> tasks;
  for (const char* graph : {"y = sum(x, axis = 1)", "y = reduce_max(x, axes = [1, 3], keepdims = true)",
                            "y = softmax(x, axis = 1)", "y = log_softmax(x)", "y = var(x, axis = 3)",
                            "y = logsumexp(x, axes = [1, 3])", "y = layer_norm(x)", "y = rms_norm(x)",
                            "y = l2_normalize(x)", "s = mul(x, x)\nh = mean(s, axis = 3)\ny = exp(h)",
                            "y = argmax(x)", "y = argmin(x, axis = 1, keepdims = true)",
                            "i = argmax(x, axis = 1, keepdims = true)\ny = take_along(x, i, axis = 1)"}) {
    const auto task = parse_task(
        "name = \"single\"\ndims = { m = [2, 90], n = [2, 40] }\ntensor = [{ name = \"x\", shape = [\"m\", "
        "1, \"n\", 1] "
        "}]\ngraph = \"\"\"\n" +
            std::string(graph) + "\n\"\"\"\nshape = [{ m = 70, n = 33 }]\n",
        "single.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    tasks.push_back(*task);
  }
  tasks.push_back(*parse_task(
      "name = \"key\"\ndims = { L = [9, 40], S = [1, 8] }\ntensor = [{ name = \"q\", shape = [\"S\", "
      "\"L\", 8] }, { name = \"k\", shape = [\"S\", 1, 8] }, { name = \"v\", shape = [\"S\", 1, 6] }]\n"
      "graph = \"y = attention(q, k, v, causal = true)\"\nshape = [{ L = 20, S = 7 }]\n",
      "key.toml"));
  check_tasks(tasks, {2}, 4);
}

/// Rows of one to some elements, which are computed value by value, and gathered elements.
TEST(Catalog, RowsShorterThanAVector) {
  std::vector<TaskSpec> tasks;
  const auto add = [&](const std::string& tensors, const std::string& graph,
                       const std::string& outputs = "") {
    const std::string named = outputs.empty() ? "" : "output = [" + outputs + "]\n";
    const auto task =
        parse_task("name = \"narrow\"\ndims = { m = [2, 90], n = [2, 40] }\ntensor = [" + tensors +
                       "]\ngraph = \"\"\"\n" + graph + "\n\"\"\"\n" + named + "shape = [{ m = 70, n = 3 }]\n",
                   "narrow.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    tasks.push_back(*task);
  };
  const std::string x = "{ name = \"x\", shape = [\"m\", \"n\"] }",
                    rows = "{ name = \"x\", shape = [9, \"m\", \"n\"] }",
                    planes = "{ name = \"x\", shape = [2, 3, \"m\", \"n\"] }",
                    line = "{ name = \"x\", shape = [\"m * n\"] }";
  const auto index = [](const std::string& limit, const std::string& more = "") {
    return ", { name = \"i\", shape = [\"m\"], role = \"index\", gen = { kind = \"index\", limit = \"" +
           limit + "\" }" + more + " }";
  };
  add(x, "p = softmax(x)\ng = reduce_max(p, axis = 1)\ni = argmax(x, axis = 1)",
      "{ name = \"g\" }, { name = \"i\" }");
  add(x + ", { name = \"b\", shape = [\"n\"] }", "h = add(x, b)\ny = layer_norm(h)");
  add(x + ", { name = \"b\", shape = [\"m\", 1] }", "h = mul(x, b)\ny = tril(h)");
  add(rows,
      "a = mean(x, axis = 2)\nb = prod(x, axis = 2)\nc = reduce_min(x, axis = 2)\nd = add(a, b)\ny = sub(d, "
      "c)");
  add(rows, "s = sum(x, axes = [0, 2])");
  add(rows +
          ", { name = \"k\", shape = [\"n\"], dtype = \"bool\", gen = { kind = \"zeros_ones\" } }, { name = "
          "\"low\", role = \"scalar\", value = -3.0 }",
      "y = where(k, x, low)");
  add(rows,
      "a = slice(x, axis = 2, start = 0, stop = 1)\nb = slice(x, axis = 2, start = \"n - 1\", stop = "
      "\"n\")\nc = "
      "mul(a, b)\nd = sub(a, b)\nz = concat(d, c, axis = 2)\ny = pad(z, axis = 2, before = 1, after = 2)");
  add(rows, "t = transpose(x, perm = [1, 0, 2])\ny = flip(t, axis = 1)");
  add(planes, "p = avg_pool2d(x, kernel = 3, stride = 2, padding = 1)\ny = relu(p)");
  add(planes, "y = avg_pool2d(x, kernel = 2, stride = 1, padding = 1, count_padding = false)");
  add(planes, "y = max_pool2d(x, kernel = 2, stride = 1)");
  add(planes, "y = max_pool2d(x, kernel = 2, stride = 1, padding = 1)");
  add(x + index("n"), "y = gather(x, i, axis = 1)");
  add(line + index("m * n"), "y = gather(x, i)");
  add(line + index("m * n", ", dtype = \"int64\""), "y = gather(x, i)");
  add(rows + index("m"), "y = gather(x, i, axis = 1)");
  const auto along = [](const std::string& shape, const std::string& limit, const std::string& more = "") {
    return ", { name = \"i\", shape = [" + shape +
           "], role = \"index\", gen = { kind = \"index\", limit = \"" + limit + "\" }" + more + " }";
  };
  add(x + along("\"m\", 5", "n"), "y = take_along(x, i)");
  add(x + along("5, \"n\"", "m", ", dtype = \"int64\""), "y = take_along(x, i, axis = 0)");
  add(rows + along("9, \"n\", \"n\"", "m"), "h = take_along(x, i, axis = 1)\ny = relu(h)");
  add(line + along("\"m\"", "m * n"), "y = take_along(x, i)");
  add(x, "i = argmax(x, axis = 1, keepdims = true)\ny = take_along(x, i)");
  check_tasks(tasks, {2}, 4);
}

/// More terms than one fp32 accumulator may have, over one axis and over two.
TEST(Catalog, LongSumsOfColumnsAreMadeOfParts) {
  std::vector<TaskSpec> tasks;
  for (const std::string graph :
       {"y = sum(x, axis = 0)",
        "c = mean(x, axis = 0)\nd = sub(x, c)\nq = square(d)\ny = mean(q, axis = 0)"}) {
    const auto task = parse_task(
        "name = \"long_columns\"\ndims = { m = [1, 70000], n = [1, 3] }\ntensor = [{ name = "
        "\"x\", shape = [\"m\", \"n\"] }]\ngraph = \"\"\"\n" +
            graph + "\n\"\"\"\nfixed = true\nshape = [{ m = 65536, n = 2 }]\n",
        "long.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    const auto emission = catalog::compile(*catalog::lower(*task), {}, nullptr, native());
    CandidateRunner runner;
    const int index = runner.add(*parse_candidate(emission->text, task->name));
    runner.build();
    const auto bound = lathe::bind(*task, task->shapes[0].dims);
    for (const Distribution distribution : all_distributions()) {
      const auto sample = draw_sample(**make_reference(*task), *bound, distribution, Seed::from_number(1));
      ASSERT_TRUE(sample.ok());
      if (!*sample) continue;
      const auto outputs = runner.run(index, *bound, (*sample)->inputs);
      EXPECT_TRUE(compare((*sample)->expected[0], outputs[0], nullptr).pass)
          << graph << " on " << name(distribution);
    }
  }
}

/// Of one row, and of short rows of several planes.
TEST(Catalog, LongSumsOfRowsAreMadeOfParts) {
  for (const std::string tensor_and_graph :
       {"tensor = [{ name = \"x\", shape = [\"m * n\"] }]\ngraph = \"a = softplus(x)\\ny = mean(a)\"\n",
        "tensor = [{ name = \"x\", shape = [\"m\", 2, \"n\"] }]\n"
        "graph = \"a = softplus(x)\\ny = mean(a, axes = [0, 2])\"\n"}) {
    const auto task = parse_task("name = \"long_rows\"\ndims = { m = [1, 262144], n = [1, 64] }\n" +
                                     tensor_and_graph + "shape = [{ m = 131072, n = 32 }]\n",
                                 "long.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    const auto emission = catalog::compile(*catalog::lower(*task), {{"g0.unroll", 1}}, nullptr);
    CandidateRunner runner;
    const int index = runner.add(*parse_candidate(emission->text, task->name));
    runner.build();
    const auto bound = lathe::bind(*task, task->shapes[0].dims);
    const auto sample =
        draw_sample(**make_reference(*task), *bound, Distribution::kOneHot, Seed::from_number(1));
    ASSERT_TRUE(sample.ok() && *sample);
    const auto outputs = runner.run(index, *bound, (*sample)->inputs);
    EXPECT_TRUE(compare((*sample)->expected[0], outputs[0], nullptr).pass) << tensor_and_graph;
  }
}

TEST(Catalog, LongProductsPoolsAndScansAreMadeOfParts) {
  for (
      const std::string body :
      {"dims = { k = [1, 1048576] }\ntensor = [{ name = \"a\", shape = [2, \"k\"] }, { name = \"b\", shape = "
       "[\"k\", 1] }]\ngraph = \"y = matmul(a, b)\"\nshape = [{ k = 1048576 }]\n",
       "dims = { k = [1, 524288] }\ntensor = [{ name = \"a\", shape = [16, \"k\"] }, { name = \"b\", shape = "
       "[\"k\", 16] }]\ngraph = \"y = matmul(a, b)\"\nshape = [{ k = 524288 }]\n",
       "dims = { k = [1, 2097152] }\ntensor = [{ name = \"x\", shape = [1, \"k\"] }]\n"
       "graph = \"y = cumsum(x, axis = 1)\"\nshape = [{ k = 2097152 }]\n",
       "dims = { k = [1, 524288] }\ntensor = [{ name = \"x\", shape = [\"k\", 2] }]\n"
       "graph = \"y = cumsum(x, axis = 0)\"\nshape = [{ k = 524288 }]\n",
       "dims = { k = [512, 1024] }\ntensor = [{ name = \"x\", shape = [1, 4, \"k\", \"k\"] }]\n"
       "graph = \"y = avg_pool2d(x, kernel = 512)\"\nshape = [{ k = 1024 }]\n",
       "dims = { k = [1, 16384] }\ntensor = [{ name = \"x\", shape = [1, \"k\", 8, 8] }, { name = \"w\", "
       "shape = "
       "[1, \"k\", 8, 8] }]\ngraph = \"y = conv2d(x, w)\"\nshape = [{ k = 16384 }]\n"}) {
    const auto task = parse_task("name = \"long_sums\"\n" + body, "long.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    const auto emission = catalog::compile(*catalog::lower(*task), {}, nullptr, native());
    CandidateRunner runner;
    const int index = runner.add(*parse_candidate(emission->text, task->name));
    runner.build();
    const auto bound = lathe::bind(*task, task->shapes[0].dims);
    const auto reference = make_reference(*task);
    for (const Distribution distribution : {Distribution::kOffset, Distribution::kLarge}) {
      SCOPED_TRACE(body + std::string(name(distribution)));
      const auto sample = draw_sample(**reference, *bound, distribution, Seed::from_number(1));
      ASSERT_TRUE(sample.ok() && *sample);
      const auto outputs = runner.run(index, *bound, (*sample)->inputs);
      EXPECT_TRUE(compare((*sample)->expected[0], outputs[0], nullptr).pass);
    }
  }
}

TEST(Catalog, AResultAndAViewOfItAreBothReturned) {
  check_chain("{ name = \"x\", shape = [\"n\", 3] }", "h = relu(x)\ny = reshape(h, shape = [\"3 * n\"])\n",
              "{ name = \"y\" }, { name = \"h\" }");
}

TEST(Catalog, NamesOfATaskAreNoTemporariesOfAKernel) {
  check_chain("{ name = \"y_t0\", shape = [\"n\", 3] }, { name = \"y_view\", shape = [\"n\", 3] }",
              "y = softmax(y_t0)\ny_t1 = add(y, y_view)\nz = mul(y_t1, y)\n",
              "{ name = \"y\" }, { name = \"y_t1\" }, { name = \"z\" }");
}

}  // namespace
}  // namespace lathe
