#include "candidate/launch_program.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/candidate/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

const Dims kFacts = {{"threads", 2}, {"cores", 4}, {"l2_bytes", 1 << 20}};

Result<LaunchProgram> compile(const std::string& plan) {
  const auto candidate = candidate_with(plan);
  EXPECT_TRUE(candidate.ok()) << candidate.error().to_string();
  const Status checked = check_plan(*candidate, sample_task());
  EXPECT_TRUE(checked.ok()) << checked.error().to_string();
  const auto bound = lathe::bind(sample_task(), {{"M", 6}, {"K", 4}});
  EXPECT_TRUE(bound.ok());
  return compile_plan(*candidate, *bound, kFacts);
}

std::string launch(const std::string& more = "") {
  return "[[launch]]\nkernel = \"f\"\nargs = [\"x\", \"y\", \"M\"]\n" + more;
}

std::int64_t integer(const BoundArg& arg) { return std::get<std::int64_t>(arg); }

TEST(CompilePlan, ArgumentsBecomeIndicesAndNumbers) {
  const auto program = compile(R"plan([[scratch]]
name = "s"
bytes = "4 * M"
init = "counter"
[[launch]]
kernel = "f"
items = "cdiv(M, threads)"
args = ["w", "y", "s", "alpha", "K", "M * K + 1", "l2_bytes"]
)plan");
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 1u);
  const BoundStep& step = program->steps[0];
  EXPECT_EQ(step.kernel, "f");
  EXPECT_EQ(step.items, 3);
  ASSERT_EQ(step.args.size(), 7u);
  const auto buffer = [&](std::size_t i) { return std::get<BufferRef>(step.args[i]); };
  EXPECT_EQ(buffer(0).kind, BufferRef::Kind::kInput);
  EXPECT_EQ(buffer(0).index, 1);
  EXPECT_EQ(buffer(1).kind, BufferRef::Kind::kOutput);
  EXPECT_EQ(buffer(2).kind, BufferRef::Kind::kScratch);
  EXPECT_EQ(std::get<ScalarRef>(step.args[3]).input, 2);
  EXPECT_EQ(integer(step.args[4]), 4);
  EXPECT_EQ(integer(step.args[5]), 25);
  EXPECT_EQ(integer(step.args[6]), 1 << 20);
  ASSERT_EQ(program->scratch.size(), 1u);
  EXPECT_EQ(program->scratch[0].bytes, 24);
  EXPECT_EQ(program->scratch[0].init, ScratchInit::kCounter);
}

TEST(CompilePlan, AStepRunsOnlyWhenItsConditionHolds) {
  EXPECT_EQ(compile(launch("when = \"M > 5\""))->steps.size(), 1u);
  EXPECT_EQ(compile(launch("when = \"M > 6\""))->steps.size(), 0u);
}

TEST(CompilePlan, RepeatUnrollsWithItsIndexInItemsArgsAndWhen) {
  const auto program = compile(R"([[launch]]
kernel = "f"
args = ["y", "i * K"]
items = "M - i"
repeat = "K"
index = "i"
when = "i != 1"
)");
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 3u);
  EXPECT_EQ(program->steps[0].items, 6);
  EXPECT_EQ(program->steps[1].items, 4);
  EXPECT_EQ(integer(program->steps[2].args[1]), 12);
}

TEST(CompilePlan, AnIndexEndsWithItsStep) {
  const auto candidate =
      candidate_with(launch("repeat = 2\nindex = \"i\"\n") + "[[launch]]\nkernel = \"g\"\nitems = \"i\"");
  ASSERT_TRUE(candidate.ok());
  EXPECT_THAT(check_plan(*candidate, sample_task()).error().message, HasSubstr("unknown name 'i'"));
  const auto bound = lathe::bind(sample_task(), {{"M", 6}, {"K", 4}});
  EXPECT_FALSE(compile_plan(*candidate, *bound, kFacts).ok());
}

TEST(CompilePlan, OutsideItsDomainACandidateIsUnavailable) {
  const auto program = compile("requires = \"M % 4 == 0\"\n" + launch());
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(compile("requires = \"M % 2 == 0\"\n" + launch()).ok());
}

TEST(CompilePlan, EveryNumberHasItsLimit) {
  const auto message = [](const std::string& plan) {
    const auto program = compile(plan);
    return program.ok() ? std::string("accepted") : program.error().message;
  };
  const std::string scratch = "[[scratch]]\nname = \"s\"\nbytes = ";
  EXPECT_EQ(message(scratch + "\"4 << 30\"\n" + launch()), "accepted");
  EXPECT_THAT(message(scratch + "\"(4 << 30) + 1\"\n" + launch()), HasSubstr("wants"));
  EXPECT_THAT(message(scratch + "\"0 - M\"\n" + launch()), HasSubstr("wants -6"));
  EXPECT_THAT(message(scratch + "\"3 << 30\"\n[[scratch]]\nname = \"t\"\nbytes = \"2 << 30\"\n" + launch()),
              HasSubstr("'t' wants"));
  EXPECT_THAT(message(launch("items = \"0 - 1\"")), HasSubstr("items is -1"));
  EXPECT_THAT(message(launch("items = \"(1 << 40) + 1\"")), HasSubstr("items is"));
  EXPECT_THAT(message(launch("repeat = 4097")), HasSubstr("repeat is 4097"));
  EXPECT_THAT(message(launch("repeat = 4096\n") + launch()), HasSubstr("more than 4096 steps"));
  EXPECT_THAT(message(launch("carveout = 101")), HasSubstr("carveout is 101"));
  EXPECT_THAT(message(launch("items = \"M / (K - 4)\"")), HasSubstr("zero"));
}

std::string sum_of_terms(std::string_view term, int count) {
  std::string text(term);
  for (int i = 1; i < count; ++i) text.append("+").append(term);
  return text;
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(CompilePlan, LongConditionsOfRepeatedStepsAreTooLarge) {
  const std::string never = "repeat = 4096\nindex = \"i\"\nwhen = \"0 * (" + sum_of_terms("i", 800) + ")\"\n";
  for (const std::string& plan : {repeated(launch(never), 200), launch(never)}) {
    const auto program = compile(plan);
    ASSERT_FALSE(program.ok());
    EXPECT_EQ(program.error().reason, "plan_too_large");
    EXPECT_THAT(program.error().message, HasSubstr("terms"));
  }
}

TEST(CompilePlan, FourThousandOrdinaryStepsAreNotTooLarge) {
  const auto program = compile(
      "[[launch]]\nkernel = \"f\"\nitems = \"cdiv(M + i, 64)\"\nrepeat = 4096\nindex = \"i\"\n"
      "args = [\"x\", \"y\", \"i\", \"i * K + 1\", \"min(i, M)\"]\nwhen = \"i % 2 == 0 || K > 1\"");
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  EXPECT_EQ(program->steps.size(), 4096u);
}

TEST(CompilePlan, APlanPreparesNoMoreLibraryCallsThanItsTaskHasNodes) {
  const std::string both = "[[node]]\nlibrary = \"onednn\"\nnodes = [\"product\", \"y\"]\n";
  EXPECT_TRUE(compile(repeated(both, 5)).ok()) << "equal steps share a call";
  const std::string product = "[[scratch]]\nname = \"product\"\nbytes = \"32 * M\"\n";
  const std::string one_each =
      "[[node]]\nlibrary = \"onednn\"\nnodes = [\"product\"]\n"
      "[[node]]\nlibrary = \"openblas\"\nnodes = [\"y\"]\n";
  EXPECT_TRUE(compile(product + one_each).ok());
  const auto third = compile(product + one_each + both);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().reason, "plan_too_large");
  EXPECT_THAT(third.error().message, HasSubstr("the task's 2 nodes"));
}

TEST(CompilePlan, ManyLibraryStepsAreTooLargeThoughTheyShareACall) {
  std::string names = "\"product\"";
  for (int i = 0; i < 60; ++i) names += ", \"product\"";
  const auto program =
      compile("[[node]]\nlibrary = \"onednn\"\nrepeat = 4096\nnodes = [" + names + ", \"y\"]\n");
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().reason, "plan_too_large");
}

TEST(CompilePlan, ALibraryStepHasAtMost256Operands) {
  const auto compile_products = [](int count) {
    return compile("[[node]]\nlibrary = \"onednn\"\nnodes = [" + repeated("\"product\", ", count) +
                   "\"y\"]\n");
  };
  const auto most = compile_products(127);
  ASSERT_TRUE(most.ok()) << most.error().to_string();
  EXPECT_EQ(most->steps[0].args.size(), 256u);
  const auto more = compile_products(128);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().reason, "plan_too_large");
  EXPECT_THAT(more.error().message, HasSubstr("258 operands"));
}

TEST(InDomain, AsksOnlyTheRequirement) {
  const auto candidate = candidate_with("requires = \"M % 4 == 0\"\n" + launch("repeat = 5000\n"));
  ASSERT_TRUE(candidate.ok());
  const auto holds = [&](std::int64_t rows) {
    const auto bound = lathe::bind(sample_task(), {{"M", rows}, {"K", 4}});
    return in_domain(*candidate, *bound, kFacts).value();
  };
  EXPECT_TRUE(holds(8));
  EXPECT_FALSE(holds(6));
}

TEST(CompilePlan, ALibraryStepBecomesJsonOverItsBuffers) {
  const auto program = compile(R"([[node]]
library = "onednn"
nodes = ["product", "y"]
)");
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 1u);
  const BoundStep& step = program->steps[0];
  EXPECT_EQ(step.kind, PlanStep::Kind::kNode);
  EXPECT_EQ(nlohmann::json::parse(step.node_text), nlohmann::json::parse(R"({
    "library": "onednn",
    "nodes": [
      {"op": "matmul", "attrs": {},
       "in": [{"buffer": 0, "shape": [6, 4], "dtype": "fp32"}, {"buffer": 1, "shape": [4, 8], "dtype": "fp32"}],
       "out": {"shape": [6, 8], "dtype": "fp32"}},
      {"op": "mul", "attrs": {}, "in": [{"node": 0}, {"buffer": 2, "shape": [], "dtype": "fp32"}], "out": {"buffer": 3, "shape": [6, 8], "dtype": "fp32"}}
    ]})"));
  ASSERT_EQ(step.args.size(), 4u);
  EXPECT_EQ(std::get<BufferRef>(step.args[3]).kind, BufferRef::Kind::kOutput);
}

TEST(CompilePlan, ALibraryStepKeepsIntermediatesInScratchOfTheirName) {
  const std::string node = "[[node]]\nlibrary = \"openblas\"\nnodes = [\"product\"]\n";
  const std::string rest = "[[launch]]\nkernel = \"f\"\nargs = [\"product\", \"y\"]\n";
  const auto program = compile("[[scratch]]\nname = \"product\"\nbytes = \"32 * M\"\n" + node + rest);
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  const auto json = nlohmann::json::parse(program->steps[0].node_text);
  EXPECT_EQ(json["nodes"][0]["out"]["buffer"], 2);
  EXPECT_EQ(std::get<BufferRef>(program->steps[0].args[2]).kind, BufferRef::Kind::kScratch);
}

TEST(CompilePlan, ALibraryStepNeedsItsInputsInBuffers) {
  const auto program = compile("[[node]]\nlibrary = \"onednn\"\nnodes = [\"y\"]\n");
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.error().message, HasSubstr("'product', which has no buffer"));
  EXPECT_THAT(program.error().hint, HasSubstr("[[scratch]]"));
}

/// A map of x, M = 6 rows of K = 4 floats, whose lines `more` replaces or adds.
Result<LaunchProgram> compile_map(const std::string& lines) {
  return compile("[[tma]]\nname = \"m\"\nbase = \"x\"\n" + lines +
                 "\n[[launch]]\nkernel = \"f\"\nargs = [\"m\", \"y\", \"m\"]\n");
}

TEST(CompilePlan, AMapBecomesNumbers) {
  const auto program =
      compile_map("dims = [\"K\", \"M\"]\nbox = [4, \"M / 2\"]\nswizzle = \"8 * K\"\nfill = \"nan\"");
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  ASSERT_EQ(program->maps.size(), 1u);  // used twice
  const BoundTma& map = program->maps[0];
  EXPECT_EQ(map.base.kind, BufferRef::Kind::kInput);
  EXPECT_EQ(map.base.index, 0);
  EXPECT_EQ(map.dtype, DType::kF32);
  EXPECT_EQ(map.dims, (std::vector<std::int64_t>{4, 6}));
  EXPECT_EQ(map.strides, (std::vector<std::int64_t>{16}));
  EXPECT_EQ(map.box, (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(map.swizzle, 32);
  EXPECT_TRUE(map.fill_nan);
  EXPECT_EQ(std::get<TmaRef>(program->steps[0].args[2]).map, 0);
}

TEST(CompilePlan, AMapMayShowABufferAsAnotherTensor) {
  const auto program = compile_map("dtype = \"fp16\"\ndims = [8, 2, 3]\nstrides = [32, 16]\nbox = [8, 1, 1]");
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  EXPECT_EQ(program->maps[0].dtype, DType::kF16);
  EXPECT_EQ(program->maps[0].strides, (std::vector<std::int64_t>{32, 16}));
}

TEST(CompilePlan, AMapKeepsToTheHardwaresRules) {
  const auto message = [](const std::string& lines) {
    const auto program = compile_map(lines);
    return program.ok() ? std::string("accepted") : program.error().message;
  };
  const std::string dims = "dims = [\"K\", \"M\"]\n";
  EXPECT_EQ(message(dims + "box = [4, 6]"), "accepted");
  EXPECT_THAT(message("dims = [\"K\", \"M - 6\"]\nbox = [4, 6]"), HasSubstr("map 'm': dims[1] is 0"));
  EXPECT_THAT(message("dims = [3, 6]\nbox = [4, 6]"), HasSubstr("strides[0] is 12 bytes"));
  EXPECT_THAT(message(dims + "strides = [24]\nbox = [4, 6]"), HasSubstr("strides[0] is 24 bytes"));
  EXPECT_THAT(message(dims + "strides = [\"1 << 40\"]\nbox = [4, 6]"), HasSubstr("strides[0]"));
  EXPECT_THAT(message(dims + "box = [4, 257]"), HasSubstr("box[1] is 257"));
  EXPECT_THAT(message(dims + "box = [256, 256]"), HasSubstr("larger than shared memory"));
  EXPECT_THAT(message(dims + "box = [3, 6]"), HasSubstr("12 bytes wide"));
  EXPECT_THAT(message(dims + "box = [4, 6]\nswizzle = 16"), HasSubstr("swizzle is 16"));
  EXPECT_THAT(message(dims + "box = [16, 6]\nswizzle = 32"), HasSubstr("64 bytes wide, the swizzle 32"));
  EXPECT_THAT(message(dims + "dtype = \"int32\"\nbox = [4, 6]\nfill = \"nan\""), HasSubstr("floating-point"));
}

TEST(CompilePlan, AMapLiesInsideItsBuffer) {
  EXPECT_TRUE(compile_map("dims = [4, 6]\nbox = [4, 6]").ok());
  for (const char* lines : {"dims = [4, 7]\nbox = [4, 1]", "dims = [\"1 << 32\"]\nbox = [4]",
                            "dims = [4, 6, \"1 << 32\"]\nbox = [4, 1, 1]",
                            "dims = [\"1 << 18\", \"1 << 17\", 2, 1, 1]\nbox = [4, 1, 1, 1, 1]",
                            "dims = [4, 3]\nstrides = [48]\nbox = [4, 1]"}) {
    const auto program = compile_map(lines);
    ASSERT_FALSE(program.ok()) << lines;
    EXPECT_EQ(program.error().reason, "bad_tma");
    EXPECT_THAT(program.error().message, HasSubstr("map 'm': it extends beyond the 96 bytes of 'x'"));
  }
}

TEST(CompilePlan, AMapThatNoStepUsesAtThisShapeMayBeImpossibleThere) {
  const std::string map = "[[tma]]\nname = \"m\"\nbase = \"x\"\ndims = [\"K - 1\", \"M\"]\nbox = [4, 4]\n";
  const std::string use = "[[launch]]\nkernel = \"g\"\nargs = [\"m\", \"y\"]\nwhen = ";
  EXPECT_TRUE(compile(map + launch() + use + "\"K % 4 == 1\"").ok());
  EXPECT_FALSE(compile(map + launch() + use + "\"K % 4 == 0\"").ok());
}

TEST(CompilePlan, AMapOfScratchSaysItsDtype) {
  const std::string scratch = "[[scratch]]\nname = \"s\"\nbytes = \"16 * M\"\n";
  const std::string map = "[[tma]]\nname = \"m\"\nbase = \"s\"\ndims = [4, \"M\"]\nbox = [4, 4]\n";
  const std::string use = "[[launch]]\nkernel = \"g\"\nargs = [\"m\", \"y\"]\n";
  EXPECT_THAT(compile(scratch + map + use).error().message, HasSubstr("needs a dtype"));
  EXPECT_TRUE(compile(scratch + map + "dtype = \"fp32\"\n" + use).ok());
}

}  // namespace
}  // namespace lathe
