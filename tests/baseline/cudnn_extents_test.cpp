// cuDNN's own arithmetic of extents beside Lathe's, where the loader finds cuDNN: that needs no
// GPU.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "baseline/vendor/cudnn_plans.h"
#include "tests/baseline/library_calls.h"

namespace lathe {
namespace {

using namespace vendor;

class CudnnExtents : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = find_cudnn({});
    if (!found.ok()) GTEST_SKIP() << "skipped: " << found.error().to_string();
    void* const library = ::dlopen(found->c_str(), RTLD_NOW);
    convolution_ =
        reinterpret_cast<decltype(convolution_)>(::dlsym(library, "cudnnGetConvolutionNdForwardOutputDim"));
    pooling_ = reinterpret_cast<decltype(pooling_)>(::dlsym(library, "cudnnGetPoolingNdForwardOutputDim"));
    ASSERT_TRUE(cudnn().ok() && convolution_ && pooling_);
  }

  Ints extents(const ConvolutionShape& shape) const {
    const auto x = tensor_descriptor(*cudnn(), shape.transposed ? shape.y : shape.x);
    const auto set_weights = [&](CudnnFilter filter) {
      return cudnn()->set_filter(filter, kCudnnFloat, kCudnnRowMajor, static_cast<int>(shape.weights.size()),
                                 shape.weights.data());
    };
    const auto weights =
        make_descriptor(*cudnn(), cudnn()->create_filter, cudnn()->destroy_filter, set_weights);
    const auto convolution = convolution_descriptor(*cudnn(), shape);
    Ints result(shape.x.size());
    EXPECT_TRUE(x.ok() && weights.ok() && convolution.ok());
    EXPECT_EQ(convolution_(convolution->get(), x->get(), weights->get(), static_cast<int>(result.size()),
                           result.data()),
              0);
    return result;
  }
  Ints extents(const PoolingShape& shape) const {
    const auto x = tensor_descriptor(*cudnn(), shape.x);
    const auto pooling = pooling_descriptor(*cudnn(), shape);
    Ints result(shape.x.size());
    EXPECT_TRUE(x.ok() && pooling.ok());
    EXPECT_EQ(pooling_(pooling->get(), x->get(), static_cast<int>(result.size()), result.data()), 0);
    return result;
  }

 private:
  CudnnCode (*convolution_)(CudnnConvolution, CudnnTensor, CudnnFilter, int, int*) = nullptr;
  CudnnCode (*pooling_)(CudnnPooling, CudnnTensor, int, int*) = nullptr;
};

TEST_F(CudnnExtents, AreTheTasksOwn) {
  int windows = 0;
  for (const auto* cases : {&op_cases(), &vendor_cases()})
    for (const GraphCase& graph_case : *cases)
      for (const std::string& call : calls_of(graph_case, "cudnn")) {
        SCOPED_TRACE(graph_case.name);
        const auto shape = cudnn_shape(*parse_node_call(call));
        ASSERT_TRUE(shape.ok());
        if (const auto* convolution = std::get_if<ConvolutionShape>(&*shape))
          EXPECT_EQ(extents(*convolution), convolution->transposed ? convolution->x : convolution->y);
        else if (const auto* pooling = std::get_if<PoolingShape>(&*shape))
          EXPECT_EQ(extents(*pooling), pooling->y);
        else
          continue;
        ++windows;
      }
  EXPECT_GT(windows, 15);
}

}  // namespace
}  // namespace lathe
