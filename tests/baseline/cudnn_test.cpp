// What of a task goes to cuDNN and how, as far as a machine without a GPU can tell.

#include <gmock/gmock.h>

#include "backend/vendor_library.h"
#include "base/fd.h"
#include "baseline/baseline.h"
#include "baseline/vendor/cudnn_shapes.h"
#include "baseline/vendor_groups.h"
#include "candidate/launch_program.h"
#include "tests/baseline/library_calls.h"

namespace lathe {
namespace {

using namespace vendor;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Shape>
Shape shape_of(const GraphCase& graph_case) {
  const std::vector<std::string> calls = calls_of(graph_case, "cudnn");
  EXPECT_EQ(calls.size(), 1U) << graph_case.name;
  const auto shape = cudnn_shape(*parse_node_call(calls.at(0)));
  EXPECT_TRUE(shape.ok()) << shape.error().to_string();
  return std::get<Shape>(*shape);
}

std::vector<std::vector<std::string>> groups_of(const GraphCase& graph_case) {
  std::vector<std::vector<std::string>> list;
  for (const VendorGroup& group : vendor_groups(make_task(graph_case), "cudnn")) list.push_back(group.nodes);
  return list;
}

/// A graph over an image x, of a width, and what else of weights w and a bias b it names.
GraphCase over_image(const std::string& graph, const std::string& width = "9") {
  GraphCase image{"t", {"x: 2, 6, 8, W"}, graph, "W = " + width};
  if (graph.find(", w") != std::string::npos) image.inputs.emplace_back("w: 4, 6, 3, 3");
  if (graph.find(", b") != std::string::npos)
    image.inputs.emplace_back("b: " + std::string(width == "9" ? "4" : "W"));
  return image;
}

TEST(CudnnGroups, AConvolutionTakesItsBiasAndRelu) {
  using Groups = std::vector<std::vector<std::string>>;
  EXPECT_EQ(groups_of(over_image("h = conv2d(x, w)\ng = bias_add(h, b, axis = 1)\ny = relu(g)")),
            (Groups{{"h", "g", "y"}}));
  EXPECT_EQ(groups_of(over_image("h = conv2d(x, w, b)\ny = relu(h)")), (Groups{{"h", "y"}}));
  EXPECT_EQ(groups_of(over_image("h = conv2d(x, w, b)\ny = gelu(h)")), (Groups{{"h"}}));
  EXPECT_EQ(groups_of(over_image("h = conv2d(x, w)\ny = relu(h)")), (Groups{{"h"}}));
  EXPECT_EQ(groups_of(over_image("h = conv2d(x, w, padding = 1)\ny = bias_add(h, b)", "7")), (Groups{{"h"}}))
      << "a bias of the columns";
  EXPECT_EQ(groups_of(over_image("h = max_pool2d(x, kernel = 2)\ny = relu(h)")), (Groups{{"h"}}));
  EXPECT_EQ(groups_of(over_image("y = max_pool2d(x, kernel = 2, dilation = 2)")), Groups{});
  EXPECT_EQ(groups_of(over_image("y = gelu(x)")), Groups{});
}

TEST(CudnnGroups, HalfPrecisionIsLeftAlone) {
  EXPECT_EQ(vendor_groups(
                make_task({"half", {"x: M, N; dtype = \"fp16\""}, "y = softmax(x)", "M = 5, N = 7"}), "cudnn")
                .size(),
            0U);
}

TEST(CudnnShapes, OfAConvolution) {
  const auto shape = shape_of<ConvolutionShape>(
      {"t",
       {"x: N, 6, 8, 9", "w: 4, 3, 3, 2", "b: 4"},
       "h = conv2d(x, w, b, stride = [2, 1], padding = [1, 0], dilation = [1, 3], groups = 2)\ny = relu(h)",
       "N = 2"});
  EXPECT_THAT(shape.x, ElementsAre(2, 6, 8, 9));
  EXPECT_THAT(shape.weights, ElementsAre(4, 3, 3, 2));
  EXPECT_THAT(shape.y, ElementsAre(2, 4, 4, 6));
  EXPECT_THAT(shape.stride, ElementsAre(2, 1));
  EXPECT_THAT(shape.padding, ElementsAre(1, 0));
  EXPECT_THAT(shape.dilation, ElementsAre(1, 3));
  EXPECT_EQ(shape.groups, 2);
  EXPECT_EQ(shape.bias, 2) << "the third buffer";
  EXPECT_TRUE(shape.relu);
  EXPECT_FALSE(shape.transposed);
}

TEST(CudnnShapes, ALineIsAPlaneOfHeightOne) {
  const auto shape = shape_of<ConvolutionShape>(
      {"t", {"x: N, 6, 9", "w: 4, 6, 3"}, "y = conv1d(x, w, stride = 2, padding = 1)", "N = 2"});
  EXPECT_THAT(shape.x, ElementsAre(2, 6, 1, 9));
  EXPECT_THAT(shape.weights, ElementsAre(4, 6, 1, 3));
  EXPECT_THAT(shape.stride, ElementsAre(1, 2));
  EXPECT_THAT(shape.padding, ElementsAre(0, 1));
  const auto pool = shape_of<PoolingShape>(
      {"t", {"x: N, 6, 9"}, "y = max_pool1d(x, kernel = 3, stride = 2, padding = 1)", "N = 2"});
  EXPECT_THAT(pool.kernel, ElementsAre(1, 3));
  EXPECT_THAT(pool.stride, ElementsAre(1, 2));
  EXPECT_THAT(pool.padding, ElementsAre(0, 1));
}

TEST(CudnnShapes, ATransposedConvolutionIsAnAdjoint) {
  const auto shape =
      shape_of<ConvolutionShape>({"t",
                                  {"x: N, 6, 5, 5", "w: 6, 4, 3, 3", "b: 4"},
                                  "y = conv_transpose2d(x, w, b, stride = 2, output_padding = 1)",
                                  "N = 2"});
  EXPECT_TRUE(shape.transposed);
  EXPECT_THAT(shape.weights, ElementsAre(6, 4, 3, 3));
  EXPECT_THAT(shape.y, ElementsAre(2, 4, 12, 12));
  EXPECT_EQ(groups_of({"t",
                       {"x: N, 6, 5, 5", "w: 6, 4, 3, 3"},
                       "y = conv_transpose2d(x, w, dilation = 2, output_padding = 1)",
                       "N = 2"})
                .size(),
            0U)
      << "cuDNN derives output_padding from the extents, below one stride";
}

TEST(CudnnShapes, AnAverageSaysWhatItsDivisorCounts) {
  const auto pool = [](const std::string& more) {
    return shape_of<PoolingShape>(over_image("y = avg_pool2d(x, kernel = 3, padding = 1" + more + ")"));
  };
  EXPECT_TRUE(pool("").count_padding);
  EXPECT_FALSE(pool(", count_padding = false").count_padding);
  EXPECT_THAT(pool("").stride, ElementsAre(3, 3)) << "the kernel's extents unless given";
  EXPECT_FALSE(pool("").maximum);
}

TEST(CudnnShapes, SoftmaxAndBatchNormHaveOneAxis) {
  const auto middle = shape_of<SoftmaxShape>(over_image("y = softmax(x, axis = 1)"));
  EXPECT_THAT(middle.shape, ElementsAre(2, 6, 72, 1));
  const auto last = shape_of<SoftmaxShape>(over_image("y = log_softmax(x)"));
  EXPECT_THAT(last.shape, ElementsAre(96, 9, 1, 1));
  EXPECT_TRUE(last.logarithm);
  const auto norm =
      shape_of<NormShape>({"t",
                           {"x: N, 5", "g: 5", "b: 5", "m: 5", "v: 5; gen = { kind = \"positive\" }"},
                           "y = batch_norm(x, g, b, m, v, eps = 0.5)",
                           "N = 2"});
  EXPECT_THAT(norm.shape, ElementsAre(2, 5, 1, 1));
  EXPECT_EQ(norm.eps, 0.5);
}

/// The only call of a softmax over n numbers of a dtype, by hand.
std::string softmax_call(const std::string& op, std::int64_t n, const std::string& dtype) {
  nlohmann::json x = {{"buffer", 0}, {"shape", {n}}, {"dtype", dtype}};
  nlohmann::json call = {{"library", "cudnn"}};
  call["nodes"] = {{{"op", op}, {"attrs", nlohmann::json::object()}, {"in", {x}}, {"out", x}}};
  return call.dump();
}

TEST(CudnnShapes, WhatDoesNotMapIsRefusedWithItsReason) {
  const auto refusal = [](const std::string& text) {
    const auto shape = cudnn_shape(*parse_node_call(text));
    return shape.ok() ? "accepted" : shape.error().message;
  };
  EXPECT_EQ(refusal(softmax_call("softmax", 64, "fp32")), "accepted");
  EXPECT_THAT(refusal(softmax_call("softmax", 64, "fp16")), HasSubstr("fp16"));
  EXPECT_THAT(refusal(softmax_call("cumsum", 64, "fp32")), HasSubstr("cumsum"));
  EXPECT_THAT(refusal(softmax_call("softmax", std::int64_t{1} << 31, "fp32")), HasSubstr("2^31"));
  const TaskSpec task = make_task(over_image("h = conv2d(x, w)\ny = gelu(h)"));
  const auto candidate =
      parse_candidate("/*lathe\n[[node]]\nlibrary = \"cudnn\"\nnodes = [\"h\", \"y\"]\n*/\n", "t");
  ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
  EXPECT_THAT(refusal(calls_of(task, *candidate).at(0)), HasSubstr("gelu"));
}

TEST(CudnnShapes, EveryGroupMaps) {
  int calls = 0;
  for (const auto* cases : {&op_cases(), &vendor_cases()})
    for (const GraphCase& graph_case : *cases)
      for (const std::string& call : calls_of(graph_case, "cudnn")) {
        const auto shape = cudnn_shape(*parse_node_call(call));
        EXPECT_TRUE(shape.ok()) << graph_case.name << ": " << shape.error().to_string();
        ++calls;
      }
  EXPECT_GT(calls, 20);
}

TEST(CudnnPlan, AFusedKernelLivesBesideAConvolution) {
  const auto task = load_task(LATHE_SOURCE_DIR "/examples/cuda/conv_bias_gelu.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  auto text = read_file(LATHE_SOURCE_DIR "/examples/cuda/conv_bias_gelu.cu");
  ASSERT_TRUE(text.ok());
  const auto candidate = parse_candidate(*std::move(text), "example");
  ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
  ASSERT_TRUE(check_plan(*candidate, *task).ok());
  const auto bound = lathe::bind(*task, task->shapes[0].dims);
  const auto program = compile_plan(*candidate, *bound, {});
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 2U);
  EXPECT_EQ(program->steps[1].kernel, "bias_gelu");
  const auto call = parse_node_call(program->steps[0].node_text);
  ASSERT_TRUE(call.ok());
  const auto shape = cudnn_shape(*call);
  ASSERT_TRUE(shape.ok()) << shape.error().to_string();
  EXPECT_EQ(std::get<ConvolutionShape>(*shape).bias, -1);
}

TEST(CudnnBaseline, CanBeTheOnlyPeerAskedFor) {
  TaskSpec task = make_task(over_image("y = conv2d(x, w)"));
  task.baselines = {"cudnn"};
  const auto baselines = make_baselines(task, Dialect::kCuda);
  ASSERT_TRUE(baselines.ok());
  ASSERT_EQ(baselines->size(), 2U);
  EXPECT_EQ(baselines->at(1).name, "cudnn");
  EXPECT_THAT(baselines->at(1).candidate.text, HasSubstr("library = \"cudnn\""));
}

class CudaVendorLibrary : public testing::Test {
 protected:
  const Result<lathe::VendorLibrary> library_ = lathe::VendorLibrary::open(LATHE_VENDOR_CUDA_PATH);
};

TEST_F(CudaVendorLibrary, ALackingLibraryIsTheMachinesFault) {
  ASSERT_TRUE(library_.ok()) << library_.error().to_string();
  const auto call = library_->prepare(softmax_call("softmax", 64, "fp32"), 1);
  if (call.ok()) GTEST_SKIP() << "this machine has a GPU and cuDNN";
  EXPECT_EQ(call.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(call.error().reason, "no_library");
  EXPECT_THAT(call.error().message, HasSubstr("cuDNN"));
  EXPECT_EQ(library_->set_stream(nullptr), 0) << "no library is in use";
  const auto found = library_->find_cudnn("/nowhere/libcudnn.so.9");
  if (!found.ok()) {
    EXPECT_THAT(found.error().message, HasSubstr("LD_LIBRARY_PATH"));
  }
}

TEST_F(CudaVendorLibrary, AWrongCallIsTheCandidatesFault) {
  ASSERT_TRUE(library_.ok()) << library_.error().to_string();
  EXPECT_EQ(library_->prepare(softmax_call("cumsum", 64, "fp32"), 1).error().code, ErrorCode::kInvalid);
  std::string unknown = softmax_call("softmax", 64, "fp32");
  unknown.replace(unknown.find("cudnn"), 5, "mkldn");
  EXPECT_THAT(library_->prepare(unknown, 1).error().message, HasSubstr("known: cublas, cudnn"));
}

}  // namespace
}  // namespace lathe
