#include "baseline/vendor/cudnn_plans.h"

namespace lathe::vendor {
namespace {

constexpr CudnnAlgorithm kForward[] = {kCudnnImplicitPrecomputedGemm, kCudnnImplicitGemm, kCudnnGemm,
                                       kCudnnDirect};

/// State shared by the implementations of one convolution.
struct Parts {
  const Cudnn* cudnn;
  CudnnHandle handle;
  Shared<CudnnTensor> x, y, bias;
  Shared<CudnnFilter> weights;
  Shared<CudnnConvolution> convolution;
  Shared<CudnnActivation> activation;
  int x_at, weights_at, bias_at, y_at;  ///< buffers
  bool relu;

  CudnnCode forward(int algorithm, void* const* buffers, void* workspace, std::size_t bytes) const {
    return cudnn->forward(handle, &kCudnnOne, x.get(), buffers[x_at], weights.get(), buffers[weights_at],
                          convolution.get(), algorithm, workspace, bytes, &kCudnnZero, y.get(),
                          buffers[y_at]);
  }
  CudnnCode forward_fused(int algorithm, void* const* buffers, void* workspace, std::size_t bytes) const {
    return cudnn->forward_fused(handle, &kCudnnOne, x.get(), buffers[x_at], weights.get(),
                                buffers[weights_at], convolution.get(), algorithm, workspace, bytes,
                                &kCudnnZero, y.get(), buffers[y_at], bias.get(), buffers[bias_at],
                                activation.get(), y.get(), buffers[y_at]);
  }
  CudnnCode backward(int algorithm, void* const* buffers, void* workspace, std::size_t bytes) const {
    return cudnn->backward(handle, &kCudnnOne, weights.get(), buffers[weights_at], x.get(), buffers[x_at],
                           convolution.get(), algorithm, workspace, bytes, &kCudnnZero, y.get(),
                           buffers[y_at]);
  }
  /// Bias and relu as separate calls.
  CudnnCode finish(void* const* buffers) const {
    if (bias_at < 0) return 0;
    const CudnnCode code =
        cudnn->add(handle, &kCudnnOne, bias.get(), buffers[bias_at], &kCudnnOne, y.get(), buffers[y_at]);
    if (code != 0 || !relu) return code;
    return cudnn->activate(handle, activation.get(), &kCudnnOne, y.get(), buffers[y_at], &kCudnnZero, y.get(),
                           buffers[y_at]);
  }
};

Result<Parts> make_parts(const Cudnn& cudnn, CudnnHandle handle, const NodeCall& call,
                         const ConvolutionShape& shape) {
  Parts parts{};
  parts.cudnn = &cudnn;
  parts.handle = handle;
  LATHE_TRY(parts.x, tensor_descriptor(cudnn, shape.x));
  LATHE_TRY(parts.y, tensor_descriptor(cudnn, shape.y));
  Ints channels(shape.y.size(), 1);
  channels[1] = shape.y[1];
  LATHE_TRY(parts.bias, tensor_descriptor(cudnn, channels));
  const auto set_weights = [&](CudnnFilter filter) {
    return cudnn.set_filter(filter, kCudnnFloat, kCudnnRowMajor, static_cast<int>(shape.weights.size()),
                            shape.weights.data());
  };
  LATHE_TRY(parts.weights, make_descriptor(cudnn, cudnn.create_filter, cudnn.destroy_filter, set_weights));
  LATHE_TRY(parts.convolution, convolution_descriptor(cudnn, shape));
  const auto set_activation = [&](CudnnActivation activation) {
    return cudnn.set_activation(activation, shape.relu ? kCudnnRelu : kCudnnIdentity, kCudnnPropagateNan, 0);
  };
  LATHE_TRY(parts.activation,
            make_descriptor(cudnn, cudnn.create_activation, cudnn.destroy_activation, set_activation));
  parts.x_at = call.nodes[0].in[0].buffer;
  parts.weights_at = call.nodes[0].in[1].buffer;
  parts.bias_at = shape.bias;
  parts.y_at = call.nodes.back().out.buffer;
  parts.relu = shape.relu;
  return parts;
}

}  // namespace

Result<Shared<CudnnConvolution>> convolution_descriptor(const Cudnn& cudnn, const ConvolutionShape& shape) {
  return make_descriptor(
      cudnn, cudnn.create_convolution, cudnn.destroy_convolution, [&](CudnnConvolution convolution) {
        CudnnCode code = cudnn.set_convolution(convolution, static_cast<int>(shape.stride.size()),
                                               shape.padding.data(), shape.stride.data(),
                                               shape.dilation.data(), kCudnnCrossCorrelation, kCudnnFloat);
        if (code == 0) code = cudnn.set_groups(convolution, shape.groups);
        return code == 0 ? cudnn.set_math(convolution, kCudnnFmaMath) : code;
      });
}

/// Only the precomputed algorithm supports a fused bias without relu.
Result<std::vector<CudnnPlan>> convolution_plans(const Cudnn& cudnn, CudnnHandle handle, const NodeCall& call,
                                                 const ConvolutionShape& shape) {
  LATHE_TRY(Parts made, make_parts(cudnn, handle, call, shape));
  const auto parts = std::make_shared<const Parts>(std::move(made));
  std::vector<CudnnPlan> plans;
  std::size_t bytes = 0;
  if (shape.transposed) {
    const int algorithm = kCudnnBackwardImplicitGemm;
    if (cudnn.backward_bytes(handle, parts->weights.get(), parts->x.get(), parts->convolution.get(),
                             parts->y.get(), algorithm, &bytes) == 0)
      plans.push_back({bytes, [=](void* const* buffers, void* workspace) {
                         const CudnnCode code = parts->backward(algorithm, buffers, workspace, bytes);
                         return code == 0 ? parts->finish(buffers) : code;
                       }});
    return plans;
  }
  for (const int algorithm : kForward) {
    if (cudnn.forward_bytes(handle, parts->x.get(), parts->weights.get(), parts->convolution.get(),
                            parts->y.get(), algorithm, &bytes) != 0)
      continue;
    if (shape.bias >= 0 && (shape.relu || algorithm == kCudnnImplicitPrecomputedGemm))
      plans.push_back({bytes, [=](void* const* buffers, void* workspace) {
                         return parts->forward_fused(algorithm, buffers, workspace, bytes);
                       }});
    plans.push_back({bytes, [=](void* const* buffers, void* workspace) {
                       const CudnnCode code = parts->forward(algorithm, buffers, workspace, bytes);
                       return code == 0 ? parts->finish(buffers) : code;
                     }});
  }
  return plans;
}

}  // namespace lathe::vendor
