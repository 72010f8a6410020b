// Everything that the catalogue and the naive build write for a GPU compiles, and the cubins hold
// no state. Whether it is right is for machines with a GPU to say (lathe eval --device cuda).

#include <gmock/gmock.h>

#include "backend/cuda/broker/compiler_notes.h"
#include "backend/cuda/broker/cubin_image.h"
#include "backend/cuda/runner/nvrtc.h"
#include "base/fd.h"
#include "baseline/baseline.h"
#include "policy/catalog/compile.h"
#include "policy/catalog/cost/tensor_tile.h"
#include "policy/catalog/cost/warpgroup_tile.h"
#include "tests/policy/inout_tasks.h"
#include "tests/policy/op_tasks.h"
#include "tests/task/shipped_tasks.h"

namespace lathe {
namespace {

/// What the compiler's notes may say of a kernel that compiles.
enum class Notes {
  kAny,
  kSpills,  ///< only of spilled registers
  kNone,
};

class CudaCatalogTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc_.ok()) GTEST_SKIP() << "no NVRTC: " << nvrtc_.error().to_string();
  }

  /// Why the text cannot be used; empty if it can.
  std::string try_out(const std::string& text, const TaskSpec& task, Notes allowed) const {
    const auto candidate = parse_candidate(text, task.name);
    if (!candidate.ok()) return candidate.error().to_string() + "\n" + text;
    if (const auto checked = check_plan(*candidate, task); !checked.ok())
      return checked.error().to_string() + "\n" + text;
    const std::vector<std::string> flags = {"-arch=sm_90a", "-I" LATHE_SOURCE_DIR "/device",
                                            cuda::kNoteFlags};
    Dims constants;
    for (const std::string& dim : candidate->plan().constants) constants[dim] = task.shapes[0].dims.at(dim);
    const cuda::Compiled compiled = nvrtc_->compile(with_constants(text, constants), flags);
    auto notes = cuda::facts_of_log(compiled.log);
    if (allowed == Notes::kSpills) notes.erase("spill_bytes");
    if (!compiled.ok || (allowed != Notes::kAny && !notes.empty()))
      return compiled.log.substr(0, 1000) + "\n" + text;
    return cuda::check_cubin(compiled.cubin).reason;
  }

  const Result<cuda::Nvrtc> nvrtc_ = cuda::Nvrtc::open();
};

TEST_F(CudaCatalogTest, TheNaiveBuildOfEveryTaskCompiles) {
  for (const TaskSpec& task : shipped_tasks()) {
    const auto naive = naive_candidate(task, Dialect::kCuda);
    if (task.reference == ReferenceKind::kNative) continue;
    ASSERT_TRUE(naive.ok()) << naive.error().to_string();
    EXPECT_EQ(try_out(naive->text, task, Notes::kAny), "") << task.name;
  }
}

TEST_F(CudaCatalogTest, EveryPatternForTeamsOfThreadsCompiles) {
  Rng rng(Seed::from_number(1));
  int known = 0;
  for (const TaskSpec& task : shipped_tasks()) {
    const auto graph = catalog::lower_for(task, {.cuda = true});
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    const auto emission = catalog::compile(*graph, {}, nullptr, {.cuda = true});
    if (!emission.ok()) {
      std::printf("%s: %s\n", task.name.c_str(), emission.error().to_string().c_str());
      continue;
    }
    EXPECT_EQ(try_out(emission->text, task, Notes::kNone), "") << task.name;
    const auto fixed = catalog::compile(*graph, {{"fixed", 1}}, nullptr, {.cuda = true});
    ASSERT_TRUE(fixed.ok());
    if (fixed->text != emission->text) {
      EXPECT_EQ(try_out(fixed->text, task, Notes::kNone), "") << task.name;
    }
    const auto drawn = catalog::compile(*graph, {}, &rng, {.cuda = true});
    ASSERT_TRUE(drawn.ok());
    // 1024 threads that unroll eight times have too few registers; that is for timing to find.
    EXPECT_EQ(try_out(drawn->text, task, Notes::kSpills), "") << task.name;
    ++known;
  }
  EXPECT_GE(known, 30);
}

TEST_F(CudaCatalogTest, PatternsOverTensorsOf16BitsCompile) {
  int known = 0;
  for (const TaskSpec& task : shipped_tasks_of("bf16")) {
    const auto graph = catalog::lower_for(task, {.cuda = true});
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    const auto emission = catalog::compile(*graph, {}, nullptr, {.cuda = true});
    ASSERT_TRUE(emission.ok()) << task.name << ": " << emission.error().to_string();
    EXPECT_EQ(try_out(emission->text, task, Notes::kNone), "") << task.name;
    ++known;
  }
  EXPECT_GE(known, 60);
}

TEST_F(CudaCatalogTest, TasksThatOverwriteTensorsCompile) {
  Rng rng(Seed::from_number(1));
  for (const TaskSpec& task : inout_tasks()) {
    const auto graph = catalog::lower_for(task, {.cuda = true});
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    for (const bool drawn : {false, true}) {
      const auto emission = catalog::compile(*graph, {}, drawn ? &rng : nullptr, {.cuda = true});
      ASSERT_TRUE(emission.ok()) << task.name << ": " << emission.error().to_string();
      EXPECT_EQ(try_out(emission->text, task, drawn ? Notes::kSpills : Notes::kNone), "") << task.name;
    }
    const auto naive = naive_candidate(task, Dialect::kCuda);
    ASSERT_TRUE(naive.ok()) << naive.error().to_string();
    EXPECT_EQ(try_out(naive->text, task, Notes::kAny), "") << task.name;
  }
}

TEST_F(CudaCatalogTest, OpsThatNoShippedTaskHasCompile) {
  std::vector<TaskSpec> tasks = op_tasks();
  for (TaskSpec& narrow : op_tasks("bf16")) tasks.push_back(std::move(narrow));
  for (const TaskSpec& task : tasks) {
    const auto naive = naive_candidate(task, Dialect::kCuda);
    ASSERT_TRUE(naive.ok()) << naive.error().to_string();
    EXPECT_EQ(try_out(naive->text, task, Notes::kAny), "") << task.name;
    const auto graph = catalog::lower_for(task, {.cuda = true});
    if (!graph.ok()) continue;
    const auto emission = catalog::compile(*graph, {}, nullptr, {.cuda = true});
    if (!emission.ok()) {  // which ones, golden/declined_gpu.txt says
      EXPECT_EQ(emission.error().code, ErrorCode::kUnavailable) << emission.error().to_string();
      continue;
    }
    EXPECT_EQ(try_out(emission->text, task, Notes::kSpills), "") << task.name;
  }
}

TEST_F(CudaCatalogTest, TheExamplesForPeopleCompile) {
  for (const char* name : {"gelu", "softmax_rows", "matmul_fp16", "conv_bias_gelu"}) {
    const std::string own = std::string(LATHE_SOURCE_DIR "/examples/cuda/") + name + ".toml";
    const std::string shipped = std::string(LATHE_SOURCE_DIR "/tasks/") + name + ".toml";
    const auto task = load_task(read_file(own).ok() ? own : shipped);
    const auto text = read_file(std::string(LATHE_SOURCE_DIR "/examples/cuda/") + name + ".cu");
    ASSERT_TRUE(task.ok() && text.ok()) << name;
    EXPECT_EQ(try_out(*text, *task, Notes::kNone), "") << name;
    const auto naive = naive_candidate(*task, Dialect::kCuda);
    ASSERT_TRUE(naive.ok()) << naive.error().to_string();
    EXPECT_EQ(try_out(naive->text, *task, Notes::kAny), "") << name;
  }
}

TEST_F(CudaCatalogTest, TheNaiveBuildKnowsHalfPrecision) {
  for (const std::string dtype : {"fp16", "bf16"}) {
    const std::string typed = "dtype = \"" + dtype + "\", shape = ";
    const auto task =
        parse_task("name = \"halves\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", " + typed +
                       "[\"n\", 8] }, { name = \"b\", " + typed +
                       "[8] }]\ngraph = \"\"\"\nh = bias_add(x, b)\ng = gelu(h)\ny = softmax(g)\n\"\"\"\n" +
                       "shape = [{ n = 4 }]\n",
                   "halves.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    const auto naive = naive_candidate(*task, Dialect::kCuda);
    ASSERT_TRUE(naive.ok()) << naive.error().to_string();
    EXPECT_EQ(try_out(naive->text, *task, Notes::kAny), "") << dtype;
  }
}

/// Tensors of 8 bits are read, moved and written; products take copies.
TEST_F(CudaCatalogTest, TensorsOf8BitsCompile) {
  for (const std::string dtype : {"fp8e4m3", "fp8e5m2"})
    for (const std::string& graph :
         {"a = cast(x, dtype = \"fp32\")\ns = softmax(a)\nc = clamp(s, high = 448)\n"
          "y = cast(c, dtype = \"" +
              dtype + "\")",
          std::string("t = transpose(x)\nm = reduce_max(t, axis = 0)\ny = relu(m)"),
          std::string("y = matmul(x, x, transpose_b = true, out_dtype = \"fp32\")")}) {
      const auto task = parse_task(
          "name = \"eight_bits\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", dtype = \"" + dtype +
              "\", shape = [\"n\", \"n\"] }]\ngraph = '''\n" + graph + "\n'''\nshape = [{ n = 512 }]\n",
          "eight_bits.toml");
      ASSERT_TRUE(task.ok()) << task.error().to_string();
      const auto naive = naive_candidate(*task, Dialect::kCuda);
      ASSERT_TRUE(naive.ok()) << naive.error().to_string();
      EXPECT_EQ(try_out(naive->text, *task, Notes::kAny), "") << graph;
      const auto lowered = catalog::lower_for(*task, {.cuda = true});
      ASSERT_TRUE(lowered.ok()) << lowered.error().to_string();
      const auto emission = catalog::compile(*lowered, {}, nullptr, {.cuda = true});
      ASSERT_TRUE(emission.ok()) << emission.error().to_string();
      EXPECT_EQ(try_out(emission->text, *task, Notes::kSpills), "") << graph;
    }
}

/// Ops for which the catalogue has no pattern, so that no shipped task has them.
TEST_F(CudaCatalogTest, TheNaiveBuildOfOrdersCompiles) {
  for (const std::string dtype : {"fp32", "fp16", "int8"})
    for (const std::string graph :
         {"y = sort(x)", "y = argsort(x)", "y = argsort(x, axis = 0, descending = true)"}) {
      const auto task =
          parse_task("name = \"ordered\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", dtype = \"" + dtype +
                         "\", shape = [\"n\", 8] }]\ngraph = \"" + graph + "\"\nshape = [{ n = 4 }]\n",
                     "ordered.toml");
      ASSERT_TRUE(task.ok()) << task.error().to_string();
      const auto naive = naive_candidate(*task, Dialect::kCuda);
      ASSERT_TRUE(naive.ok()) << naive.error().to_string();
      EXPECT_EQ(try_out(naive->text, *task, Notes::kAny), "") << graph << " of " << dtype;
    }
}

TEST_F(CudaCatalogTest, TheNaiveBuildOfSumsByIndexCompiles) {
  for (const std::string dtype : {"fp32", "fp16", "fp64", "int8", "int64"})
    for (const std::string graph :
         {"y = scatter_add(b, i, x)", "s = scatter_add(b, i, x)\nc = bincount(i, bins = 9)"}) {
      const auto task =
          parse_task("name = \"sums\"\ndims = [\"n\"]\ntensor = [{ name = \"b\", dtype = \"" + dtype +
                         "\", shape = [9, 8] }, { name = \"i\", shape = [\"n\"], role = \"index\", gen = { "
                         "kind = \"index\", limit = 9 } "
                         "}, { name = \"x\", dtype = \"" +
                         dtype + "\", shape = [\"n\", 8] }]\ngraph = \"\"\"\n" + graph +
                         "\n\"\"\"\noutput = [{ name = \"" + (graph[0] == 'y' ? "y" : "s\" }, { name = \"c") +
                         "\" }]\nshape = [{ n = 9000 }]\n",
                     "sums.toml");
      ASSERT_TRUE(task.ok()) << task.error().to_string();
      const auto naive = naive_candidate(*task, Dialect::kCuda);
      ASSERT_TRUE(naive.ok()) << naive.error().to_string();
      EXPECT_EQ(try_out(naive->text, *task, Notes::kAny), "") << graph << " of " << dtype;
    }
}

TEST_F(CudaCatalogTest, IndicesOfSingleElementsCompile) {
  for (const std::string graph :
       {"y = argmax(x)", "i = argmin(x, axis = 1, keepdims = true)\ny = take_along(x, i, axis = 1)"}) {
    const auto task = parse_task(
        "name = \"single\"\ndims = { n = [2, 90] }\ntensor = [{ name = \"x\", shape = "
        "[\"n\", 1] }]\ngraph = \"\"\"\n" +
            graph + "\n\"\"\"\nshape = [{ n = 70 }]\n",
        "single.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    const auto lowered = catalog::lower_for(*task, {.cuda = true});
    ASSERT_TRUE(lowered.ok()) << lowered.error().to_string();
    const auto emission = catalog::compile(*lowered, {}, nullptr, {.cuda = true});
    ASSERT_TRUE(emission.ok()) << emission.error().to_string();
    EXPECT_EQ(try_out(emission->text, *task, Notes::kAny), "") << graph;
  }
}

TEST_F(CudaCatalogTest, ElementwiseFunctionsCompile) {
  for (const std::string dtype : {"fp32", "fp16", "fp64"}) {
    std::string graph;
    std::string value = "x";
    for (const std::string call :
         {"tan(x)", "atan(x)", "asin(x)", "acos(x)", "sinh(x)", "cosh(x)", "exp2(x)", "log2(x)", "selu(x)",
          "log_sigmoid(x)", "softshrink(x, lambda = 0.3)", "hardshrink(x)", "prelu(x, s)"}) {
      const std::string name = call.substr(0, call.find('('));
      graph += name + "_x = " + call + "\n" + name + "_sum = add(" + value + ", " + name + "_x)\n";
      value = name + "_sum";
    }
    const auto task =
        parse_task("name = \"functions\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", dtype = \"" + dtype +
                       "\", shape = [\"n\", 8] }, { name = \"s\", dtype = \"" + dtype +
                       "\", shape = [8] }]\ngraph = \"\"\"\n" + graph + "\"\"\"\nshape = [{ n = 4 }]\n",
                   "functions.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    const auto naive = naive_candidate(*task, Dialect::kCuda);
    ASSERT_TRUE(naive.ok()) << naive.error().to_string();
    EXPECT_EQ(try_out(naive->text, *task, Notes::kAny), "") << dtype;
    const auto lowered = catalog::lower_for(*task, {.cuda = true});
    ASSERT_TRUE(lowered.ok()) << lowered.error().to_string();
    const auto emission = catalog::compile(*lowered, {}, nullptr, {.cuda = true});
    ASSERT_EQ(emission.ok(), dtype != "fp64") << "on a GPU the catalogue computes in fp32";
    if (!emission.ok()) continue;
    EXPECT_EQ(try_out(emission->text, *task, Notes::kAny), "");
  }
}

TEST_F(CudaCatalogTest, BitsOfWholeNumbersCompile) {
  for (const std::string dtype : {"int8", "int32", "int64"}) {
    const std::string typed = ", dtype = \"" + dtype + "\"";
    const auto task = parse_task(
        "name = \"bits\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\", 8]" + typed +
            " }, { name = \"s\", shape = [8]" + typed +
            ", gen = { kind = \"uniform\", low = 0, high = 7 } }]\ngraph = \"\"\"\na = bitwise_and(x, s)\n"
            "b = bitwise_or(a, value = 5)\nc = bitwise_xor(b, x)\nd = bitwise_not(c)\ne = shift_left(d, s)\n"
            "f = shift_right(e, by = 2)\ny = shift_right(f, s)\n\"\"\"\nshape = [{ n = 4 }]\n",
        "bits.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    const auto naive = naive_candidate(*task, Dialect::kCuda);
    ASSERT_TRUE(naive.ok()) << naive.error().to_string();
    EXPECT_EQ(try_out(naive->text, *task, Notes::kAny), "") << dtype;
    const auto graph = catalog::lower_for(*task, {.cuda = true});
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    const auto emission = catalog::compile(*graph, {}, nullptr, {.cuda = true});
    ASSERT_EQ(emission.ok(), dtype == "int8") << "on a GPU the catalogue computes in fp32";
    if (!emission.ok()) continue;
    EXPECT_EQ(try_out(emission->text, *task, Notes::kNone), "");
  }
}

/// A kernel that stores a product by the tile.
std::string product_text(const catalog::TensorTile& tile, const catalog::TensorFactors& factors,
                         int split = 1) {
  const std::string factor = "const " + std::string(info(factors.dtype).c_name) + "* ";
  return "#include <lathe/cuda.cuh>\n#include <lathe/cuda/gemm_fused.cuh>\nusing namespace lathe;\n"
         "using Block = " +
         tile.type(split, factors) +
         ";\nextern \"C\" __global__ void __launch_bounds__(Block::kThreads) product(" + factor + "a, " +
         factor +
         "b, float* c, int64_t m, int64_t n, int64_t k) {\n"
         "const Block::Place place = Block::place(blockIdx.x, m, n);\n"
         "const Block block{a, b, place.row, place.column, m, n, k};\n"
         "block.run([&](int64_t i, int64_t j, float x) { c[i * n + j] = x; });\n}\n";
}

TEST_F(CudaCatalogTest, BlocksOfAClusterShareTheDepthOfEveryTile) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const catalog::TensorTile& tile : catalog::tensor_tiles(dtype)) {
      const cuda::Compiled compiled = nvrtc_->compile(
          "#define LATHE_TEAM 32\n#define LATHE_VECTOR 4\n" + product_text(tile, {dtype, false, true}, 4),
          {"-arch=sm_90a", "-I" LATHE_SOURCE_DIR "/device"});
      EXPECT_TRUE(compiled.ok) << compiled.log.substr(0, 500);
    }
}

TEST_F(CudaCatalogTest, NoTileOfAProductSpillsRegisters) {
  using catalog::TensorFactors, catalog::TensorTile;
  const auto log_of = [&](const TensorTile& tile, const TensorFactors& factors) {
    const cuda::Compiled compiled =
        nvrtc_->compile("#define LATHE_TEAM 32\n#define LATHE_VECTOR 4\n" + product_text(tile, factors),
                        {"-arch=sm_90a", "-I" LATHE_SOURCE_DIR "/device", "--ptxas-options=-warn-spills"});
    return compiled.ok ? compiled.log : "failed: " + compiled.log;
  };
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const TensorTile& tile : catalog::tensor_tiles(dtype))
      for (const bool a : {false, true})
        for (const bool b : {false, true})
          EXPECT_EQ(log_of(tile, {dtype, a, b}), "") << tile.type(1, {dtype, a, b});
  EXPECT_THAT(log_of({128, 128, 32, 3, 64, 64, 1, 0, 0}, {}), testing::HasSubstr("spill"));
}

/// A product of bf16, M x K by K x N, with what follows in `graph`.
TaskSpec half_product(const std::string& x, const std::string& w, const std::string& graph) {
  const auto task = parse_task(
      "name = \"half_product\"\ndims = { M = [1, 8192], N = [1, 8192], K = [1, 8192] }\ntensor = [{ name = "
      "\"x\", dtype = "
      "\"bf16\", shape = " +
          x + " }, { name = \"w\", dtype = \"bf16\", shape = " + w +
          " }, { name = \"r\", dtype = \"bf16\", shape = [\"M\", \"N\"] }]\ngraph = \"\"\"\n" + graph +
          "\n\"\"\"\nshape = [{ M = 2048, N = 1024, K = 512 }]\n",
      "half_product.toml");
  EXPECT_TRUE(task.ok()) << task.error().to_string();
  return *task;
}

TEST_F(CudaCatalogTest, WarpgroupsMultiplyWhatMapsCanDescribe) {
  const std::string follows = "\nh = add(p, r)\ny = relu(h)";
  for (const auto& [x, w, graph] : std::vector<std::array<std::string, 3>>{
           {"[\"M\", \"K\"]", "[\"K\", \"N\"]", "p = matmul(x, w)"},
           {"[\"K\", \"M\"]", "[\"N\", \"K\"]",
            "p = matmul(x, w, transpose_a = true, transpose_b = true)"}}) {
    const TaskSpec task = half_product(x, w, graph + follows);
    const auto lowered = catalog::lower_for(task, {.cuda = true});
    ASSERT_TRUE(lowered.ok()) << lowered.error().to_string();
    for (std::size_t tile = 0; tile < catalog::warpgroup_tiles().size(); ++tile)
      for (const int split : {1, 4}) {
        const catalog::Schedule schedule = {
            {"g0.warpgroups", 1}, {"g0.tile", static_cast<int>(tile)}, {"g0.split", split}};
        const auto emission = catalog::compile(*lowered, schedule, nullptr, {.cuda = true});
        ASSERT_TRUE(emission.ok()) << emission.error().to_string();
        if (emission->schedule.at("g0.split") != split) continue;
        EXPECT_THAT(emission->text, testing::HasSubstr("WgmmaGemm<"));
        const bool asks = emission->text.find("K > 192") != emission->text.npos;
        EXPECT_EQ(asks, split == 4) << "each of the blocks has a step of 64 terms";
        EXPECT_EQ(try_out(emission->text, task, Notes::kNone), "") << emission->text;
      }
    EXPECT_THAT(catalog::compile(*lowered, {}, nullptr, {.cuda = true, .warpgroups = false})->text,
                testing::Not(testing::HasSubstr("WgmmaGemm<")));
  }
}

TEST_F(CudaCatalogTest, ProductsCompileForGpusWithoutClusters) {
  const auto task = load_task(LATHE_SOURCE_DIR "/tasks/gemm_bias_gelu.toml");
  const auto graph = catalog::lower_for(*task, {.cuda = true});
  const auto emission = catalog::compile(*graph, {}, nullptr, {.cuda = true, .cluster = 1});
  const cuda::Compiled compiled =
      nvrtc_->compile(emission->text, {"-arch=sm_80", "-I" LATHE_SOURCE_DIR "/device"});
  EXPECT_TRUE(compiled.ok) << compiled.log;
}

class ProductText : public testing::Test {
 protected:
  static std::string text(const char* task_name, const catalog::Target& target) {
    const auto task = load_task(std::string(LATHE_SOURCE_DIR "/tasks/") + task_name + ".toml");
    const auto graph = catalog::lower_for(*task, {.cuda = true});
    return catalog::compile(*graph, {}, nullptr, target)->text;
  }
};

TEST_F(ProductText, BlocksOfAClusterShareTheDepthOfAProductThatFillsNoGpu) {
  EXPECT_THAT(text("mlp", {.cuda = true}), testing::HasSubstr("cluster = ["));
}

TEST_F(ProductText, HasNoClustersWhereTheGpuHasNone) {
  EXPECT_THAT(text("mlp", {.cuda = true, .cluster = 1}), testing::Not(testing::HasSubstr("cluster")));
}

TEST_F(ProductText, TakesNoMoreSharedMemoryThanABlockMayHave) {
  const catalog::Target small{.cuda = true, .shared_bytes = 30 * 1024};
  for (const char* task : {"gemm_square", "gemm_transposed_b", "batched_matmul"}) {
    const std::string emitted = text(task, small);
    const std::size_t at = emitted.find("smem = ");
    ASSERT_NE(at, std::string::npos);
    EXPECT_LE(std::stoi(emitted.substr(at + 7)), 30 * 1024) << task;
  }
}

}  // namespace
}  // namespace lathe
