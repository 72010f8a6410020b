#include "baseline/vendor/cudnn_plans.h"

namespace lathe::vendor {

Result<Shared<CudnnTensor>> tensor_descriptor(const Cudnn& cudnn, const Ints& extents) {
  Ints strides(extents.size(), 1);
  for (std::size_t i = extents.size(); i-- > 1;) strides[i - 1] = strides[i] * extents[i];
  return make_descriptor(cudnn, cudnn.create_tensor, cudnn.destroy_tensor, [&](CudnnTensor tensor) {
    return cudnn.set_tensor(tensor, kCudnnFloat, static_cast<int>(extents.size()), extents.data(),
                            strides.data());
  });
}

Result<Shared<CudnnPooling>> pooling_descriptor(const Cudnn& cudnn, const PoolingShape& shape) {
  const int mode = shape.maximum         ? kCudnnPoolingMax
                   : shape.count_padding ? kCudnnPoolingAverageOfWindow
                                         : kCudnnPoolingAverageOfInside;
  const auto set = [&](CudnnPooling pooling) {
    return cudnn.set_pooling(pooling, mode, kCudnnPropagateNan, static_cast<int>(shape.kernel.size()),
                             shape.kernel.data(), shape.padding.data(), shape.stride.data());
  };
  return make_descriptor(cudnn, cudnn.create_pooling, cudnn.destroy_pooling, set);
}

Result<std::vector<CudnnPlan>> pooling_plans(const Cudnn& cudnn, CudnnHandle handle, const NodeCall& call,
                                             const PoolingShape& shape) {
  LATHE_TRY(auto x, tensor_descriptor(cudnn, shape.x));
  LATHE_TRY(auto y, tensor_descriptor(cudnn, shape.y));
  LATHE_TRY(auto pooling, pooling_descriptor(cudnn, shape));
  const int in = call.nodes[0].in[0].buffer, out = call.nodes[0].out.buffer;
  return std::vector<CudnnPlan>{{0, [=, pool = cudnn.pool](void* const* buffers, void*) {
                                   return pool(handle, pooling.get(), &kCudnnOne, x.get(), buffers[in],
                                               &kCudnnZero, y.get(), buffers[out]);
                                 }}};
}

/// With `inner` 1, softmax over channels and over the whole image are the same; cuDNN has a kernel
/// for each.
Result<std::vector<CudnnPlan>> softmax_plans(const Cudnn& cudnn, CudnnHandle handle, const NodeCall& call,
                                             const SoftmaxShape& shape) {
  LATHE_TRY(auto tensor, tensor_descriptor(cudnn, shape.shape));
  const int algorithm = shape.logarithm ? kCudnnSoftmaxLog : kCudnnSoftmaxAccurate;
  const int in = call.nodes[0].in[0].buffer, out = call.nodes[0].out.buffer;
  std::vector<CudnnPlan> plans;
  for (const int mode : {kCudnnSoftmaxPerChannel, kCudnnSoftmaxPerImage}) {
    if (mode == kCudnnSoftmaxPerImage && shape.shape[2] != 1) continue;
    plans.push_back({0, [=, softmax = cudnn.softmax](void* const* buffers, void*) {
                       return softmax(handle, algorithm, mode, &kCudnnOne, tensor.get(), buffers[in],
                                      &kCudnnZero, tensor.get(), buffers[out]);
                     }});
  }
  return plans;
}

Result<std::vector<CudnnPlan>> norm_plans(const Cudnn& cudnn, CudnnHandle handle, const NodeCall& call,
                                          const NormShape& shape) {
  LATHE_TRY(auto tensor, tensor_descriptor(cudnn, shape.shape));
  LATHE_TRY(auto channels, tensor_descriptor(cudnn, {1, shape.shape[1], 1, 1}));
  const Node& node = call.nodes[0];
  Ints in;
  for (const Operand& operand : node.in) in.push_back(operand.buffer);
  return std::vector<CudnnPlan>{
      {0, [=, eps = shape.eps, out = node.out.buffer, norm = cudnn.batch_norm](void* const* buffers, void*) {
         return norm(handle, kCudnnNormSpatial, &kCudnnOne, &kCudnnZero, tensor.get(), buffers[in[0]],
                     tensor.get(), buffers[out], channels.get(), buffers[in[1]], buffers[in[2]],
                     buffers[in[3]], buffers[in[4]], eps);
       }}};
}

}  // namespace lathe::vendor
